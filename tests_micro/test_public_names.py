"""The package's public names."""

import sys

import budget_core
import budget_core._names
from budget_core.agent.run import RunStoppedError
from budget_core.errors import StateCorruptError, StoreError
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAMES = (
    "Allowance",
    "Budget",
    "BudgetError",
    "BudgetExceededError",
    "BudgetWrapper",
    "ChatClient",
    "ChatResponse",
    "CitationAccumulator",
    "DailyAllowance",
    "DailyBudgetConfig",
    "DailyBudgetTracker",
    "Deadline",
    "DeadlineExceeded",
    "DeadlineToken",
    "Enforcement",
    "Envelope",
    "ExoclawBudget",
    "FileBudgetStore",
    "HttpLedger",
    "InMemoryBudgetStore",
    "LeasedLedger",
    "Ledger",
    "LedgerUnavailableError",
    "Limit",
    "Middleware",
    "Operative",
    "OperativeResult",
    "Price",
    "ProviderError",
    "StopReason",
    "StopRequested",
    "Tool",
    "ToolCall",
    "ToolOutput",
    "ToolTraceEntry",
    "TurnBudget",
    "TurnBudgetConfig",
    "TurnBudgetPolicy",
    "TurnBudgetTracker",
    "TurnRuntimeState",
    "WALL",
    "WindDown",
    "dollars",
)


def test_these_are_all_public_names() -> None:
    found = []
    for line in budget_core._names.PUBLIC.split("\n"):
        found.extend(line.split(" ")[1:])
    assert sorted(found) == list(NAMES)


def test_every_public_name_can_be_had_from_the_package() -> None:
    for name in NAMES:
        value = getattr(budget_core, name)
        assert getattr(value, "__name__", "WALL") == name, name


def test_a_name_is_the_same_object_each_time() -> None:
    for name in NAMES:
        assert getattr(budget_core, name) is getattr(budget_core, name), name


def test_a_module_can_be_had_from_the_package_before_anything_else() -> None:
    for name in ("board", "checks", "daily_tracker", "usage_reports", "wrapper"):
        assert getattr(budget_core, name).__name__ == "budget_core." + name


def test_an_unknown_name_is_an_attribute_error() -> None:
    for name in ("Budgets", "config ", "budgetwrapper", "wrapper BudgetWrapper", "no_such_name"):
        raises(AttributeError, getattr, budget_core, name)


def test_a_precompiled_list_of_names_is_forgotten_after_its_use() -> None:
    names: Any = __import__("budget_core._names", None, None, ("PUBLIC",))
    for file, stays in (("_names.py", True), ("_names.mpy", False)):
        kept, names.__file__ = names.__file__, file
        try:
            raises(AttributeError, getattr, budget_core, "no_such_name")
            assert ("budget_core._names" in sys.modules) is stays, file
        finally:
            names.__file__ = kept
    assert budget_core._names.PUBLIC == names.PUBLIC


def test_every_run_time_error_is_a_budget_error() -> None:
    for name in ("DeadlineExceeded", "ProviderError", "StopRequested"):
        assert issubclass(getattr(budget_core, name), budget_core.BudgetError), name
    for kind in (RunStoppedError, StateCorruptError, StoreError):
        assert issubclass(kind, budget_core.BudgetError), kind
    assert issubclass(StateCorruptError, StoreError)


def test_a_store_error_carries_its_cause() -> None:
    cause = OSError(5)
    error = StoreError("cannot read", cause)
    assert error.cause is cause
    assert "cannot read" in str(error)
    assert StoreError("cannot read").cause is None
