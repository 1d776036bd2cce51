"""What passes through a wrapped provider, and how calls that fail are counted."""

import asyncio

from budget_core import BudgetWrapper, ChatResponse, TurnBudgetConfig, TurnBudgetTracker
from budget_core.usage_estimate import estimate_tokens
from tests_micro.script import Script, streams
from tests_micro.support import raises, raises_async, unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HELLO: "list[dict[str, Any]]" = [{"role": "user", "content": "hello"}]
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
ANSWER = ChatResponse("answer", usage=USAGE)


class Plain:
    """A provider that takes no more than it must, with a default of its own for each."""

    def __init__(self) -> None:
        self.used: tuple[Any, ...] = ()

    async def chat(
        self,
        messages: "Any",
        tools: "Any" = None,
        model: "Any" = None,
        max_tokens: int = 99,
        temperature: float = 0.9,
    ) -> "Any":
        self.used = max_tokens, temperature
        return ANSWER

    def get_default_model(self) -> str:
        return "big"


class Closing(Script):
    """A provider with a `close` that returns what it is told."""

    def __init__(self, result: "Callable[[], Any]") -> None:
        super().__init__(ANSWER)
        self.result = result
        self.closed = 0

    def close(self) -> "Any":
        self.closed += 1
        return self.result()


def wrapped(inner: "Any", **config: "Any") -> "Any":
    return BudgetWrapper(inner, TurnBudgetTracker(TurnBudgetConfig(**config)))


async def nothing() -> None:
    return None


async def test_the_answer_is_the_inner_providers_own() -> None:
    response = ChatResponse("own", usage=USAGE)
    assert await wrapped(Script(response)).chat(HELLO) is response


async def test_every_argument_is_passed_on() -> None:
    given = {
        "tools": [{"name": "read"}],
        "model": "m",
        "max_tokens": 5,
        "temperature": 0.25,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
        "something_new": 7,
    }
    inner = Script(ANSWER)
    await wrapped(inner).chat(HELLO, **given)
    assert inner.requests[-1] == dict(given, messages=HELLO)


async def test_arguments_can_be_given_by_position_in_the_protocols_order() -> None:
    given = {
        "messages": HELLO,
        "tools": [{"name": "read"}],
        "model": "m",
        "max_tokens": 5,
        "temperature": 0.25,
        "reasoning_effort": "low",
        "response_format": {"type": "json_object"},
    }
    inner = Script(ANSWER)
    order = ("messages", "tools", "model", "max_tokens", "temperature", "reasoning_effort")
    await wrapped(inner).chat(*[given[name] for name in order + ("response_format",)])
    assert inner.requests[-1] == given


async def test_an_option_of_none_is_passed_on_as_it_was_given() -> None:
    given = {"temperature": None, "reasoning_effort": None, "something_new": None, "on_delta": None}
    inner = Script(ANSWER)
    await wrapped(inner).chat(HELLO, **given)
    assert inner.requests[-1] == dict(given, messages=HELLO, tools=None, model=None)


async def test_each_optional_argument_is_passed_on_alone_and_beside_the_usual_ones() -> None:
    for name, value in (
        ("max_tokens", 0),
        ("temperature", 0),
        ("temperature", 0.0),
        ("reasoning_effort", "high"),
        ("response_format", {"type": "json_object"}),
        ("response_format", {}),
        ("stop", []),
    ):
        for usual in ({}, {"max_tokens": 5, "temperature": 0.5}):
            inner = Script(ANSWER)
            await wrapped(inner).chat(HELLO, **dict(usual, **{name: value}))
            assert inner.requests[-1].get(name, "not given") == value, (name, inner.requests[-1])


async def test_arguments_that_were_not_given_are_not_passed_on() -> None:
    optional = ("max_tokens", "temperature", "reasoning_effort", "response_format", "on_delta")
    for given in ({}, {"max_tokens": 5}, {"temperature": 0.5}, {"max_tokens": 5, "temperature": 1}):
        inner = Script(ANSWER)
        await wrapped(inner).chat(HELLO, **given)
        passed = [name for name in optional if name in inner.requests[-1]]
        assert passed == [name for name in optional if name in given], given


async def test_a_provider_that_knows_only_some_arguments_can_be_wrapped() -> None:
    for given, used in (
        ({}, (99, 0.9)),
        ({"max_tokens": 5}, (5, 0.9)),
        ({"max_tokens": 5, "temperature": 0.5}, (5, 0.5)),
    ):
        inner = Plain()
        await wrapped(inner).chat(HELLO, **given)
        assert inner.used == used, given


async def test_a_streaming_provider_stays_streaming() -> None:
    deltas: list[str] = []

    async def on_delta(text: str) -> None:
        deltas.append(text)

    wrapper = wrapped(wrapped(Script(streams("an", "swer"))))
    assert wrapper.supports_response_deltas is True
    await wrapper.chat(HELLO, on_delta=on_delta)
    assert deltas == ["an", "swer"]


