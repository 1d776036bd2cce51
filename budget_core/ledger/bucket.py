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

    def shortage(self, asked: int | None) -> "tuple[Any, ...] | None":
        """Return what `refusal` needs if there is too little left, else `None`.

        Every cap refuses an amount of `None`, which has no bound.
        """
        if self.cap is None:
            return None
        spent, held = self.totals() if self.earlier else (self.spent, self.held)
        if asked is not None and spent + held + asked <= self.cap:
            return None
        return self.end, self.place, asked, self.cap, spent, held

    def settle(self, was: str, amount: int, used: int) -> None:
        """Replace the amount of a hold, which had the state `was`, by what was used."""
        if was == HELD:
            self.held -= amount
        elif was == EXPIRED:
            self.spent -= amount
        self.spent += used
