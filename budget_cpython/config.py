"""The core's configurations of trackers as frozen dataclasses."""

from budget_core import config as core
from budget_cpython.core_dataclasses import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.config import DailyBudgetConfig as DailyBudgetConfig
    from budget_core.config import TurnBudgetConfig as TurnBudgetConfig
else:
    TurnBudgetConfig = frozen(core.TurnBudgetConfig, __name__)
    DailyBudgetConfig = frozen(core.DailyBudgetConfig, __name__)
