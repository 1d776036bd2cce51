"""The core's configurations of runs as frozen dataclasses."""

from budget_core.agent import budget, wind_down
from budget_cpython.core_dataclasses import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    class Budget(budget.Budget):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class WindDown(wind_down.WindDown):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]
else:
    Budget = frozen(budget.Budget, __name__)
    WindDown = frozen(wind_down.WindDown, __name__)
