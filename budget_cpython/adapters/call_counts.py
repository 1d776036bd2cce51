"""The calls of a block whose usage or price is not fully known."""

from threading import Lock
from typing import Any


class CallCounts:
    """Counts of the calls of this process that drew on one account; safe for threads.

    - `estimated`: calls whose usage was not measured, as they broke off or reported none.
    - `unpriced`: calls of which not all is priced, `priced` those of which anything is.
    - `cut_short`: calls whose answers ended at a limit that a budget lowered.
    """

    def __init__(self) -> None:
        self.estimated = self.unpriced = self.priced = self.cut_short = 0
        self._lock = Lock()

    def add(self, hold: Any, outcome: Any) -> None:
        """Count a call by its `LlmHold` and its `Settlement`, once it is charged."""
        with self._lock:
            self.estimated += outcome.estimated
            self.unpriced += not hold.priced
            self.priced += "nano_usd" in hold.charged
            self.cut_short += hold.cut_short

    def in_words(self) -> list[str]:
        """Return the counts that are not zero, as in `2 estimated`."""
        counts = {
            "estimated": self.estimated,
            "unpriced": self.unpriced,
            "cut short": self.cut_short,
        }
        return [f"{count} {name}" for name, count in counts.items() if count]
