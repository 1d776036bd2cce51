"""Limits, accounts and holds as JSON has them, with names that stay."""

from typing import Any

from budget_core.ledger.hold import Balance
from budget_cpython.ledger.journal import LedgerEvent, OpenHold
from budget_cpython.ops.account_tree import AccountStatus
from budget_cpython.ops.forecast import LimitStatus

_BALANCE = (
    "account", "axis", "window", "limit", "spent", "held", "left", "debt", "begins_at", "resets_at"
)  # fmt: skip


def balance_row(balance: Balance) -> dict[str, Any]:
    """Return a balance by the names of its attributes; money is in nano-USD."""
    return {name: getattr(balance, name) for name in _BALANCE}


def limit_row(status: LimitStatus) -> dict[str, Any]:
    """Return a balance, its state, and what its rate leads to.

    `rate_per_hour` and `empty_at` are `None` where they are not known.
    """
    return {
        **balance_row(status.balance),
        "percent": status.percent,
        "state": status.state,
        "rate_per_hour": status.rate,
        "empty_at": status.empty_at,
        "ends_early": status.ends_early,
    }


def account_row(account: AccountStatus) -> dict[str, Any]:
    """Return an account with its limits."""
    limits = [limit_row(limit) for limit in account.limits]
    return {"account": account.path, "state": account.state, "limits": limits}


def refusal_row(event: LedgerEvent) -> dict[str, Any]:
    """Return refused calls of one account by one limit; `kind` is `refused` or `observed`."""
    return {
        "account": event.account,
        "kind": event.kind,
        "at": event.at,
        "times": event.times,
        "limit": event.details.get("limit"),
    }


def hold_row(hold: OpenHold) -> dict[str, Any]:
    """Return a hold that is not settled."""
    return {
        "account": hold.path,
        "id": hold.id,
        "amounts": hold.amounts,
        "taken_at": hold.taken_at,
        "expires_at": hold.expires_at,
    }
