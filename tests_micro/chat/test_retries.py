"""When the chat client asks again, how long it waits, and what is counted."""

import json

from budget_core import (
    Budget,
    BudgetWrapper,
    Operative,
    ProviderError,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from tests_micro.script import USAGE
from tests_micro.support import raises, raises_async
from tests_micro.wire import HELLO, URL, Client, Wire, answer, chunked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HI = {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}], "usage": USAGE}
DELTA = b'data: {"choices":[{"delta":{"content":"Hi."}}]}\n\n'


def said(status: str = "200 OK", *headers: str, body: "Any" = None) -> bytes:
    """Return an answer: a greeting, or a refusal."""
    words = HI if status == "200 OK" else {"error": {"message": "Later."}}
    return answer(json.dumps(words if body is None else body).encode(), status, *headers)


BUSY = said("429 Too Many Requests")


async def failed(wire: Wire, **options: "Any") -> "tuple[ProviderError, list[float]]":
    """Return the error that a client with two retries comes to, and what it waited."""
    client = Client(URL, "small", retries=2, **options)
    error = await raises_async(ProviderError, client.ask, wire)
    return error, client.waits


async def test_a_refusal_that_may_pass_is_asked_again() -> None:
    for status in (408, 409, 429, 500, 502, 503, 504, 529):
        client = Client(URL, "small", retries=2)
        wire = Wire(said(f"{status} x"), said(f"{status} x"), said())
        response = await client.ask(wire)
        assert (response.content, response.attempts) == ("Hi.", 3), status
        assert (client.attempts, len(client.waits)) == (3, 2)
        assert wire.sent.count(b"POST /v1/chat/completions") == 3


async def test_a_refusal_that_stays_is_not_asked_again() -> None:
    for status in (201, 301, 400, 401, 402, 403, 404, 422):
        error, waits = await failed(Wire(said(f"{status} x"), said()))
        assert (error.status, error.attempts, waits) == (status, 1, []), status


async def test_an_exhausted_quota_is_not_asked_again() -> None:
    body = {"error": {"message": "Pay.", "code": "insufficient_quota"}}
    error, waits = await failed(Wire(said("429 x", body=body), said()))
    assert (error.code, error.attempts, waits) == ("insufficient_quota", 1, [])


async def test_the_endpoint_says_whether_to_ask_again() -> None:
    error, _ = await failed(Wire(said("429 x", "X-Should-Retry: false"), said()))
    assert error.attempts == 1
    response = await Client(URL, "m", retries=1).ask(
        Wire(said("400 x", "x-should-retry: true"), said())
    )
    assert response.attempts == 2


async def test_the_last_attempts_error_is_raised_with_the_number_of_attempts() -> None:
    error, waits = await failed(Wire(BUSY, BUSY, said("503 x")))
    assert (error.status, error.attempts, len(waits)) == (503, 3, 2)


async def test_retries_can_be_off() -> None:
    client = Client(URL, "small", retries=0)
    error = await raises_async(ProviderError, client.ask, Wire(BUSY, said()))
    assert (error.status, error.attempts, client.waits) == (429, 1, [])


def test_a_name_of_the_limit_that_is_none_is_refused() -> None:
    for odd in (5, "", None):
        assert "limit_name" in str(raises(ValueError, Client, URL, "m", limit_name=odd)), odd


def test_a_number_of_retries_that_is_none_is_refused() -> None:
    for odd in (-1, True, 1.5, "2", None):
        assert "retries" in str(raises(ValueError, Client, URL, "m", retries=odd)), odd


async def test_waits_double_and_are_spread() -> None:
    seen = set()
    for _ in range(20):
        client = Client(URL, "small", retries=7)
        await client.ask(Wire(*[BUSY] * 7, said()))
        for number, wait in enumerate(client.waits):
            most = min(8, 0.5 * 2**number)
            assert most / 2 <= wait <= most, client.waits
        seen.add(client.waits[0])
    assert len(seen) > 3


async def test_retry_after_is_waited_for_and_a_little_longer() -> None:
    for seconds in ("0", "2", "0.5", "60"):
        client = Client(URL, "small", retries=1)
        await client.ask(Wire(said("429 x", "Retry-After: " + seconds), said()))
        assert 0 <= client.waits[0] - float(seconds) <= 0.25, seconds


async def test_an_endpoint_that_asks_for_more_than_a_minute_is_not_asked_again() -> None:
    for seconds in ("61", "3600", "1e9", "inf", "nan", "-1"):
        error, waits = await failed(Wire(said("429 x", "Retry-After: " + seconds), said()))
        assert (error.status, error.attempts, waits) == (429, 1, []), seconds


async def test_a_date_to_retry_after_leaves_the_usual_wait() -> None:
    client = Client(URL, "small", retries=1)
    date = "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"
    await client.ask(Wire(said("503 x", date), said()))
    assert 0.25 <= client.waits[0] <= 0.5


