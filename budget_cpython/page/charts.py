"""Charts as the points of inline SVG, each with a text that says the same."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from budget_core.ledger.hold import Balance
from budget_core.ledger.window_words import rolling_seconds
from budget_core.until import stamp
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage
from budget_cpython.ledger.selection import is_below
from budget_cpython.ops.forecast import LimitStatus
from budget_cpython.ops.words import amount_words, limit_text

WIDTH, HEIGHT = 300, 72


class BurnDown(NamedTuple):
    """The amount left of a limit over its window, as the points of lines.

    `left` is the line until now, `ahead` the one of the forecast, empty without one; `now` is where
    the present stands, `text` says all of it in words.
    """

    left: str
    area: str
    ahead: str
    now: float
    text: str


def has_chart(status: LimitStatus) -> bool:
    """Tell whether a limit is of a window with a beginning and an end, and of more than nothing."""
    row = status.balance
    return bool(row.limit) and row.resets_at is not None and not rolling_seconds(row.window)


class _Frame(NamedTuple):
    """A window, from the Unix second `begins_at` to `ends_at`, and what it may use."""

    begins_at: int
    ends_at: int
    limit: int

    def across(self, at: int) -> float:
        return WIDTH * (at - self.begins_at) / (self.ends_at - self.begins_at)

    def point(self, at: int, left: int) -> str:
        return f"{self.across(at):.1f},{HEIGHT * (1 - max(0, left) / self.limit):.1f}"


def burn_down(
    status: LimitStatus, rows: Iterable[HourOfUsage], since: int, now: int
) -> BurnDown | None:
    """Return the burn-down of a limit, or `None` where its window has no beginning and end.

    `rows` are the usage of hours from `since` on. They give the line its shape, hour by hour; what
    they do not have, such as the hours before them, is spread evenly.
    """
    row = status.balance
    if not has_chart(status):
        return None
    frame = _Frame(row.begins_at, row.resets_at or 0, row.limit or 0)
    now = min(max(now, frame.begins_at + 1), frame.ends_at)
    spent = _spent_by_time(row, _hours(row, rows), since, now)
    line = [frame.point(at, frame.limit - amount) for at, amount in spent]
    ahead = ""
    if status.empty_at is not None and row.spent < frame.limit:
        ahead = f"{line[-1]} {_ahead(frame, frame.limit - row.spent, status.empty_at, now)}"
    area = [frame.point(frame.begins_at, 0), *line, frame.point(now, 0)]
    return BurnDown(" ".join(line), " ".join(area), ahead, frame.across(now), _text(status))


def _ahead(frame: _Frame, left: int, empty_at: int, now: int) -> str:
    """Return where the line of a forecast ends: where nothing is left, or the window ends."""
    if empty_at <= frame.ends_at or empty_at <= now:
        return frame.point(min(empty_at, frame.ends_at), 0)
    return frame.point(frame.ends_at, left * (empty_at - frame.ends_at) // (empty_at - now))


def _hours(row: Balance, usage: Iterable[HourOfUsage]) -> dict[int, int]:
    """Return the usage of a limit by the hours of its window."""
    hours: dict[int, int] = {}
    for one in usage:
        amount = one.amounts.get(row.axis, 0)
        if amount and row.begins_at <= one.hour and is_below(one.path, row.account):
            hours[one.hour] = hours.get(one.hour, 0) + amount
    return hours


def _spent_by_time(
    row: Balance, hours: Mapping[int, int], since: int, now: int
) -> list[tuple[int, int]]:
    """Return the amounts spent by some moments of the window, the last of them now."""
    known = sum(hours.values())
    before = max(0, row.spent - known) if since > row.begins_at else 0
    shown = [(row.begins_at, 0)]
    if before:
        shown.append((since, before))
    total = 0
    for hour in sorted(hours):
        for at, added in ((hour, 0), (min(hour + HOUR_S, now), hours[hour])):
            total += added
            if at > shown[-1][0]:
                shown.append((at, before + (row.spent - before) * total // known))
    return [*(place for place in shown if place[0] < now), (now, row.spent)]


def _text(status: LimitStatus) -> str:
    row = status.balance
    left = amount_words(row.axis, row.left or 0)
    said = f"{left} left of {limit_text(row.axis, row.limit, row.window)}"
    if status.empty_at is not None:
        ends = "before" if status.ends_early else "after"
        said += f"; at this rate empty {stamp(status.empty_at)}, {ends} the reset"
    if row.resets_at is not None:
        said += f" at {stamp(row.resets_at)}"
    return said
