"""The core's trackers and usage rules under generated input, against small independent models."""

import asyncio
import random
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from budget_core import (
    BudgetWrapper,
    DailyBudgetConfig,
    DailyBudgetTracker,
    InMemoryBudgetStore,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from tests.properties import examples
from tests_micro.script import Script
from tests_micro.support import unclear

DAY = 86_400
FIELDS = (
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "promptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "toolUsePromptTokenCount",
    "totalTokenCount",
    "cachedContentTokenCount",
    "prompt_token_count",
    "candidates_token_count",
    "total_token_count",
    "prompt_tokens_details",
    "input_tokens_details",
)
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    -1,
    -5,
    0,
    1,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63),
    10**5000,
    0.5,
    -0.0,
    12.0,
    1e308,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    "12",
    "-5",
    b"12",
    [],
    [1],
    (),
    {},
    {"cached_tokens": -1},
    {"cached_tokens": 2**63},
    {"cached_tokens": {"cached_tokens": 1}},
    object(),
    1j,
)


class Report:
    """A usage report as an object."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.__dict__.update({name: fields[name] for name in fields if isinstance(name, str)})


class Raising:
    """A report that raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def check_record(tracker: Any, usage: object, model: Any) -> None:
    """Record one report and check that nothing escaped, fell or went unseen."""
    before = tracker.total_tokens
    seen = tracker.iterations_seen, sum(unclear(tracker).values())
    tracker.record(usage, model)
    assert type(tracker.total_tokens) is int
    assert tracker.total_tokens >= before, usage
    assert tracker.iterations_seen == seen[0] + 1
    assert 0 <= sum(unclear(tracker).values()) - seen[1] <= 1
    if usage is None or usage == {}:
        assert sum(unclear(tracker).values()) == seen[1] + 1


def random_usage(rng: random.Random) -> object:
    """Return a report of up to six fields, some of them odd, as a dict or an object."""
    fields: dict[str, Any] = {}
    for name in rng.sample(FIELDS, rng.randint(0, 6)):
        if rng.random() < 0.4:
            fields[name] = rng.choice(ODD_VALUES)
        elif name.endswith("details"):
            fields[name] = {"cached_tokens": rng.randint(0, 5000)}
        else:
            fields[name] = rng.randint(0, 5000)
    shape = rng.random()
    if shape < 0.02:
        return rng.choice(ODD_VALUES)
    if shape < 0.03:
        return Raising()
    return Report(fields) if shape < 0.4 else fields


def fuzz_usage(count: int, seed: int = 0) -> int:
    """Record so many random reports on a turn and a day; return the tokens counted."""
    rng = random.Random(seed)  # noqa: S311 - the same reports each time
    turn = TurnBudgetTracker(TurnBudgetConfig(model_weights={"half": 0.5, "free": 0, "big": 2.5}))
    day = DailyBudgetTracker(DailyBudgetConfig(cached_token_weight=rng.choice((0, 0.1, 1, 2))))
    for _ in range(count):
        usage = random_usage(rng)
        check_record(turn, usage, rng.choice(("half", "free", "big", "other", None, 5)))
        check_record(day, usage, None)
    return int(turn.total_tokens + day.total_tokens)


def test_random_usage_never_raises_and_never_lowers_the_count() -> None:
    assert fuzz_usage(10_000) > 0


numbers = (
    st.integers()
    | st.integers(min_value=0, max_value=10**6)
    | st.floats()
    | st.sampled_from([2**31, 2**40, 2**40 + 1, 2**63, -(2**63), 10**4000])
)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
details = st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=3)
reports = st.dictionaries(
    st.sampled_from(FIELDS) | st.text(max_size=5), json_values | details, max_size=8
)
weights = st.floats(min_value=0, max_value=1_000_000)


@examples(300)
@given(usage=reports | json_values, as_object=st.booleans(), cached=weights, model=weights)
def test_any_json_is_counted_without_raising(
    usage: Any, as_object: bool, cached: float, model: float
) -> None:
    config = TurnBudgetConfig(cached_token_weight=cached, model_weights={"m": model})
    report = Report(usage) if as_object and isinstance(usage, dict) else usage
    check_record(TurnBudgetTracker(config), report, "m")
    check_record(DailyBudgetTracker(DailyBudgetConfig(cached_token_weight=cached)), report, "m")


