"""Count what one limit has used in one window."""

from budget_core.ledger.limit import Limit
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


class Bucket:
    """What is spent and held of one limit in one window, or in one bucket of a rolling one.

    `earlier` are the other buckets of a rolling window that still count. Times are Unix
    milliseconds. `cap` is `None` for an unlimited one.

    It is no `Allowance`: that belongs to one run, has one lock and lives as long as its cap. A
    bucket belongs to a window and is superseded when that ends, while its holds still settle in it,
    each by its state; engines store it; and its ledger's lock or transaction covers a whole chain.
    """

    __slots__ = ("cap", "earlier", "end", "held", "limit", "spent", "start")

    def __init__(
        self,
        limit: "CountedLimit",
        start: int,
        end: int,
        spent: int = 0,
        held: int = 0,
        cap: int | None = None,
    ) -> None:
        self.limit = limit
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
        limit = self.limit
        place = (limit.account, limit.axis, limit.window.name)
        return self.end, place, asked, self.cap, spent, held

    def settle(self, was: str, amount: int, used: int) -> None:
        """Replace the amount of a hold, which had the state `was`, by what was used."""
        if was == HELD:
            self.held -= amount
        elif was == EXPIRED:
            self.spent -= amount
        self.spent += used


class CountedLimit:
    """One limit of one account: its current bucket, and those of windows that are over."""

    __slots__ = ("account", "axis", "bucket", "past", "window")

    def __init__(self, account: str, axis: str, window: "Window", bucket: "Any" = None) -> None:
        self.account = account
        self.axis = axis
        self.window = window
        self.bucket: Bucket = bucket
        self.past: list[Bucket] = []

    def change(self, cap: int | None, now: int) -> None:
        """Set the cap from now on, and leave a window that has not begun yet."""
        if self.bucket is None:
            _, start, end = self.window.bounds(now)
            self.bucket = Bucket(self, start, end)
        elif now >= self.bucket.end or 0 < now < self.bucket.start:
            self.follow(now)
        self.bucket.cap = cap

    def follow(self, now: int) -> None:
        """Move to the window of `now`, with its count if it was counted before.

        What was counted while the date was unknown counts for the first window that is known. A
        move back to a window that was not counted before refills nothing.
        """
        first, start, end = self.window.bounds(now)
        bucket = self.bucket
        again = [one for one in self.past if one.start == start]
        if bucket.end == NO_DATE or (start < bucket.start and not again):
            bucket.start, bucket.end = start, end
        else:
            self.bucket = again[0] if again else Bucket(self, start, end)
            self.bucket.cap = bucket.cap
            self.past = [bucket] + [one for one in self.past if one is not self.bucket]
        self.bucket.earlier = [one for one in self.past if first <= one.start < start]
        self.past = [
            one for at, one in enumerate(self.past) if at < KEPT or first <= one.start or one.held
        ]

    def newest(self) -> "list[Bucket]":
        """Return the buckets of windows that are over, the newest first."""
        return sorted(self.past, key=lambda one: one.start, reverse=True)

    def limit(self) -> Limit:
        """Return what was configured."""
        return Limit(self.axis, self.bucket.cap, self.window.name)
