"""The limits that metrics show: those of the accounts that are nearest to their end."""

from collections.abc import Callable, Iterable
from heapq import nlargest

from budget_core.ledger.hold import Balance
from budget_cpython.telemetry.labels import in_units

FIGURES: "dict[str, Callable[[Balance], float | None]]" = {
    "limit": lambda row: None if row.limit is None else in_units(row.axis, row.limit),
    "spent": lambda row: in_units(row.axis, row.spent),
    "held": lambda row: in_units(row.axis, row.held),
    "remaining": lambda row: None if row.left is None else in_units(row.axis, row.left),
    "utilization": lambda row: None if row.limit is None else _share(row),
}


def nearest_to_their_end(rows: Iterable[Balance], most: int) -> tuple[list[Balance], int]:
    """Return the rows of at most `most` accounts, and how many accounts are left out.

    An account is as near to its end as the nearest of its own limits.
    """
    by_account: dict[str, list[Balance]] = {}
    for row in rows:
        by_account.setdefault(row.account, []).append(row)
    chosen = list(by_account.values())
    if len(by_account) > most:
        chosen = nlargest(most, chosen, key=lambda limits: max(map(_share, limits)))
    return [row for limits in chosen for row in limits], max(0, len(by_account) - most)


def _share(row: Balance) -> float:
    """Return the part of a limit that is spent or held; nothing is the whole of a limit of 0."""
    if row.limit is None:
        return 0.0
    return (row.spent + row.held) / row.limit if row.limit else 1.0
