"""Set aside what an LLM call may use before it is made, and settle what it did."""

from budget_core.agent.stop import StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.agent.allowance_tree import Draw
    from budget_core.agent.envelope import Envelope
    from budget_core.prices import Price


class CallHold:
    """What one call in flight may use: a turn, which is used by now, tokens and money.

    `limit` bounds its completion tokens, `None` not at all; `tokens` and `nano_usd` are held.
    Whoever has a hold settles it, once.
    """

    def __init__(self, envelope: "Envelope", limit: int | None, tokens: int, nano_usd: int) -> None:
        self.envelope = envelope
        self.limit = limit
        self.tokens = tokens
        self.nano_usd = nano_usd

    def settle(self, tokens: int, nano_usd: int, *unclear: str) -> None:
        """Replace what was held by what was used, also if that is more.

        `unclear` names the counts of poorly known calls to add to: `estimated`, `missing`,
        `unpriced`.
        """
        held = (self.tokens, self.nano_usd)
        self.tokens = self.nano_usd = 0
        self.envelope.book(tokens, nano_usd, unclear, *held)


def admit(
    envelope: "Envelope",
    prompt: int = 0,
    limit: int | None = None,
    price: "Price | None" = None,
    model: str = "",
) -> "tuple[CallHold | None, StopReason | None]":
    """Claim one LLM call in one step: a turn, tokens and money, here and above.

    `prompt` is the size of the prompt as far as it was counted, `limit` the most completion tokens
    wanted. Returns a hold; or why there is none; or neither, where calls in flight hold what is
    left: ask again when one of them has been settled.
    """
    with envelope.lock:
        reason = envelope.why_stopped() or _room(envelope, prompt, limit, price, model, False)[1]
        if reason is not None:
            return None, reason
        limit, reason = _room(envelope, prompt, limit, price, model, True)
        if reason is not None:
            return None, None
        tokens = 0 if limit is None else prompt + limit
        nano_usd = 0 if price is None else price.cost(prompt, limit or 0)
        envelope.turns.move(1, 0)
        envelope.tokens.move(0, tokens)
        envelope.nano_usd.move(0, nano_usd)
        return CallHold(envelope, limit, tokens, nano_usd), None


def shortage(
    envelope: "Envelope", prompt: int, limit: int | None, price: "Price | None", model: str
) -> "list[Draw]":
    """Return the draw whose holds a call has to wait for, if it has to."""
    with envelope.lock:
        reason = _room(envelope, prompt, limit, price, model, True)[1]
        if reason is None:
            return []
        axis = envelope.tokens if reason.axis == "tokens" else envelope.nano_usd
        return [axis.tightest()]


def _room(
    envelope: "Envelope",
    prompt: int,
    limit: int | None,
    price: "Price | None",
    model: str,
    held: bool,
) -> "tuple[int | None, StopReason | None]":
    """Return the completion tokens that there is room for, or why there is none."""
    if envelope.turns.left() == 0:
        return 0, envelope.lacking("turns")
    if limit is not None and limit < 1:
        text = "a call may have no completion tokens"
        return 0, StopReason(StopReason.TOKEN_BUDGET, text, scope=envelope.name)
    left = _left(envelope, "tokens", prompt, held)
    money = _left(envelope, "nano_usd", prompt, held)
    if money is not None and price is None:
        return 0, envelope.lacking("nano_usd", f"no price is known for {model}")
    rooms = [limit]
    for axis, room in (
        ("tokens", None if left is None else left - prompt),
        ("nano_usd", _affordable(money, price, prompt)),
    ):
        if room is not None and room < 1:
            text = f"a prompt of {prompt} tokens leaves no room for an answer" if prompt else ""
            if text and axis == "tokens" and (envelope.tokens.left(held) or 0) > prompt:
                text += " and a last call"
            return 0, envelope.lacking(axis, text)
        rooms.append(room)
    return _least(rooms), None


def _left(envelope: "Envelope", axis: str, prompt: int, held: bool) -> int | None:
    """Return what a call may use of an axis.

    Where its prompt is counted, that is half of its own envelope's at most: the last call's prompt
    will be this one with its answer.
    """
    draw = getattr(envelope, axis)
    own = draw.room(held) if prompt and draw.kept and not draw.closing else None
    return _least([draw.left(held), None if own is None else own // 2])


def _affordable(money: int | None, price: "Price | None", prompt: int) -> int | None:
    return None if money is None or price is None else price.affordable(money, prompt)


def _least(rooms: "list[int | None]") -> int | None:
    known = [room for room in rooms if room is not None]
    return min(known) if known else None
