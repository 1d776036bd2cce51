"""The four modes, and the refusal of any other."""

from budget_core import (
    BudgetWrapper,
    DailyBudgetConfig,
    Enforcement,
    TurnBudgetConfig,
    TurnBudgetPolicy,
    TurnBudgetTracker,
)
from tests_micro.script import Script
from tests_micro.support import raises

MODES = ("observe", "warn", "cutoff", "fallback")
UNKNOWN = ("", "CUTOFF", "cut-off", "cutoff ", "none", "observer", b"cutoff", 0, 3, False, ["warn"])


def test_the_modes_are_plain_lower_case_strings() -> None:
    modes = (Enforcement.OBSERVE, Enforcement.WARN, Enforcement.CUTOFF, Enforcement.FALLBACK)
    assert modes == MODES


def test_every_mode_is_accepted_by_its_name() -> None:
    for mode in MODES:
        assert TurnBudgetConfig(enforcement=mode).enforcement == mode
        assert DailyBudgetConfig(enforcement=mode).enforcement == mode


def test_a_config_refuses_an_unknown_mode_by_name() -> None:
    for make in (TurnBudgetConfig, DailyBudgetConfig):
        for mode in UNKNOWN + (None,):
            assert "enforcement" in str(raises(ValueError, make, enforcement=mode)), mode


def test_a_wrapper_refuses_an_unknown_mode_by_name() -> None:
    for mode in UNKNOWN:
        error = raises(ValueError, BudgetWrapper, Script(), TurnBudgetTracker(), enforcement=mode)
        assert "enforcement" in str(error), mode


def test_a_policy_refuses_an_unknown_mode_by_name() -> None:
    for mode in UNKNOWN:
        error = raises(ValueError, TurnBudgetPolicy, TurnBudgetTracker(), enforcement=mode)
        assert "enforcement" in str(error), mode


def test_a_fallback_without_a_model_is_refused_where_it_would_act() -> None:
    config = TurnBudgetConfig(enforcement=Enforcement.FALLBACK)
    error = raises(ValueError, BudgetWrapper, Script(), TurnBudgetTracker(config))
    assert "fallback_model" in str(error)


def test_a_fallback_asked_of_the_wrapper_needs_a_model_too() -> None:
    error = raises(ValueError, BudgetWrapper, Script(), TurnBudgetTracker(), Enforcement.FALLBACK)
    assert "fallback_model" in str(error)


def test_the_wrapper_itself_may_name_the_fallback_model() -> None:
    config = DailyBudgetConfig(enforcement=Enforcement.FALLBACK)
    wrapper = BudgetWrapper(Script(), TurnBudgetTracker(TurnBudgetConfig()), "fallback", "cheap")
    assert (config.fallback_model, wrapper.fallback_model) == (None, "cheap")


def test_a_mode_is_kept_as_its_plain_name() -> None:
    class Mode(str):
        def __str__(self) -> str:
            return "Mode." + "cutoff"

    assert type(TurnBudgetConfig(enforcement=Mode("cutoff")).enforcement) is str
