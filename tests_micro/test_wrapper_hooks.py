"""When a wrapper calls its hooks, with what, and what it does about one that raises."""

from budget_core import (
    BudgetWrapper,
    DailyBudgetConfig,
    DailyBudgetTracker,
    InMemoryBudgetStore,
    TurnBudgetConfig,
    TurnBudgetPolicy,
    TurnBudgetTracker,
)
from tests_micro.script import Script
from tests_micro.support import FakeClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO: "list[dict[str, Any]]" = [{"role": "user", "content": "hello"}]
MODES = ("observe", "warn", "cutoff", "fallback")


class Heard:
    """What hooks were called with, in order."""

    def __init__(self) -> None:
        self.thresholds: list[dict[str, Any]] = []
        self.limits: list[dict[str, Any]] = []

    def wrap(self, tracker: "Any", enforcement: str | None = None, inner: "Any" = None) -> "Any":
        return BudgetWrapper(
            inner or Script(10),
            tracker,
            enforcement,
            "small",
            on_threshold_crossed=lambda **event: self.thresholds.append(event),
            on_limit_reached=lambda **event: self.limits.append(event),
        )

    def shares(self) -> "list[float]":
        return [event["threshold"] for event in self.thresholds]


class Store(InMemoryBudgetStore):  # type: ignore[misc, unused-ignore]
    """A store that can be told to fail."""

    error: "Exception | None" = None

    def save(self, state: "dict[str, Any]") -> None:
        if self.error is not None:
            raise self.error
        super().save(state)


def turn(**config: "Any") -> "Any":
    return TurnBudgetTracker(TurnBudgetConfig(**dict({"iteration_budget": 10}, **config)))


def day(store: "Any", clock: "FakeClock | None" = None, **config: "Any") -> "Any":
    config = dict({"daily_budget": 100, "warning_thresholds": (0.5, 0.8)}, **config)
    return DailyBudgetTracker(DailyBudgetConfig(**config), clock or FakeClock(0), store)


async def chat(wrapper: "Any", times: int) -> None:
    for _ in range(times):
        await wrapper.chat(list(HELLO))


async def test_a_threshold_hook_is_called_by_keyword_with_the_figures() -> None:
    heard = Heard()
    await chat(heard.wrap(turn()), 6)
    assert heard.thresholds == [
        {
            "scope": "turn",
            "threshold": 0.5,
            "utilization": 0.5,
            "used": 5,
            "cap": 10,
            "unit": "iterations",
        }
    ]


async def test_a_limit_hook_is_called_by_keyword_with_the_figures_and_no_threshold() -> None:
    heard = Heard()
    await chat(heard.wrap(day(None)), 10)
    assert heard.limits == [
        {"scope": "daily", "utilization": 1.0, "used": 100, "cap": 100, "unit": "tokens"}
    ]


async def test_each_threshold_is_heard_once() -> None:
    heard = Heard()
    await chat(heard.wrap(turn()), 10)
    assert heard.shares() == [0.5, 0.8, 0.9]


async def test_a_threshold_told_in_the_cut_off_answer_is_heard_too() -> None:
    heard = Heard()
    await chat(heard.wrap(turn(iteration_budget=1)), 3)
    assert heard.shares() == [0.9]
    assert len(heard.limits) == 1


async def test_the_limit_is_heard_once_in_every_mode() -> None:
    for mode in MODES:
        heard = Heard()
        await chat(heard.wrap(turn(), mode), 14)
        assert len(heard.limits) == 1, mode


async def test_the_limit_is_heard_with_the_call_that_reaches_it() -> None:
    for mode in MODES:
        heard = Heard()
        wrapper = heard.wrap(turn(), mode)
        await chat(wrapper, 9)
        assert heard.limits == [], mode
        await chat(wrapper, 1)
        assert len(heard.limits) == 1, mode


async def test_a_budget_spent_before_the_first_call_is_heard_once() -> None:
    heard = Heard()
    await chat(heard.wrap(turn(iteration_budget=0)), 3)
    assert len(heard.limits) == 1


async def test_the_limit_is_heard_when_a_call_that_raises_reaches_it() -> None:
    heard = Heard()
    inner = Script(RuntimeError("down"))
    try:
        await chat(heard.wrap(turn(iteration_budget=1), inner=inner), 1)
    except RuntimeError:
        pass
    assert len(heard.limits) == 1


async def test_a_reset_arms_every_hook_again() -> None:
    heard = Heard()
    tracker = turn()
    wrapper = heard.wrap(tracker)
    for turn_number in (1, 2, 3):
        await chat(wrapper, 11)
        assert heard.shares() == [0.5, 0.8, 0.9] * turn_number
        assert len(heard.limits) == turn_number
        tracker.reset()


async def test_a_new_day_arms_every_hook_again() -> None:
    heard, clock = Heard(), FakeClock(0)
    wrapper = heard.wrap(day(None, clock))
    for turn_number in (1, 2, 3):
        await chat(wrapper, 11)
        assert heard.shares() == [0.5, 0.8] * turn_number
        assert len(heard.limits) == turn_number
        clock.advance(86_400)


