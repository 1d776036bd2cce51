"""Tell an agent loop when to stop: exoclaw's `IterationPolicy`."""

from budget_core.config import Enforcement, check_enforcement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.tracker import TurnBudgetTracker


class TurnBudgetPolicy:
    """Resets a turn's tracker when a turn begins, and stops the loop when `CUTOFF` applies.

    `enforcement` is the tracker's unless given. `begins_turns=False` is for the loop of a sub-agent
    that shares its parent's tracker: its start is not a new turn, so it resets nothing.
    """

    def __init__(
        self,
        tracker: "TurnBudgetTracker",
        enforcement: str | None = None,
        begins_turns: bool = True,
    ) -> None:
        if not hasattr(tracker, "alert") or hasattr(tracker, "resets_at"):
            from budget_core.errors import refuse

            refuse("tracker", "a TurnBudgetTracker", tracker)
        self._tracker = tracker
        self.begins_turns = begins_turns
        self.enforcement = check_enforcement(
            "enforcement", tracker.config.enforcement if enforcement is None else enforcement
        )

    async def should_continue(self, iteration: int, tools_used: "list[str]") -> bool:
        """Allow the next LLM call unless the turn is cut off; iteration 0 begins a new turn."""
        if iteration == 0 and self.begins_turns:
            self._tracker.reset()
            return True
        return self.enforcement != Enforcement.CUTOFF or not self._tracker.is_at_limit()

    async def on_limit_reached(self, iteration: int, tools_used: "list[str]") -> str:
        """Return the text that ends the turn."""
        from budget_core.enforcement import last_words  # loaded for the first turn that is stopped

        return last_words(self._tracker, self.enforcement)
