"""The count of one limit, window by window."""

from budget_core.ledger.bucket import Bucket
from budget_core.ledger.limit import Limit
from budget_core.ledger.window import NO_DATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.ledger.window import Window

KEPT = 32  # windows that are over, of each limit


class CountedLimit:
    """One limit of one account: its current bucket, and those of windows that are over."""

    __slots__ = ("account", "axis", "bucket", "past", "place", "window")

    def __init__(self, account: str, axis: str, window: "Window", bucket: "Any" = None) -> None:
        self.account = account
        self.axis = axis
        self.window = window
        self.place = (account, axis, window.name)
        self.bucket: Bucket = bucket
        self.past: list[Bucket] = []

    def change(self, cap: int | None, now: int) -> None:
        """Set the cap from now on, and leave a window that has not begun yet."""
        if self.bucket is None:
            _, start, end = self.window.bounds(now)
            self.bucket = Bucket(self.place, start, end)
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
            self.bucket = again[0] if again else Bucket(self.place, start, end)
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
        """Return the limit as it was configured."""
        return Limit(self.axis, self.bucket.cap, self.window.name)
