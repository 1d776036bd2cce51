"""What a wrapped provider does as its budget goes: the modes, the notices, the tools."""

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
from tests_micro.support import FakeClock, raises, unclear

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO: "list[dict[str, Any]]" = [{"role": "user", "content": "hello"}]
TOOLS: "list[dict[str, Any]]" = [
    {"type": "function", "function": {"name": "exec", "parameters": {}}},
    {"type": "function", "function": {"name": "read"}},
    {"name": "search", "input_schema": {}},
]


def spends(*counts: int) -> Script:
    """Return a provider whose answers use so many tokens, and none after them."""
    return Script(*counts, 0, model="big")


def extra(inner: Script, call: int = -1) -> "list[dict[str, Any]]":
    """Return what a call was sent beyond the messages of the caller."""
    messages: list[dict[str, Any]] = inner.sent[call]
    assert messages[: len(HELLO)] == HELLO
    return messages[len(HELLO) :]


def turn_of(inner: "Any", **config: "Any") -> "Any":
    """Return a wrapper of 10 iterations a turn."""
    config = dict({"iteration_budget": 10, "token_budget": 1000}, **config)
    return BudgetWrapper(inner, TurnBudgetTracker(TurnBudgetConfig(**config)))


def day_of(
    inner: "Any", store: "Any" = None, clock: "FakeClock | None" = None, **config: "Any"
) -> "Any":
    """Return a wrapper of 100 tokens a day, demoted to the model `small`."""
    config = dict({"daily_budget": 100, "fallback_model": "small"}, **config)
    tracker = DailyBudgetTracker(DailyBudgetConfig(**config), clock or FakeClock(0), store)
    return BudgetWrapper(inner, tracker)


async def chat(wrapper: "Any", times: int = 1, **arguments: "Any") -> "Any":
    """Chat so often; return the last answer."""
    for _ in range(times):
        answer = await wrapper.chat(list(HELLO), **arguments)
    return answer


# Notices


async def test_a_call_well_within_its_budget_is_passed_on_as_it_is() -> None:
    inner = spends(5)
    answer = await chat(turn_of(inner), tools=TOOLS, model="m")
    assert answer.content == "answer"
    assert answer.cut_off_by is None
    assert extra(inner) == []
    assert (inner.requests[0]["tools"], inner.requests[0]["model"]) == (TOOLS, "m")


async def test_a_warning_goes_last_in_the_role_of_the_user() -> None:
    inner = spends()
    await chat(turn_of(inner), 6)
    notice = extra(inner)
    assert len(notice) == 1
    assert sorted(notice[0]) == ["content", "role"]
    assert notice[0]["role"] == "user"
    assert "5 of 10 iterations" in notice[0]["content"]


async def test_each_warning_is_in_one_call_only() -> None:
    inner = spends()
    await chat(turn_of(inner), 10)
    told = [number for number in range(10) if extra(inner, number)]
    assert told == [5, 8, 9]


async def test_the_callers_messages_and_tools_are_left_alone() -> None:
    inner = spends()
    wrapper = turn_of(inner, tool_strip_threshold=0.5, tool_strip_disallow=("exec",))
    await chat(wrapper, 5)
    messages, tools = list(HELLO), list(TOOLS)
    await wrapper.chat(messages, tools)
    assert extra(inner)
    assert messages == HELLO
    assert tools == TOOLS


async def test_warnings_fire_in_every_mode() -> None:
    for mode in ("observe", "warn", "cutoff", "fallback"):
        inner = spends()
        await chat(turn_of(inner, enforcement=mode, fallback_model="small"), 6)
        assert len(extra(inner)) == 1, mode


async def test_of_several_warnings_crossed_by_one_call_the_highest_is_told() -> None:
    inner = spends(850)
    await chat(turn_of(inner), 3)
    assert "85%" in extra(inner, 1)[0]["content"]
    assert extra(inner, 2) == []


# The limit


