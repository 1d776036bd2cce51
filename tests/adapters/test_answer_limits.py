"""How long an answer may be: what reaches the endpoint, and answers that a budget cuts short."""

import json
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from budget_cpython import Price, budget, budgeted
from scripted_model import ScriptedEndpoint
from tests.adapters.support import bodies, call_blocking

HELLO = [{"role": "user", "content": "Hello?"}]
PRICES = {"gpt-4o-mini": Price("1.25", "10")}
PARTS = [{"role": "user", "parts": [{"text": "Hello?"}]}]


def chat(more: Any) -> tuple[str, Any]:
    """Return the path and the body of a chat completion."""
    return "/v1/chat/completions", {"model": "long", "messages": HELLO, **more}


def response(more: Any) -> tuple[str, Any]:
    """Return those of a response."""
    return "/v1/responses", {"model": "long", "input": "Hello?", **more}


def message(more: Any) -> tuple[str, Any]:
    """Return those of Anthropic's, which have to have a limit."""
    return "/v1/messages", {"model": "long", "messages": HELLO, "max_tokens": 90_000, **more}


def content(more: Any) -> tuple[str, Any]:
    """Return those of Google's."""
    verb = "streamGenerateContent?alt=sse" if more else "generateContent"
    return f"/v1beta/models/long:{verb}", {"contents": PARTS}


FORMATS = [chat, response, message, content]
Format = Callable[[Any], tuple[str, Any]]


def post(endpoint: ScriptedEndpoint, asked: tuple[str, Any], **options: Any) -> Any:
    """Send a request through a budgeted client, and read its answer."""
    url = httpx.URL(endpoint.base_url).join(asked[0])
    with httpx.Client(timeout=60) as raw:
        client = budgeted(raw, **options)
        with client.stream("POST", url, json=asked[1]) as answer:
            answer.read()
        assert answer.status_code == 200, answer.text
        return answer


@pytest.mark.parametrize("form", FORMATS)
def test_limits_of_calls_and_time_change_nothing_in_a_request(
    form: Format, endpoint: ScriptedEndpoint
) -> None:
    asked = form({})
    with budget("10 min + 20 calls"), budget("9 tool_calls + 5 calls/hour"):
        post(endpoint, asked, wait=1)
    assert bodies(endpoint) == [asked[1]]


def test_a_legacy_completion_has_the_limit_that_its_budget_can_afford() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={"choices": [], "usage": {"total_tokens": 1}})

    sent: list[Any] = []
    body = {"model": "own", "prompt": "Hello?"}
    with budgeted(httpx.Client(transport=httpx.MockTransport(answer))) as client:
        with budget("20 calls"):
            client.post("http://localhost/v1/completions", json=body)
        with budget("5_000 tokens"):
            client.post("http://localhost/v1/completions", json=body)
    assert sent == [body, {**body, "max_tokens": 4_096}]


def test_the_least_of_what_blocks_and_clients_give_is_the_limit(endpoint: ScriptedEndpoint) -> None:
    with budget("20 calls"), budget("9 calls + 90_000 tokens", max_tokens=700):
        post(endpoint, chat({}), max_tokens=500)
        post(endpoint, chat({"max_tokens": 600}), max_tokens=500)
        with budget("9 calls", max_tokens=400, enforcement="observe"):
            post(endpoint, chat({}))
    one, two, three = bodies(endpoint)
    assert one["max_completion_tokens"] == 500
    assert (two["max_tokens"], three["max_completion_tokens"]) == (600, 700)


def test_what_is_sent_as_the_limit_is_what_is_held() -> None:
    with budget("$5", prices=PRICES) as block:
        limit = call_blocking(max_tokens=None).max_tokens
        assert limit == 16_384  # what the model can answer
    with budget("$0.50", prices=PRICES):
        limit = call_blocking(max_tokens=None).max_tokens
        assert limit is not None
        assert 6_000 < limit < 6_250  # an eighth of what $0.50 buys
    with budget("10_000 tokens"):
        assert call_blocking(max_tokens=None).max_tokens == 4096
    assert block.spent["calls"] == 1


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_that_a_budget_cut_short_says_so(
    form: Format, streamed: bool, endpoint: ScriptedEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    asked = form({"stream": True} if streamed else {})
    with caplog.at_level(logging.WARNING, "microbudget"), budget("500 tokens") as block:
        post(endpoint, asked)
    assert (block.spent["calls"], block.cut_short) == (1, 1)
    assert repr(block).endswith(", 1 cut short>")
    (line,) = [record.message for record in caplog.records]
    assert line.startswith("an answer was cut short at the ")
    assert line.endswith("tokens that agent could afford")


def test_an_answer_that_its_caller_limited_is_not_cut_short(
    endpoint: ScriptedEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with budget("5000 tokens") as block:
        post(endpoint, chat({"max_tokens": 30}))
        post(endpoint, chat({}), max_tokens=30)
    assert (caplog.records, block.cut_short) == ([], 0)
    assert bodies(endpoint)[0]["max_tokens"] == 30
