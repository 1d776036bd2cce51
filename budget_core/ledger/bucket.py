"""Count what one limit has used in one window."""

from budget_core.ledger.limit import MOST, Limit
from budget_core.ledger.window import NO_DATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.ledger.window import Window

HELD = "held"
COMMITTED = "committed"
RELEASED = "released"
EXPIRED = "expired"
KEPT = 32  # windows that are over, of each limit


class Cell:
    """What is spent and held of one limit in one window, or in one bucket of a rolling one.

    `earlier` are the other buckets that still count. Times are Unix milliseconds.
    """

    __slots__ = ("cap", "earlier", "end", "held", "limit", "spent", "start")

    def __init__(
        self,
        limit: "CountedLimit",
        start: int,
        end: int,
        spent: int = 0,
        held: int = 0,
        cap: int = MOST,
    ) -> None:
        self.limit = limit
        self.start = start
        self.end = end
        self.spent = spent
        self.held = held
        self.cap = cap
        self.earlier: Any = ()

    def reached(self) -> "tuple[int, int]":
        """Return `(spent, held)` of the whole window."""
        spent, held = self.spent, self.held
        for cell in self.earlier:
            spent += cell.spent
            held += cell.held
        return min(MOST, spent), min(MOST, held)

    def record(self, used: int) -> None:
        """Add to what is spent, also past the limit; there is an end at what engines can count."""
        self.spent = min(MOST, self.spent + used)

    def settle(self, was: str, amount: int, used: int) -> None:
        """Put what was used in the place of what a hold in that state stands for."""
        if was == HELD:
            self.held = max(0, self.held - amount)
        elif was == EXPIRED:
            self.spent = max(0, self.spent - amount)
        self.record(used)


class CountedLimit:
    """One limit of one account: its current cell, and those of windows that are over."""

    __slots__ = ("account", "axis", "cell", "past", "window")

    def __init__(self, account: str, axis: str, window: "Window", cell: "Any" = None) -> None:
        self.account = account
        self.axis = axis
        self.window = window
        self.cell: Cell = cell
        self.past: list[Cell] = []

    def change(self, cap: int | None, now: int) -> None:
        """Allow so much from now on; go back from a window that has not begun yet."""
        if self.cell is None:
            _, start, end = self.window.bounds(now)
            self.cell = Cell(self, start, end)
        elif now >= self.cell.end or 0 < now < self.cell.start:
            self.follow(now)
        self.cell.cap = MOST if cap is None else cap

    def follow(self, now: int) -> None:
        """Move to the window of `now`; one that was counted before is gone on with.

        What was counted while nobody knew the date counts for the first window that is known. Going
        back to a window that was not counted before refills nothing.
        """
        first, start, end = self.window.bounds(now)
        cell = self.cell
        again = [one for one in self.past if one.start == start]
        if cell.end == NO_DATE or (start < cell.start and not again):
            cell.start, cell.end = start, end
        else:
            self.cell = again[0] if again else Cell(self, start, end)
            self.cell.cap = cell.cap
            self.past = [cell] + [one for one in self.past if one is not self.cell]
        self.cell.earlier = [one for one in self.past if first <= one.start < start]
        self.past = [
            one for at, one in enumerate(self.past) if at < KEPT or first <= one.start or one.held
        ]

    def newest(self) -> "list[Cell]":
        """Return the cells of windows that are over, the newest first."""
        return sorted(self.past, key=_start, reverse=True)

    def limit(self) -> Limit:
        """Return what was configured."""
        cap = self.cell.cap
        return Limit(self.axis, None if cap == MOST else cap, self.window.name)


def _start(cell: Cell) -> int:
    return cell.start