async def test_observing_goes_on_past_the_limit_unchanged() -> None:
    inner = spends()
    await chat(turn_of(inner, enforcement="observe"), 13, tools=TOOLS, model="m")
    assert len(inner.requests) == 13
    for call in (10, 11, 12):
        assert extra(inner, call) == [], call
        assert inner.requests[call]["model"] == "m", call
        assert inner.requests[call]["tools"] == TOOLS, call


async def test_warning_tells_the_limit_once_and_goes_on() -> None:
    inner = spends()
    wrapper = turn_of(inner, enforcement="warn")
    await chat(wrapper, 13, model="m")
    assert len(inner.requests) == 13
    notices = extra(inner, 10)
    assert len(notices) == 1
    assert notices[0]["role"] == "user"
    assert "10 of 10 iterations" in notices[0]["content"]
    assert extra(inner, 11) == extra(inner, 12) == []
    assert inner.requests[12]["model"] == "m"


async def test_a_cut_off_answers_in_the_models_place() -> None:
    inner = spends()
    wrapper = turn_of(inner)
    answer = await chat(wrapper, 12, tools=TOOLS)
    assert len(inner.requests) == 10
    assert answer.content == wrapper.tracker.at_limit_message()
    assert answer.finish_reason == "stop"
    assert answer.cut_off_by == "turn"
    assert not answer.has_tool_calls
    assert answer.tool_calls == []
    assert answer.usage["total_tokens"] == 0


async def test_a_call_that_was_cut_off_is_not_counted() -> None:
    wrapper = turn_of(spends())
    await chat(wrapper, 15)
    assert wrapper.tracker.iterations_seen == 10
    assert unclear(wrapper.tracker) == {"missing": 0, "invalid": 0}


async def test_a_budget_of_nothing_is_cut_off_at_once() -> None:
    for config in ({"iteration_budget": 0}, {"token_budget": 0}):
        inner = spends()
        answer = await chat(turn_of(inner, **config))
        assert inner.requests == [], config
        assert answer.cut_off_by == "turn", config


async def test_a_turn_without_caps_is_never_cut_off() -> None:
    inner = spends(10**9)
    await chat(turn_of(inner, iteration_budget=None, token_budget=None), 60)
    assert len(inner.requests) == 60


async def test_a_stranded_warning_goes_into_the_cut_off_answer() -> None:
    inner = spends(100, 950)
    wrapper = turn_of(inner, warning_template="at {pct}", cutoff_template="over {used}")
    answer = await chat(wrapper, 3)
    assert answer.content == "at 105\n\nover 1050"


async def test_a_warning_told_before_is_not_in_the_cut_off_answer() -> None:
    inner = spends()
    wrapper = turn_of(inner, warning_template="at {pct}", cutoff_template="over")
    answer = await chat(wrapper, 11)
    assert extra(inner, 9)[0]["content"] == "at 90"
    assert answer.content == "over"


async def test_a_fallback_demotes_the_model_past_the_limit() -> None:
    for asked in ("big", None):
        inner = spends(60, 60)
        await chat(day_of(inner, primary_models=("big",)), 4, model=asked)
        assert inner.models == [asked, asked, "small", "small"], asked
        assert extra(inner) == []


async def test_tokens_of_the_fallback_model_do_not_count_against_the_day() -> None:
    wrapper = day_of(spends(60, 60, 60, 60), primary_models=("big", "small"))
    await chat(wrapper, 4)
    assert wrapper.tracker.total_tokens == 120


async def test_the_model_comes_back_on_the_next_day() -> None:
    inner, clock = spends(100, 5, 5), FakeClock(0)
    wrapper = day_of(inner, None, clock, primary_models=("big",))
    await chat(wrapper, 2, model="big")
    clock.advance(86_400)
    await chat(wrapper, model="big")
    assert inner.models == ["big", "small", "big"]
    assert wrapper.tracker.total_tokens == 5


