"""What a change of limits adds, removes and leaves."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from budget_core.ledger.limit import Limit
from budget_cpython.ops.words import limit_text


class LimitChange(NamedTuple):
    """The limits of an account before and after a change; none `after` removes it."""

    account: str
    before: list[Limit]
    after: list[Limit]

    def rows(self) -> list[tuple[str, str]]:
        """Return each limit in words, after `-` if it goes, `+` if it comes, or a blank."""
        kept = [("-" if one not in self.after else " ", one) for one in self.before]
        new = [("+", one) for one in self.after if one not in self.before]
        return [(sign, limit_text(one.axis, one.cap, one.window)) for sign, one in kept + new]

    def as_json(self) -> dict[str, Any]:
        """Return the change as JSON has it; money is in nano-USD."""
        return {
            "account": self.account,
            "before": limit_rows(self.before),
            "after": limit_rows(self.after),
        }


def limit_rows(limits: Iterable[Limit]) -> list[dict[str, Any]]:
    """Return limits as JSON has them; `limit` is `None` for what is only counted."""
    return [{"axis": one.axis, "limit": one.cap, "window": one.window} for one in limits]


def limit_changes(
    before: Mapping[str, Sequence[Limit]], after: Mapping[str, Sequence[Limit]]
) -> list[LimitChange]:
    """Return the changes that give each account of `after` its limits there, by path.

    An account without limits there is removed; those that only `before` has stay as they are.
    """
    found = []
    for path in sorted(after):
        change = LimitChange(path, _sorted(before.get(path, ())), _sorted(after[path]))
        if change.before != change.after:
            found.append(change)
    return found


def _sorted(limits: Iterable[Limit]) -> list[Limit]:
    return sorted(limits, key=lambda one: (one.axis, one.window))
