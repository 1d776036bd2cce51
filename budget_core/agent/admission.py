"""Admit LLM calls: hold what each may use before it is made, in the order in which they came."""

import asyncio

from budget_core.agent.allowance_tree import smaller_limit
from budget_core.agent.cancellation import wait_until
from budget_core.agent.stop import StoppedError, StopReason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.agent.allowance_tree import SharedAllowance
    from budget_core.agent.envelope import Envelope
    from budget_core.prices import Price


class Admission:
    """One LLM call that asks an envelope for a turn, tokens and money, and holds them.

    - `prompt`: the size of the prompt as far as it was counted.
    - `limit`: the most completion tokens; wanted, and once admitted, allowed. `None` is no bound.
    - `price`, `model`: what its tokens cost, where that is known, and the model's name.
    - `tokens`, `nano_usd`: what is held until the call is settled; its turn is used by then.
    - `lacking`: the count that it waits for, once it has to wait.
    - `left`: what the envelope had left before this call.
    """

    tokens = nano_usd = 0
    lacking: "SharedAllowance | None" = None
    left: "dict[str, int | None]"

    def __init__(
        self,
        envelope: "Envelope",
        prompt: int = 0,
        limit: int | None = None,
        price: "Price | None" = None,
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
            found = await wait_until(self._answer, self.envelope, self.envelope.remaining_s)
        finally:
            queue.remove(self)
            if self.lacking is not None:
                self.envelope.changed()
        if found is not self:
            raise StoppedError(found)

    def _answer(self) -> "Any":
        if self._is_first():
            self.left = self.envelope.remaining()
            answer = self.claim()
            if answer is not None:
                return answer
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
        """Return what the call may use of one axis.

        Where its prompt is counted, that is at most half of what the envelope itself has: the
        prompt of the final call will be this one with its answer.
        """
        left = count.left(held)
        if left is not None and self._prompt and count.kept and not count.closing:
            left = min(left, (count.own_left(held) or 0) // 2)
        return left
