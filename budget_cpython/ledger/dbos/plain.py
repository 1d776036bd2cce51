"""Turn a ledger's results and errors into plain data, and back.

DBOS keeps the result of a step in its database: plain data outlives every version of our classes,
and any serialiser takes it.
"""

from typing import Any

from budget_core.ledger.errors import LedgerError
from budget_core.ledger.hold import Balance, Hold
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.errors import ERRORS, arguments

_RECORDS: dict[type[Any], tuple[str, ...]] = {
    Hold: ("path", "id", "amounts", "state", "expires_ms", "actual"),
    Limit: ("axis", "cap", "window"),
    Balance: (
        "account", "axis", "window", "limit", "spent", "held", "begins_at", "resets_at"
    ),
}  # fmt: skip
_KINDS = {kind.__name__: kind for kind in (*_RECORDS, *ERRORS)}


def pack(value: Any) -> Any:
    """Return plain data for a ledger's result, or for the error that it raised."""
    kind = type(value)
    if kind in _RECORDS:
        return {kind.__name__: [getattr(value, name) for name in _RECORDS[kind]]}
    if kind in ERRORS:
        return {kind.__name__: arguments(value)}
    if isinstance(value, list):
        return [pack(one) for one in value]
    return value


def unpack(data: Any) -> Any:
    """Return what was packed; raise it if it was an error."""
    if isinstance(data, list):
        return [unpack(one) for one in data]
    if not isinstance(data, dict):
        return data
    ((name, arguments),) = data.items()
    value = _KINDS[name](*arguments)
    if isinstance(value, LedgerError):
        raise value
    return value
