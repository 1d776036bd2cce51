"""The same decisions as exoclaw-turn-budget 0.6.0 on well-formed input.

Deliberate differences, left out of what is generated here:

- A cap of 0 is nothing in every method; there it is unlimited in `utilization` and spent in
  `is_at_limit`. A day may be unlimited; there it may not.
- Anthropic's cache reads and writes are added, as its `input_tokens` leave them out; there they are
  not. Nested `prompt_tokens_details` and Gemini's names are read; there they are not.
- Weights are taken to the nearest millionth and multiplied as integers; there as floats, so that
  100 tokens at 0.29 count 28. Percentages are of what is used; there of the threshold. A notice
  that tools are off is given where one goes; there also where none of those named was offered.
- The fallback model never counts against a day with primary models, even when listed as one.
- The day never moves back, and the state of a later day is kept; there any other day begins anew.
- Malformed usage and state are seen and never raise; negative usage never lowers a count.
- A call that raises is counted. A limit warning goes by the wrapper's mode, not the tracker's.
- A threshold that was crossed together with the limit is heard with that call; there with the next.
  A reset arms the limit hook again at once; there the next call must see the budget unspent. A day
  remembers for good that its limit hook was called; there only beside a limit warning.
- The texts of the notices differ: the templates here are given.
"""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import budget_core as ours
from tests.properties import examples
from tests_micro.script import Script

peer = pytest.importorskip("exoclaw_turn_budget")
LLMResponse = pytest.importorskip("exoclaw.providers.types").LLMResponse

DAY = 86_400
TEMPLATES = {
    "warning_template": "W {scope} {used}/{cap} {unit}",
    "cutoff_template": "C {scope} {used}/{cap} {unit}",
}
STRIP = "S {scope} {used}/{cap} {unit} {disallow_clause}"
MODES = ["observe", "warn", "cutoff", "fallback"]
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "exec"}},
    {"name": "read"},
    {"type": "web_search"},
]

# Shares that are whole percents as binary fractions too: both sides cross them at the same count.
shares = st.lists(st.sampled_from([0.25, 0.5, 0.75]), max_size=4).map(tuple)
caps = st.none() | st.integers(1, 40)
tokens = st.integers(0, 30)


def usage_of(prompt: int, completion: int, cached: int, with_total: bool) -> dict[str, int]:
    usage = {"prompt_tokens": prompt, "completion_tokens": completion}
    if with_total:
        usage["total_tokens"] = prompt + completion
    if cached:
        usage["cached_tokens"] = min(cached, prompt)
    return usage


usages = st.builds(usage_of, tokens, tokens, tokens, st.booleans())
turn_configs = st.fixed_dictionaries(
    {
        "iteration_budget": caps,
        "token_budget": caps.map(lambda cap: cap and cap * 20),
        "warning_thresholds": shares,
        "enforcement": st.sampled_from(MODES),
        "fallback_model": st.just("small"),
        "tool_strip_threshold": st.none() | st.sampled_from([0.25, 0.5, 0.75]),
        "tool_strip_disallow": st.sampled_from([(), ("exec",), ("exec", "read")]),
        "cached_token_weight": st.sampled_from([0, 0.25, 0.5, 1]),
        "model_weights": st.sampled_from([{}, {"big": 0.5}, {"big": 2, "small": 0.25}]),
    }
)
daily_configs = st.fixed_dictionaries(
    {
        "daily_budget": st.integers(1, 400),
        "primary_models": st.sampled_from([(), ("big",), ("big", "huge")]),
        "warning_thresholds": shares,
        "enforcement": st.sampled_from(MODES),
        "fallback_model": st.just("small"),
        "reset_hour_utc": st.integers(0, 23),
        "cached_token_weight": st.sampled_from([0, 0.25, 0.5, 1]),
    }
)


def sent(side: "Side") -> list[Any]:
    """Return the messages, the tools and the model of each call."""
    names = ("messages", "tools", "model")
    return [[request.get(name) for name in names] for request in side.inner.requests]


