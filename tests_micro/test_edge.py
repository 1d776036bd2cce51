"""The texts put in front of a model: filled literally, whatever they contain."""

from budget_core import (
    DailyBudgetConfig,
    DailyBudgetTracker,
    Enforcement,
    TurnBudgetConfig,
    TurnBudgetTracker,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
