"""`with budget(...)`: what is called inside draws on it, in threads and tasks as well."""

from typing import Any, Self, Unpack

from budget_core.notices import show_on
from budget_cpython.adapters.current import enter
from budget_cpython.adapters.layer import Layer, Options
from budget_cpython.entered import Entry, last_entry, leave
from budget_cpython.ledger.limit_parser import parse_budget


class BudgetBlock:
    """A budget for what is called inside its `with` or `async with`; `budget` makes one.

    It may be entered again, by tasks side by side too: what was used stays used, and each entry has
    the whole time.
    """

    def __init__(
        self,
        limits: str,
        *,
        ledger: Any = None,
        account: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        found, self.seconds = parse_budget(limits)
        self.layer = Layer(found, ledger, account, **options)
        self._entries: list[Entry] = []  # of generators that run now

    def __enter__(self) -> Self:
        entry = enter(self.layer, self.seconds)
        if entry.owner is not None:
            self._entries.append(entry)  # a generator's `with` keeps this block, nothing else does
        return self

    def __exit__(self, *error: object) -> None:
        entry = last_entry(self.layer)
        if entry is not None:
            leave(entry)
        if entry in self._entries:
            self._entries.remove(entry)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__()

    def __repr__(self) -> str:
        spent = []
        for row in self._rows():
            show, unit = show_on(row.axis)
            cap = "" if row.limit is None else f" of {show(row.limit)}"
            window = "" if row.window == "run" else f" per {row.window}"
            if cap or row.spent:
                spent.append(show(row.spent) + cap + unit + window)
        return f"<{self.layer.account}: {', '.join(spent) or 'nothing'} spent>"

    @property
    def spent(self) -> dict[str, int]:
        """What its account used on each axis, the most of its windows; money is in `nano_usd`."""
        found: dict[str, int] = {}
        for row in self._rows():
            found[row.axis] = max(row.spent, found.get(row.axis, 0))
        return found

    @property
    def left(self) -> dict[str, int]:
        """What is left on each limited axis, the least of all limits, less what is held now."""
        found: dict[str, int] = {}
        for row in self.layer.balance():
            if row.left is not None:
                found[row.axis] = min(row.left, found.get(row.axis, row.left))
        return found

    def _rows(self) -> list[Any]:
        """Return the limits of its own account, without those above it."""
        return [row for row in self.layer.balance() if row.account == self.layer.account]


def budget(
    limits: str,
    *,
    ledger: Any = None,
    account: str | None = None,
    **options: Unpack[Options],
) -> BudgetBlock:
    """Return a budget for what is called inside a `with`: every budgeted call there draws on it.

    `limits` is such as `"$0.50 + 20 calls"`, with a time such as `"10 min"` if it is to end. Calls
    of threads and tasks that start inside draw on it too. Nested blocks all count, and so does the
    budget of the client. The limits replace those of `account` in a `ledger`, open or a
    URL as `open_ledger` takes it, which processes share. Without one they are in this process's
    memory, where `account` is the name in messages.

    Raises `ValueError` for malformed limits and options, and `ImportError` where money is limited
    and no prices are known.
    """
    return BudgetBlock(limits, ledger=ledger, account=account, **options)
