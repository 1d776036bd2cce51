"""Labels of metrics, bounded in number and length."""

from threading import Lock

from budget_core.log import printable

OTHER = "(other)"
MOST_MODELS = 100
_LONGEST = 200  # letters


class BoundedLabels:
    """The values of one label: beyond `most` of them the others are one; safe for threads.

    Names come from clients: what a terminal would act on is escaped, and long ones are cut.
    """

    def __init__(self, most: int, other: str = OTHER) -> None:
        self._most = most
        self._other = other
        self._known: dict[str, str] = {}
        self._lock = Lock()

    def label(self, value: str) -> str:
        """Return the label of a value."""
        known = self._known.get(value)
        if known is not None:
            return known
        shown = printable(value[:_LONGEST])
        with self._lock:
            if len(self._known) >= self._most:
                return self._known.get(value, self._other)
            return self._known.setdefault(value, shown)


def axis_label(axis: str) -> str:
    """Return the label of an axis; money is shown in dollars."""
    return "usd" if axis == "nano_usd" else axis


def in_units(axis: str, amount: int) -> float:
    """Return an amount as metrics show it: dollars for money."""
    return amount / 1_000_000_000 if axis == "nano_usd" else amount
