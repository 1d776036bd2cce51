"""What configurations default to, accept and refuse."""

from budget_core import DailyBudgetConfig, TurnBudgetConfig, notices
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAN = float("nan")
INF = float("inf")
HUGE = 10**5000
KINDS = (TurnBudgetConfig, DailyBudgetConfig)

TURN_DEFAULTS: "dict[str, Any]" = {
    "iteration_budget": 50,
    "token_budget": 1_500_000,
    "warning_thresholds": (0.5, 0.8, 0.9),
    "enforcement": "cutoff",
    "fallback_model": None,
    "tool_strip_threshold": None,
    "tool_strip_disallow": (),
    "cached_token_weight": 0.1,
    "model_weights": {},
    "last_call": None,
}
DAILY_DEFAULTS: "dict[str, Any]" = {
    "daily_budget": 35_000_000,
    "primary_models": (),
    "warning_thresholds": (),
    "enforcement": "fallback",
    "fallback_model": None,
    "reset_hour_utc": 0,
    "cached_token_weight": 0.1,
    "last_call": None,
}
TURN_CHANGES: "dict[str, Any]" = {
    "iteration_budget": 7,
    "token_budget": 0,
    "warning_thresholds": (0.25,),
    "enforcement": "warn",
    "fallback_model": "small",
    "warning_template": "w",
    "cutoff_template": "c",
    "tool_strip_threshold": 0.95,
    "tool_strip_disallow": ("exec",),
    "tool_strip_template": "s",
    "cached_token_weight": 1,
    "model_weights": {"big": 2.5},
    "last_call": 0.1,
}
DAILY_CHANGES: "dict[str, Any]" = {
    "daily_budget": None,
    "primary_models": ("big",),
    "warning_thresholds": (0.25,),
    "enforcement": "observe",
    "fallback_model": "small",
    "reset_hour_utc": 23,
    "warning_template": "w",
    "cutoff_template": "c",
    "fallback_template": "f",
    "cached_token_weight": 0,
    "last_call": 0,
}

NOT_COUNTS: "tuple[Any, ...]" = (
    -1,
    1.5,
    50.0,
    NAN,
    INF,
    -INF,
    True,
    False,
    "50",
    b"50",
    "",
    [50],
    (),
    {},
    HUGE,
    -HUGE,
)
NOT_SHARES: "tuple[Any, ...]" = (
    -0.1,
    1.1,
    NAN,
    INF,
    -INF,
    True,
    False,
    "0.5",
    "",
    [0.5],
    {},
    HUGE,
    -HUGE,
)
NOT_WEIGHTS: "tuple[Any, ...]" = (
    -0.1,
    NAN,
    INF,
    -INF,
    True,
    "0.1",
    "",
    [0.1],
    {},
    1e300,
    HUGE,
    -HUGE,
)
NOT_TEXTS: "tuple[Any, ...]" = ("", 5, 0, True, False, 0.5, b"text", ["text"], (), {})
NOT_TUPLES: "tuple[Any, ...]" = (None, "abc", "", b"abc", 5, 0, 0.5, True, {0.5: 1}, {})


def check_refused(make: "Any", field: str, values: "Any") -> None:
    for place, value in enumerate(values):
        error = raises(ValueError, make, **{field: value})
        assert field in str(error), (make, field, place, str(error)[:90])


def test_the_defaults_of_a_turn_are_the_documented_ones() -> None:
    config = TurnBudgetConfig()
    for field in TURN_DEFAULTS:
        assert getattr(config, field) == TURN_DEFAULTS[field], field


def test_the_defaults_of_a_day_are_the_documented_ones() -> None:
    config = DailyBudgetConfig()
    for field in DAILY_DEFAULTS:
        assert getattr(config, field) == DAILY_DEFAULTS[field], field


def test_every_standard_text_says_how_much_is_used_of_what() -> None:
    for template in (notices.WARNING, notices.CUTOFF, notices.FALLBACK, notices.TOOL_STRIP):
        for name in ("{scope}", "{used}", "{cap}", "{unit}"):
            assert name in template, (template, name)
    assert "{pct}" in notices.WARNING
    assert "{disallow_clause}" in notices.TOOL_STRIP


def test_a_template_that_is_not_given_is_the_standard_text() -> None:
    turn, day = TurnBudgetConfig(), DailyBudgetConfig()
    assert (turn.warning_template, turn.cutoff_template, turn.tool_strip_template) == (None,) * 3
    assert (day.warning_template, day.cutoff_template, day.fallback_template) == (None,) * 3


def test_every_field_keeps_the_value_it_was_given() -> None:
    for make, changes in ((TurnBudgetConfig, TURN_CHANGES), (DailyBudgetConfig, DAILY_CHANGES)):
        config = make(**changes)
        for field in changes:
            assert getattr(config, field) == changes[field], field


def test_the_fields_can_be_given_in_the_documented_order() -> None:
    turn = TurnBudgetConfig(9, 8, (0.7,), "warn", "small", "w", "c", 0.9, ("exec",), "s", 0.2, {})
    assert (turn.iteration_budget, turn.token_budget, turn.cached_token_weight) == (9, 8, 0.2)
    daily = DailyBudgetConfig(9, ("big",), (0.7,), "warn", "small", 4, "w", "c", "f", 0.2)
    assert (daily.daily_budget, daily.reset_hour_utc, daily.fallback_template) == (9, 4, "f")