async def test_the_wrappers_own_mode_and_fallback_come_before_the_configs() -> None:
    inner = spends(100)
    config = DailyBudgetConfig(daily_budget=100, fallback_model="small")
    tracker = DailyBudgetTracker(config, FakeClock(0))
    wrapper = BudgetWrapper(inner, tracker, "cutoff")
    assert (await chat(wrapper, 2)).cut_off_by == "daily"
    wrapper = BudgetWrapper(inner, tracker, fallback_model="tiny")
    await chat(wrapper)
    assert inner.requests[-1]["model"] == "tiny"


async def test_the_texts_at_the_limit_are_those_of_the_wrappers_own_mode() -> None:
    config = DailyBudgetConfig(daily_budget=0, cutoff_template="c", fallback_template="f")
    answer = await chat(BudgetWrapper(spends(), DailyBudgetTracker(config), "cutoff"))
    assert answer.content == "c"
    inner = spends()
    await chat(BudgetWrapper(inner, DailyBudgetTracker(config), "warn"))
    assert extra(inner)[0]["content"] == "c"


async def test_a_model_of_none_counts_as_the_inner_default() -> None:
    wrapper = day_of(spends(7, 7), primary_models=("big",))
    await chat(wrapper)
    assert wrapper.tracker.total_tokens == 7
    wrapper = turn_of(spends(7), model_weights={"big": 3})
    await chat(wrapper)
    assert wrapper.tracker.total_tokens == 21


async def test_a_model_of_none_is_passed_on_as_none() -> None:
    inner = spends()
    await chat(day_of(inner, primary_models=("big",)))
    assert inner.requests[0]["model"] is None


async def test_a_failing_store_cuts_off_and_comes_back() -> None:
    class Store:
        error: "Exception | None" = None

        def load(self) -> None:
            return None

        def save(self, state: object) -> None:
            if self.error is not None:
                raise self.error

        def clear(self) -> None:
            return None

    inner, store = spends(5, 5), Store()
    wrapper = day_of(inner, store, enforcement="cutoff")
    await chat(wrapper)
    store.error = OSError(28)
    wrapper.tracker.record(None)
    assert (await chat(wrapper)).cut_off_by == "daily"
    assert len(inner.requests) == 1
    store.error = None
    assert (await chat(wrapper)).content == "answer"
    assert wrapper.tracker.total_tokens == 10


# Tools


async def test_past_the_threshold_no_tools_are_sent_and_the_model_is_told() -> None:
    inner = spends()
    wrapper = turn_of(inner, tool_strip_threshold=0.7, warning_thresholds=())
    await chat(wrapper, 10, tools=TOOLS)
    sent = [call["tools"] for call in inner.requests]
    assert sent == [TOOLS] * 7 + [None] * 3
    for call in (7, 8, 9):
        notices = extra(inner, call)
        assert len(notices) == 1, call
        assert "Tools are disabled" in notices[0]["content"], call
        assert notices[0]["role"] == "user"


async def test_only_the_listed_tools_are_stripped() -> None:
    for disallowed, kept in (
        (("exec",), TOOLS[1:]),
        (("search", "exec"), TOOLS[1:2]),
        (("other",), TOOLS),
        (("exec", "read", "search"), None),
    ):
        inner = spends()
        wrapper = turn_of(inner, tool_strip_threshold=0, tool_strip_disallow=disallowed)
        await chat(wrapper, tools=TOOLS)
        assert inner.requests[0]["tools"] == kept, disallowed


async def test_a_tool_of_unknown_shape_is_kept_beside_listed_ones() -> None:
    strange = [{"type": "web_search"}, {"function": "exec"}, "exec", None, 5]
    inner = spends()
    wrapper = turn_of(inner, tool_strip_threshold=0, tool_strip_disallow=("exec",))
    await chat(wrapper, tools=TOOLS[:1] + strange)
    assert inner.requests[0]["tools"] == strange


async def test_a_tool_with_a_flat_name_beside_an_empty_function_is_stripped() -> None:
    inner = spends()
    wrapper = turn_of(inner, tool_strip_threshold=0, tool_strip_disallow=("exec",))
    await chat(wrapper, tools=[{"name": "exec", "function": {}}, TOOLS[1]])
    assert inner.requests[0]["tools"] == [TOOLS[1]]


