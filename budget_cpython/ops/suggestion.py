"""Limits from what was spent in past windows, and what they would have refused."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from budget_core.ledger.checks import chain
from budget_core.ledger.window_words import rolling_seconds
from budget_cpython.ledger.journal import HourOfUsage
from budget_cpython.ledger.windows import parse_window
from budget_cpython.ops.past_windows import PastWindows

HEADROOM = 25  # percent
LEAST_WINDOWS = 5
_COVERED = 95  # percent of windows: one in twenty may be a runaway
_AXES = ("nano_usd", "tokens")  # that a day may have without a limit


class LimitSuggestion(NamedTuple):
    """A limit for an account, and what it would have refused in `windows` of the past.

    - `account`, `axis`, `window`: what it limits; `limit` is the cap of now, `None` without one.
    - `median`, `highest`: of what those windows spent.
    - `suggested`: the cap; `refused` is in how many windows more was spent, and `beyond` how much
      more that was, in all.
    - `is_new`: whether the account counts nothing on that axis and window yet.
    """

    account: str
    axis: str
    window: str
    limit: int | None
    windows: int
    median: int
    highest: int
    suggested: int
    refused: int
    beyond: int
    is_new: bool = False


def suggest_limit(one: PastWindows, headroom: int = HEADROOM) -> LimitSuggestion | None:
    """Return a suggestion for a limit of a ledger; `None` where too little is known.

    It is what 95 percent of the windows in which something was spent stayed within, and `headroom`
    percent, rounded up to two digits: one runaway in twenty does not raise it, and of fewer windows
    it is the highest. That takes 5 such windows. A rolling window has no past, nor has one that
    never ends.
    """
    now = one.now
    if now.resets_at is None or rolling_seconds(now.window):
        return None
    spent = [row.spent for row in one.past if row.spent]
    return _suggested(now.account, now.axis, now.window, now.limit, spent, headroom)


def suggest_daily(
    rows: Iterable[HourOfUsage], today: int, headroom: int = HEADROOM
) -> dict[str, list[LimitSuggestion]]:
    """Return suggestions of dollars and tokens a day by account, from usage there and below.

    `today` is a Unix second; its day, in UTC, is left out, as it is not over.
    """
    window = parse_window("day")
    now = window.bounds(today * 1000)[1]
    spent: dict[tuple[str, str], dict[int, int]] = {}
    for row in rows:
        day = window.bounds(row.hour * 1000)[1]
        used = [(axis, row.amounts.get(axis, 0)) for axis in _AXES]
        for account in chain(row.path) if day != now else ():
            for axis, amount in used:
                if amount:
                    days = spent.setdefault((account, axis), {})
                    days[day] = days.get(day, 0) + amount
    found: dict[str, list[LimitSuggestion]] = {}
    for (account, axis), days in sorted(spent.items()):
        one = _suggested(account, axis, "day", None, list(days.values()), headroom, True)
        if one is not None:
            found.setdefault(account, []).append(one)
    return found


def _suggested(
    account: str,
    axis: str,
    window: str,
    limit: int | None,
    spent: Sequence[int],
    headroom: int,
    is_new: bool = False,
) -> LimitSuggestion | None:
    if len(spent) < LEAST_WINDOWS:
        return None
    ordered = sorted(spent)
    covered = ordered[-(-len(ordered) * _COVERED // 100) - 1]
    cap = round_up(-(-covered * (100 + headroom) // 100))
    above = [value - cap for value in ordered if value > cap]
    median = ordered[(len(ordered) - 1) // 2]
    past = (len(ordered), median, ordered[-1])
    return LimitSuggestion(account, axis, window, limit, *past, cap, len(above), sum(above), is_new)


def round_up(amount: int) -> int:
    """Return an amount rounded up to two digits."""
    size: int = 10 ** max(0, len(str(amount)) - 2)
    return -(-amount // size) * size
