"""The core's configurations of trackers as frozen dataclasses."""

from budget_core import config as core
from budget_cpython.core_dataclasses import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar

    class TurnBudgetConfig(core.TurnBudgetConfig):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]

    class DailyBudgetConfig(core.DailyBudgetConfig):
        """The core's, frozen."""

        __dataclass_fields__: ClassVar[dict[str, Any]]
else:
    TurnBudgetConfig = frozen(core.TurnBudgetConfig, __name__)
    DailyBudgetConfig = frozen(core.DailyBudgetConfig, __name__)