async def test_a_call_without_tools_is_not_told_that_they_are_off() -> None:
    inner = spends()
    wrapper = turn_of(inner, tool_strip_threshold=0, warning_thresholds=())
    await chat(wrapper)
    assert inner.requests[0]["tools"] is None
    assert extra(inner) == []


async def test_a_warning_comes_before_the_notice_that_tools_are_off() -> None:
    inner = spends()
    wrapper = turn_of(inner, tool_strip_threshold=0.5, warning_thresholds=(0.5,))
    await chat(wrapper, 6, tools=TOOLS)
    first, second = extra(inner)
    assert "50%" in first["content"]
    assert "disabled" in second["content"]


# Stacks


async def test_a_turn_stacks_over_a_day() -> None:
    inner = spends(40, 40, 40, 40)
    day = day_of(inner, primary_models=("big",))
    turn = turn_of(day, iteration_budget=4)
    await chat(turn, 4)
    assert inner.models == [None, None, None, "small"]
    assert turn.tracker.total_tokens == 160
    assert day.tracker.total_tokens == 120
    assert (await chat(turn)).cut_off_by == "turn"
    assert len(inner.requests) == 4


async def test_a_spent_day_cuts_off_through_the_turn_over_it() -> None:
    inner = spends(100)
    turn = turn_of(day_of(inner, enforcement="cutoff"))
    answer = await chat(turn, 2)
    assert answer.cut_off_by == "daily"
    assert len(inner.requests) == 1


async def test_both_budgets_of_a_stack_may_warn_in_one_call() -> None:
    inner = spends(60)
    day = day_of(inner, warning_thresholds=(0.5,), warning_template="{scope}")
    turn = turn_of(day, iteration_budget=2, warning_template="{scope}")
    await chat(turn, 2)
    assert [notice["content"] for notice in extra(inner)] == ["turn", "daily"]


async def test_a_new_turn_begins_with_its_policy() -> None:
    inner = spends()
    wrapper = turn_of(inner)
    policy = TurnBudgetPolicy(wrapper.tracker)
    for turn in range(3):
        for iteration in range(10):
            assert await policy.should_continue(iteration, []), (turn, iteration)
            assert (await chat(wrapper)).content == "answer", (turn, iteration)
        assert not await policy.should_continue(10, []), turn
    told = [number for number in range(30) if extra(inner, number)]
    assert told == [5, 8, 9, 15, 18, 19, 25, 28, 29]


async def test_two_wrappers_of_one_tracker_share_its_budget() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=4))
    first, second = spends(), spends()
    parent, child = BudgetWrapper(first, tracker), BudgetWrapper(second, tracker)
    await chat(parent, 2)
    await chat(child, 2)
    assert (await chat(parent)).cut_off_by == (await chat(child)).cut_off_by == "turn"
    assert len(first.requests) == len(second.requests) == 2


async def test_a_warning_due_while_the_store_fails_reaches_the_model_once_it_works() -> None:
    class Store:
        error: "Exception | None" = None

        def load(self) -> None:
            return None

        def save(self, state: "dict[str, Any]") -> None:
            if state["tokens"]:
                self.error, failure = None, self.error
                if failure is not None:
                    raise failure

        def clear(self) -> None:
            return None

    inner, store = spends(60), Store()
    store.error = OSError(28)
    wrapper = day_of(inner, store, enforcement="cutoff", warning_thresholds=(0.5,))
    await chat(wrapper)
    assert wrapper.tracker.store_error is not None
    await chat(wrapper)
    assert len(inner.requests) == 2
    assert len(extra(inner)) == 1
    assert "60%" in extra(inner)[0]["content"]


async def test_a_stranded_warning_goes_into_the_cut_off_answer_after_a_restart_too() -> None:
    store = InMemoryBudgetStore()
    config: dict[str, Any] = {"enforcement": "cutoff", "warning_thresholds": (0.5,)}
    config["warning_template"] = "at {pct}"
    await chat(day_of(spends(100), store, **config))
    answer = await chat(day_of(spends(), store, **config))
    assert answer.content.startswith("at 100\n\n")


