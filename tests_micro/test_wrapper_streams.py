"""How a streamed call is counted, whole or broken off."""

import asyncio

from budget_core import (
    BudgetWrapper,
    DailyBudgetTracker,
    Enforcement,
    ProviderError,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from budget_core.usage_estimate import estimate_tokens
from budget_core.usage_stream import AnswerTooLongError, StreamedAnswer
from tests_micro.script import Script, streams
from tests_micro.support import FakeClock, raises_async
from tests_micro.wire import URL, Client, Wire, chunked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

HELLO: "list[dict[str, Any]]" = [{"role": "user", "content": "hello"}]
TOOLS: "list[dict[str, Any]]" = [{"name": "read"}]
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
ZERO = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
PROMPT = estimate_tokens(HELLO)
DELTA = b'data: {"choices":[{"delta":{"content":"ab"}}]}\n\n'
REPORT = (
    b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}\n\n'
)


class Listener:
    """Someone who hears deltas."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def hear(self, text: str) -> None:
        """Take a delta."""
        self.heard.append(text)


def streaming(*steps: "Any", usage: "Any" = None) -> Script:
    """Return a provider that plays these steps at each call."""
    return Script(streams(*steps, usage=usage), model="big")


def wrapped(inner: "Any", **config: "Any") -> "Any":
    return BudgetWrapper(inner, TurnBudgetTracker(TurnBudgetConfig(**config)))


def kinds(tracker: "Any") -> "dict[str, int]":
    """Return how many calls were counted by how well known they are, where there were any."""
    return {kind: calls for kind, calls in tracker.usage_seen.items() if calls}


async def broken_off(*steps: "Any", **options: "Any") -> "Any":
    """Return the tracker of one call that broke off after the steps."""
    wrapper = wrapped(streaming(*steps, RuntimeError("down")))
    options["on_delta"] = options.get("on_delta") or Listener().hear
    await raises_async(RuntimeError, wrapper.chat, HELLO, **options)
    assert wrapper.tracker.iterations_seen == 1
    return wrapper.tracker


async def test_deltas_reach_the_listener_and_the_call_counts_as_reported() -> None:
    listener = Listener()
    inner = streaming("an", "swer", usage=USAGE)
    wrapper = wrapped(inner)
    assert (await wrapper.chat(HELLO, on_delta=listener.hear)).content == "answer"
    assert listener.heard == ["an", "swer"]
    assert wrapper.tracker.total_tokens == 7
    assert kinds(wrapper.tracker) == {"measured": 1}


async def test_every_argument_is_passed_on_with_the_listener() -> None:
    given = {
        "tools": TOOLS,
        "model": "m",
        "max_tokens": 5,
        "temperature": 0.25,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "something_new": 7,
    }
    inner = streaming()
    await wrapped(inner).chat(HELLO, on_delta=Listener().hear, **given)
    assert isinstance(inner.requests[-1].pop("on_delta"), StreamedAnswer)
    assert inner.requests[-1] == dict(given, messages=HELLO)


async def test_a_listener_of_none_listens_to_nothing() -> None:
    inner = streaming(usage=USAGE)
    wrapper = wrapped(inner)
    await wrapper.chat(HELLO, on_delta=None)
    assert inner.requests[-1]["on_delta"] is None
    assert kinds(wrapper.tracker) == {"measured": 1}


async def test_a_stream_that_breaks_off_counts_what_came_and_says_estimated() -> None:
    tracker = await broken_off("x" * 12, "y")
    assert tracker.total_tokens == PROMPT + 4
    assert kinds(tracker) == {"estimated": 1}


async def test_the_tools_of_a_stream_that_breaks_off_count() -> None:
    tracker = await broken_off("a", tools=TOOLS)
    assert tracker.total_tokens == estimate_tokens(HELLO, TOOLS) + 1 > PROMPT + 1


async def test_a_stream_that_breaks_off_after_its_usage_is_measured() -> None:
    for usage, tokens in ((USAGE, 7), (ZERO, 0)):
        tracker = await broken_off("x" * 400, usage)
        assert tracker.total_tokens == tokens, usage
        assert kinds(tracker) == {"measured": 1}, usage


async def test_a_stream_that_breaks_off_before_anything_came_is_missing() -> None:
    tracker = await broken_off()
    assert tracker.total_tokens == 0
    assert kinds(tracker) == {"missing": 1}


async def test_a_stream_that_is_cancelled_counts_what_came() -> None:
    heard = asyncio.Event()

    async def hear(text: str) -> None:
        if text == "b":
            heard.set()

    wrapper = wrapped(streaming("a", "b", 60))
    task = asyncio.create_task(wrapper.chat(HELLO, on_delta=hear))
    await heard.wait()
    task.cancel()
    try:
        await task
        raise AssertionError("not cancelled")
    except asyncio.CancelledError:
        pass
    assert wrapper.tracker.total_tokens == PROMPT + 2
    assert kinds(wrapper.tracker) == {"estimated": 1}


async def test_a_stream_past_its_limit_ends_and_counts_what_came() -> None:
    listener = Listener()
    wrapper = wrapped(streaming(*["a"] * 99))
    on_delta = StreamedAnswer(listener.hear, 3)
    await raises_async(AnswerTooLongError, wrapper.chat, HELLO, on_delta=on_delta)
    assert listener.heard == ["a"] * 3
    assert wrapper.tracker.total_tokens == PROMPT + 4
    assert kinds(wrapper.tracker) == {"estimated": 1}


async def test_a_stream_whose_listener_fails_counts_what_came() -> None:
    trouble = OSError(5)

    async def deaf(text: str) -> None:
        raise trouble

    wrapper = wrapped(streaming("a", "b"))
    assert await raises_async(OSError, wrapper.chat, HELLO, on_delta=deaf) is trouble
    assert wrapper.tracker.total_tokens == PROMPT + 1


async def test_an_answer_without_usage_is_estimated_where_it_was_streamed() -> None:
    wrapper = wrapped(streaming("an", "swer"))
    response = await wrapper.chat(HELLO, on_delta=Listener().hear)
    assert response.usage == {}
    assert wrapper.tracker.total_tokens == PROMPT + 2
    assert kinds(wrapper.tracker) == {"estimated": 1}


async def test_an_answer_that_was_not_streamed_stays_missing() -> None:
    wrapper = wrapped(streaming())
    await wrapper.chat(HELLO, on_delta=Listener().hear)
    await wrapper.chat(HELLO)
    await wrapper.chat(HELLO, max_tokens=5, temperature=0.5)
    assert kinds(wrapper.tracker) == {"missing": 3}


async def test_a_report_of_zero_is_measured_whatever_came() -> None:
    wrapper = wrapped(streaming("answer", usage=ZERO))
    await wrapper.chat(HELLO, on_delta=Listener().hear)
    assert wrapper.tracker.total_tokens == 0
    assert kinds(wrapper.tracker) == {"measured": 1}


async def test_a_broken_report_stays_invalid_whatever_came() -> None:
    wrapper = wrapped(streaming("answer", usage={"total_tokens": -5}))
    await wrapper.chat(HELLO, on_delta=Listener().hear)
    assert kinds(wrapper.tracker) == {"invalid": 1}


async def test_nested_wrappers_count_a_broken_stream_once_each() -> None:
    listener = Listener()
    inner = streaming("x" * 12, "y", RuntimeError("down"))
    day = BudgetWrapper(inner, DailyBudgetTracker(None, FakeClock(0)), Enforcement.CUTOFF)
    turn = wrapped(day)
    for calls in (1, 2):
        await raises_async(RuntimeError, turn.chat, HELLO, on_delta=listener.hear)
        for tracker in (turn.tracker, day.tracker):
            assert tracker.total_tokens == calls * (PROMPT + 4)
            assert kinds(tracker) == {"estimated": calls}
    assert listener.heard == ["x" * 12, "y"] * 2


async def test_nested_wrappers_share_what_counts() -> None:
    inner = streaming("a")
    on_delta = StreamedAnswer()
    await wrapped(wrapped(inner)).chat(HELLO, on_delta=on_delta)
    assert inner.requests[-1]["on_delta"] is on_delta
    assert on_delta.tokens == 1


async def test_a_stream_that_is_cut_off_within_costs_nothing() -> None:
    turn = wrapped(wrapped(streaming("a"), iteration_budget=0))
    response = await turn.chat(HELLO, on_delta=Listener().hear)
    assert response.cut_off_by == "turn"
    assert turn.tracker.total_tokens == 0
    assert kinds(turn.tracker) == {"measured": 1}


async def test_a_broken_stream_can_exhaust_a_budget() -> None:
    wrapper = wrapped(streaming("a", RuntimeError("down")), token_budget=PROMPT + 1)
    await raises_async(RuntimeError, wrapper.chat, HELLO, on_delta=Listener().hear)
    assert (await wrapper.chat(HELLO, on_delta=Listener().hear)).cut_off_by == "turn"


def calling(wrapper: "Any") -> "Callable[[], Awaitable[Any]]":
    """Return what streams an answer through the wrapper."""

    async def chat() -> "Any":
        return await wrapper.chat(HELLO, on_delta=Listener().hear)

    return chat


async def test_a_chat_clients_stream_that_breaks_off_is_settled() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    for pieces, tokens, kind in (
        ((head + DELTA + DELTA,), PROMPT + 2, "estimated"),
        ((head + DELTA, DELTA + DELTA[:9], OSError(104)), PROMPT + 2, "estimated"),
        ((chunked(DELTA, DELTA)[:-7],), PROMPT + 2, "estimated"),
        ((head + DELTA + REPORT, OSError(104)), 7, "measured"),
        ((head + DELTA + REPORT + b"data: {\n",), 7, "measured"),
        ((head + REPORT,), 7, "measured"),
        ((head, OSError(104)), 0, "missing"),
        ((b"HTTP/1.1 500 x\r\n\r\n" + DELTA,), 0, "missing"),
    ):
        wrapper = wrapped(Client(URL, "small"))
        await raises_async(ProviderError, Wire(*pieces).connected, calling(wrapper))
        assert wrapper.tracker.total_tokens == tokens, pieces
        assert kinds(wrapper.tracker) == {kind: 1}, pieces