async def test_a_wait_that_outlasts_the_caller_is_not_begun() -> None:
    for left, attempts in ((5, 1), (5.5, 2), (0, 1)):
        client = Client(URL, "small", retries=1)
        wire = Wire(said("429 x", "Retry-After: 5"), said("429 x"))
        error = await raises_async(ProviderError, client.ask, wire, left_s=lambda left=left: left)
        assert error.attempts == attempts, left


async def test_a_connection_that_is_not_made_is_tried_again() -> None:
    wire = Wire(said())
    wire.refusals = [OSError(111), OSError(111)]
    client = Client(URL, "small", retries=2)
    assert (await client.ask(wire)).attempts == 3
    wire.refusals = [OSError(111)] * 3
    error = await raises_async(ProviderError, client.ask, wire)
    assert (error.status, error.sent, error.attempts) == (0, False, 3)


async def test_a_request_that_may_have_been_worked_on_is_not_sent_again() -> None:
    for wire in (Wire(), Wire(OSError(104)), Wire(said()[:-5]), Wire(answer(b"<html>"))):
        error, waits = await failed(wire)
        assert (error.sent, error.attempts, waits) == (True, 1, [])


async def test_a_stream_that_began_is_not_sent_again() -> None:
    error = b'data: {"error": {"message": "Overloaded.", "code": 529}}\n\n'
    for raw in (chunked(DELTA)[:-7], chunked(DELTA, error), chunked(error)):
        heard: list[str] = []

        async def hear(text: str, heard: "list[str]" = heard) -> None:
            heard.append(text)

        client = Client(URL, "small", retries=2)
        found = await raises_async(ProviderError, client.ask, Wire(raw, said()), on_delta=hear)
        assert (found.attempts, len(heard)) == (1, raw.count(b"Hi.")), raw


async def test_a_stream_is_retried_before_it_began() -> None:
    client = Client(URL, "small", retries=1)
    done = chunked(DELTA, b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
    heard: list[str] = []

    async def hear(text: str) -> None:
        heard.append(text)

    response = await client.ask(Wire(BUSY, done), on_delta=hear)
    assert (response.content, response.attempts, heard) == ("Hi.", 2, ["Hi."])


class Unconnected(Wire):
    """A wire as MicroPython has one to a port where nobody listens: writing to it fails."""

    def write(self, data: bytes) -> None:
        """Fail."""
        raise OSError(111)


async def spent(wire: Wire) -> "Any":
    """Return the tracker of a call that fails, estimates on."""
    tracker = TurnBudgetTracker(TurnBudgetConfig())
    wrapper = BudgetWrapper(Client(URL, "small"), tracker, estimates=True)

    async def chat() -> "Any":
        return await wrapper.chat(HELLO)

    await raises_async(ProviderError, wire.connected, chat)
    return tracker


async def test_a_refused_connection_costs_nothing_wherever_it_is_noticed() -> None:
    refused = Wire()
    refused.refusals = [OSError(111)]
    for wire in (refused, Unconnected()):
        tracker = await spent(wire)
        assert (tracker.total_tokens, tracker.usage_seen["estimated"]) == (0, 0)


async def test_a_request_that_was_sent_and_not_answered_is_estimated() -> None:
    assert (await spent(Wire(OSError(104)))).total_tokens > 0


async def play(wire: Wire, budget: Budget, retries: int = 2) -> "Any":
    """Return the result of a run through a client with retries."""
    operative = Operative(Client(URL, "small", retries=retries), (), budget)

    async def run() -> "Any":
        return await operative.begin("Hello?").finish()

    return await wire.connected(run)


async def test_a_run_outlives_refusals_that_pass_and_counts_them() -> None:
    result = await play(Wire(BUSY, said("503 x"), said()), Budget(max_turns=1, max_tokens=1000))
    assert (result.text, result.reason) == ("Hi.", None)
    usage = result.usage
    assert (usage["turns"], usage["tokens"], usage["retries"]) == (1, 100, 2)


async def test_a_run_that_is_refused_to_the_end_has_spent_nothing() -> None:
    result = await play(Wire(BUSY, BUSY, BUSY), Budget(max_turns=3, max_tokens=1000))
    assert result.reason.kind == "provider_error"
    assert result.reason.error.attempts == 3
    assert (result.usage["tokens"], result.usage["retries"]) == (0, 2)


async def test_a_run_does_not_wait_past_its_deadline() -> None:
    late = said("429 x", "Retry-After: 50")
    result = await play(Wire(late, said()), Budget(timeout=40))
    assert (result.reason.kind, result.usage["retries"]) == ("provider_error", 0)
    result = await play(Wire(late, said()), Budget(timeout=400))
    assert (result.text, result.usage["retries"]) == ("Hi.", 1)
