"""The accounts that a run draws on: one of its own, and maybe one that outlives it."""

from collections.abc import Sequence
from typing import Any

from budget_core.ledger.limit import Limit
from budget_cpython.adapters.layer import Layer
from budget_cpython.ledger.limit_parser import check_counted, parse_budget
from budget_cpython.price_table import PriceTable
from budget_cpython.proxy.settings import read_settings


def read_budget(text: str) -> tuple[list[Limit], float | None]:
    """Return the limits and the seconds of a run's budget; `ValueError` names what to write."""
    try:
        limits, seconds = parse_budget(text)
        check_counted(limits, "a run", tools=False)
    except ValueError as error:
        quoted = "" if "$" in text else """; put it in '…': in "…" a shell replaces $5"""
        raise ValueError(f"--budget: {error}{quoted}") from None
    return limits, seconds


def read_prices(file: str) -> PriceTable:
    """Return the prices of a TOML file, then those of the list; `ValueError`, `OSError`."""
    settings = read_settings(file, {}, "run")
    if settings.accounts:
        raise ValueError(f"{file!r} has [accounts.…]: a run reads [prices.…] and [deployments]")
    return PriceTable(settings.prices, Layer().prices, settings.deployments)


def open_layers(
    limits: Sequence[Limit], ledger: Any = None, account: str | None = None, **rules: Any
) -> list[Layer]:
    """Return what the calls of a run draw on: its own account in memory, after that in a ledger.

    Limits with a window are for the account in the ledger, and are set there if it has no limits
    yet. Raises `ValueError` for such a limit without a ledger, and for an account that has others;
    a ledger's errors for an account that cannot be used.
    """
    kept = [limit for limit in limits if limit.window != "run"]
    own = Layer([limit for limit in limits if limit.window == "run"], None, "run", **rules)
    if ledger is None:
        if kept:
            window = kept[0].window
            raise ValueError(
                f"--budget: a run forgets at its end what it used of its {window}: keep that in a "
                f"ledger, as with --ledger sqlite:budget.db --account me, or leave /{window} out"
            )
        return [own]
    if kept:
        _set(ledger, account, kept)
    shared = Layer((), ledger, account, **rules)
    shared.balance()
    return [shared, own]


def _set(ledger: Any, account: str | None, limits: list[Limit]) -> None:
    now = ledger.limits(account)
    if not now:
        ledger.set_limits(account, limits)
    elif not set(limits) <= set(now):
        known = ", ".join(f"{limit.cap} {limit.axis} per {limit.window}" for limit in now)
        raise ValueError(
            f"--budget: account {account} has other limits already, {known}: leave those with a "
            "window out, or change the account's own"
        )
