"""`with budget(...)`: what is called inside draws on it, in threads and tasks as well."""

from typing import Any, Self, Unpack

from budget_core.ledger.window_words import window_in_words
from budget_core.notices import show_on
from budget_cpython.adapters.account import Options
from budget_cpython.adapters.current import enter
from budget_cpython.adapters.opened_accounts import Caller, open_accounts, watch_clients
from budget_cpython.context.entered import WithEntry, last_entry, leave
from budget_cpython.ledger.limit_parser import ParsedBudget

_BLOCK = Caller("block")


class BudgetBlock:
    """A budget for what is called inside its `with` or `async with`; `budget` makes one.

    It may be entered again, by tasks side by side too: what was used stays used, and each entry has
    the whole time.
    """

    def __init__(
        self,
        budget: ParsedBudget,
        /,
        *,
        ledger: Any = None,
        account: str | None = None,
        caller: Caller = _BLOCK,
        **options: Unpack[Options],
    ) -> None:
        self.seconds = budget.seconds
        self.accounts = open_accounts(budget, ledger, account, caller, **options)
        self.account = self.accounts[-1]
        self._entries: list[WithEntry] = []  # of generators that run now

    def __enter__(self) -> Self:
        watch_clients()
        for account in self.accounts:
            entry = enter(account, self.seconds if account is self.account else None)
            if entry.owner is not None:
                self._entries.append(entry)  # a generator's `with` keeps this block alone
        return self

    def __exit__(self, *error: object) -> None:
        for account in reversed(self.accounts):
            entry = last_entry(account)
            if entry is not None:
                leave(entry)
            if entry in self._entries:
                self._entries.remove(entry)

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__()

    def __repr__(self) -> str:
        rows, spent = self._rows(), []
        for row in rows:
            show, unit = show_on(row.axis)
            cap = "" if row.limit is None else f" of {show(row.limit)}"
            window = "" if row.window == "run" else f" per {window_in_words(row.window)}"
            if cap or row.spent:
                spent.append(show(row.spent) + cap + unit + window)
        calls = max((row.held for row in rows if row.axis == "calls"), default=0)
        notes = [f"{calls} held"] * bool(calls) + self.account.calls.in_words()
        more = f"; {', '.join(notes)}" if notes else ""
        return f"<{self.account.path}: {', '.join(spent) or 'nothing'} spent{more}>"

    @property
    def spent(self) -> dict[str, int]:
        """The use of its account on each axis, the most of its windows.

        Money is in `nano_usd`, and absent where no call had a known price: unknown is not zero.
        """
        found = self._most("spent")
        calls = self.account.calls
        if calls.unpriced and not calls.priced and not found.get("nano_usd"):
            found.pop("nano_usd", None)
        return found

    @property
    def held(self) -> dict[str, int]:
        """The amounts on each axis that are held for calls not settled yet."""
        return {axis: held for axis, held in self._most("held").items() if held}

    @property
    def estimated(self) -> int:
        """The number of calls of this process that broke off, or reported no usage.

        What they are charged is an estimate: mostly what was held for them.
        """
        return self.account.calls.estimated

    @property
    def unpriced(self) -> int:
        """The number of calls of this process whose price is unknown, or known in part."""
        return self.account.calls.unpriced

    @property
    def cut_short(self) -> int:
        """The number of answers to this process that ended at a limit which a budget lowered."""
        return self.account.calls.cut_short

    @property
    def left(self) -> dict[str, int]:
        """The amounts left on each limited axis, less those held now: the least of all limits."""
        found: dict[str, int] = {}
        for row in self._rows(True):
            if row.left is not None:
                found[row.axis] = min(row.left, found.get(row.axis, row.left))
        return found

    def _most(self, name: str) -> dict[str, int]:
        """Return an attribute of its accounts' limits by axis, the most of its windows."""
        found: dict[str, int] = {}
        for row in self._rows():
            found[row.axis] = max(getattr(row, name), found.get(row.axis, 0))
        return found

    def _rows(self, is_above: bool = False) -> list[Any]:
        """Return the limits of its own accounts, with `is_above` also those above them."""
        return [
            row
            for account in self.accounts
            for row in account.balance()
            if is_above or row.account == account.path
        ]


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
    URL as `open_ledger` takes it, which processes share. Without one, limits with a window, such as
    `"$5/day"`, are in the default ledger, and survive the process; the others are in its memory.

    The options:

    - `enforcement`: `"cutoff"` refuses, `"fallback"` has `fallback_model` answer, `"warn"` tells
      the model, `"observe"` counts; the default is `"fallback"` with a model for it, else a cutoff.
    - `warning_thresholds`: the shares of a limit at which the model is told, each once.
    - `tool_strip_threshold`: the share from which a call offers no tools, or none of
      `tool_strip_disallow`.
    - `prices`: a table of `Price`s by model, in the place of `ListedPrices`, which is the default
      if genai-prices is there; a `PriceTable` has both.
    - `deployments`: the models of a cloud's deployments, by the names that these have there.
    - `tool_prices`: dollars for one call of a tool, by its name; others cost nothing.
    - `max_tokens`: the tokens of an answer for which the caller gives no limit; of several blocks
      and clients the least. Without it limits of tokens and money bound an answer, no others do.
    - `wait`: seconds for which a call waits for what others hold; by default it does not.
    - `expect`: the tokens to hold of an answer where its limit is not free, or `"learned"`; by
      default twice what is learned, where a call does not wait.
    - `ttl`: seconds for which a hold lives unless it is extended.
    - `estimates`: whether an unreported usage is estimated; else it counts as what was held.
    - `repeats`: refuses, with `RepeatedCallError`, a call that would be that many in a row with the
      same model, messages and tools; by default nothing compares them.
    - `on_threshold_crossed`, `on_limit_reached`: the hooks of a `BudgetWrapper`.

    Raises `ValueError` for malformed limits and options, `ImportError` where money is limited and
    no prices are known, and `LedgerUnavailableError`.
    """
    return BudgetBlock(ParsedBudget.read(limits), ledger=ledger, account=account, **options)
