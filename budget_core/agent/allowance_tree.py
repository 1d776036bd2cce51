"""An allowance that draws on the one above it, so that many cannot overspend what they share."""

from budget_core.allowance import Allowance
from budget_core.checks import check_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core._types import Lock


class Draw(Allowance):
    """So many of something, drawn from `parent`: what is used here is used above as well.

    `kept` of the cap are set aside for this one's own end, never for those below it. `held` is
    promised to calls in flight, `refused` how often it was this one that had no more.
    """

    def __init__(
        self, name: str, cap: int | None, lock: "Lock", parent: "Draw | None" = None, kept: int = 0
    ) -> None:
        super().__init__(name, cap, lock)
        self.parent = parent
        self.kept = kept
        self.held = 0
        self.refused = 0
        self.closing = False

    def room(self, held: bool = True, below: bool = False) -> int | None:
        """Return what this one alone has left; `None` for unlimited.

        What is `held` counts as used unless told otherwise. One that is `below` gets nothing of
        what is kept.
        """
        if self.cap is None:
            return None
        kept = 0 if self.closing and not below else self.kept
        return max(0, self.cap - self.used - kept - (self.held if held else 0))

    def tightest(self, held: bool = True) -> "Draw":
        """Return the one with the least left, of this and all above it."""
        tightest, least = self, self.room(held)
        above = self.parent
        while above is not None:
            room = above.room(held, True)
            if room is not None and (least is None or room < least):
                tightest, least = above, room
            above = above.parent
        return tightest

    def left(self, held: bool = True) -> int | None:
        """Return what may be used now, here and above; `None` for unlimited."""
        tightest = self.tightest(held)
        return tightest.room(held, tightest is not self)

    def claim(self) -> bool:
        """Use one, here and above, and return `True`; or `False` where one of them has none."""
        with self.lock:
            if not self.has_one():
                return False
            self.move(1, 0)
            return True

    def has_one(self) -> bool:
        """Tell whether there is one, and note a refusal where it is lacking; under the lock."""
        tightest = self.tightest()
        if tightest.room(True, tightest is not self) == 0:
            tightest.refused += 1
            return False
        return True

    def charge(self, count: int = 1) -> None:
        """Record what was used without asking, here and above, also past the cap."""
        check_count("count", count)
        with self.lock:
            self.move(count, 0)

    def move(self, used: int, held: int) -> None:
        """Add to what is used and to what is held, here and above, under the lock."""
        draw: Draw | None = self
        while draw is not None:
            draw.used += used
            draw.held += held
            draw = draw.parent
