"""The one way from a run to its model: every call is admitted, bounded, counted and settled."""

from budget_core.bill import settle_call
from budget_core.dialects import token_counts
from budget_core.errors import BudgetError, ProviderError
from budget_core.flight import CutShortError, fly, until, why_over
from budget_core.hold import admit
from budget_core.provider import ChatResponse, settle
from budget_core.stop import StopReason, StopRequested, in_words
from budget_core.wind_down import Stages, WindDown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.hold import Hold
    from budget_core.middleware import Request
    from budget_core.shapes import *

FINAL = (
    StopReason.EXPLICIT_STOP,
    StopReason.CANCELLED,
    StopReason.CONTEXT_LIMIT,
    StopReason.CUT_OFF,
    StopReason.FAILED,
)


class StoppedError(BudgetError):
    """No further LLM call is made in this run; `reason` says why."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(str(reason))
        self.reason = reason


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
        self._stages = Stages(envelope, wind_down or WindDown(), set(essential))
        if stop_when is not None:
            stop_when.reset()

    async def ask(self, request: "Request", on_delta: "Any" = None) -> "Any":
        """Return the model's answer to one request.

        It is the last where `reason` is set afterwards; `partial_text` is then what had come of
        the call before, and `heard` of this one. Raises `StoppedError` where no call is to be made,
        or none succeeded.
        """
        fingerprint = turn_print(request.messages)
        if fingerprint is not None:
            self.envelope.prints.append(fingerprint)
        try:
            for one in self.middleware:
                await self.heed(one.before_llm, request, self.envelope)
            self._raise_if_over()
            return await self._call(request, on_delta, None)
        except StoppedError as error:
            self.reason = error.reason
        return await self._last_call(request, on_delta, self.reason)

    def check(self) -> StopReason | None:
        """Return why no further call is to be made, or `None`."""
        reason = self.envelope.check()
        if reason is None and self.stop_when is not None:
            reason = self.stop_when.check(self.envelope)
        return reason

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

    async def _last_call(self, request: "Request", on_delta: "Any", reason: StopReason) -> "Any":
        envelope = self.envelope
        broken = reason.kind == StopReason.PROVIDER_ERROR and not self.fallback_model
        if reason.kind in FINAL or broken or envelope.closing or envelope.budget.last_call is None:
            raise StoppedError(reason)
        envelope.begin_last_call()
        if envelope.check() is not None:
            raise StoppedError(reason)
        request.model = self.fallback_model or request.model
        try:
            return await self._call(request, on_delta, reason)
        except StoppedError as error:
            if error.reason.kind in FINAL:
                self.reason = reason = error.reason
            raise StoppedError(reason)

    async def _call(self, request: "Request", on_delta: "Any", reason: StopReason | None) -> "Any":
        stage, notices = self._stages.apply(request, reason)
        said = [{"role": "user", "content": notice} for notice in notices]
        if self.partial_text:
            said.insert(0, {"role": "assistant", "content": self.partial_text})
        prompt = await self._fitting(request, said)
        hold, model, price = await self._admitted(request, prompt)
        self.turn += 1
        left = self.envelope.remaining()
        self.report("turn_started", turn=self.turn, remaining=left, stage=stage, model=model)
        for notice in notices:
            self.report("notice", text=notice, stage=stage)
        response, usage = await self._dispatch(request, said, on_delta, hold, model, price)
        self.report("response", response=response, usage=usage, model=model)
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

    async def _fitting(self, request: "Request", said: "Messages") -> int:
        """Return the size of the prompt as far as it is counted, compacted where it must be."""
        envelope = self.envelope
        if self.count_tokens is None and envelope.max_context_tokens is None:
            return 0
        count = self.count_tokens or _estimate
        size: int = count(request.messages + said, request.tools)
        if not envelope.fits_context(size) and self.compact is not None:
            request.messages = list(await self.heed(self.compact, request.messages))
            request.compacted = True
            if self.state is not None:
                self.state.context_was_compacted = True
            before, size = size, count(request.messages + said, request.tools)
            self.report("compacted", before=before, after=size)
        if envelope.fits_context(size):
            return 0 if self.count_tokens is None else size
        cap = envelope.max_context_tokens
        kind = StopReason.CONTEXT_LIMIT
        raise StoppedError(StopReason(kind, "", "context tokens", size, cap, scope=envelope.name))

    async def _admitted(self, request: "Request", prompt: int) -> "tuple[Hold, str, Price | None]":
        """Return what the call may use, and the model: the fallback where the first is too dear."""
        envelope = self.envelope
        limit = envelope.tightest_completion(request.max_tokens)
        model = request.model or self.model or self.inner.get_default_model()
        while True:
            price = None if self.prices is None else self.prices.get(model)

            def ask() -> "Any":
                hold, reason = admit(envelope, prompt, limit, price, model)  # noqa: B023
                return hold or reason or self.check()

            granted = await until(ask, envelope)
            if not isinstance(granted, StopReason):
                return granted, model, price
            fallback = self.fallback_model
            if fallback in (None, model):
                raise StoppedError(granted)
            model = fallback

    async def _dispatch(
        self,
        request: "Request",
        said: "Messages",
        on_delta: "Any",
        hold: "Hold",
        model: str,
        price: "Price | None",
    ) -> "tuple[Any, Any]":
        from budget_core.received import EnoughError, Received

        received = Received(on_delta, hold.limit)
        options = self._options(request, said, model, hold.limit, on_delta and received)
        response: Any = None
        reason, billed = None, True

        async def chat() -> None:
            nonlocal response
            try:
                response = await settle(self.inner.chat(**options))
            except EnoughError:
                response = ChatResponse(received.text, finish_reason="length")

        try:
            reason, billed = await self._outcome(chat)
        finally:
            priced = self.prices is not None
            usage = settle_call(hold, price, received, response, options, billed, priced)
            if self.state is not None:
                self.state.add_tokens(**token_counts(usage))
            self.heard = getattr(response, "content", None) or received.text
        if response is None:
            self._keep()
            reason = reason or StopReason(StopReason.PROVIDER_ERROR, "it returned nothing")
            self.report("response_failed", reason=reason, usage=usage, model=model)
            raise StoppedError(reason)
        self.limit = hold.limit
        return response, usage

    def _options(
        self,
        request: "Request",
        said: "Messages",
        model: str,
        limit: int | None,
        received: "Any",
    ) -> "dict[str, Any]":
        options = dict(request.options, messages=request.messages + said, tools=request.tools)
        options["model"] = model
        if limit is not None:
            options["max_tokens"] = limit
        if received is not None and getattr(self.inner, "supports_response_deltas", False):
            options["on_delta"] = received
        return options

    async def _outcome(self, chat: "Callable[[], Any]") -> "tuple[StopReason | None, bool]":
        """Make a call; return why it failed, if it did, and whether it may have been billed."""
        try:
            await fly(chat, self.envelope)
        except CutShortError:
            return why_over(self.envelope), True
        except Exception as error:  # noqa: BLE001 - a provider may raise anything
            billed = not (isinstance(error, ProviderError) and error.status >= 400)
            return StopReason(StopReason.PROVIDER_ERROR, in_words(error), error=error), billed
        return None, True

    def _keep(self) -> None:
        self.partial_text = joined(self.partial_text, self.heard)
        self.heard = ""

    def _raise_if_over(self) -> None:
        reason = self.check()
        if reason is not None:
            raise StoppedError(reason)


def turn_print(messages: "Messages") -> int | None:
    """Return a number for what the last turn of a conversation did, ids left out.

    Turns that said the same, called the same tools and were told the same have the same one.
    """
    done: list[str] = []
    for message in reversed(messages):
        done.append(repr(message.get("content")))
        if message.get("role") == "assistant":
            for call in message.get("tool_calls") or ():
                done.append(repr(sorted(call["function"].items())))
            return hash("\n".join(done))
        if message.get("role") != "tool":
            return None
    return None


def joined(before: str, text: str | None) -> str:
    """Return two texts as one, an empty one left out."""
    return f"{before}\n\n{text}" if before and text else before or text or ""


def _estimate(messages: "Any", tools: "Any") -> int:
    from budget_core.estimate import estimate_tokens

    return estimate_tokens(messages, tools)


def _ignore(kind: str, **fields: object) -> None:
    pass
