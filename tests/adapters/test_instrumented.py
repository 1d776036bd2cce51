"""Clients that are not wrapped, inside blocks: `instrument`, and the warning without it."""

import asyncio
import inspect
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import httpx2
import pytest

from budget_cpython import BudgetExceededError, budget, budgeted, instrument, uninstrument
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.context.process_state import SWITCHES
from scripted_model import ScriptedEndpoint
from tests.adapters.support import a_request, an_answer

KINDS = [httpx.Client, httpx.AsyncClient, httpx2.Client, httpx2.AsyncClient]
BODY = {"model": "scripted", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 50}


class Sender:
    """A client of one kind; sync and async are used alike."""

    def __init__(self, kind: Any, base_url: str) -> None:
        self.client = kind(base_url=base_url)
        self.loop = asyncio.new_event_loop()

    def run(self, made: Any) -> Any:
        return self.loop.run_until_complete(made) if inspect.isawaitable(made) else made

    def post(self, path: str = "chat/completions", **options: Any) -> Any:
        options = options or {"json": BODY}
        return self.run(self.client.post(path, **options))

    def close(self) -> None:
        self.run(self.client.aclose() if hasattr(self.client, "aclose") else self.client.close())
        self.loop.close()


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def sender(request: Any, endpoint: ScriptedEndpoint) -> Iterator[Sender]:
    made = Sender(request.param, endpoint.base_url)
    yield made
    made.close()


@pytest.fixture
def _instrumented() -> Iterator[None]:
    instrument()
    yield
    uninstrument()


@pytest.mark.usefixtures("_instrumented")
def test_a_client_that_nobody_wrapped_draws_on_the_blocks_around_it(
    sender: Sender, endpoint: ScriptedEndpoint
) -> None:
    with budget("9 calls") as outer, budget("1 call") as block:
        answers = [sender.post() for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 402]
    assert isinstance(answers[1].extensions["microbudget"], BudgetExceededError)
    assert (outer.spent["calls"], block.spent["calls"]) == (1, 1)
    assert block.spent["tokens"] == answers[0].json()["usage"]["total_tokens"]
    assert len(endpoint.requests) == 1
    assert sender.post().status_code == 200


@pytest.mark.usefixtures("_instrumented")
def test_a_client_that_is_wrapped_counts_a_call_once(sender: Sender) -> None:
    instrument()  # again
    sender.client = budgeted(sender.client, "9 calls")
    with budget("9 calls") as block:
        sender.post()
    assert block.spent["calls"] == 1


@pytest.mark.usefixtures("_instrumented")
def test_the_client_inside_a_budgeted_model_counts_nothing_again(sender: Sender) -> None:
    with budget("1 call") as block:
        call = BudgetedCall((), a_request())
        call.begin_blocking()
        with call.answering():
            assert sender.post().status_code == 200
        call.end_blocking(an_answer())
    assert block.spent["calls"] == 1


@pytest.mark.usefixtures("_instrumented")
@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("models", {"json": {}}),
        ("surveys/5/responses", {"json": {"answer": 5}}),
        ("surveys/5/responses", {"content": b"answer=5"}),
        ("upload/embeddings", {"files": {"file": b"abc"}}),
    ],
)
def test_what_is_not_addressed_to_a_model_is_left_alone(
    sender: Sender, path: str, options: Any
) -> None:
    with budget("0 calls"):
        assert sender.post(path, **options).status_code == 404


@pytest.mark.usefixtures("_instrumented")
def test_a_signed_request_is_refused_since_it_cannot_be_changed(
    sender: Sender, endpoint: ScriptedEndpoint
) -> None:
    with budget("9 calls"):
        answer = sender.post(json=BODY, headers={"Authorization": "AWS4-HMAC-SHA256 Credential=a"})
    assert (answer.status_code, endpoint.requests) == (400, [])
    assert "signed" in answer.json()["error"]["message"]


def test_without_it_a_block_warns_once(
    sender: Sender, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SWITCHES, "has_warned", False)
    with caplog.at_level(logging.WARNING, "microbudget"):
        sender.post()
        with budget("0 calls"):
            sender.post("surveys/5/responses", json={})
            assert caplog.records == []
            assert [sender.post().status_code for _ in range(2)] == [200, 200]
    (line,) = caplog.messages
    assert "127.0.0.1" in line
    assert "budget_cpython.instrument()" in line


def test_a_budgeted_client_is_not_warned_of(
    sender: Sender, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SWITCHES, "has_warned", False)
    sender.client = budgeted(sender.client)
    with budget("9 calls") as block:
        sender.post()
    assert (block.spent["calls"], caplog.messages) == (1, [])


BEFORE_ITS_PACKAGE = """
from budget_cpython import BudgetError, budget, instrument

instrument()
import sys
from openai import APIStatusError, OpenAI

client = OpenAI(base_url=sys.argv[1], api_key="k")
hello = [{"role": "user", "content": "Hello?"}]
with budget("1 call") as block:
    client.chat.completions.create(model="scripted", messages=hello, max_tokens=50)
    try:
        client.chat.completions.create(model="scripted", messages=hello, max_tokens=50)
    except APIStatusError as error:
        assert error.status_code == 402
        assert isinstance(error.__cause__, BudgetError), error.__cause__
    else:
        raise AssertionError
assert block.spent["calls"] == 1
"""


def test_it_may_come_before_the_sdk_is_imported(endpoint: ScriptedEndpoint) -> None:
    pytest.importorskip("openai")
    program = [sys.executable, "-c", BEFORE_ITS_PACKAGE, endpoint.base_url]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(endpoint.requests) == 1
