"""The core's exoclaw adapter, its envelopes under a lock, and turns that a journal replays."""

from typing import Any

from budget_core.agent import exoclaw as core
from budget_core.prices import price_of
from budget_core.usage_estimate import estimate_tokens, estimated
from budget_cpython.agent.envelope import Envelope


class ExoclawBudget(core.ExoclawBudget):
    """exoclaw's provider and iteration policy in one, whose budget threads may share.

    Give it to an `AgentLoop` as `provider` and as `iteration_policy`. `provider` is the model's.
    With a `Budget` each turn of the loop has a whole one; an `Envelope` is used as it is. Further
    options are those of an `Operative`: `wind_down`, `stop_when`, `prices` and so on. `budget` is
    the `Envelope` in use, and `reason` why a turn was stopped, or `None`.

    Answers that a durable executor takes from its journal, when it goes on with a turn after a
    crash, count as well: their calls and tool calls in full, their tokens by an estimate.
    """

    ENVELOPE = Envelope
    _answers = _tools = 0  # of this turn
    _replayed = 0  # answers from the journal whose tokens are not counted yet

    async def should_continue(self, iteration: int, tools_used: list[str]) -> bool:
        """Allow the next LLM call as the core does; count an answer that came from a journal."""
        goes_on = await super().should_continue(iteration, tools_used)
        if iteration == 0:
            self._answers = self._tools = self._replayed = 0
        missed = max(0, iteration - self._answers)
        if missed:
            self.budget.turns.charge(missed)
            for name in tools_used[self._tools :]:
                self._charge_tool(name)
        self._answers += missed
        self._replayed += missed
        self._tools = len(tools_used)
        return goes_on

    async def chat(
        self, messages: Any, tools: Any = None, model: str | None = None, *rest: Any, **options: Any
    ) -> Any:
        """Answer as the core does, once the answers from a journal are counted."""
        replayed, self._replayed = self._replayed, 0
        self._answers += 1
        if replayed:
            self._count(messages, tools, model or self.get_default_model(), replayed)
        return await super().chat(messages, tools, model, *rest, **options)

    def _charge_tool(self, name: str) -> None:
        self.budget.tool_calls.charge()
        if any(name in one.budget.max_calls for one in self.budget.chain()):
            self.budget.calls(name).charge()

    def _count(self, messages: list[Any], tools: Any, model: str, answers: int) -> None:
        """Count the tokens of the last so many answers in a conversation, and their prompts'."""
        prices = self._options.get("prices")
        price = None if prices is None else price_of(prices, model)
        places = [at for at, one in enumerate(messages) if one["role"] == "assistant"]
        for at in places[-answers:]:
            prompt = estimate_tokens(messages[:at], tools)
            usage = estimated(prompt, estimate_tokens(messages[at : at + 1]))
            nano_usd = 0 if price is None else price.cost_of(usage)[0]
            unpriced = prices is not None and price is None
            self.budget.book(usage.total, nano_usd, ["estimated", *["unpriced"] * unpriced])
