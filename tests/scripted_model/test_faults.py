"""The models that misbehave on purpose."""

import asyncio
import contextlib
import http.client
import json
import threading
import time
from contextlib import closing
from typing import Any

import openai
import pytest

from budget_core.chat.refusal import ContextWindowExceededError
from budget_core.usage_estimate import estimate_tokens
from budget_cpython import BudgetWrapper, ChatClient, ProviderError, TurnBudgetTracker
from scripted_model import ScriptedEndpoint

from .support import HELLO, PATIENCE, TOOLS, connect, plus, send, start, stream_lines


def test_hang_never_answers(client: openai.OpenAI, endpoint: ScriptedEndpoint) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.2).chat.completions.create(model="hang", messages=HELLO)
    assert client.chat.completions.create(model="m", messages=HELLO).choices


def test_closing_ends_hung_dripping_and_idle_clients() -> None:
    endpoint = ScriptedEndpoint()
    clients = [start(endpoint, model) for model in ("hang", "drip", "huge")]
    clients.append(connect(endpoint))
    clients[-1].request("GET", "/v1/models")
    clients[-1].getresponse().read()
    deadline = time.monotonic() + PATIENCE
    while len(endpoint.requests) < 3:
        assert time.monotonic() < deadline, "the requests never arrived"
        time.sleep(0.001)
    closer = threading.Thread(target=endpoint.close, daemon=True)
    closer.start()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    for connection in clients:
        with closing(connection):
            while connection.sock.recv(1 << 20):
                pass
    assert endpoint._server.fileno() == -1  # its port may be another program's by now
    endpoint.close()


def test_busy_serves_every_other_request(client: openai.OpenAI, endpoint: ScriptedEndpoint) -> None:
    with pytest.raises(openai.RateLimitError) as refused:
        client.chat.completions.create(model="busy", messages=HELLO)
    assert refused.value.response.headers["retry-after"] == "0"
    assert client.chat.completions.create(model="busy", messages=HELLO).choices
    provider = ChatClient(endpoint.base_url, "busy")
    streams: list[dict[str, Any]] = [{}, {"on_delta": _ignore}]
    for stream in streams:
        answer = asyncio.run(provider.chat(HELLO, **stream))
        assert (bool(answer.content), answer.attempts) == (True, 2)


def test_other_limit_takes_max_completion_tokens_only(
    client: openai.OpenAI, endpoint: ScriptedEndpoint
) -> None:
    with pytest.raises(openai.BadRequestError, match="Use 'max_completion_tokens'"):
        client.chat.completions.create(model="other-limit", messages=HELLO, max_tokens=5)
    provider = ChatClient(endpoint.base_url, "other-limit")
    attempts = [asyncio.run(provider.chat(HELLO, max_tokens=5)).attempts for _ in range(2)]
    assert attempts == [2, 1]
    sent = [request.body for request in endpoint.requests]
    assert [("max_tokens" in names, "max_completion_tokens" in names) for names in sent] == [
        (True, False),
        (True, False),
        (False, True),
        (False, True),
    ]


def test_small_context_refuses_long_prompts(endpoint: ScriptedEndpoint) -> None:
    provider = ChatClient(endpoint.base_url, "small-context")
    long = [{"role": "user", "content": "tomato " * 200}]
    with pytest.raises(ContextWindowExceededError, match="maximum context length is 200 tokens"):
        asyncio.run(provider.chat(long))
    assert asyncio.run(provider.chat(HELLO)).content


async def _ignore(text: str) -> None:
    """Take a piece of a stream."""


def test_drip_sends_blanks_without_a_length_or_an_end(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "drip")) as connection:
        response = connection.getresponse()
        assert response.length is None
        assert response.read(3) == b"   "


def test_huge_sends_a_body_without_end(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "huge")) as connection:
        response = connection.getresponse()
        assert response.length is None
        assert len(response.read(4 << 20)) == 4 << 20


def test_truncated_sends_less_than_it_announced(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "truncated")) as connection:
        response = connection.getresponse()
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
    assert caught.value.partial.startswith(b'{"id"')
    assert caught.value.expected


def test_not_json_answers_200_with_a_page(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "not-json")) as connection:
        response = connection.getresponse()
        assert response.status == 200
        assert response.read().startswith(b"<html>")


@pytest.mark.parametrize("stream", [False, True])
def test_bad_arguments_are_json_but_not_an_object(endpoint: ScriptedEndpoint, stream: bool) -> None:
    if stream:
        events = stream_lines(endpoint, model="bad-arguments", tools=TOOLS)
        deltas = [event["choices"][0]["delta"] for event in events]
        parts = [call for delta in deltas for call in delta.get("tool_calls", ())]
        arguments = "".join(part["function"]["arguments"] for part in parts)
    else:
        _, body = send(endpoint, {**plus(tools=TOOLS), "model": "bad-arguments"})
        (call,) = body["choices"][0]["message"]["tool_calls"]
        arguments = call["function"]["arguments"]
    assert not isinstance(json.loads(arguments), dict)


def test_no_usage_leaves_the_usage_out(endpoint: ScriptedEndpoint) -> None:
    _, body = send(endpoint, {**plus(), "model": "no-usage"})
    events = stream_lines(endpoint, model="no-usage", stream_options={"include_usage": True})
    assert "usage" not in body
    assert body["choices"]
    assert not any(event["usage"] for event in events)
    assert all(event["choices"] for event in events)


def test_stream_cut_drops_the_connection_after_some_words(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "stream-cut", stream=True)) as connection:
        response = connection.getresponse()
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
    events = caught.value.partial.decode().split("\n\n")[:-1]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[1]["choices"][0]["delta"]["content"]
    assert not any(chunk["choices"][0]["finish_reason"] for chunk in chunks)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("stream-cut", "estimated"),
        ("no-usage", "estimated"),
        ("m", "measured"),
        ("hang", "missing"),
    ],
)
def test_a_budget_counts_the_part_of_a_stream_that_came(
    endpoint: ScriptedEndpoint, model: str, kind: str
) -> None:
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)

    tracker = TurnBudgetTracker()
    client = ChatClient(endpoint.base_url, model, timeout_s=0.2 if model == "hang" else PATIENCE)
    failing = model in ("stream-cut", "hang")
    with pytest.raises(ProviderError) if failing else contextlib.nullcontext():
        asyncio.run(BudgetWrapper(client, tracker).chat(HELLO, on_delta=hear))
    assert {name: calls for name, calls in tracker.usage_seen.items() if calls} == {kind: 1}
    if kind == "estimated":
        assert tracker.total_tokens >= estimate_tokens(HELLO) + len(heard) > len(heard) > 1
    else:
        assert (tracker.total_tokens > 0) is (kind == "measured")
