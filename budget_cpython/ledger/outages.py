"""Note when a ledger was out of reach, once it can be reached again."""

from budget_cpython.ledger.noting import note_quietly, note_quietly_awaited
from budget_cpython.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.ledger.errors import LedgerUnavailableError
    from budget_cpython.ledger.journal import LedgerEvent


class OutageLog:
    """The outage of one ledger in this process, which it notes among its events when it is over.

    `since` is when the outage was met, in Unix seconds; `None` while the ledger answers. `place` is
    the part of the ledger that was out of reach, of one that has several.
    """

    def __init__(self) -> None:
        self.since: int | None = None
        self.place = ""
        self._error = ""

    def begin(self, error: "LedgerUnavailableError", place: str = "") -> None:
        """Remember that the ledger could not be asked; the first time of an outage counts."""
        if self.since is None:
            self.place = place
            self._error = type(error).__name__
            self.since = int(WALL())

    def end(self, ledger: "Any") -> None:
        """Note an outage that is over, on its ledger, which blocks."""
        note_quietly(ledger, self._take())

    async def end_awaited(self, ledger: "Any") -> None:
        """Note an outage that is over, on its ledger."""
        await note_quietly_awaited(ledger, self._take())

    def _take(self) -> "list[LedgerEvent]":
        """Return the event of the outage, to one caller alone."""
        from budget_cpython.ledger.journal import LedgerEvent  # with typing: for the first of them

        since, self.since = self.since, None
        if since is None:
            return []
        details = {"from": since, "until": int(WALL()), "error": self._error}
        return [LedgerEvent("outage", "", details)]
