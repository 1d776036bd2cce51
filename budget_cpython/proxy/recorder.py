"""The layers around a call's accounts: they record its usage, and keep what it sends unchanged."""

import time
from typing import Any

from budget_core.provider import ChatResponse, is_billed, usage_of
from budget_core.usage import Usage
from budget_core.usage_estimate import at_least_estimated
from budget_cpython.deadline import current_or_none
from budget_cpython.proxy.usage_by_model import ModelUsage, UsageByModel

MOST_MODELS = 1000
_LONG = 200  # tokens: of a shorter answer, most of the time may be that of the prompt
_SINKS = 16  # a part of the fastest pace, by which it sinks with each slower answer


class _Around:
    """What a call passes as it passes a layer, but that is no account."""

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


class Pace:
    """The tokens a second of the fastest recent answers, by model.

    The fastest one counts, as others had to wait for a queue, a long prompt or a slow client.
    """

    def __init__(self) -> None:
        self._paces: dict[str, float] = {}

    def learn(self, model: str, tokens: int, begun: float) -> None:
        """Note an answer of so many tokens to a call sent at `begun`; short ones say little."""
        if tokens < _LONG:
            return
        found = tokens / max(0.001, time.monotonic() - begun)
        if model not in self._paces and len(self._paces) >= MOST_MODELS:
            self._paces.clear()
        known = self._paces.get(model, 0)
        self._paces[model] = max(found, known - known / _SINKS)

    def tokens_in(self, model: str, seconds: float) -> int | None:
        """Return how many tokens come in a time, at least one; `None` if that is not known."""
        pace = self._paces.get(model)
        return None if pace is None else max(1, int(pace * seconds))


class Recorder(_Around):
    """The innermost layer: it adds what a call used to a record, by the model that answered.

    A `quiet` one sends the messages and tools that were asked, as `Quiet` says.
    """

    def __init__(
        self, record: UsageByModel, pace: Pace, prices: Any = None, quiet: bool = False
    ) -> None:
        super().__init__()
        self._record = record
        self._prices = prices
        self._quiet = quiet
        self._pace = pace

    async def chat(
        self, messages: Any, tools: Any, model: str, *, call: Any, **options: Any
    ) -> Any:
        """Wait for the answer, and note what it used."""
        if self._quiet:
            messages, tools = call.request.messages, call.request.tools
        options = self._in_time(model, options)
        asked = (model, messages, tools, options)
        begun = time.monotonic()
        try:
            response = await call.next_answer(messages, tools, model, **options)
        except BaseException as error:
            if isinstance(error, GeneratorExit) or is_billed(error):
                self._note(None, *asked)
            raise
        self._pace.learn(model, self._note(response, *asked), begun)
        return response

    def _in_time(self, model: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return a call's options with no longer an answer than comes before the deadline."""
        deadline, limit = current_or_none(), options.get("max_tokens")
        if deadline is None or deadline.is_never():
            return options
        most = self._pace.tokens_in(model, deadline.remaining_seconds())
        if most is None or (limit is not None and limit <= most):
            return options
        return {**options, "max_tokens": most}

    def _note(
        self, response: Any, model: str, messages: Any, tools: Any, options: dict[str, Any]
    ) -> int:
        """Record a call; return the tokens of its answer, 0 if they were not reported."""
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
        return (usage.output or 0) if measured else 0

    def _cost_of(
        self, model: str, usage: Usage, response: ChatResponse | None, options: dict[str, Any]
    ) -> tuple[int, bool]:
        price = None if self._prices is None else self._prices.get(model)
        if price is None:
            return 0, False
        tier = getattr(response, "service_tier", None) or options.get("service_tier")
        cost, full = price.cost_of(usage, tier)
        return cost, full
