"""Let an LLM call through, or say why not: its prompt fits, and there is room for it."""

from budget_core.errors import BudgetError
from budget_core.flight import until
from budget_core.hold import admit
from budget_core.llm_call import LlmCall
from budget_core.stop import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.gate import Gate
    from budget_core.shapes import *


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
    gate: "Gate", request: "Request", prompt: int
) -> "tuple[LlmCall, dict[str, int | None]]":
    """Return a call that may be made, and what there was before it.

    Calls of one tree that have to wait are served in the order they came. Where the model is too
    dear, it is the fallback's.
    """
    model = request.model or gate.model or gate.inner.get_default_model()
    queue, ticket = gate.envelope.queue, object()
    queue.append(ticket)
    try:
        while True:
            call, left, reason = await _granted(gate, request, prompt, model, ticket)
            if call is not None:
                return call, left
            if gate.fallback_model in (None, model):
                raise StoppedError(reason)
            model = gate.fallback_model
    finally:
        queue.remove(ticket)
        if queue:
            gate.envelope.changed()


async def _granted(
    gate: "Gate", request: "Request", prompt: int, model: str, ticket: object
) -> "Any":
    envelope = gate.envelope
    limit = envelope.tightest_completion(request.max_tokens)
    price = None if gate.prices is None else gate.prices.get(model)

    def ask() -> "Any":
        if envelope.queue[0] is ticket:
            left = envelope.remaining()
            hold, reason = admit(envelope, prompt, limit, price, model)
            if hold is not None:
                priced = gate.prices is not None
                return LlmCall(gate.inner, model, hold, price, priced), left, None
            if reason is not None:
                return None, left, reason
        reason = gate.check()
        return reason and (None, None, reason)

    return await until(ask, envelope)


def _estimate(messages: "Any", tools: "Any") -> int:
    from budget_core.estimate import estimate_tokens

    return estimate_tokens(messages, tools)
