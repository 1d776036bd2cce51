"""One call of a model that was admitted: made within the run's time, and settled in any case."""

from budget_core.dialects import read_report, token_counts
from budget_core.estimate import better_report, is_billed
from budget_core.flight import CutShortError, fly, why_over
from budget_core.provider import ChatResponse, settle
from budget_core.received import EnoughError, Received
from budget_core.stop import StopReason, in_words
from budget_core.usage import ESTIMATED, INVALID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.hold import CallHold
    from budget_core.shapes import *


class LlmCall:
    """What an admitted call asks for and comes to.

    `response` is the answer, or `reason` why there is none; `heard` what text has come; `usage` the
    provider's report or an estimate. `priced` tells whether money is counted at all.
    """

    response: "Any" = None
    reason: StopReason | None = None
    usage: "Any" = None
    heard = ""
    _billed = False

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
        self._hold = hold
        self._price = price
        self._priced = priced
        self._asked: dict[str, Any] = {}
        self._received = Received()

    def ask(self, request: "Request", said: "Messages", on_delta: "Any") -> None:
        """Say what to ask for: a request, what is `said` with it once, and whether to stream."""
        self._asked = asked = dict(request.options, model=self.model, tools=request.tools)
        asked["messages"] = request.messages + said
        if self.limit is not None:
            asked["max_tokens"] = self.limit
        if on_delta is not None and getattr(self.inner, "supports_response_deltas", False):
            asked["on_delta"] = self._received = Received(on_delta, self.limit)

    async def make(self) -> None:
        """Make the call; whatever it raises but a cancellation becomes the reason."""
        self._billed = True
        try:
            await fly(self._chat, self._hold.envelope)
        except CutShortError:
            self.reason = why_over(self._hold.envelope)
        except Exception as error:  # noqa: BLE001 - a provider may raise anything
            self._billed = is_billed(error)
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
        except EnoughError:
            response = ChatResponse(self._received.text, finish_reason="length")
        self.response = response

    def settle(self, state: "TurnRuntimeState | None") -> None:
        """Count what was reported, or an estimate where nothing was, in the place of the hold."""
        self.heard = getattr(self.response, "content", None) or self._received.text
        try:
            tokens, nano_usd, unclear = self._reckoned()
        except Exception:  # noqa: BLE001 - what cannot be reckoned counts as what was held
            tokens, nano_usd, unclear = self._hold.tokens, self._hold.nano_usd, ["missing"]
        self._hold.settle(tokens, nano_usd, *unclear)
        if state is not None:
            state.add_tokens(**token_counts(self.usage))

    def _reckoned(self) -> "tuple[int, int, list[str]]":
        messages, tools = self._asked.get("messages", []), self._asked.get("tools")
        usage = self._received.settled(self.response, messages, tools)
        if self._billed:
            usage = better_report(usage, self.response, messages, tools)
        self.usage = usage
        tokens, cached, status = read_report(usage)
        unclear = {ESTIMATED: ["estimated"], INVALID: ["missing"]}.get(status, [])
        if self._price is None:
            return tokens, 0, unclear + ["unpriced"] if self._priced and self._billed else unclear
        counts = token_counts(usage)
        prompt = min(tokens, counts["input_tokens"] or 0)
        written = counts["cache_creation_tokens"]
        parts = (prompt, tokens - prompt, cached) + ((written,) if written else ())
        cost = self._price.cost(*parts)
        return tokens, max(0, cost), unclear
