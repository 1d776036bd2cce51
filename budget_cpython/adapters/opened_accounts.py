"""The accounts of a line of limits: which limits are refused, and where each is counted."""

import sys
from dataclasses import dataclass
from typing import Any, Unpack

from budget_cpython.adapters.account import Accounts, BudgetAccount, Options, check_prices
from budget_cpython.context.process_state import DEFAULT_LIMITS, LOCK
from budget_cpython.ledger.default_ledger import (
    default_account,
    default_url,
    set_default_limits,
    usable_default,
)
from budget_cpython.ledger.limit_parser import ParsedBudget


@dataclass(frozen=True)
class Caller:
    """The user of accounts: its name, and whether it makes calls of models and of tools."""

    name: str
    models: bool = True
    tools: bool = True


def accounts_of(
    limits: str | None,
    ledger: Any,
    account: str | None,
    caller: Caller,
    /,
    **options: Unpack[Options],
) -> Accounts:
    """Return the accounts of what `budgeted` was given; none where it was given nothing."""
    if limits is None and ledger is None and account is None and not options:
        return ()
    watch_clients()
    budget = ParsedBudget([]) if limits is None else ParsedBudget.read(limits)
    if budget.seconds is not None:
        raise ValueError(
            f"limits of a client have no time: {budget.text!r}. Give it to a block, as in "
            "with budget('10 min')"
        )
    return open_accounts(budget, ledger, account, caller, **options)


def watch_clients() -> None:
    """See the calls of clients of httpx and httpx2, as far as these are imported now."""
    if "httpx" in sys.modules or "httpx2" in sys.modules:
        from budget_cpython.adapters.http.instrumented import watch

        watch()


def open_accounts(
    budget: ParsedBudget,
    ledger: Any,
    account: str | None,
    caller: Caller,
    /,
    **options: Unpack[Options],
) -> Accounts:
    """Return the accounts that a budget's limits are on, the outermost first.

    Without a ledger those with a window are on an account of the default ledger, and the others in
    memory. Raises `ValueError` for a limit that nothing would count, and for an account without a
    ledger.
    """
    _check(budget, caller, options)
    if ledger is not None:
        return (BudgetAccount(budget.limits, ledger, account, **options),)
    if budget.windowed:
        in_memory = budget.unwindowed
        own = (BudgetAccount(in_memory, **options),) if in_memory else ()
        return (_on_default_ledger(budget, account, caller.name, **options), *own)
    if account is not None:
        raise ValueError(
            f"account={account!r} names an account of a ledger: give ledger= too, or limits with a "
            "window, such as '$5/day'"
        )
    return (BudgetAccount(budget.limits, **options),)


def _check(budget: ParsedBudget, caller: Caller, options: Options) -> None:
    """Raise `ValueError` for a limit or an option that would stop nothing there."""
    budget.check_counted(caller.name, caller.models, caller.tools)
    if caller.models:
        return
    if "nano_usd" in budget.axes and not options.get("tool_prices"):
        raise ValueError(
            f"{caller.name} counts dollars of tools only, and none has a price: give "
            "tool_prices={'search': '0.01'}"
        )
    if options.get("repeats") is not None:
        raise ValueError(
            f"{caller.name} counts calls of tools: repeats, which compares calls of models, would "
            "stop nothing there"
        )


def _on_default_ledger(
    budget: ParsedBudget, account: str | None, name: str, **options: Unpack[Options]
) -> BudgetAccount:
    """Return an account on the default ledger, by default on the account of this program."""
    url, path = default_url(), default_account(name) if account is None else account
    limits = set(budget.windowed)
    with LOCK:
        known = DEFAULT_LIMITS.get((url, path))
        if account is None and known not in (None, limits):
            raise ValueError(
                f"the account {path} has other limits in this program: give these an account of "
                "their own, as in account='research'"
            )
        with usable_default(url):
            made = BudgetAccount((), url, path, **options)
            check_prices(budget.windowed, options)
            if known != limits:
                set_default_limits(made.ledger, url, path, budget.windowed)
        DEFAULT_LIMITS[url, path] = limits
        return made
