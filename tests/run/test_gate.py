"""What stands before a run's proxy: the deadline of each call, and a count of refusals."""

import asyncio
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from budget_cpython.context.deadline import Deadline
from budget_cpython.proxy.usage_by_model import UsageByModel
from budget_cpython.run.gate import ProxyGate
from tests_micro.support import stopped_clock

TIMEOUT = "x-microbudget-timeout"


class App:
    """An ASGI app that answers as it is told, and keeps the path and headers it was asked with."""

    def __init__(
        self, status: int = 200, headers: dict[str, str] | None = None, body: Any = b""
    ) -> None:
        self.status = status
        self.headers = headers or {}
        self.body = body
        self.path = ""
        self.timeouts: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.path = scope["raw_path"].decode()
        assert scope["path"] == unquote(self.path)
        self.timeouts = [
            value.decode() for name, value in scope["headers"] if name == TIMEOUT.encode()
        ]
        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        for piece in (self.body[:9], self.body[9:]):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def gate_before(app: Any, grace: float = 10, deadline: Deadline | None = None) -> ProxyGate:
    return ProxyGate(app, grace, deadline or Deadline.never(), UsageByModel())


def ask(gate: ProxyGate, path: str = "/openai/v1/models", *timeouts: str) -> httpx.Response:
    async def post() -> httpx.Response:
        transport = httpx.ASGITransport(gate)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.post(path, headers=[(TIMEOUT, one) for one in timeouts])

    return asyncio.run(post())


def test_a_refusal_is_counted_with_its_reason_and_passed_on() -> None:
    body = b'{"error": {"message": "no call is left"}}'
    gate = gate_before(App(402, {"x-should-retry": "false"}, body))
    answer = ask(gate)
    assert (answer.status_code, answer.content) == (402, body)
    assert (gate.refused, gate.reason) == (1, "no call is left")


def test_a_refusals_reason_cannot_act_on_a_terminal() -> None:
    body = b'{"error": {"message": "no price is known for \\u001b[2J\\n"}}'
    gate = gate_before(App(402, {"x-should-retry": "false"}, body))
    ask(gate)
    assert gate.reason == "no price is known for \\x1b[2J\\n"


@pytest.mark.parametrize(
    ("status", "headers"),
    [(402, {}), (402, {"x-should-retry": "true"}), (200, {"x-should-retry": "false"})],
)
def test_other_answers_are_not_refusals(status: int, headers: dict[str, str]) -> None:
    gate = gate_before(App(status, headers, b'{"error": {"message": "pay first"}}'))
    ask(gate)
    assert (gate.refused, gate.reason) == (0, "")


@pytest.mark.parametrize("body", [b"", b"text", b"[]", b'{"error": "text"}', b"\xff"])
def test_a_refusal_without_a_reason_counts_all_the_same(body: bytes) -> None:
    gate = gate_before(App(402, {"x-should-retry": "false"}, body))
    ask(gate)
    assert (gate.refused, gate.reason) == (1, "")


def test_calls_have_until_the_deadline_and_those_in_flight_the_grace_too() -> None:
    now, clock = stopped_clock()
    app = App()
    ask(gate_before(app, 2.5))
    assert app.timeouts == []
    gate = gate_before(app, 2.5, Deadline.from_now(10, clock))
    ask(gate)
    assert app.timeouts == ["12500"]
    ask(gate, "/", "4000")
    assert app.timeouts == ["4000"]
    for others in (("40000",), ("40000", "4000"), ("9" * 5000,)):
        ask(gate, "/", *others)
        assert app.timeouts == ["12500"]
    now.advance(10_000)
    ask(gate)
    assert app.timeouts == ["0"]


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/anthropic/messages", "/anthropic/v1/messages"),
        ("/anthropic/messages/count_tokens", "/anthropic/v1/messages/count_tokens"),
        ("/anthropic/messages/caf%C3%A9", "/anthropic/v1/messages/caf%C3%A9"),
        ("/anthropic/v1/messages", "/anthropic/v1/messages"),
        ("/openai/v1/threads/messages", "/openai/v1/threads/messages"),
    ],
)
def test_a_client_that_ends_its_base_url_in_v1_finds_anthropics_format(
    path: str, asked: str
) -> None:
    app = App()
    ask(gate_before(app), path)
    assert app.path == asked
