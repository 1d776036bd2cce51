"""The count of one limit in one window."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Place = tuple[str, str, str]

HELD = "held"
COMMITTED = "committed"
RELEASED = "released"
EXPIRED = "expired"
FAR = 1000 << 40  # milliseconds, of whole seconds: some 35,000 years from 1970


class Bucket:
    """What is spent and held of one limit in one window, or in one bucket of a rolling one.

    `place` names the limit: its account, axis and window. `earlier` are the other buckets of a
    rolling window that still count. Times are Unix milliseconds. `cap` is `None` for an unlimited
    one.

    It is no `Allowance`: that belongs to one run, has one lock and lives as long as its cap. A
    bucket belongs to a window and is superseded when that ends, while its holds still settle in it,
    each by its state; engines store it; and its ledger's lock or transaction covers a whole chain.
    """

    __slots__ = ("cap", "earlier", "end", "held", "place", "spent", "start")

    def __init__(
        self,
        place: "Place",
        start: int,
        end: int,
        spent: int = 0,
        held: int = 0,
        cap: int | None = None,
    ) -> None:
        self.place = place
        self.start = start
        self.end = end
        self.spent = spent
        self.held = held
        self.cap: Any = cap
        self.earlier: Any = ()

    def totals(self) -> "tuple[int, int]":
        """Return `(spent, held)` of the whole window."""
        spent, held = self.spent, self.held
        for bucket in self.earlier:
            spent += bucket.spent
            held += bucket.held
        return spent, held
