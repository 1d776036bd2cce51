"""One LLM call: admitted in its turn, made within the run's time, and settled in any case.

What it may use is held before it is made, and calls are admitted in the order in which they came.
"""

import asyncio

from budget_core.agent.allowance_tree import smaller_limit
from budget_core.agent.cancellation import CutShortError, call_within, wait_until
from budget_core.agent.stop import StoppedError, StopReason, in_words
from budget_core.call import Call
from budget_core.errors import ProviderError
from budget_core.provider import is_too_long, maybe_await
from budget_core.usage import Usage, read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_core._types import CallPrice, Messages, Provider, Tools
    from budget_core.agent.allowance_tree import SharedAllowance
    from budget_core.agent.envelope import Envelope
    from budget_core.settlement import Settlement
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


class Admission:
    """The hold of one LLM call on an envelope: a turn, tokens and money; it waits for its turn.

    - `prompt`: the size of the prompt as far as it was counted.
    - `limit`: the most completion tokens; wanted, and once admitted, allowed. `None` is no bound.
    - `price`, `model`: what its tokens cost, where that is known, and the model's name.
    - `tokens`, `nano_usd`: what is held until the call is settled; its turn is used by then.
    - `lacking`: the count that it waits for, once it has to wait.
    - `left`: what the envelope had left before this call.
    - `call`: the `LlmCall` that is admitted, if it is that of a run.
    """

    tokens = nano_usd = 0
    call: "Any" = None
    lacking: "SharedAllowance | None" = None
    left: "dict[str, int | None]"

    def __init__(
        self,
        envelope: "Envelope",
        prompt: int = 0,
        limit: int | None = None,
        price: "CallPrice | None" = None,
        model: str = "",
    ) -> None:
        self.envelope = envelope
        self.limit = limit
        self.price = price
        self.model = model
        self._prompt = prompt

    def settle(self, tokens: int, nano_usd: int, *unclear: str) -> None:
        """Replace what is held by what was used, also if that is more; once for every call.

        `unclear` names the counts of poorly known calls to add to: `estimated`, `missing`,
        `unpriced`.
        """
        held = (self.tokens, self.nano_usd)
        self.tokens = self.nano_usd = 0
        self.envelope.book(tokens, nano_usd, unclear, *held)

    async def wait(self) -> None:
        """Return when the call is admitted: there is room, and it is this call's turn.

        Raises `StoppedError` if there will be no room, or the run ends first.
        """
        queue = self.envelope.queue
        self._loop: Any = asyncio.get_event_loop()
        queue.append(self)
        try:
            found = await wait_until(self._poll, self.envelope, self.envelope.remaining_s)
        finally:
            queue.remove(self)
            if self.lacking is not None:
                self.envelope.changed()
        if found is not self:
            raise StoppedError(found)

    def _poll(self) -> "Any":
        if self._is_first():
            self.left = self.envelope.remaining()
            found = self.claim()
            if found is not None:
                return found
        return self.envelope.check()

    def _is_first(self) -> bool:
        """Tell whether no earlier call waits for what this one would take."""
        own = [count for one in self.envelope.chain() for count in (one.tokens, one.nano_usd)]
        for earlier in self.envelope.queue:
            if earlier is self:
                break
            running = getattr(earlier._loop, "is_running", None)
            if earlier.lacking in own and (running is None or running()):  # else it was left behind
                return False
        return True

    def claim(self) -> "Admission | StopReason | None":
        """Claim a turn, tokens and money in one step, here and above.

        Return this call if it is admitted, or the reason why it never will be. Return `None` if
        calls in flight hold what is left: ask again when one of them is settled.
        """
        envelope = self.envelope
        with envelope.lock:
            reason = envelope.why_stopped() or self._room(False)[1]
            if reason is not None:
                return reason
            limit, reason = self._room(True)
            if reason is not None:
                axis = envelope.tokens if reason.axis == "tokens" else envelope.nano_usd
                self.lacking = axis.tightest()[0]
                return None
            self.limit = limit
            self.tokens = 0 if limit is None else self._prompt + limit
            self.nano_usd = 0 if self.price is None else self.price.cost(self._prompt, limit or 0)
            envelope.turns.add(1)
            envelope.tokens.add(0, self.tokens)
            envelope.nano_usd.add(0, self.nano_usd)
            return self

    def _room(self, held: bool) -> "tuple[int | None, StopReason | None]":
        """Return the completion tokens that there is room for, or why there is none."""
        envelope, prompt, limit = self.envelope, self._prompt, self.limit
        if envelope.turns.left() == 0:
            return 0, envelope.lacking("turns")
        if limit is not None and limit < 1:
            text = "a call may have no completion tokens"
            return 0, StopReason(StopReason.TOKEN_BUDGET, text, scope=envelope.name)
        tokens = self._left(envelope.tokens, held)
        money = self._left(envelope.nano_usd, held)
        if money is not None:
            if self.price is None:
                return 0, envelope.lacking("nano_usd", f"no price is known for {self.model}")
            money = self.price.affordable(money, prompt)
        for axis, room in (
            ("tokens", None if tokens is None else tokens - prompt),
            ("nano_usd", money),
        ):
            if room is None:
                continue
            if room < 1:
                text = f"a prompt of {prompt} tokens leaves no room for an answer" if prompt else ""
                if text and axis == "tokens" and (envelope.tokens.left(held) or 0) > prompt:
                    text += " and a final call"
                return 0, envelope.lacking(axis, text)
            limit = smaller_limit(limit, room)
        return limit, None

    def _left(self, count: "SharedAllowance", held: bool) -> int | None:
        """Return the amount that the call may use of one axis.

        Where its prompt is counted, that is at most half of what the envelope itself has: the
        prompt of the final call will be this one with its answer.
        """
        left = count.left(held)
        if left is not None and self._prompt and count.kept and not count.closing:
            left = min(left, (count.own_left(held) or 0) // 2)
        return left


class LlmCall(Call):
    """One LLM call of a run: what it asks for, and what became of it.

    - `prompt`: the size of its prompt, 0 if it was not counted.
    - `limit`: the most completion tokens; wanted, and once admitted, allowed. `None` is no bound.
    - `price`: what its tokens cost, where that is known.
    - `reserve`: what its run holds in a ledger for the final call; `is_last`: whether it is that.
    - `ledger`: what is held for it in a ledger; `left`: what the envelope had left before it.
    - `response`: the answer, or `reason` and `error`: why there is none. `text`: what has come of
      the answer.
    - `usage`: what was used. `nano_usd`: what that cost, `None` where no price is known.
    - `report`: the provider's report, or an estimate in its form.
    """

    model: str
    prompt = 0
    limit: int | None = None
    price: "CallPrice | None" = None
    reserve: "Any" = None
    is_last = False
    ledger: "Any" = None
    left: "dict[str, int | None]"
    response: "Any" = None
    reason: StopReason | None = None
    report: "Any" = None
    nano_usd: int | None = 0
    text = ""
    error: "Exception | None" = None
    _is_made = False

    def __init__(
        self, inner: "Provider", envelope: "Envelope", request: Request, notices: "Messages"
    ) -> None:
        super().__init__(request.messages + notices, request.tools, None, dict(request.options))
        self.inner = inner
        self.envelope = envelope
        self.usage = read_usage(None)

    async def make(self, on_delta: "Any") -> None:
        """Make the call, with a stream; an exception of the provider becomes the reason."""
        options = self.options
        if self.limit is not None:
            options["max_tokens"] = self.limit
        if on_delta is not None and getattr(self.inner, "supports_response_deltas", False):
            from budget_core.usage_stream import StreamedAnswer  # loaded for the first stream

            options["on_delta"] = StreamedAnswer(on_delta, self.limit)
        if getattr(self.inner, "supports_left_s", False) is True:
            options["left_s"] = self.envelope.remaining_s
        failure: Exception | None = None
        self._is_made = True
        try:
            await call_within(self.envelope, self._chat)
        except CutShortError as error:
            failure = error
            self.reason = error.reason
        except Exception as error:  # noqa: BLE001 - a provider may raise anything
            failure = error
            too_long = is_too_long(error)
            kind = StopReason.CONTEXT_LIMIT if too_long else StopReason.PROVIDER_ERROR
            self.reason = StopReason(kind, in_words(error), error=error)
        if self.response is not None:
            self.reason = None
            return
        self.error = failure
        if self.reason is None:
            self.reason = StopReason(StopReason.PROVIDER_ERROR, "it returned nothing")

    async def _chat(self) -> None:
        asked = dict(self.options, messages=self.messages, tools=self.tools, model=self.model)
        try:
            response = await maybe_await(self.inner.chat(**asked))
            if response is not None:  # a malformed answer raises here, not later
                _ = (response.content, response.tool_calls)
                if response.finish_reason == "error":  # exoclaw's word for a failure
                    raise ProviderError(0, text_of(response.content) or "the provider failed")
        except Exception as error:
            streamed = self.options.get("on_delta")
            response = None if streamed is None else streamed.cut_answer(error)
            if response is None:
                raise
            self.error = error
        self.response = response

    async def end(self, state: "TurnRuntimeState | None") -> None:
        """Settle the call, and count its usage in a turn's state too."""
        self.text = text_of(getattr(self.response, "content", None)) or ""
        streamed = self.options.get("on_delta")
        if streamed is not None:
            self.text = self.text or streamed.text
        try:
            await self.settle(self.response, self.error, self._is_made)
        finally:
            if state is not None:
                state.add_usage(self.usage)


class EnvelopeAccount:
    """An envelope, as an account that the calls of a run draw on; `counts_money` if it has prices.

    Its hold is an `Admission`. A call that broke off counts as at least what its ledger charged.
    """

    def __init__(self, envelope: "Envelope", counts_money: bool) -> None:
        self._envelope = envelope
        self._counts_money = counts_money

    async def hold(self, call: LlmCall) -> Admission:
        """Return when a call is admitted; raises `StoppedError` if it never will be."""
        held = Admission(self._envelope, call.prompt, call.limit, call.price, call.model)
        held.call = call
        await held.wait()
        call.limit, call.left = held.limit, held.left
        return held

    async def settle(self, hold: Admission, outcome: "Settlement") -> None:
        """Replace the hold by the call's usage. A call that was not sent takes no turn."""
        if not outcome.sent:
            with self._envelope.lock:
                self._envelope.turns.add(-1)
            hold.settle(0, 0)
            return
        call = hold.call
        try:
            unclear = self._count(call, outcome)
            tokens, nano_usd = call.usage.total, call.nano_usd
        except Exception:  # noqa: BLE001 - a call that cannot be counted costs what was held
            tokens, nano_usd, unclear = hold.tokens, hold.nano_usd, ["missing"]
        hold.settle(tokens, nano_usd or 0, *unclear)

    def _count(self, call: LlmCall, outcome: "Settlement") -> "list[str]":
        """Note what was used and what it cost; return the counts of poorly known calls to raise."""
        charged = (call.ledger and call.ledger.charged) or {}  # it is settled first
        broken = outcome.billed and outcome.failed
        if broken:
            outcome.raise_to(charged.get("tokens", 0))
        usage = outcome.usage
        if usage.status == Usage.ESTIMATED:
            from budget_core.usage_estimate import as_report

            call.report = as_report(usage)
        else:
            streamed = call.options.get("on_delta")
            call.report = getattr(call.response, "usage", streamed and streamed.usage)
        unclear = {Usage.ESTIMATED: ["estimated"], Usage.INVALID: ["missing"]}.get(
            usage.status, ["estimated"] * broken
        )
        made = call.error if call.response is None else call.response
        attempts = getattr(made, "attempts", 1)
        unclear += ["retries"] * (attempts - 1 if type(attempts) is int else 0)
        call.nano_usd, full = outcome.cost(call.price)
        if broken and call.nano_usd is not None:
            call.nano_usd = max(call.nano_usd, charged.get("nano_usd", 0))
        if not full and (call.price is not None or self._counts_money):
            unclear.append("unpriced")
        call.usage = usage
        return unclear


def text_of(content: "Any") -> str | None:
    """Return an answer's content as text, whatever it is; `None` where there is none."""
    if content is None or isinstance(content, str):
        return content
    from budget_core.agent.content import text_in  # loaded for the first that is no text

    return text_in(content)