@examples(500)
@given(
    usage=st.fixed_dictionaries(
        {
            "prompt_tokens": json_values,
            "completion_tokens": json_values,
            "total_tokens": json_values,
        }
    )
)
def test_whatever_is_no_count_is_seen(usage: dict[str, Any]) -> None:
    def is_count(value: Any) -> bool:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return whole and not isinstance(value, bool) and 0 <= value < 2**63

    tracker = TurnBudgetTracker()
    tracker.record(usage)
    if any(value is not None and not is_count(value) for value in usage.values()):
        assert tracker.usage_seen["invalid"] == 1
    if all(value is None for value in usage.values()):
        assert tracker.usage_seen["missing"] == 1


@examples(500)
@given(
    prompt=st.integers(0, 10**9),
    completion=st.integers(0, 10**9),
    cached=st.integers(0, 10**9),
    percent=st.integers(0, 100),
)
def test_well_formed_usage_costs_what_the_rule_says(
    prompt: int, completion: int, cached: int, percent: int
) -> None:
    cached = min(cached, prompt)
    tracker = TurnBudgetTracker(TurnBudgetConfig(cached_token_weight=percent / 100))
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    tracker.record(usage)
    assert tracker.total_tokens == prompt + completion - cached + cached * percent // 100


caps = st.none() | st.integers(0, 60)
shares = st.lists(st.integers(1, 100), max_size=4)


def nearness(used: int, cap: int | None) -> Fraction:
    """Return the share used of a cap, as the specification has it."""
    if cap is None:
        return Fraction(0)
    return Fraction(used, cap) if cap else Fraction(1)


class TrackerModel(RuleBasedStateMachine):
    """A tracker and what the specification says of it, in as few words as possible."""

    def begin(self, axes: dict[str, int | None], percents: list[int]) -> None:
        self.caps = axes
        self.percents = percents
        self.used = dict.fromkeys(axes, 0)
        self.told = 0
        self.said_limit = False
        self.last: int | None = None

    def forget(self) -> None:
        self.begin(self.caps, self.percents)

    def share(self) -> Fraction:
        return max(nearness(self.used[unit], self.caps[unit]) for unit in self.caps)

    def spent(self) -> bool:
        pairs = [(self.used[unit], cap) for unit, cap in self.caps.items()]
        return any(cap is not None and used >= cap for used, cap in pairs)

    tracker: Any

    @rule(force=st.booleans())
    def warn(self, force: bool) -> None:
        crossed = [p for p in self.percents if Fraction(p, 100) <= self.share()]
        due = max(crossed, default=0)
        expected = due > self.told and (force or not self.spent())
        message = self.tracker.consume_threshold_warning(force)
        assert (message is not None) is expected
        if expected:
            self.told = self.last = due
            assert f" {int(100 * self.share())}% of" in message
            assert self.tracker.last_consumed_threshold == due / 100

    @rule()
    def say_limit(self) -> None:
        message = self.tracker.consume_at_limit_warning()
        assert (message is not None) is (self.spent() and not self.said_limit)
        self.said_limit = self.said_limit or message is not None

    @rule()
    def reset(self) -> None:
        self.tracker.reset()
        self.forget()

    @invariant()
    def figures_agree(self) -> None:
        if not hasattr(self, "tracker"):
            return
        assert self.tracker.is_at_limit() is self.spent()
        assert self.tracker.utilization() == float(self.share())
        used, cap, unit = self.tracker.dominant_axis()
        assert self.caps.get(unit) == cap
        if cap is not None:
            assert used == self.used[unit]
            assert nearness(used, cap) == self.share()