def test_a_limit_of_none_and_one_of_zero_are_both_accepted() -> None:
    for limit in (None, 0, 1):
        turn = TurnBudgetConfig(iteration_budget=limit, token_budget=limit)
        assert (turn.iteration_budget, turn.token_budget) == (limit, limit)
        assert DailyBudgetConfig(daily_budget=limit).daily_budget == limit


def test_a_limit_that_is_no_whole_number_is_refused_by_name() -> None:
    check_refused(TurnBudgetConfig, "iteration_budget", NOT_COUNTS)
    check_refused(TurnBudgetConfig, "token_budget", NOT_COUNTS)
    check_refused(DailyBudgetConfig, "daily_budget", NOT_COUNTS)


def test_a_reset_hour_outside_the_day_is_refused_by_name() -> None:
    check_refused(DailyBudgetConfig, "reset_hour_utc", NOT_COUNTS + (None, 24, 25))


def test_every_hour_of_the_day_is_accepted() -> None:
    for hour in range(24):
        assert DailyBudgetConfig(reset_hour_utc=hour).reset_hour_utc == hour


def test_thresholds_that_are_no_tuple_are_refused_by_name() -> None:
    for make in KINDS:
        check_refused(make, "warning_thresholds", NOT_TUPLES)


def test_a_threshold_that_is_no_share_is_refused_by_name() -> None:
    for make in KINDS:
        bad = [(0.5, value) for value in NOT_SHARES + (None,)]
        check_refused(make, "warning_thresholds", bad)


def test_a_strip_threshold_that_is_no_share_is_refused_by_name() -> None:
    check_refused(TurnBudgetConfig, "tool_strip_threshold", NOT_SHARES)
    for make in KINDS:
        check_refused(make, "last_call", NOT_SHARES)


def test_names_that_are_no_tuple_are_refused_by_name() -> None:
    check_refused(TurnBudgetConfig, "tool_strip_disallow", NOT_TUPLES)
    check_refused(DailyBudgetConfig, "primary_models", NOT_TUPLES)


def test_a_name_that_is_no_text_is_refused_by_name() -> None:
    bad = [("good", value) for value in NOT_TEXTS + (None,)]
    check_refused(TurnBudgetConfig, "tool_strip_disallow", bad)
    check_refused(DailyBudgetConfig, "primary_models", bad)


def test_a_fallback_model_that_is_no_text_is_refused_by_name() -> None:
    for make in KINDS:
        check_refused(make, "fallback_model", NOT_TEXTS)


def test_a_template_that_is_no_text_is_refused_by_name() -> None:
    for field in ("warning_template", "cutoff_template", "tool_strip_template"):
        check_refused(TurnBudgetConfig, field, NOT_TEXTS)
    for field in ("warning_template", "cutoff_template", "fallback_template"):
        check_refused(DailyBudgetConfig, field, NOT_TEXTS)


def test_a_cached_token_weight_that_is_no_weight_is_refused_by_name() -> None:
    for make in KINDS:
        check_refused(make, "cached_token_weight", NOT_WEIGHTS + (None,))


def test_model_weights_that_are_no_dict_are_refused_by_name() -> None:
    check_refused(TurnBudgetConfig, "model_weights", ("abc", "", 5, 0, 0.5, True, False, b"ab"))
    check_refused(TurnBudgetConfig, "model_weights", ([], (), [("big", 1)], (("big", 1),)))


def test_a_model_weight_that_is_no_weight_is_refused_by_name() -> None:
    bad = [{"big": value} for value in NOT_WEIGHTS + (None,)]
    check_refused(TurnBudgetConfig, "model_weights", bad)


def test_a_weighted_model_that_is_no_text_is_refused_by_name() -> None:
    check_refused(TurnBudgetConfig, "model_weights", ({1: 1}, {None: 1}, {"": 1}, {b"big": 1}))


def test_an_unknown_field_is_refused() -> None:
    for make in KINDS:
        raises(TypeError, make, budget=5)


def test_the_weights_are_a_copy_of_the_callers() -> None:
    weights = {"big": 2.0}
    config = TurnBudgetConfig(model_weights=weights)
    weights["big"] = 0.0
    weights["small"] = 0.0
    assert config.model_weights == {"big": 2.0}


def test_two_configs_do_not_share_their_default_weights() -> None:
    TurnBudgetConfig().model_weights["big"] = 0.0
    assert TurnBudgetConfig().model_weights == {}


def test_lists_are_copied_to_tuples() -> None:
    thresholds, names = [0.5], ["exec"]
    turn = TurnBudgetConfig(warning_thresholds=thresholds, tool_strip_disallow=names)
    daily = DailyBudgetConfig(warning_thresholds=thresholds, primary_models=names)
    thresholds.append(0.9)
    names.append("read")
    assert turn.warning_thresholds == daily.warning_thresholds == (0.5,)
    assert turn.tool_strip_disallow == daily.primary_models == ("exec",)
