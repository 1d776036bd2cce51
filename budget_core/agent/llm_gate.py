"""The one way from a run to its model: every call is admitted, bounded, counted and settled."""

from budget_core.agent.admission import StoppedError, admitted, fitting
from budget_core.agent.cancellation import CutShortError, fly, why_over
from budget_core.agent.middleware import Request
from budget_core.agent.stop import StopReason, StopRequested, in_words
from budget_core.agent.wind_down import Stages, WindDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import Hook, Provider
    from budget_core.agent.envelope import Envelope
    from budget_core.agent.middleware import Middleware
    from budget_core.agent.stop import StopCondition
    from budget_core.ledger._types import AnyLedger
    from budget_core.turn_state import TurnRuntimeState

FINAL = (
    StopReason.EXPLICIT_STOP,
    StopReason.CANCELLED,
    StopReason.CONTEXT_LIMIT,
    StopReason.CUT_OFF,
    StopReason.FAILED,
)


class Gate:
    """Stands between one run and its model, and keeps the run within its envelope.

    Before each call it checks every limit and condition, holds the tokens and the money that the
    call may use, and tells the provider how long its answer may be; afterwards it counts what the
    provider reports. At a limit it makes one last call with what was kept back.

    - `model`, `fallback_model`: who answers, the provider's default unless given; and who makes the
      last call, and any that the first's price does not allow.
    - `wind_down`: when the model is told, and loses its tools.
    - `stop_when`: a `StopCondition` beside the budget's own limits.
    - `middleware`: in their order before a call, the other way round after it.
    - `prices`: `get(model)` gives a `Price` or `None`. Without one money is not counted, and where
      it is limited no call is made.
    - `count_tokens(messages, tools)`: the size of a prompt, such as `estimate_tokens`; without it a
      prompt is counted when it is reported.
    - `compact(messages)`: returns shorter messages, asked where `max_context_tokens` is exceeded.
    - `essential`: the names of the tools that are offered longest.
    - `on_event(kind, **fields)`: told of `turn_started`, `notice`, `response`, `compacted`.
    - `state`: a `TurnRuntimeState` that counts tokens too.
    - `ledger` and `account`: the calls draw on that account too, as for `Envelope.open`.
    """

    def __init__(
        self,
        inner: "Provider",
        envelope: "Envelope",
        *,
        model: str | None = None,
        fallback_model: str | None = None,
        wind_down: WindDown | None = None,
        stop_when: "StopCondition | None" = None,
        middleware: "Sequence[Middleware]" = (),
        prices: "Any" = None,
        count_tokens: "Callable[[Any, Any], int] | None" = None,
        compact: "Callable[[Any], Any] | None" = None,
        essential: "Sequence[str]" = (),
        on_event: "Hook | None" = None,
        state: "TurnRuntimeState | None" = None,
        ledger: "AnyLedger | None" = None,
        account: str | None = None,
        max_tokens: int | None = None,
        ttl: float | None = None,
    ) -> None:
        self.inner = inner
        self.envelope = envelope
        self.model = model
        self.fallback_model = fallback_model
        self.stop_when = stop_when
        self.middleware = list(middleware)
        self.prices = prices
        self.count_tokens = count_tokens
        self.compact = compact
        self.report = on_event or _ignore
        self.state = state
        self.reason: StopReason | None = None
        self.turn = 0
        self.partial_text = self.heard = ""
        self.limit: int | None = None
        self.told: int | None = None
        self._stages = Stages(envelope, wind_down or WindDown(), set(essential))
        envelope.notes = {}
        if (ledger, account, max_tokens, ttl) != (None, None, None, None):
            from budget_core.ledger.for_run import account_for  # loaded for the first ledger

            envelope.ledger = account_for(envelope.ledger, ledger, account, max_tokens, ttl)
            envelope.ledger.refuse_twice(inner)
        if stop_when is not None:
            stop_when.reset()

    async def ask(self, request: Request, on_delta: "Any" = None) -> "Any":
        """Return the model's answer to one request.

        It is the last where `reason` is set afterwards; `partial_text` is then what had come of
        the call before, and `heard` of this one. Raises `StoppedError` where no call is to be made,
        or none succeeded.
        """
        spare = Request(
            request.messages, request.tools, request.model, request.max_tokens, request.options
        )
        if self.stop_when is not None:
            self.stop_when.note(request.messages, self.envelope)
        try:
            self._raise_if_over(self.stop_when)
            await self._heed_before(request)
            self._raise_if_over()
            return await self._call(request, on_delta, None)
        except StoppedError as error:
            self.reason = error.reason
        if not request.compacted:
            request.messages = spare.messages
        request.options, request.max_tokens = spare.options, spare.max_tokens
        request.model = self.fallback_model or spare.model
        return await self._last_call(request, on_delta, self.reason)

    async def _heed_before(self, request: Request) -> None:
        for one in self.middleware:
            await self.heed(one.before_llm, request, self.envelope)

    async def heed(self, hook: "Callable[..., Any]", *arguments: "Any") -> "Any":
        """Return what the caller's own code gives; `StoppedError` where it stops the run or fails.

        It is cancelled where it awaits when the time is over or the run is stopped.
        """
        try:
            return await fly(hook, self.envelope, arguments)
        except StopRequested as error:
            reason = StopReason(StopReason.EXPLICIT_STOP, error.reason)
        except CutShortError:
            reason = why_over(self.envelope)
        except Exception as error:  # noqa: BLE001 - it may raise anything, nothing is lost with it
            reason = StopReason(StopReason.FAILED, in_words(error), error=error)
        raise StoppedError(reason)

    async def _last_call(self, request: Request, on_delta: "Any", reason: StopReason) -> "Any":
        envelope = self.envelope
        broken = reason.kind == StopReason.PROVIDER_ERROR and not self.fallback_model
        if reason.kind in FINAL or broken or envelope.closing or envelope.budget.last_call is None:
            raise StoppedError(reason)
        envelope.begin_last_call()
        if envelope.check() is not None:
            raise StoppedError(reason)
        try:
            await self._heed_before(request)
            return await self._call(request, on_delta, reason)
        except StoppedError as error:
            kind = error.reason.kind
            if kind in FINAL and kind != StopReason.CONTEXT_LIMIT:
                self.reason = reason = error.reason
            raise StoppedError(reason)

    async def _call(self, request: Request, on_delta: "Any", reason: StopReason | None) -> "Any":
        stage, notices = self._stages.apply(request, reason)
        said = [{"role": "user", "content": notice} for notice in notices]
        if self.partial_text:
            said.insert(0, {"role": "assistant", "content": self.partial_text})
        prompt = await fitting(self, request, said)
        call, left = await admitted(self, request, prompt, said)
        self.turn += 1
        try:
            call.ask(request, said, on_delta)
            self.report(
                "turn_started", turn=self.turn, remaining=left, stage=stage, model=call.model
            )
            for notice in notices:
                self.report("notice", text=notice, stage=stage)
            await call.make()
        finally:
            await call.settle(self.state)
            self.limit, self.heard = call.limit, call.heard
            self.told = call.usage.output
        if call.reason is not None:
            self._keep()
            self.report("response_failed", reason=call.reason, usage=call.report, model=call.model)
            raise StoppedError(call.reason)
        self.report("response", response=call.response, usage=call.report, model=call.model)
        return await self._heeded(request, call.response)

    async def _heeded(self, request: Request, response: "Any") -> "Any":
        """Return an answer as middleware leaves it."""
        try:
            for one in reversed(self.middleware):
                changed = await self.heed(one.after_llm, request, response, self.envelope)
                response = response if changed is None else changed
        except StoppedError as error:
            if error.reason.kind not in FINAL:
                self._keep()
                raise
            self.reason = error.reason
        scope = getattr(response, "cut_off_by", None)
        if scope:
            self.reason = StopReason(StopReason.CUT_OFF, response.content or "", scope=scope)
        return response

    def cut_off(self) -> StopReason:
        """Return the reason of a run whose last answer ended for want of tokens."""
        text = "the answer was cut off at the end of its tokens"
        used = None if self.limit is None else self.told
        kind, scope = StopReason.TOKEN_BUDGET, self.envelope.name
        return StopReason(kind, text, "completion tokens", used, self.limit, scope=scope)

    def _keep(self) -> None:
        self.partial_text = joined(self.partial_text, self.heard)
        self.heard = ""

    def _raise_if_over(self, also: "StopCondition | None" = None) -> None:
        reason = self.envelope.check()
        if reason is None and also is not None:
            reason = also.check(self.envelope)
        if reason is not None:
            raise StoppedError(reason)


def joined(before: str, text: str | None) -> str:
    """Return two texts as one, an empty one left out."""
    return f"{before}\n\n{text}" if before and text else before or text or ""


def _ignore(kind: str, **fields: object) -> None:
    pass
