"""One LLM call that was admitted: made within the run's time, and settled in any case."""

from budget_core.agent.cancellation import CutShortError, call_within
from budget_core.agent.stop import StopReason, in_words
from budget_core.errors import ProviderError
from budget_core.provider import ChatResponse, is_billed, maybe_await, usage_of
from budget_core.usage import Usage, read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_core._types import Messages, Provider, Tools
    from budget_core.agent.admission import Admission
    from budget_core.turn_state import TurnRuntimeState


class Request:
    """What is about to be sent to a model; middleware may change it.

    - `messages`, `tools`: copies of the lists; `tools` are definitions, or `None`.
    - `model`: `None` is the provider's default.
    - `max_tokens`: of the answer; the budget lowers it further afterwards.
    - `options`: further keywords of the provider's `chat`.
    - `compacted`: whether the messages replace those of the conversation.
    """

    def __init__(
        self,
        messages: "Sequence[dict[str, Any]]",
        tools: "Tools | None" = None,
        model: str | None = None,
        max_tokens: int | None = None,
        options: "dict[str, Any] | None" = None,
    ) -> None:
        self.messages = list(messages)
        self.tools = list(tools) if tools else None
        self.model = model
        self.max_tokens = max_tokens
        self.options = dict(options or {})
        self.compacted = False


class LlmCall:
    """What an admitted call asks for, and what became of it.

    - `hold`: its `Admission`; `ledger`: what is held for it in a ledger, if anything.
    - `response`: the answer, or `reason`: why there is none. `text`: what has come of the answer.
    - `usage`: what was used. `nano_usd`: what that cost, `None` where no price is known.
    - `report`: the provider's report, or an estimate in its form.
    - `billed`: whether the call may cost something. `priced`: whether `nano_usd` is all of that.

    `counted` tells whether money is counted at all.
    """

    response: "Any" = None
    reason: StopReason | None = None
    report: "Any" = None
    nano_usd: int | None = 0
    text = ""
    billed = False
    priced = True
    ledger: "Any" = None
    _streamed: "Any" = None

    def __init__(self, inner: "Provider", hold: "Admission", counted: bool) -> None:
        self.inner = inner
        self.hold = hold
        self._counted = counted
        self._asked: dict[str, Any] = {}
        self.usage = read_usage(None)

    async def make(self, request: Request, notices: "Messages", on_delta: "Any") -> None:
        """Make a call, with the `notices` that go with it once, and with a stream.

        An exception of the provider becomes the reason.
        """
        self._asked = asked = dict(request.options, model=self.hold.model, tools=request.tools)
        asked["messages"] = request.messages + notices
        if self.hold.limit is not None:
            asked["max_tokens"] = self.hold.limit
        if on_delta is not None and getattr(self.inner, "supports_response_deltas", False):
            from budget_core.usage_stream import StreamedAnswer  # loaded for the first stream

            asked["on_delta"] = self._streamed = StreamedAnswer(on_delta, self.hold.limit)
        if getattr(self.inner, "supports_left_s", False) is True:
            asked["left_s"] = self.hold.envelope.remaining_s
        self.billed = True
        try:
            await call_within(self.hold.envelope, self._chat)
        except CutShortError as error:
            self.reason = error.reason
        except Exception as error:  # noqa: BLE001 - a provider may raise anything
            too_long = type(error).__name__ == "ContextWindowExceededError"  # as exoclaw names it
            kind = StopReason.CONTEXT_LIMIT if too_long else StopReason.PROVIDER_ERROR
            self.billed = not too_long and is_billed(error)
            self.reason = StopReason(kind, in_words(error), error=error)
        if self.response is not None:
            self.reason = None
        elif self.reason is None:
            self.reason = StopReason(StopReason.PROVIDER_ERROR, "it returned nothing")

    async def _chat(self) -> None:
        try:
            response = await maybe_await(self.inner.chat(**self._asked))
            if response is not None:  # a malformed answer raises here, not later
                _ = (response.content, response.tool_calls)
                if response.finish_reason == "error":  # exoclaw's word for a failure
                    raise ProviderError(0, text_of(response.content) or "the provider failed")
        except Exception:
            if self._streamed is None or not self._streamed.cut:
                raise
            response = ChatResponse(self._streamed.text, finish_reason="length")
        self.response = response

    async def settle(self, state: "TurnRuntimeState | None") -> None:
        """Count what was reported, or an estimate where nothing was, in the place of the hold."""
        self.text = text_of(getattr(self.response, "content", None)) or ""
        if self._streamed is not None:
            self.text = self.text or self._streamed.text
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
        usage, streamed = usage_of(self.response), self._streamed
        if streamed is not None:
            usage = streamed.usage_of(self.response, messages, tools)
        if self.billed and usage.status in usage.UNCLEAR:
            from budget_core.usage_estimate import at_least_estimated  # for the first of those

            usage = at_least_estimated(usage, self.response, messages, tools)
        if usage.status == Usage.ESTIMATED:
            from budget_core.usage_estimate import as_report

            self.report = as_report(usage)
        else:
            self.report = getattr(self.response, "usage", streamed and streamed.usage)
        unclear = {Usage.ESTIMATED: ["estimated"], Usage.INVALID: ["missing"]}.get(usage.status, [])
        made = getattr(self.reason, "error", None) if self.response is None else self.response
        attempts = getattr(made, "attempts", 1)
        unclear += ["retries"] * (attempts - 1 if type(attempts) is int else 0)
        if self.hold.price is not None and self.billed:
            tier = getattr(self.response, "service_tier", None) or self._asked.get("service_tier")
            self.nano_usd, self.priced = self.hold.price.cost_of(usage, tier)
            if not self.priced:
                unclear.append("unpriced")
        elif self.hold.price is None:
            self.nano_usd = None
            if self._counted and self.billed:
                unclear.append("unpriced")
        self.usage = usage
        return unclear


def text_of(content: "Any") -> str | None:
    """Return an answer's content as text, whatever it is; `None` where there is none."""
    if content is None or isinstance(content, str):
        return content
    from budget_core.agent.content import text_in  # loaded for the first that is no text

    return text_in(content)
