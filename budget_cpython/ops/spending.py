"""What was used, by account, model, tool and time, for reports."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from budget_core.errors import refuse
from budget_core.ledger.outbox import add_amounts
from budget_core.wall_clock import DAY
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage
from budget_cpython.ops.words import time_text

_TEXTS: Mapping[str, Callable[[HourOfUsage], str]] = {
    "account": lambda row: row.path,
    "model": lambda row: row.model,
    "tool": lambda row: row.tool,
    "hour": lambda row: time_text(row.hour - row.hour % HOUR_S),
    "day": lambda row: time_text(row.hour - row.hour % DAY)[:10],
}
COLUMNS = tuple(_TEXTS)
TIMES = ("hour", "day")


class Spending(NamedTuple):
    """The usage at one place: `names` are in the order of the columns that were asked for."""

    names: tuple[str, ...]
    amounts: dict[str, int]

    @property
    def rank(self) -> tuple[int, int, int]:
        """The key that sorts places by their usage; the most has the greatest."""
        found = self.amounts
        calls = found.get("calls", 0) + found.get("tool_calls", 0)
        return found.get("nano_usd", 0), found.get("tokens", 0), calls


def check_columns(by: Sequence[str]) -> tuple[str, ...]:
    """Return columns to report by; `ValueError` for an unknown one, or one given twice."""
    for name in by:
        if name not in COLUMNS:
            refuse("a column", "one of " + ", ".join(COLUMNS), name)
    if not by or len(set(by)) != len(by):
        raise ValueError(f"columns are given once each, not {','.join(by)!r}")
    return tuple(by)


def spending_by(rows: Iterable[HourOfUsage], by: Sequence[str]) -> list[Spending]:
    """Return the usage summed by columns: in order of time if one is a time, else the most first.

    A model's calls have an empty tool, a tool's an empty model.
    """
    sums: dict[tuple[str, ...], dict[str, int]] = {}
    for row in rows:
        add_amounts(sums.setdefault(tuple(_TEXTS[name](row) for name in by), {}), row.amounts)
    found = [Spending(names, sums[names]) for names in sorted(sums)]
    found.sort(key=lambda one: one.rank, reverse=True)
    for at in [at for at, name in enumerate(by) if name in TIMES]:
        found.sort(key=lambda one: one.names[at])
    return found


def total_of(rows: Iterable[HourOfUsage]) -> dict[str, int]:
    """Return all that was used, by axis."""
    total: dict[str, int] = {}
    for row in rows:
        add_amounts(total, row.amounts)
    return total
