"""The texts put in front of a model: filled literally, whatever they contain."""

from budget_core import (
    DailyBudgetConfig,
    DailyBudgetTracker,
    Enforcement,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from budget_core.notices import fill
from budget_core.thresholds import is_reached, nearest, withdraw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Axis


def cutoff(template: str, **config: "Any") -> str:
    """Return that cut-off text of a turn which has made one call of one."""
    config["cutoff_template"] = template
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=1, **config))
    tracker.record(None)
    return str(tracker.at_limit_message())


def strip_message(*disallowed: str, **config: "Any") -> str:
    config = dict({"tool_strip_template": "{disallow_clause}"}, **config)
    turn = TurnBudgetConfig(tool_strip_threshold=0.29, tool_strip_disallow=disallowed, **config)
    return str(TurnBudgetTracker(turn).tool_strip_message())


def test_every_name_is_filled() -> None:
    assert cutoff("{scope} {pct} {used} {cap} {unit}") == "turn 100 1 1 iterations"


def test_a_name_is_filled_as_often_as_it_occurs() -> None:
    assert cutoff("{used}{used} of {cap}, {cap}") == "11 of 1, 1"


def test_a_text_without_names_stays_as_it_is() -> None:
    assert cutoff("Stop — now. ∞ 100%") == "Stop — now. ∞ 100%"


def test_what_is_no_name_stays_as_it_is() -> None:
    for text in (
        "{0.__class__}",
        "{scope.__class__.__mro__}",
        "{x:>200000000}",
        "{used:>200000000}",
        "{used!r}",
        "{}",
        "{0}",
        "{ used }",
        "{Used}",
        "{",
        "}",
        "}{",
        "{used",
        "used}",
        "{{{",
        "}}}",
        "%s %(used)s %n $used ${used_}",
        "{unknown}",
        "\x00{\n}",
    ):
        assert cutoff(text) == text, text


def test_braces_round_a_name_stay() -> None:
    assert cutoff("{{used}}") == "{1}"
    assert cutoff("{{used}") == "{1"
    assert cutoff('{"used": {used}}') == '{"used": 1}'


def test_a_value_is_never_searched_for_names() -> None:
    text = strip_message("{used}", "{disallow_clause}", "{0.__class__}")
    assert text == "Tools {used}, {disallow_clause}, and {0.__class__} are disabled"


def test_an_axis_without_a_cap_is_said_to_be_unlimited() -> None:
    tracker = TurnBudgetTracker(
        TurnBudgetConfig(iteration_budget=None, token_budget=None, cutoff_template="{used}/{cap}")
    )
    assert "None" not in tracker.at_limit_message()


def test_the_clause_says_which_tools_are_off() -> None:
    for tools, clause in (
        ((), "Tools are disabled"),
        (("exec",), "Tool exec is disabled"),
        (("a", "b"), "Tools a and b are disabled"),
        (("a", "b", "c"), "Tools a, b, and c are disabled"),
        (("a", "b", "c", "d"), "Tools a, b, c, and d are disabled"),
    ):
        assert strip_message(*tools) == clause, tools


def test_the_strip_message_names_what_is_used_in_whole_percent() -> None:
    assert strip_message(tool_strip_template="{pct} {scope} {cap}") == "0 turn 50"


def test_the_default_strip_message_says_that_tools_are_off() -> None:
    message = TurnBudgetTracker(TurnBudgetConfig(tool_strip_threshold=0.9)).tool_strip_message()
    assert "(0 of 50 iterations)" in message
    assert "Tools are disabled" in message
    assert "{" not in message


def test_a_day_speaks_with_its_own_templates() -> None:
    for mode, template in (("fallback", "f"), ("cutoff", "c"), ("warn", "c"), ("observe", "c")):
        config = DailyBudgetConfig(
            enforcement=mode, cutoff_template="c {scope}", fallback_template="f {scope}"
        )
        assert DailyBudgetTracker(config).at_limit_message() == template + " daily", mode
    assert Enforcement.FALLBACK == "fallback"


def test_a_days_warning_speaks_of_tokens() -> None:
    config = DailyBudgetConfig(
        daily_budget=100,
        warning_thresholds=(0.5,),
        warning_template="{scope} {pct} {used} {cap} {unit}",
    )
    tracker = DailyBudgetTracker(config)
    tracker.record({"total_tokens": 60})
    assert tracker.consume_threshold_warning() == "daily 60 60 100 tokens"


# Axes


def axis(used: int, cap: int | None, kept: int = 0, scope: str = "run") -> "Axis":
    return scope, "tokens", used, cap, kept


def test_the_nearest_axis_is_told_apart_by_its_last_token() -> None:
    cap = 1 << 60
    one, other = axis(cap // 2, cap), axis(cap // 2 + 1, cap, 0, "above")
    assert nearest([one, other]) is other
    assert nearest([other, one]) is other
    assert nearest([one, axis(5, 10)]) is one


def test_what_is_kept_brings_an_axis_nearer() -> None:
    one, other = axis(4, 6, 1), axis(5, 7)
    assert nearest([other, one]) is one


def test_an_axis_without_a_cap_is_the_nearest_of_none_but_its_like() -> None:
    unlimited = axis(10**9, None)
    assert nearest([unlimited, axis(0, 10)])[3] == 10
    assert nearest([unlimited]) is unlimited


def test_a_share_is_reached_by_its_very_token() -> None:
    for cap in (10, 16_777_217, 1 << 60):
        for ppm in (1, 333_333, 800_000, 950_000, 1_000_000):
            at = -(-cap * ppm // 1_000_000)
            assert not is_reached(axis(at - 1, cap), ppm), (cap, ppm)
            assert is_reached(axis(at, cap), ppm), (cap, ppm)
            assert is_reached(axis(at, cap + 5, 5), ppm), (cap, ppm)


def test_a_cap_of_nothing_is_reached_and_no_cap_never_is() -> None:
    assert is_reached(axis(0, 0), 1_000_000)
    assert not is_reached(axis(10**9, None), 1)


def test_of_the_stages_that_are_reached_the_first_withdraws_tools() -> None:
    tools: list[Any] = [{"name": "read"}, {"function": {"name": "write"}}, {"type": "search"}]
    stages: list[Any] = [(900_000, lambda name: False), (500_000, lambda name: name == "write")]
    assert withdraw(tools, axis(4, 10), stages) == (tools, ())
    assert withdraw(tools, axis(5, 10), stages) == ([tools[1]], ("read", ""))
    assert withdraw(tools, axis(9, 10), stages) == ([], ("read", "write", ""))
    assert withdraw(tools, axis(9, 10), [(None, lambda name: False)]) == (tools, ())


def test_figures_percentage_and_reserve_agree() -> None:
    template = "{pct}%: {used} of {cap} {unit}{reserved}"
    turns: Any = ("run", "turns", 4, 6, 1)
    assert fill(template, turns) == "80%: 4 of 5 turns, and one reserved for the answer"
    told = "62%: 5 of 8 tokens, and 20 reserved for the answer"
    assert fill(template, axis(5, 28, 20)) == told
    assert fill(template, axis(7, None)) == "0%: 7 of unlimited tokens"
    assert fill(template, axis(0, 0)) == "100%: 0 of 0 tokens"
