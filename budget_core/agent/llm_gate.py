"""The one way from a run to its model: every call is admitted, bounded, counted and settled."""

from budget_core.agent.allowance_tree import smaller_limit
from budget_core.agent.cancellation import CutShortError, call_within
from budget_core.agent.llm_call import EnvelopeAccount, LlmCall, Request
from budget_core.agent.stop import StoppedError, StopReason, StopRequested, in_words
from budget_core.agent.wind_down import WindDown
from budget_core.checks import check_limit
from budget_core.thresholds import as_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import Axis, Hook, Messages, Provider
    from budget_core.agent.envelope import Envelope
    from budget_core.agent.middleware import Middleware
    from budget_core.agent.stop_condition import StopCondition
    from budget_core.ledger._types import AnyLedger
    from budget_core.turn_state import TurnRuntimeState

AT_ONCE = (  # kinds of reasons that end a run without a final call
    StopReason.EXPLICIT_STOP,
    StopReason.CANCELLED,
    StopReason.CONTEXT_LIMIT,
    StopReason.CUT_OFF,
    StopReason.FAILED,
)


class Gate:
    """Stands between one run and its model, and keeps the run within its envelope.

    Before each call it checks every limit and condition, holds the tokens and the money that the
    call may use, and tells the provider how long its answer may be. Afterwards it counts what the
    provider reports. At a limit it makes one final call from what was kept back.

    - `model`: the model that answers, by default the provider's.
    - `fallback_model`: makes the final call, and any call that the first's price does not allow.
    - `wind_down`: when the model is notified, and loses its tools.
    - `stop_when`: a `StopCondition` beside the budget's own limits.
    - `middleware`: called in this order before a call, in reverse after it.
    - `prices`: `get(model)` returns a `Price` or `None`. Without prices money is not counted, and
      where it is limited no call is made.
    - `count_tokens(messages, tools)`: returns the size of a prompt, such as `estimate_tokens`;
      without it a prompt is counted when it is reported.
    - `compact(messages)`: returns shorter messages, asked where `max_context_tokens` is exceeded.
    - `essential`: the names of the tools that are offered longest.
    - `on_event(kind, **fields)`: called with `compacted`, `turn_started`, `notice`, `response` and
      `response_failed`.
    - `state`: a `TurnRuntimeState` that counts tokens too.
    - `ledger`, `account`, `max_tokens`, `ttl`, `wait`, `expect`: the calls draw on that account
      too, as for `Envelope.open`.

    `reason` is why the run is over, `turn` the number of calls, `partial_text` the text of calls
    that broke off. Where its owner `reflects`, an answer without tool calls need not be the last.
    """

    reflects = False

    def __init__(
        self,
        inner: "Provider",
        envelope: "Envelope",
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
        wait: float | None = None,
        expect: int | str | None = None,
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
        self.emit = on_event or (lambda kind, **fields: None)
        self.state = state
        self.reason: StopReason | None = None
        self.turn = 0
        self.partial_text = ""
        self.wind_down = wind_down or WindDown()
        self.essential = set(essential)
        envelope.notes = {}
        if envelope.draw_on(ledger, account, max_tokens, ttl, wait, expect):
            envelope.ledger.refuse_twice(inner)
        self._accounts: list[Any] = [EnvelopeAccount(envelope, prices is not None)]
        self._final = None
        if envelope.ledger is not None:
            self._accounts.append(envelope.ledger)
            self._final = envelope.ledger.reserve_for(envelope)
        if stop_when is not None:
            stop_when.reset()

    async def ask(self, request: Request, on_delta: "Any" = None) -> "Any":
        """Return the model's answer to one request.

        It is the last answer if `reason` is set afterwards; `partial_text` is then what had come of
        the call before. Raises `StoppedError` if no call is made, or none succeeded.
        """
        messages, options = list(request.messages), dict(request.options)
        model, max_tokens = request.model, request.max_tokens
        envelope = self.envelope
        reason = envelope.check()
        if self.stop_when is not None:
            self.stop_when.note(request.messages, envelope)
            reason = reason or self.stop_when.check(envelope)
        if reason is None:
            try:
                return await self._call(request, on_delta)
            except StoppedError as error:
                reason = error.reason
        self.reason = reason
        if self._final is not None and not self._final.begun and reason.error is not None:
            raise StoppedError(reason)
        broken = reason.kind == StopReason.PROVIDER_ERROR and not self.fallback_model
        is_over = reason.kind in AT_ONCE or broken or envelope.closing
        if is_over or envelope.budget.last_call is None:
            raise StoppedError(reason)
        envelope.begin_last_call()
        if envelope.check() is not None:
            raise StoppedError(reason)
        if not request.compacted:
            request.messages = messages
        request.options, request.max_tokens = options, max_tokens
        request.model = self.fallback_model or model
        try:
            return await self._call(request, on_delta, reason)
        except StoppedError as error:
            kind = error.reason.kind
            if kind in AT_ONCE and kind != StopReason.CONTEXT_LIMIT:
                self.reason = reason = error.reason
            raise StoppedError(reason)

    async def run_hook(self, hook: "Callable[..., Any]", *arguments: "Any") -> "Any":
        """Return the result of a user's hook; `StoppedError` if it stops the run or fails.

        An async hook is cancelled when the time is over or the run is stopped.
        """
        try:
            return await call_within(self.envelope, hook, *arguments)
        except StopRequested as error:
            reason = StopReason(StopReason.EXPLICIT_STOP, error.reason)
        except CutShortError as error:
            reason = error.reason
        except Exception as error:  # noqa: BLE001 - a hook may raise anything, no work is lost
            reason = StopReason(StopReason.FAILED, in_words(error), error=error)
        raise StoppedError(reason)

    async def _call(
        self, request: Request, on_delta: "Any", last: StopReason | None = None
    ) -> "Any":
        """Make one call, the last one where a reason is given."""
        for one in self.middleware:
            await self.run_hook(one.before_llm, request, self.envelope)
        reason = self.envelope.check()
        if reason is not None and last is None:
            raise StoppedError(reason)
        axes = [] if self.envelope.ledger is None else await self._axes()
        stage, texts = self.wind_down.apply(request, self.envelope, axes, self.essential, last)
        notices = as_messages(texts)
        before = self.partial_text
        if before:
            notices.insert(0, {"role": "assistant", "content": before})
        call = await self._admit(request, notices, last is not None)
        model = call.model
        self.turn += 1
        try:
            self.emit("turn_started", turn=self.turn, remaining=call.left, stage=stage, model=model)
            for text in texts:
                self.emit("notice", text=text, stage=stage)
            await call.make(on_delta)
        finally:
            if self._final is not None:
                self._final.over = last is not None or self._is_answered(call)
            await call.end(self.state)
            self.partial_text = joined(before, call.text)
        if call.reason is not None:
            self.emit("response_failed", reason=call.reason, usage=call.report, model=model)
            raise StoppedError(call.reason)
        self.emit("response", response=call.response, usage=call.report, model=model)
        response = await self._after_llm(request, call)
        self.partial_text = before
        return response

    def _is_answered(self, call: LlmCall) -> bool:
        """Tell whether no call follows this one, as far as is known before its settlement."""
        if call.response is None or call.response.tool_calls or self.middleware:
            return False
        return not self.reflects or self.envelope.reflections.left() == 0

    async def _axes(self) -> "list[Axis]":
        """Return the axes of the account, its balance read again if that is due."""
        balance = self.envelope.ledger.cached_balance
        if await self.run_hook(balance.look):
            self.envelope.notes["notice"] = 0
        axes: list[Axis] = balance.axes(None if self._final is None else self._final.held)
        return axes

    async def close(self) -> None:
        """Give back what is held for a final call, at the run's end."""
        if self._final is not None:
            await self._final.give_back()

    def abandon(self) -> None:
        """Do as `close` where nothing can be awaited: the ledger gets it with its next delivery."""
        if self._final is not None:
            self._final.abandon()

    async def _admit(self, request: Request, notices: "Messages", last: bool) -> LlmCall:
        """Return a call that may be made; where the model is too dear, it is the fallback's."""
        prompt = await self._fit(request, notices)
        check_limit("max_tokens of the request", request.max_tokens)
        envelope = self.envelope
        limit = smaller_limit(request.max_tokens, envelope.max_tokens_per_turn)
        models = [request.model or self.model or self.inner.get_default_model()]
        if self.fallback_model not in (None, models[0]):
            models.append(self.fallback_model)
        first: Any = None
        for model in models:
            call = LlmCall(self.inner, envelope, request, notices)
            call.model, call.prompt, call.limit = model, prompt, limit
            call.reserve, call.is_last = self._final, last
            if self.prices is not None:
                from budget_core.prices import call_price  # loaded where there are prices

                call.price = call_price(self.prices, str(model))
            try:
                await call.admit(self._accounts)
                return call
            except StoppedError as error:
                first = first or error.reason
        raise StoppedError(first)

    async def _fit(self, request: Request, notices: "Messages") -> int:
        """Return the size of the prompt as far as it is counted; compact it if need be."""
        cap = self.envelope.max_context_tokens
        if self.count_tokens is None and cap is None:
            return 0
        count = self.count_tokens
        if count is None:
            from budget_core.usage_estimate import estimate_tokens  # loaded for the first bound

            count = estimate_tokens
        size: int = count(request.messages + notices, request.tools)
        if self.compact is not None and cap is not None and size > cap:
            request.messages = list(await self.run_hook(self.compact, request.messages))
            request.compacted = True
            if self.state is not None:
                self.state.context_was_compacted = True
            before, size = size, count(request.messages + notices, request.tools)
            self.emit("compacted", before=before, after=size)
        if cap is None or size <= cap:
            return 0 if self.count_tokens is None else size
        kind, scope = StopReason.CONTEXT_LIMIT, self.envelope.name
        raise StoppedError(StopReason(kind, "", "context tokens", size, cap, scope=scope))

    async def _after_llm(self, request: Request, call: LlmCall) -> "Any":
        """Return an answer as middleware leaves it, and note why the run is over with it, if so."""
        response = call.response
        try:
            for one in reversed(self.middleware):
                changed = await self.run_hook(one.after_llm, request, response, self.envelope)
                response = response if changed is None else changed
        except StoppedError as error:
            if error.reason.kind not in AT_ONCE:
                raise
            self.reason = error.reason
        scope = getattr(response, "cut_off_by", None)
        if scope:
            self.reason = StopReason(StopReason.CUT_OFF, response.content or "", scope=scope)
        elif response.finish_reason == "length":
            self._note_cut(response, call)
        return response

    def _note_cut(self, response: "Any", call: LlmCall) -> None:
        """Note that an answer ended at its limit: without tool calls, the run is over with it."""
        if self.reason is not None or response.tool_calls:
            return
        limit, by = call.limit, getattr(response, "cut_short_by", None)
        text = "the answer was cut off at the end of its tokens"
        if by is not None:
            text += ", which were what the account could afford"
        kind, scope = StopReason.TOKEN_BUDGET, by or self.envelope.name
        used = None if limit is None else call.usage.output
        self.reason = StopReason(kind, text, "completion tokens", used, limit, scope=scope)


def joined(before: str, text: str | None) -> str:
    """Return two texts as one, an empty one left out."""
    return f"{before}\n\n{text}" if before and text else before or text or ""
