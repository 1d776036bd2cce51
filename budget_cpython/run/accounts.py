"""The accounts that a run draws on: one of its own, and maybe one that outlives it."""

import os
import re
from collections.abc import Sequence
from typing import Any

from budget_core.ledger.limit import Limit
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.ledger.default_ledger import (
    default_account,
    set_default_limits,
    usable_default,
)
from budget_cpython.ledger.limit_parser import by_window, check_counted, parse_budget
from budget_cpython.ledger.limit_words import limits_in_words
from budget_cpython.prices.price_table import PriceTable
from budget_cpython.proxy.settings import read_settings

# what starts a program that its arguments name
_STARTS_OTHERS = re.compile(
    r"(python|pypy)[0-9.]*|node|bun|deno|ruby|perl|php|java|(ba|z|da|fi)?sh|env|nice|nohup|time|timeout"
    r"|uv|uvx|pipx|npx|npm|pnpm|yarn"
)


def read_budget(text: str) -> tuple[list[Limit], float | None]:
    """Return the limits and the seconds of a run's budget; `ValueError` names what to write."""
    try:
        limits, seconds = parse_budget(text, tools=False)
    except ValueError as error:
        # in "…" a shell makes of $5/day a part without a blank, or an empty one
        lacks = "$" not in text and any(" " not in part.strip() for part in text.split("+"))
        quoted = """; put it in '…': in "…" a shell replaces $5""" if lacks else ""
        raise ValueError(f"--budget: {error}{quoted}") from None
    check_counted(limits, "--budget: a run", tools=False)
    return limits, seconds


def read_prices(file: str) -> PriceTable:
    """Return the prices of a TOML file, then those of the list; `ValueError`, `OSError`."""
    settings = read_settings(file, {}, "run")
    if settings.accounts:
        raise ValueError(f"{file!r} has [accounts.…]: a run reads [prices.…] and [deployments]")
    return PriceTable(settings.prices, BudgetAccount().prices, settings.deployments)


def account_of(command: Sequence[str]) -> str:
    """Return the account of a command in the default ledger, by its program and that one's folder.

    Of a command found in `PATH` the folder is the current one.
    """
    return default_account("run", _program_of(command))


def _program_of(command: Sequence[str]) -> str:
    name = os.path.basename(command[0])
    if _STARTS_OTHERS.fullmatch(name):
        for at, word in enumerate(command[1:], 1):
            if word == "-m" and at + 1 < len(command):
                return os.path.join(os.getcwd(), command[at + 1])
            if os.path.isfile(word):
                return word
    elif os.sep in command[0]:
        return command[0]
    return os.path.join(os.getcwd(), name)


def open_accounts(
    limits: Sequence[Limit],
    ledger: Any = None,
    account: str | None = None,
    default: str | None = None,
    replaces: bool = False,
    **rules: Any,
) -> list[BudgetAccount]:
    """Return the accounts of a run: that of its own account in memory, after the one in a ledger.

    Limits with a window are for the account in the ledger, and are set there if it has no limits
    yet, or if this `replaces` them; `default` is the URL of the default ledger where it is that
    one. Raises `ValueError` for an account that has others; a ledger's errors for one that cannot
    be used.
    """
    kept, passing = by_window(limits)
    own = BudgetAccount(passing, None, "run", **rules)
    if ledger is None or account is None:
        return [own]
    if kept and (replaces or _is_free(ledger, account, kept)):
        if default is None:
            ledger.set_limits(account, kept)
        else:
            with usable_default(default):
                set_default_limits(ledger, default, account, kept)
    shared = BudgetAccount((), ledger, account, **rules)
    shared.balance()
    return [shared, own]


def _is_free(ledger: Any, account: str, limits: list[Limit]) -> bool:
    """Tell whether an account has no limits yet; raise `ValueError` if it has others."""
    now = ledger.limits(account)
    if now and not set(limits) <= set(now):
        raise ValueError(
            f"--budget: account {account} has other limits already, {limits_in_words(now)}: "
            "leave those with a window out, or change the account's own"
        )
    return not now
