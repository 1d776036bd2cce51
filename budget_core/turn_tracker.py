"""Count one turn's LLM calls and tokens."""

from budget_core.config import TurnBudgetConfig
from budget_core.tracker import BudgetTracker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any


class TurnBudgetTracker(BudgetTracker):
    """What one turn has used of its iterations and tokens.

    Somebody who sees turns begin calls `reset()`: `TurnBudgetPolicy` does. Shared with the loops
    of sub-agents, one tracker bounds a turn and all that it spawns. Source: seed 001.
    """

    SCOPE = "turn"
    config: TurnBudgetConfig

    def __init__(
        self,
        config: TurnBudgetConfig | None = None,
        lock: "AbstractContextManager[Any] | None" = None,
    ) -> None:
        config = config or TurnBudgetConfig()
        weighted = bool(config.model_weights)
        super().__init__(config, config.iteration_budget, config.token_budget, lock, weighted)

    def _weight(self, model: str | None) -> float | None:
        return self.config.model_weights.get(model, 1) if isinstance(model, str) else 1