async def test_a_restart_calls_no_hook_again() -> None:
    heard, store = Heard(), InMemoryBudgetStore()
    for _ in range(14):
        await chat(heard.wrap(day(store), "observe"), 1)
    assert heard.shares() == [0.5, 0.8]
    assert len(heard.limits) == 1


async def test_a_limit_nobody_heard_is_heard_after_the_restart() -> None:
    heard, store = Heard(), InMemoryBudgetStore()
    day(store).record({"total_tokens": 100})
    await chat(heard.wrap(day(store)), 2)
    assert len(heard.limits) == 1


async def test_the_real_limit_is_heard_after_an_outage_of_the_store() -> None:
    heard, store = Heard(), Store()
    wrapper = heard.wrap(day(store), "cutoff")
    store.error = OSError(28)
    await chat(wrapper, 2)
    store.error = None
    heard.limits.clear()
    await chat(wrapper, 10)
    assert [event["used"] for event in heard.limits] == [100]


async def test_each_outage_of_the_store_is_heard_once() -> None:
    heard, store = Heard(), Store()
    wrapper = heard.wrap(day(store), "cutoff")
    for outage in (1, 2, 3):
        store.error = OSError(28)
        await chat(wrapper, 3)
        assert len(heard.limits) == outage
        store.error = None
        await chat(wrapper, 1)


async def test_an_outage_calls_no_threshold_hook_twice() -> None:
    heard, store = Heard(), Store()
    wrapper = heard.wrap(day(store), "cutoff")
    await chat(wrapper, 4)
    store.error = OSError(28)
    await chat(wrapper, 3)
    store.error = None
    await chat(wrapper, 6)
    assert heard.shares() == [0.5, 0.8]


async def test_both_wrappers_of_a_stack_call_their_own_hooks() -> None:
    inner, outer = Heard(), Heard()
    stack = outer.wrap(turn(), inner=inner.wrap(day(None)))
    await chat(stack, 10)
    assert [event["scope"] for event in inner.limits] == ["daily"]
    assert [event["scope"] for event in outer.limits] == ["turn"]


async def test_one_hook_works_without_the_other() -> None:
    for name in ("on_threshold_crossed", "on_limit_reached"):
        events: list[object] = []
        hooks: dict[str, Any] = {name: lambda e=events, **event: e.append(event)}
        await chat(BudgetWrapper(Script(10), turn(), **hooks), 12)
        assert len(events) == (3 if name == "on_threshold_crossed" else 1), name


async def test_a_hook_that_raises_never_breaks_the_call() -> None:
    def hook(**event: object) -> None:
        raise RuntimeError("hook")

    inner = Script(10)
    wrapper = BudgetWrapper(inner, turn(), None, None, hook, hook)
    await chat(wrapper, 12)
    assert len(inner.requests) == 10
    assert isinstance(wrapper.hook_error, RuntimeError)


async def test_a_hook_that_does_not_take_the_figures_never_breaks_the_call() -> None:
    inner = Script(10)
    wrapper = BudgetWrapper(inner, turn(), None, None, lambda: None, lambda: None)
    await chat(wrapper, 12)
    assert len(inner.requests) == 10
    assert isinstance(wrapper.hook_error, TypeError)


async def test_a_hook_that_raises_does_not_hide_the_warning() -> None:
    def hook(**event: object) -> None:
        raise RuntimeError("hook")

    inner = Script(10)
    await chat(BudgetWrapper(inner, turn(), None, None, hook, hook), 6)
    assert "50%" in inner.sent[-1][-1]["content"]


async def test_an_async_hook_is_reported_as_an_error() -> None:
    async def hook(**event: object) -> None:
        return None

    tracker = day(InMemoryBudgetStore())
    wrapper = BudgetWrapper(Script(10), tracker, "cutoff", on_limit_reached=hook)
    tracker.record({"total_tokens": 100})
    await chat(wrapper, 3)
    assert "plain function" in str(wrapper.hook_error)


async def test_an_is_at_limit_of_ones_own_is_heard_and_told_like_any_other() -> None:
    class Two(TurnBudgetTracker):
        def is_at_limit(self) -> bool:
            return self.iterations_seen >= 2

    for mode in MODES:
        heard = Heard()
        tracker = Two(TurnBudgetConfig(fallback_model="small", cutoff_template="Two calls."))
        wrapper = heard.wrap(tracker, mode)
        await chat(wrapper, 2)
        assert len(heard.limits) == 1, mode
        await chat(wrapper, 2)
        assert len(heard.limits) == 1, mode
        policy = TurnBudgetPolicy(tracker, "cutoff")
        assert not await policy.should_continue(2, [])
        assert await policy.on_limit_reached(2, []) == "Two calls."
        tracker.reset()
        assert tracker.consume_at_limit_warning() is None
        for _ in range(2):
            tracker.record(None)
        assert tracker.consume_at_limit_warning() == "Two calls."