class TurnMachine(TrackerModel):
    """A turn."""

    @initialize(iterations=caps, tokens=caps, percents=shares, strip=st.none() | st.integers(1, 99))
    def start(
        self, iterations: int | None, tokens: int | None, percents: list[int], strip: int | None
    ) -> None:
        self.begin({"iterations": iterations, "tokens": tokens}, percents)
        self.strip = strip
        self.tracker = TurnBudgetTracker(
            TurnBudgetConfig(
                iteration_budget=iterations,
                token_budget=tokens,
                warning_thresholds=tuple(p / 100 for p in percents),
                tool_strip_threshold=None if strip is None else strip / 100,
            )
        )

    @rule(tokens=st.integers(0, 40))
    def call(self, tokens: int) -> None:
        self.tracker.record({"total_tokens": tokens})
        self.used["iterations"] += 1
        self.used["tokens"] += tokens

    @invariant()
    def tools_agree(self) -> None:
        if hasattr(self, "tracker"):
            stripped = self.strip is not None and self.share() >= Fraction(self.strip, 100)
            assert self.tracker.should_strip_tools() is stripped
            assert self.tracker.iterations_seen == self.used["iterations"]
            assert self.tracker.total_tokens == self.used["tokens"]


class DayMachine(TrackerModel):
    """A day whose process restarts and whose clock jumps."""

    @initialize(cap=caps, percents=shares, hour=st.integers(0, 23), now=st.integers(DAY, 3 * DAY))
    def start(self, cap: int | None, percents: list[int], hour: int, now: int) -> None:
        self.begin({"tokens": cap}, percents)
        self.now = now
        self.hour = hour
        self.day = self.today()
        self.store = InMemoryBudgetStore()
        self.config = DailyBudgetConfig(
            daily_budget=cap,
            primary_models=("big", "small"),
            fallback_model="small",
            warning_thresholds=tuple(p / 100 for p in percents),
            reset_hour_utc=hour,
        )
        self.tracker = self.restarted()

    def today(self) -> int:
        return (self.now - self.hour * 3600) // DAY

    def restarted(self) -> Any:
        return DailyBudgetTracker(self.config, lambda: self.now, self.store)

    @rule(tokens=st.integers(0, 40), model=st.sampled_from(["big", "small", "other", None]))
    def call(self, tokens: int, model: str | None) -> None:
        self.tracker.record({"total_tokens": tokens}, model)
        if model == "big":
            self.used["tokens"] += tokens

    @rule(hours=st.integers(-60, 60))
    def time_passes(self, hours: int) -> None:
        self.now = max(DAY, self.now + hours * 3600)
        self.tracker.maybe_auto_reset()
        if self.today() > self.day:
            self.day = self.today()
            self.forget()

    @precondition(lambda self: self.store.load() is not None)
    @rule()
    def restart(self) -> None:
        self.tracker = self.restarted()

    @invariant()
    def count_agrees(self) -> None:
        if hasattr(self, "tracker"):
            assert self.tracker.total_tokens == self.used["tokens"]


TestTurn = TurnMachine.TestCase
TestDay = DayMachine.TestCase
TestTurn.settings = examples(150, stateful_step_count=30)
TestDay.settings = TestTurn.settings


@examples(300)
@given(
    mode=st.sampled_from(["observe", "warn", "cutoff", "fallback"]),
    cap=st.integers(0, 60),
    percents=shares,
    costs=st.lists(st.integers(0, 30), max_size=20),
)
def test_every_crossed_threshold_is_told_at_most_once_and_the_limit_exactly_once(
    mode: str, cap: int, percents: list[int], costs: list[int]
) -> None:
    thresholds, limits = [], []

    config = TurnBudgetConfig(
        iteration_budget=None,
        token_budget=cap,
        warning_thresholds=tuple(p / 100 for p in percents),
    )
    tracker = TurnBudgetTracker(config)
    wrapper = BudgetWrapper(
        Script(*costs),
        tracker,
        mode,
        "small",
        on_threshold_crossed=lambda **event: thresholds.append(event["threshold"]),
        on_limit_reached=lambda **event: limits.append(event),
    )
    for _ in costs:
        asyncio.run(wrapper.chat([]))
    assert thresholds == sorted(set(thresholds))
    assert len(limits) == (1 if costs and tracker.is_at_limit() else 0)
    if mode == "cutoff":
        assert tracker.total_tokens < cap + 30 or cap == 0


def test_a_hook_that_keeps_raising_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def hook(**event: object) -> None:
        raise RuntimeError("the hook is broken")

    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=10))
    wrapper = BudgetWrapper(Script(1), tracker, None, None, hook, hook)
    for _ in range(12):
        asyncio.run(wrapper.chat([]))
    assert caplog.text.count("a turn hook raised RuntimeError") == 1