async def test_a_stranded_warning_is_told_once() -> None:
    wrapper = turn_of(spends(1000), warning_template="at {pct}", cutoff_template="over")
    await chat(wrapper)
    for text in ("at 100\n\nover", "over"):
        assert (await chat(wrapper)).content == text


async def test_a_stranded_warning_of_one_turn_is_not_told_in_the_next() -> None:
    inner = spends(1000)
    wrapper = turn_of(inner, warning_template="at {pct}", cutoff_template="over")
    await chat(wrapper)
    wrapper.tracker.reset()
    await chat(wrapper, 9)
    assert [extra(inner, call) for call in range(1, 6)] == [[]] * 5
    assert extra(inner, 6)[0]["content"] == "at 50"


async def test_a_warning_stranded_by_one_call_is_in_the_policys_last_words() -> None:
    wrapper = turn_of(spends(1000), warning_template="at {pct}", cutoff_template="over")
    await chat(wrapper)
    policy = TurnBudgetPolicy(wrapper.tracker)
    assert not await policy.should_continue(1, [])
    assert await policy.on_limit_reached(1, []) == "at 100\n\nover"


async def test_a_tracker_with_an_is_at_limit_of_its_own_is_asked_before_each_call() -> None:
    class Two(TurnBudgetTracker):
        def is_at_limit(self) -> bool:
            return self.iterations_seen >= 2

    inner = spends()
    wrapper = BudgetWrapper(inner, Two())
    for cut_off_by in (None, None, "turn"):
        assert (await chat(wrapper)).cut_off_by == cut_off_by


async def test_a_fallback_model_named_to_the_wrapper_is_not_counted_either() -> None:
    inner = spends(100)
    config = DailyBudgetConfig(daily_budget=100, primary_models=("m", "cheap"))
    tracker = DailyBudgetTracker(config, FakeClock(0))
    wrapper = BudgetWrapper(inner, tracker, fallback_model="cheap")
    for _ in range(3):
        await wrapper.chat([{"role": "user", "content": "x"}], model="m")
    assert tracker.total_tokens == 100


def test_a_tracker_of_another_make_is_refused() -> None:
    assert "tracker" in str(raises(ValueError, BudgetWrapper, spends(), spends()))


async def test_what_is_kept_of_a_turn_is_for_a_call_that_answers_without_tools() -> None:
    inner = spends()
    wrapper = turn_of(inner, last_call=0.1)
    await chat(wrapper, 9, tools=[{"name": "read"}])
    assert "80% of" not in str(extra(inner, 8))
    await chat(wrapper, tools=[{"name": "read"}])
    [notice] = extra(inner, 9)
    assert "turn budget: 9 of 9 iterations, and one reserved for the answer" in notice["content"]
    assert "This is your last answer" in notice["content"]
    offered = [request.get("tools") for request in inner.requests]
    assert offered == [[{"name": "read"}]] * 9 + [None]
    assert (await chat(wrapper)).cut_off_by == "turn"


async def test_what_is_kept_of_a_day_is_for_calls_that_answer_without_tools() -> None:
    inner = spends(*[300] * 5)
    config: dict[str, Any] = {"daily_budget": 1_000, "enforcement": "cutoff", "last_call": 0.2}
    wrapper = day_of(inner, InMemoryBudgetStore(), **config)
    await chat(wrapper, 4, tools=[{"name": "read"}])
    assert [request.get("tools") for request in inner.requests][2:] == [[{"name": "read"}], None]
    told = "daily budget: 900 of 1000 tokens. This is your last answer"
    assert told in extra(inner, 3)[0]["content"]
    assert (await chat(wrapper)).cut_off_by == "daily"


async def test_nothing_is_kept_where_the_limit_does_not_cut_off() -> None:
    inner = spends()
    wrapper = turn_of(inner, last_call=0.1, enforcement="warn")
    await chat(wrapper, 10, tools=[{"name": "read"}])
    assert inner.requests[-1]["tools"] == [{"name": "read"}]
