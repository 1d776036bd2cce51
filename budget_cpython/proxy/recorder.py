"""The layers around a call's accounts: they record its usage, and keep what it sends unchanged."""

from typing import Any

from budget_core.provider import ChatResponse, is_billed, usage_of
from budget_core.usage import Usage
from budget_core.usage_estimate import at_least_estimated
from budget_cpython.proxy.usage_by_model import ModelUsage, UsageByModel


class _Around:
    """What a call passes as it passes a layer, but that is no account."""

    max_tokens: int | None = None

    def __init__(self) -> None:
        self.ledger = self
        self.account = type(self).__name__

    def wrapper(self, is_blocking: bool) -> Any:
        """Return what calls pass."""
        return self


class Quiet(_Around):
    """The outermost layer of a call that takes no notices: the layers below see no tools.

    So they withdraw none. The tools still count as a part of the prompt. `Recorder` puts back what
    was asked.
    """

    async def chat(
        self, messages: Any, tools: Any, model: str, *, call: Any, **options: Any
    ) -> Any:
        """Pass a call on."""
        if tools:
            counted = {"name": "", "arguments": {"tools": tools}}
            messages = [*messages, {"role": "system", "tool_calls": [{"function": counted}]}]
        return await call.next_answer(messages, None, model, **options)


class Admission(_Around):
    """A layer of one call that tells whether it was admitted, and so may have been sent."""

    is_over = False

    async def chat(self, *arguments: Any, call: Any, **options: Any) -> Any:
        """Note it, and pass the call on."""
        self.is_over = True
        return await call.next_answer(*arguments, **options)


class Recorder(_Around):
    """The innermost layer: it adds what a call used to a record, by the model that answered.

    A `quiet` one sends the messages and tools that were asked, as `Quiet` says.
    """

    def __init__(self, record: UsageByModel, prices: Any = None, quiet: bool = False) -> None:
        super().__init__()
        self._record = record
        self._prices = prices
        self._quiet = quiet

    async def chat(
        self, messages: Any, tools: Any, model: str, *, call: Any, **options: Any
    ) -> Any:
        """Wait for the answer, and note what it used."""
        if self._quiet:
            messages, tools = call.request.messages, call.request.tools
        asked = (model, messages, tools, options)
        try:
            response = await call.next_answer(messages, tools, model, **options)
        except BaseException as error:
            if isinstance(error, GeneratorExit) or is_billed(error):
                self._note(None, *asked)
            raise
        self._note(response, *asked)
        return response

    def _note(
        self, response: Any, model: str, messages: Any, tools: Any, options: dict[str, Any]
    ) -> None:
        """Record a call."""
        streamed = options.get("on_delta")
        if streamed is None:
            usage = usage_of(response)
        else:
            usage = streamed.usage_of(response, messages, tools)
        measured = usage.status == Usage.MEASURED
        if not measured:
            usage = at_least_estimated(usage, response, messages, tools)
        found = (1, usage.input or 0, usage.output or 0, usage.cached)
        cost, full = self._cost_of(model, usage, response, options)
        self._record.add(model, ModelUsage(*found, cost, int(not measured), int(not full)))

    def _cost_of(
        self, model: str, usage: Usage, response: ChatResponse | None, options: dict[str, Any]
    ) -> tuple[int, bool]:
        price = None if self._prices is None else self._prices.get(model)
        if price is None:
            return 0, False
        tier = getattr(response, "service_tier", None) or options.get("service_tier")
        cost, full = price.cost_of(usage, tier)
        return cost, full
