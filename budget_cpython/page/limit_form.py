"""A change of an account's limits by a form: what its line says, what it would change, and done."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from budget_core.ledger.hold import Balance
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.limit_changes import CHANGED_BY
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ops.words import limit_text, limits_text, short_amount
from budget_cpython.web.served_ledger import ServedLedger


class ProposedLimit(NamedTuple):
    """The fate of one limit: it is `added`, `removed`, `changed` or `same`.

    `before` and `after` are as a line of limits has them; `spent` is what its window has used, and
    `is_over` whether that is already more than the new limit allows.
    """

    what: str
    before: str
    after: str
    spent: str
    is_over: bool


def line_of(limits: Iterable[Limit]) -> str:
    """Return limits as a line that `parse_limits` reads; those without a cap are left out."""
    capped = [(one.axis, one.cap, one.window) for one in limits if one.cap is not None]
    return limits_text(capped) if capped else ""


def counted_only(limits: Iterable[Limit]) -> list[Limit]:
    """Return the limits without a cap, which no line can say: a change of the others keeps them."""
    return [one for one in limits if one.cap is None]


class LimitProposal(NamedTuple):
    """The proposal of a form: the `line` of limits, what that changes, and the `problem` it has.

    `stamp` stands for the limits as they are; a form sends it back to be applied. `is_late` says
    that they have changed since.
    """

    path: str
    line: str
    stamp: str
    rows: list[ProposedLimit]
    problem: str = ""
    is_late: bool = False

    @property
    def is_new(self) -> bool:
        """Whether it would change something."""
        return any(row.what != "same" for row in self.rows)


async def propose(ledger: ServedLedger, path: str, line: str) -> LimitProposal:
    """Return the changes that a line of limits would make to an account; `LedgerError`."""
    before = await ledger.call("limits", path)
    try:
        after = read_line(line, before)
    except ValueError as error:
        return LimitProposal(path, line, _stamp(before), [], str(error))
    rows = [row for row in await ledger.call("balances", path) if row.account == path]
    return LimitProposal(path, line, _stamp(before), changes(before, after, rows))


async def apply(
    ledger: ServedLedger, path: str, line: str, stamp: str, by: str
) -> LimitProposal | None:
    """Change an account's limits, as the ledger notes; return `None` if it is done.

    `by` is who changes them.

    Nothing is done where the line is malformed, or changes nothing, or the limits are no longer
    those of the `stamp`: what is returned then says so. Raises `LedgerError`.
    """
    found = await propose(ledger, path, line)
    if found.problem or not found.is_new:
        return found
    if found.stamp != stamp:
        return found._replace(is_late=True)
    before = await ledger.call("limits", path)
    after = read_line(line, before)
    CHANGED_BY.set(by)  # of this request, for the ledger's log
    try:
        await ledger.call("set_limits", path, after)
    except ValueError as error:
        return found._replace(rows=[], problem=str(error))
    return None


def read_line(text: str, before: Sequence[Limit]) -> list[Limit]:
    """Return the limits that a line asks for, with those of `before` that have no cap.

    An empty line asks for none. Raises `ValueError` as `parse_limits` does.
    """
    found = parse_limits(text) if text.strip() else []
    named = {(one.axis, one.window) for one in found}
    kept = [one for one in counted_only(before) if (one.axis, one.window) not in named]
    return found + kept


def changes(
    before: Iterable[Limit], after: Iterable[Limit], balances: Iterable[Balance]
) -> list[ProposedLimit]:
    """Return what becomes of each limit, by axis and window; `balances` are the account's own."""
    old = {(one.axis, one.window): one for one in before}
    new = {(one.axis, one.window): one for one in after}
    spent = {(row.axis, row.window): row.spent for row in balances}
    found = []
    for place in sorted({*old, *new}):
        was, now = old.get(place), new.get(place)
        used = spent.get(place, 0)
        is_over = now is not None and now.cap is not None and used >= max(now.cap, 1)
        what = "same" if was == now else "added" if not was else "removed" if not now else "changed"
        found.append(
            ProposedLimit(what, _words(was), _words(now), short_amount(place[0], used), is_over)
        )
    return found


def _stamp(limits: Iterable[Limit]) -> str:
    return json.dumps(sorted(([one.axis, one.cap, one.window] for one in limits), key=repr))


def _words(limit: Limit | None) -> str:
    return "" if limit is None else limit_text(limit.axis, limit.cap, limit.window)
