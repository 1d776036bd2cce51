"""The core's configurations as frozen dataclasses: names, defaults and rules stay the core's."""

from budget_core import budget, wind_down
from budget_core import config as core
from budget_cpython.derive import dataclass_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    class TurnBudgetConfig(core.TurnBudgetConfig):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class DailyBudgetConfig(core.DailyBudgetConfig):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class Budget(budget.Budget):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class WindDown(wind_down.WindDown):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]
else:

    def _digest(self):
        return hash(tuple(value for value in vars(self).values() if not isinstance(value, dict)))

    def _frozen(base):
        return dataclass_of(base, __name__, frozen=True, coerce=True, __hash__=_digest)

    TurnBudgetConfig = _frozen(core.TurnBudgetConfig)
    DailyBudgetConfig = _frozen(core.DailyBudgetConfig)
    Budget = _frozen(budget.Budget)
    WindDown = _frozen(wind_down.WindDown)
