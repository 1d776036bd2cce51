"""One call of a model that was admitted: made within the run's time, and settled in any case."""

from budget_core.agent.cancellation import CutShortError, fly, why_over
from budget_core.agent.stop import StopReason, in_words
from budget_core.provider import ChatResponse, settle
from budget_core.usage import Usage, read_usage
from budget_core.usage_estimate import as_report, at_least_estimated, is_billed
from budget_core.usage_stream import AnswerTooLongError, StreamedAnswer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Messages, Provider
    from budget_core.agent.call_hold import CallHold
    from budget_core.agent.middleware import Request
    from budget_core.prices import Price
    from budget_core.turn_state import TurnRuntimeState


class LlmCall:
    """What an admitted call asks for and comes to.

    `response` is the answer, or `reason` why there is none; `heard` what text has come; `usage`
    what was used, `nano_usd` what that cost, `None` where no price is known, and `report` the
    provider's report or an estimate in its form; `billed` whether the call may cost something.
    `priced` tells whether money is counted at all. `ledger` is what is held for the call in a
    ledger, if anything.
    """

    response: "Any" = None
    reason: StopReason | None = None
    report: "Any" = None
    nano_usd: int | None = 0
    heard = ""
    billed = False
    ledger: "Any" = None

    def __init__(
        self,
        inner: "Provider",
        model: str,
        hold: "CallHold",
        price: "Price | None",
        priced: bool,
    ) -> None:
        self.inner = inner
        self.model = model
        self.limit = hold.limit
        self.hold = hold
        self.price = price
        self._priced = priced
        self._asked: dict[str, Any] = {}
        self._streamed = StreamedAnswer()
        self.usage = read_usage(None)

    def ask(self, request: "Request", said: "Messages", on_delta: "Any") -> None:
        """Say what to ask for: a request, what is `said` with it once, and whether to stream."""
        self._asked = asked = dict(request.options, model=self.model, tools=request.tools)
        asked["messages"] = request.messages + said
        if self.limit is not None:
            asked["max_tokens"] = self.limit
        if on_delta is not None and getattr(self.inner, "supports_response_deltas", False):
            asked["on_delta"] = self._streamed = StreamedAnswer(on_delta, self.limit)

    async def make(self) -> None:
        """Make the call; whatever it raises but a cancellation becomes the reason."""
        self.billed = True
        try:
            await fly(self._chat, self.hold.envelope)
        except CutShortError:
            self.reason = why_over(self.hold.envelope)
        except Exception as error:  # noqa: BLE001 - a provider may raise anything
            self.billed = is_billed(error)
            self.reason = StopReason(StopReason.PROVIDER_ERROR, in_words(error), error=error)
        if self.response is not None:
            self.reason = None
        elif self.reason is None:
            self.reason = StopReason(StopReason.PROVIDER_ERROR, "it returned nothing")

    async def _chat(self) -> None:
        try:
            response = await settle(self.inner.chat(**self._asked))
            if response is not None:  # now, and not later, is when it may fail to be an answer
                _ = (response.content, response.tool_calls, response.finish_reason)
        except AnswerTooLongError:
            response = ChatResponse(self._streamed.text, finish_reason="length")
        self.response = response

    async def settle(self, state: "TurnRuntimeState | None") -> None:
        """Count what was reported, or an estimate where nothing was, in the place of the hold."""
        self.heard = getattr(self.response, "content", None) or self._streamed.text
        try:
            unclear = self._count()
            tokens, nano_usd = self.usage.total, self.nano_usd
        except Exception:  # noqa: BLE001 - a call that cannot be counted costs what was held
            tokens, nano_usd, unclear = self.hold.tokens, self.hold.nano_usd, ["missing"]
        self.hold.settle(tokens, nano_usd or 0, *unclear)
        if state is not None:
            state.add_usage(self.usage)
        if self.ledger is not None:
            await self.ledger.account.settle(self, self.ledger)

    def _count(self) -> "list[str]":
        """Note what was used and what it cost; return the counts of poorly known calls to raise."""
        messages, tools = self._asked.get("messages", []), self._asked.get("tools")
        usage = self._streamed.usage_of(self.response, messages, tools)
        if self.billed:
            usage = at_least_estimated(usage, self.response, messages, tools)
        if usage.status == Usage.ESTIMATED:
            self.report = as_report(usage)
        else:
            self.report = getattr(self.response, "usage", self._streamed.usage)
        unclear = {Usage.ESTIMATED: ["estimated"], Usage.INVALID: ["missing"]}.get(usage.status, [])
        if self.price is not None:
            from budget_core.prices import cost_of_usage  # loaded where there are prices

            self.nano_usd = cost_of_usage(usage, self.price)
        else:
            self.nano_usd = None
            if self._priced and self.billed:
                unclear.append("unpriced")
        self.usage = usage
        return unclear
