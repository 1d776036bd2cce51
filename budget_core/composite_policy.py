"""Let several policies end a loop."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core._types import IterationPolicy


class CompositePolicy:
    """Several policies as one: the first to refuse ends the turn, in its own words.

    Every policy sees every turn's start (iteration 0), whatever the others say, so none misses a
    reset. One loop drives one composite. Raises `ValueError` without any policy.
    """

    def __init__(self, *policies: "IterationPolicy") -> None:
        if not policies:
            raise ValueError("CompositePolicy needs at least one policy")
        for policy in policies:
            if not hasattr(policy, "should_continue"):
                from budget_core.errors import refuse

                refuse("policies", "policies with should_continue", policy)
        self._policies = policies
        self._speaker = policies[0]

    async def should_continue(self, iteration: int, tools_used: "list[str]") -> bool:
        """Allow the next LLM call if every policy does."""
        allowed = True
        for policy in self._policies:
            if not await policy.should_continue(iteration, tools_used) and allowed:
                allowed = False
                self._speaker = policy
            if not allowed and iteration > 0:
                break
        return allowed

    async def on_limit_reached(self, iteration: int, tools_used: "list[str]") -> str:
        """Return the text of the policy that refused."""
        return await self._speaker.on_limit_reached(iteration, tools_used)
