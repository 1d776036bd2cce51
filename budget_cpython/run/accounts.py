"""The accounts that a run draws on: one of its own, and maybe one that outlives it."""

import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from budget_core.ledger.hold import Balance
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.default_ledger import (
    default_account,
    set_default_limits,
    usable_default,
)
from budget_cpython.ledger.limit_parser import ParsedBudget
from budget_cpython.ledger.limit_words import limits_in_words, with_all_axes
from budget_cpython.prices.price_table import NEEDS_PRICES, PriceTable

if TYPE_CHECKING:
    from budget_cpython.adapters.account import BudgetAccount
    from budget_cpython.proxy.settings import Settings

_OWN = "run"  # the account in memory
# what starts a program that its arguments name
_STARTS_OTHERS = re.compile(
    r"(python|pypy)[0-9.]*|node|bun|deno|ruby|perl|php|java|(ba|z|da|fi)?sh|env|nice|nohup|time|timeout"
    r"|uv|uvx|pipx|npx|npm|pnpm|yarn"
)


def read_budget(text: str) -> ParsedBudget:
    """Return a run's budget; `ValueError` names what to write."""
    try:
        budget = ParsedBudget.read(text, tools=False)
    except ValueError as error:
        # in "…" a shell makes of $5/day a part without a blank, or an empty one
        lacks = "$" not in text and any(" " not in part.strip() for part in text.split("+"))
        quoted = """; put it in '…': in "…" a shell replaces $5""" if lacks else ""
        raise ValueError(f"--budget: {error}{quoted}") from None
    budget.check_counted("--budget: a run", tools=False)
    return budget


def read_prices(file: str) -> Callable[[], PriceTable]:
    """Return a function that loads the prices of a TOML file, then those of the list.

    Raises `ValueError` for a malformed file, and `OSError`.
    """
    from budget_cpython.proxy.settings import read_settings

    settings = read_settings(file, {}, "run")
    if settings.accounts:
        raise ValueError(f"{file!r} has [accounts.…]: a run reads [prices.…] and [deployments]")
    return partial(_load_prices, settings)


def _load_prices(settings: "Settings") -> PriceTable:
    from budget_cpython.adapters.account import BudgetAccount

    return PriceTable(settings.prices, BudgetAccount().prices, settings.deployments)


class DeferredAccount:
    """An account in a ledger, whose code for calls is loaded after the command has started.

    `load` returns its `BudgetAccount`, with the prices of `load_prices`, else those of the list.
    That takes longer to import than most commands to start.
    """

    def __init__(
        self,
        ledger: Any,
        path: str,
        load_prices: Callable[[], Any] | None = None,
        **rules: Any,
    ) -> None:
        self._ledger = ledger
        self._path = path
        self._load_prices = load_prices
        self._rules = rules
        self._loaded: BudgetAccount | None = None

    def load(self) -> "BudgetAccount":
        """Return the account as calls draw on it."""
        from budget_cpython.adapters.account import BudgetAccount

        prices = {"prices": self._load_prices()} if self._load_prices else {}
        self._loaded = BudgetAccount((), self._ledger, self._path, **self._rules, **prices)
        return self._loaded

    def balance(self) -> list[Balance]:
        """Return the account's limits as they stand."""
        if self._loaded is not None:
            return self._loaded.balance()
        rows: list[Balance] = self._ledger.balance(self._path)
        return rows


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
    budget: ParsedBudget,
    ledger: Any = None,
    account: str | None = None,
    default: str | None = None,
    replaces: bool = False,
    load_prices: Callable[[], Any] | None = None,
    **rules: Any,
) -> list[DeferredAccount]:
    """Return the accounts of a run: that of its own account in memory, after the one in a ledger.

    Limits with a window are for the account in the ledger, and are set there if it has no limits
    yet, or if this `replaces` them; `default` is the URL of the default ledger where it is that
    one. Raises `ValueError` for an account that has others and for malformed `rules`, `ImportError`
    for a limit on money without prices, and a ledger's errors for one that cannot be used.
    """
    _check_rules(budget, load_prices is not None, rules)
    memory = Ledger()
    memory.set_limits(_OWN, with_all_axes(budget.unwindowed))
    own = DeferredAccount(memory, _OWN, load_prices, **rules)
    if ledger is None or account is None:
        return [own]
    kept = budget.windowed
    if kept and (replaces or _is_free(ledger, account, kept)):
        if default is None:
            ledger.set_limits(account, kept)
        else:
            with usable_default(default):
                set_default_limits(ledger, default, account, kept)
    shared = DeferredAccount(ledger, account, load_prices, **rules)
    shared.balance()
    return [shared, own]


def _check_rules(budget: ParsedBudget, has_prices: bool, rules: dict[str, Any]) -> None:
    """Raise what `DeferredAccount.load` would, before the command starts."""
    is_priced = has_prices or find_spec("genai_prices") is not None
    if not is_priced and any(limit.axis == "nano_usd" for limit in budget.unwindowed):
        raise ImportError(NEEDS_PRICES)
    if rules:
        from budget_cpython.adapters.account import BudgetAccount

        BudgetAccount(prices={}, **rules)


def _is_free(ledger: Any, account: str, limits: list[Limit]) -> bool:
    """Tell whether an account has no limits yet; raise `ValueError` if it has others."""
    now = ledger.limits(account)
    if now and not set(limits) <= set(now):
        raise ValueError(
            f"--budget: account {account} has other limits already, {limits_in_words(now)}: "
            "leave those with a window out, or change the account's own"
        )
    return not now
