"""Let an LLM call through, or say why not: its prompt fits, and there is room for it."""

import asyncio

from budget_core.agent.call_hold import admit, shortage
from budget_core.agent.cancellation import until
from budget_core.agent.llm_call import LlmCall
from budget_core.agent.stop import StopReason
from budget_core.checks import check_limit
from budget_core.errors import BudgetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Messages
    from budget_core.agent.allowance_tree import Draw
    from budget_core.agent.envelope import Envelope
    from budget_core.agent.llm_gate import Gate
    from budget_core.agent.middleware import Request


class StoppedError(BudgetError):
    """No further LLM call is made in this run; `reason` says why."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(str(reason))
        self.reason = reason


async def fitting(gate: "Gate", request: "Request", said: "Messages") -> int:
    """Return the size of the prompt as far as it is counted, compacted where it must be."""
    envelope = gate.envelope
    if gate.count_tokens is None and envelope.max_context_tokens is None:
        return 0
    count = gate.count_tokens or _estimate
    size: int = count(request.messages + said, request.tools)
    if not envelope.fits_context(size) and gate.compact is not None:
        request.messages = list(await gate.heed(gate.compact, request.messages))
        request.compacted = True
        if gate.state is not None:
            gate.state.context_was_compacted = True
        before, size = size, count(request.messages + said, request.tools)
        gate.report("compacted", before=before, after=size)
    if envelope.fits_context(size):
        return 0 if gate.count_tokens is None else size
    cap = envelope.max_context_tokens
    kind = StopReason.CONTEXT_LIMIT
    raise StoppedError(StopReason(kind, "", "context tokens", size, cap, scope=envelope.name))


async def admitted(
    gate: "Gate", request: "Request", prompt: int, said: "Messages"
) -> "tuple[LlmCall, dict[str, int | None]]":
    """Return a call that may be made, and what there was before it.

    Calls of one tree that wait for the same thing are served in the order they came. Where the
    model is too dear, the call is the fallback's. Raises `ValueError` for a `max_tokens` of the
    request that is no limit.
    """
    check_limit("max_tokens of the request", request.max_tokens)
    models = [request.model or gate.model or gate.inner.get_default_model()]
    if gate.fallback_model not in (None, models[0]):
        models.append(gate.fallback_model)
    call, left = await _queued(gate, request, prompt, models)
    ledger = gate.envelope.ledger
    first = None if ledger is None else await ledger.admit(call, request, said, prompt)
    if first is None:
        return call, left
    if call.model == models[-1]:
        raise StoppedError(first)
    call, left = await _queued(gate, request, prompt, models[1:])
    if await ledger.admit(call, request, said, prompt):
        raise StoppedError(first)
    return call, left


async def _queued(
    gate: "Gate", request: "Request", prompt: int, models: "list[str]"
) -> "tuple[LlmCall, dict[str, int | None]]":
    """Return a call of the first model that the envelope has room for, once it is its turn."""
    ticket = _Ticket(gate.envelope)
    first: Any = None
    gate.envelope.queue.append(ticket)
    try:
        for model in models:
            call, left, reason = await _granted(gate, request, prompt, model, ticket)
            if call is not None:
                return call, left
            first = first or reason
        raise StoppedError(first)
    finally:
        gate.envelope.queue.remove(ticket)
        if ticket.lacking:
            gate.envelope.changed()


async def _granted(
    gate: "Gate", request: "Request", prompt: int, model: str, ticket: "_Ticket"
) -> "Any":
    envelope = gate.envelope
    limit = envelope.tightest_completion(request.max_tokens)
    price = None if gate.prices is None else gate.prices.get(model)

    def ask() -> "Any":
        if ticket.is_first():
            left = envelope.remaining()
            hold, reason = admit(envelope, prompt, limit, price, model)
            if hold is not None:
                priced = gate.prices is not None
                return LlmCall(gate.inner, model, hold, price, priced), left, None
            if reason is not None:
                return None, left, reason
            ticket.lacking = shortage(envelope, prompt, limit, price, model)
        reason = envelope.check()
        return reason and (None, None, reason)

    return await until(ask, envelope)


class _Ticket:
    """A place in the queue of a tree: `lacking` are the draws it waits for, once it has to."""

    def __init__(self, envelope: "Envelope") -> None:
        self.lacking: list[Draw] = []
        self._envelope = envelope
        self._loop: Any = asyncio.get_event_loop()

    def is_first(self) -> bool:
        """Tell whether nobody who came earlier waits for what this one would take."""
        own = [draw for one in self._envelope.chain() for draw in (one.tokens, one.nano_usd)]
        for earlier in self._envelope.queue:
            if earlier is self:
                break
            if earlier.is_alive() and any(draw in own for draw in earlier.lacking):
                return False
        return True

    def is_alive(self) -> bool:
        """Tell whether somebody still waits: a loop that was left behind runs no more."""
        running = getattr(self._loop, "is_running", None)
        return bool(running is None or running())


def _estimate(messages: "Any", tools: "Any") -> int:
    from budget_core.usage_estimate import estimate_tokens

    return estimate_tokens(messages, tools)