class Side:
    """One implementation at work: its trackers, provider and everything it said."""

    def __init__(
        self,
        library: Any,
        turn: dict[str, Any],
        daily: dict[str, Any],
        answers: list[dict[str, int]],
    ) -> None:
        self.now = 19_675 * DAY
        responses = [LLMResponse(content="answer", usage=usage) for usage in answers]
        self.inner = Script(*responses, model="big")
        self.turn = library.TurnBudgetTracker(
            library.TurnBudgetConfig(tool_strip_template=STRIP, **TEMPLATES, **turn)
        )
        self.daily = library.DailyBudgetTracker(
            library.DailyBudgetConfig(fallback_template="F {scope} {used}", **TEMPLATES, **daily),
            clock=lambda: self.now,
        )
        self.policy = library.TurnBudgetPolicy(self.turn)
        wrapper = self.inner
        for tracker in (self.daily, self.turn):
            wrapper = library.BudgetWrapper(wrapper, tracker)
        self.wrapper: Any = wrapper

    def do(self, step: Any) -> Any:
        """Take one step; return all that can be seen of it."""
        if isinstance(step, int):
            self.now += step * 3600
            return None
        if step == "turn":
            return asyncio.run(self.policy.should_continue(0, []))
        goes_on = asyncio.run(self.policy.should_continue(1, []))
        messages: list[Any] = [{"role": "user", "content": "hello"}]
        answer = asyncio.run(self.wrapper.chat(messages, list(TOOLS), step[0]))
        assert len(messages) == 1
        return goes_on, answer.content, self.figures()

    def figures(self) -> Any:
        turn, daily = self.turn, self.daily
        return (
            (turn.iterations_seen, turn.total_tokens, daily.total_tokens),
            (turn.is_at_limit(), daily.is_at_limit()),
            (turn.utilization(), daily.utilization()),
            (turn.should_strip_tools(), daily.dominant_axis()),
            turn.dominant_axis() if turn.utilization() else None,
        )


models = st.sampled_from(["big", "huge", "other", None])
steps = st.lists(
    models.map(lambda model: (model,)) | st.just("turn") | st.integers(1, 30), max_size=30
)


@examples(150)
@given(
    turn=turn_configs,
    daily=daily_configs,
    schedule=steps,
    answers=st.lists(usages, min_size=30, max_size=30),
)
def test_a_stack_decides_like_the_peer(
    turn: dict[str, Any],
    daily: dict[str, Any],
    schedule: list[Any],
    answers: list[dict[str, int]],
) -> None:
    mine = Side(ours, turn, daily, answers)
    theirs = Side(peer, turn, daily, answers)
    for place, step in enumerate(schedule):
        assert mine.do(step) == theirs.do(step), (place, step)
        assert sent(mine) == sent(theirs), (place, step)


@examples(150)
@given(config=turn_configs, reports=st.lists(usages, max_size=25), ask=st.randoms())
def test_a_turn_tracker_says_what_the_peers_says(
    config: dict[str, Any], reports: list[dict[str, int]], ask: Any
) -> None:
    config = dict(config, tool_strip_template=STRIP, **TEMPLATES)
    mine = ours.TurnBudgetTracker(ours.TurnBudgetConfig(**config))
    theirs = peer.TurnBudgetTracker(peer.TurnBudgetConfig(**config))
    capped = config["iteration_budget"] is not None or config["token_budget"] is not None
    for usage in reports:
        force, model = ask.random() < 0.2, ask.choice(["big", "small", None])
        for tracker in (mine, theirs):
            tracker.record(usage, model)
        warnings = [t.consume_threshold_warning(force) for t in (mine, theirs)]
        assert warnings[0] == warnings[1]
        assert mine.last_consumed_threshold == theirs.last_consumed_threshold
        if capped and mine.utilization():
            assert mine.tool_strip_message() == theirs.tool_strip_message()
            assert mine.at_limit_message() == theirs.at_limit_message()
        if ask.random() < 0.5:
            assert mine.consume_at_limit_warning() == theirs.consume_at_limit_warning()


@examples(150)
@given(config=daily_configs, reports=st.lists(usages, max_size=25), ask=st.randoms())
def test_a_restarted_day_remembers_what_the_peers_remembers(
    config: dict[str, Any], reports: list[dict[str, int]], ask: Any
) -> None:
    now = [19_675 * DAY]
    stores = ours.InMemoryBudgetStore(), peer.InMemoryBudgetStore()

    def started() -> list[Any]:
        return [
            library.DailyBudgetTracker(
                library.DailyBudgetConfig(**config, **TEMPLATES),
                clock=lambda: now[0],
                store=store,
            )
            for library, store in zip((ours, peer), stores, strict=True)
        ]

    pair = started()
    for usage in reports:
        model = ask.choice(["big", "huge", "other"])
        if ask.random() < 0.3:
            pair = started()
        if ask.random() < 0.2:
            now[0] += ask.randint(1, 30) * 3600
        said = []
        for tracker in pair:
            tracker.maybe_auto_reset()
            tracker.record(usage, model)
            said.append((tracker.total_tokens, tracker.consume_threshold_warning()))
        assert said[0] == said[1]
        if pair[0].config.enforcement != "fallback" and ask.random() < 0.5:
            assert pair[0].consume_at_limit_warning() == pair[1].consume_at_limit_warning()
