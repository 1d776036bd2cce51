"""Allowances that draw on one another, so that many runs cannot overspend what they share."""

from budget_core.allowance import Allowance
from budget_core.checks import check_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core._types import Lock


def smaller_limit(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two limits; `None` is unlimited."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class SharedAllowance(Allowance):
    """An `Allowance` that draws on `parent`: what is used here is used above as well.

    `scope` is the name of its envelope. `kept` of the cap is reserved for the owner's final call,
    once `closing` is set, and never for those below. `held` is promised to calls in flight.
    `refused` counts the claims that failed because this allowance had no more.

    `Allowance` itself stays without these: a `TurnBudget` on a chip counts with it, and neither
    shares nor reserves anything.
    """

    def __init__(
        self,
        scope: str,
        cap: int | None,
        lock: "Lock",
        parent: "SharedAllowance | None" = None,
        kept: int = 0,
    ) -> None:
        super().__init__("cap", cap, lock)
        self.scope = scope
        self.parent = parent
        self.kept = kept
        self.held = self.refused = 0
        self.closing = False

    def own_left(self, held: bool = True, below: bool = False) -> int | None:
        """Return the amount that this allowance alone has left; `None` is unlimited.

        What is `held` counts as used unless `held` is false. `below` asks for a child, which gets
        nothing of what is kept.
        """
        if self.cap is None:
            return None
        kept = 0 if self.closing and not below else self.kept
        return max(0, self.cap - self.used - kept - (self.held if held else 0))

    def tightest(self, held: bool = True) -> "tuple[SharedAllowance, int | None]":
        """Return the allowance with the least left, of this and all above it, and what it has."""
        tightest, least = self, self.own_left(held)
        above = self.parent
        while above is not None:
            left = above.own_left(held, True)
            if left is not None and (least is None or left < least):
                tightest, least = above, left
            above = above.parent
        return tightest, least

    def left(self, held: bool = True) -> int | None:
        """Return the amount that may be used now, here and above; `None` is unlimited."""
        return self.tightest(held)[1]

    def can_claim(self) -> bool:
        """Tell whether one is left, and count the refusal if not; under the lock."""
        tightest, left = self.tightest()
        tightest.refused += left == 0
        return left != 0

    def claim(self) -> bool:
        """Use one, here and above, and return `True`; or `False` if any of them has none left."""
        with self.lock:
            if not self.can_claim():
                return False
            self.add(1)
            return True

    def charge(self, count: int = 1) -> None:
        """Record what was used without asking, here and above, also past the cap."""
        check_count("count", count)
        with self.lock:
            self.add(count)

    def add(self, used: int, held: int = 0) -> None:
        """Add to what is used and to what is held, here and above, under the lock."""
        allowance: SharedAllowance | None = self
        while allowance is not None:
            allowance.used += used
            allowance.held += held
            allowance = allowance.parent
