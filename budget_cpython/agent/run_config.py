"""The core's configurations of runs as frozen dataclasses."""

from budget_core.agent import budget, wind_down
from budget_cpython.config import frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.agent.budget import Budget as Budget
    from budget_core.agent.wind_down import WindDown as WindDown
else:
    Budget = frozen(budget.Budget, __name__)
    WindDown = frozen(wind_down.WindDown, __name__)
