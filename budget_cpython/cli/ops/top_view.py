"""What `microbudget top` shows, and what its keys do."""

from collections import Counter
from collections.abc import Callable, Sequence

from budget_core.ledger.hold import Balance
from budget_core.until import stamp
from budget_cpython.cli.ops.screen import (
    FAINT,
    GREEN,
    HEAD,
    ORANGE,
    RED,
    Line,
    Screen,
    bar,
    cell,
    cut,
    lay_out,
    sparkline,
    style_of,
)
from budget_cpython.cli.ops.status import empty_in, summary, time_until
from budget_cpython.ledger.journal import OpenHold
from budget_cpython.ops.account_tree import accounts_of
from budget_cpython.ops.forecast import OVER, LimitStatus
from budget_cpython.ops.rates import RecentRates
from budget_cpython.ops.words import limit_text, short_amount

_KEYS = "r rate  e empty  u used  h holds  a account  / filter  q quit"
_SORTS = {"r": "rate", "e": "empty", "u": "used", "h": "holds", "a": "account"}
_LONGEST_LIMIT, _LONGEST_NARROW = 24, 16
_STEPS = 16  # in a sparkline
_FRAME = 7  # lines beside those of limits
_FAR = 1 << 62
ESCAPE = "\x1b"

Row = tuple[str, LimitStatus]  # of an account


class TopView:
    """The rows of all limits, in the order and with the filter that keys have chosen.

    `place` is where the ledger is, `trouble` why it does not answer, if it does not.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        self.trouble = ""
        self.now = 0
        self.holds: Sequence[OpenHold] = ()
        self.order = "rate"
        self.filter = ""
        self._is_typing = False
        self._rates = RecentRates()
        self._rows: list[Row] = []
        self._accounts = 0
        self._held: Counter[str] = Counter()

    def update(self, balances: Sequence[Balance], holds: Sequence[OpenHold], now: int) -> None:
        """Take over what a ledger says at `now`, in Unix seconds."""
        self._rates.add(balances, now)
        accounts = accounts_of(balances, now, self._rates.rates())
        self._accounts = len(accounts)
        self._rows = [(one.path, limit) for one in accounts.values() for limit in one.limits]
        self._held = Counter(hold.path for hold in holds)
        self.now, self.holds = now, holds

    def press(self, keys: str) -> bool:
        """Do what keys say; return whether to quit."""
        if keys.startswith(ESCAPE):
            if keys == ESCAPE:  # others are arrows and the like
                self.filter, self._is_typing = "", False
            return False
        return any(self._press(key) for key in keys)  # `q` is the last

    def _press(self, key: str) -> bool:
        if self._is_typing:
            if key in "\r\n":
                self._is_typing = False
            elif key in "\x7f\b":
                self.filter = self.filter[:-1]
            elif key.isprintable():
                self.filter += key
        elif key == "/":
            self.filter, self._is_typing = "", True
        elif key in _SORTS:
            self.order = _SORTS[key]
        return key in "qQ" and not self._is_typing

    def rows(self) -> list[Row]:
        """Return the limits of accounts with the filter in their path, in the chosen order."""
        found = [row for row in self._rows if self.filter.lower() in row[0].lower()]
        orders: dict[str, Callable[[Row], tuple[float, ...]]] = {
            "rate": lambda row: (-_share_of_rate(row[1]),),
            "empty": lambda row: (_time_to_empty(row[1]),),
            "used": lambda row: (-row[1].urgency[1],),
            "holds": lambda row: (-self._held[row[0]], -_share_of_rate(row[1])),
            "account": lambda row: (),
        }
        return sorted(found, key=orders[self.order])

    def lines(self, screen: Screen, height: int | None) -> list[Line]:
        """Return the lines of a terminal of so many; `None` is as many as there are."""
        rows = self.rows()
        most = len(rows) if height is None else max(1, height - _FRAME)
        lines = [self._title(), self._summary(), []]
        lines += self._table(rows[:most], screen)[: most + 1]
        hidden = len(rows) - most
        lines.append(cell(f"{hidden:,} more" if hidden > 0 else "", FAINT))
        if height is None:
            return lines[: -1 if hidden <= 0 else None]
        lines += [[]] * (height - 1 - len(lines))
        return [*lines[: height - 1], self._footer()]

    def _title(self) -> Line:
        said = f"{stamp(self.now)[:-4]}:{self.now % 60:02} UTC" if self.now else ""
        return [("microbudget top", HEAD), (f"  {self.place}  {said}", FAINT)]

    def _summary(self) -> Line:
        if self.trouble:
            return cell(f"the ledger does not answer: {self.trouble}", RED)
        holds = len(self.holds)
        line = summary(self._accounts, [limit for _, limit in self._rows])
        return [*line, (f", {holds:,} open hold{'s' * (holds != 1)}", "")]

    def _footer(self) -> Line:
        if self._is_typing:
            return [("filter: ", HEAD), (f"{self.filter}_", ORANGE), ("  Enter, Esc", FAINT)]
        kept = f"  filter: {self.filter}  Esc clears" if self.filter else ""
        return [(_KEYS, FAINT), (f"  by {self.order}", HEAD), (kept, ORANGE)]

    def _table(self, rows: Sequence[Row], screen: Screen) -> list[Line]:
        narrow = screen.is_narrow
        head = ["ACCOUNT", "LIMIT", "USED", "LEFT", "RATE", "", "EMPTY IN", "RESETS IN", "HOLDS"]
        sides = "<<<>><>>>"
        left_out = {"LEFT", "", "RESETS IN"} if narrow else set()
        longest = _LONGEST_NARROW if narrow else _LONGEST_LIMIT
        table = []
        for path, status in rows:
            row = status.balance
            steps = self._rates.steps((row.account, row.axis, row.window), _STEPS)
            text = limit_text(row.axis, row.limit, row.window)
            held = self._held[path]
            cells = [
                cell(path, HEAD),
                cell(cut(text, longest) if screen.width else text),
                bar(status, 6 if narrow else 12, screen.fancy),
                cell("-" if row.left is None else short_amount(row.axis, row.left)),
                cell(_rate(status), "" if status.rate else FAINT),
                cell(sparkline(steps, max(steps, default=0), screen.fancy), GREEN),
                cell(empty_in(status, self.now, narrow) or "-", style_of(status)),
                cell(time_until(row.resets_at, self.now, narrow) or "never", FAINT),
                cell(str(held) if held else "-", "" if held else FAINT),
            ]
            table.append(cells)
        return lay_out(head, table, sides, screen.width, cuts=True, left_out=left_out)


def _share_of_rate(status: LimitStatus) -> float:
    """Return how much of its limit a limit spends in an hour: rates of all axes compare."""
    return (status.rate or 0) / max(status.balance.limit or _FAR, 1)


def _time_to_empty(status: LimitStatus) -> int:
    """Return when a limit is empty, if that is before its reset: 0 where it is over."""
    if status.state == OVER:
        return 0
    return status.empty_at if status.ends_early and status.empty_at is not None else _FAR


def _rate(status: LimitStatus) -> str:
    if status.rate is None:
        return "-"
    return f"{short_amount(status.balance.axis, status.rate)}/h"
