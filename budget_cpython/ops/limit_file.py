"""Limits of accounts in a TOML file, as `microbudget proxy --settings` takes it."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from budget_core.errors import refuse
from budget_core.ledger.checks import check_path
from budget_core.ledger.limit import Limit
from budget_cpython.files.settings_file import read_toml, tables_of
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ops.words import limit_text, limits_text

_TABLES = ("accounts", "alerts", "prices", "deployments")


def read_limit_file(path: str) -> dict[str, list[Limit]]:
    """Return the limits of each account that has some in a TOML file.

    ```toml
    [accounts."acme/research"]
    limit = "$20/day + 300 calls/hour"
    counted = ["tokens/day"]        # without a limit
    ```

    Other settings of accounts, and the tables of the proxy and of alerts, are left to those.
    Raises `ValueError`, which names the account, and `OSError`.
    """
    said = read_toml(path)
    for name in said:
        if name not in _TABLES:
            raise ValueError(f'{path!r} has {name!r}: limits are in [accounts."PATH"]')
    accounts = tables_of(said, "accounts", "PATH").items()
    found = {account: limits_said(check_path(account), row) for account, row in accounts}
    return {account: limits for account, limits in found.items() if limits}


def limits_said(account: str, row: Mapping[str, Any], tools: bool = True) -> list[Limit]:
    """Return the limits in an account's `limit` and `counted`; `ValueError` names it.

    Without `tools` its message suggests no limit of a tool's calls.
    """
    if "limits" in row:
        raise ValueError(f"account {account!r} has 'limits': its limits are a text named 'limit'")
    counted = row.get("counted", [])
    if not isinstance(counted, list) or not all(isinstance(text, str) for text in counted):
        refuse(f"counted of account {account!r}", "a list such as ['tokens/day']", counted)
    try:
        limits = parse_limits(row["limit"], tools) if "limit" in row else []
        return limits + [_counted(text) for text in counted]
    except ValueError as error:
        raise ValueError(f"the limit of account {account!r}: {error}") from None


def _counted(text: str) -> Limit:
    """Return the limit without a cap of a text such as `tokens/day`."""
    axis, slash, window = text.partition("/")
    one = "$1" if axis.strip() == "dollars" else f"1 {axis}"
    (limit,) = parse_limits(one + slash + window)
    return Limit(limit.axis, None, limit.window)


def limit_file(accounts: Mapping[str, Iterable[Limit]]) -> str:
    """Return the text of a TOML file with the limits of accounts."""
    parts = []
    for path, limits in accounts.items():
        rows = [(limit.axis, limit.cap, limit.window) for limit in limits]
        capped = [row for row in rows if row[1] is not None]
        counted = [limit_text(*row).removeprefix("all ") for row in rows if row[1] is None]
        lines = [f"[accounts.{json.dumps(path)}]"]
        if capped:
            lines.append(f"limit = {json.dumps(limits_text(capped))}")
        if counted:
            lines.append(f"counted = {json.dumps(counted)}")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