def test_any_other_attribute_is_the_inner_providers() -> None:
    inner = Script(ANSWER)
    wrapper = wrapped(wrapped(inner))
    assert wrapper.requests is inner.requests
    raises(AttributeError, getattr, wrapper, "no_such_attribute")
    assert not hasattr(wrapped(Plain()), "supports_response_deltas")


def test_the_default_model_is_the_inner_providers() -> None:
    assert wrapped(wrapped(Script(model="big"))).get_default_model() == "big"


async def test_closing_closes_the_inner_provider_whether_it_is_async_or_not() -> None:
    for result in (lambda: None, nothing, lambda: 5, lambda: "closed"):
        inner = Closing(result)
        await wrapped(wrapped(inner)).close()
        assert inner.closed == 1, result


async def test_closing_a_provider_that_cannot_be_closed_does_no_harm() -> None:
    await wrapped(Script(ANSWER)).close()


async def test_a_call_that_raises_counts_with_its_usage_missing() -> None:
    for error in (RuntimeError("down"), OSError(5), ValueError("bad"), MemoryError()):
        wrapper = wrapped(Script(error))
        caught = await raises_async(type(error), wrapper.chat, HELLO)
        assert caught is error
        assert wrapper.tracker.iterations_seen == 1
        assert wrapper.tracker.total_tokens == 0
        assert unclear(wrapper.tracker) == {"missing": 1, "invalid": 0}, error


async def test_no_call_goes_uncounted_because_the_default_model_cannot_be_told() -> None:
    class Nameless(Script):
        def get_default_model(self) -> str:
            raise RuntimeError("no default")

    inner = Nameless(ANSWER)
    wrapper = wrapped(inner)
    try:
        await wrapper.chat(HELLO)
    except RuntimeError:
        pass
    assert wrapper.tracker.iterations_seen == len(inner.requests)


async def test_calls_that_raise_use_the_turn_up() -> None:
    inner = Script(RuntimeError("down"))
    wrapper = wrapped(inner, iteration_budget=3)
    for _ in range(3):
        await raises_async(RuntimeError, wrapper.chat, HELLO)
    inner.answers = [ANSWER]
    assert (await wrapper.chat(HELLO)).cut_off_by == "turn"


async def test_a_call_that_is_cancelled_counts_with_its_usage_missing() -> None:
    wrapper = wrapped(Script(streams(60)))
    task = asyncio.create_task(wrapper.chat(HELLO))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    try:
        await task
        raise AssertionError("not cancelled")
    except asyncio.CancelledError:
        pass
    assert wrapper.tracker.iterations_seen == 1
    assert unclear(wrapper.tracker) == {"missing": 1, "invalid": 0}


async def test_a_call_that_is_never_started_is_not_counted() -> None:
    wrapper = wrapped(Script(ANSWER))
    wrapper.chat(HELLO).close()
    assert wrapper.tracker.iterations_seen == 0


async def test_an_answer_without_usage_counts_as_missing_and_is_returned() -> None:
    class Bare:
        content = "bare"

    for response in (Bare(), {"content": "dict"}, "text", ChatResponse("answer", usage=None)):
        wrapper = wrapped(Script(response))
        assert await wrapper.chat(HELLO) is response, response
        assert unclear(wrapper.tracker) == {"missing": 1, "invalid": 0}, response


async def test_an_answer_with_broken_usage_is_returned_and_seen() -> None:
    broken: list[Any] = [{"total_tokens": -5}, {"total_tokens": "12"}, "usage", [7], 0.5, True]
    for usage in broken:
        response = ChatResponse("answer")
        response.usage = usage
        wrapper = wrapped(Script(response))
        assert await wrapper.chat(HELLO) is response, usage
        counts = unclear(wrapper.tracker)
        assert counts["missing"] + counts["invalid"] == 1, usage


async def test_concurrent_calls_are_all_counted() -> None:
    wrapper = wrapped(Script(streams(0, usage=USAGE)))
    await asyncio.gather(*[wrapper.chat(HELLO) for _ in range(20)])
    assert (wrapper.tracker.iterations_seen, wrapper.tracker.total_tokens) == (20, 140)


async def test_with_estimates_a_call_that_cannot_be_estimated_is_counted() -> None:
    class Scarce:
        usage = None

        @property
        def content(self) -> str:
            raise MemoryError

    answer: Any = Scarce()
    tracker = TurnBudgetTracker()
    assert await BudgetWrapper(Script(answer), tracker, estimates=True).chat(HELLO) is answer
    assert (tracker.iterations_seen, tracker.usage_seen["missing"]) == (1, 1)


async def test_with_estimates_a_call_that_is_cancelled_is_charged_its_prompt() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig())
    wrapper = BudgetWrapper(Script(asyncio.CancelledError()), tracker, estimates=True)
    await raises_async(asyncio.CancelledError, wrapper.chat, HELLO)
    assert (tracker.total_tokens, tracker.iterations_seen) == (estimate_tokens(HELLO), 1)
