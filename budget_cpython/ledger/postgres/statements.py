"""Write each operation as a statement that calls its function on the server."""

from collections.abc import Sequence
from json import dumps
from typing import Any

from budget_core.ledger.checks import chain, root

Arguments = dict[str, Any]
BATCH = 200  # holds that one call expires or forgets at most

_PARAMETERS = {
    "reserve": "chain id asked counted ttl_ms now bounds keep_ms forget",
    "renew": "chain former actual id asked counted ttl_ms now bounds keep_ms forget",
    "charge": "chain id amounts now bounds keep_ms forget",
    "commit": "root path id actual now keep_ms",
    "release": "root path id now keep_ms",
    "extend": "root path id ttl_ms now keep_ms",
    "hold": "root path id now keep_ms",
    "expire": "now keep_ms batch",
    "set_limits": "chain limits max_accounts now bounds",
    "limits": "path",
    "accounts": "",
    "balance": "chain now bounds",
    "history": "chain now bounds",
    "balances": "path now bounds",
    "open_holds": "path most now",
    "note": "id events most_events keep_s now forget",
    "events": "path kinds after most",
    "add_usage": "id usage newest keep_s now forget",
    "usage": "path since",
}
_NAMES = {operation: names.split() for operation, names in _PARAMETERS.items()}
LEAVING = [name for name in _NAMES if "forget" in _NAMES[name]]  # operations that leave a row
_MARKS = {"chain": "string_to_array(%s, ' ')"}  # psycopg takes longer over a list


def statement(operation: str, schema: str) -> bytes:
    """Return the statement of an operation in a schema."""
    marks = ", ".join(_MARKS.get(name, "%s") for name in _NAMES[operation])
    return f'SELECT "{schema}".{operation}({marks})'.encode()


def together(calls: Sequence[tuple[str, Arguments]], schema: str) -> tuple[bytes, list[str | None]]:
    """Return the statement of several operations, and the values of its parameters."""
    operations = [
        [operation, _holds(given), *parameters(operation, given)] for operation, given in calls
    ]
    paths = {given["path"] for _, given in calls}
    accounts = " ".join({account for path in paths for account in chain(path)})
    roots = " ".join(sorted({root(path) for path in paths}))
    text = f'SELECT "{schema}".together(%s, {_MARKS["chain"]}, {_MARKS["chain"]})'
    return text.encode(), [dumps(operations), roots, accounts]


def _holds(given: Arguments) -> list[str]:
    return [f"{root(given['path'])} {given[name]}" for name in ("former", "id") if name in given]


def parameters(operation: str, arguments: Arguments) -> list[str | None]:
    """Return the values of the statement's parameters."""
    return [_parameter(name, arguments) for name in _NAMES[operation]]


def _parameter(name: str, arguments: Arguments) -> str | None:
    """Return a value as text, whose type the server knows."""
    if name == "chain":
        return " ".join(chain(arguments["path"]))
    if name == "root":
        return root(arguments["path"])
    if name == "batch":
        return str(BATCH)
    if name == "asked":
        return dumps(arguments["amounts"] | dict.fromkeys(arguments["unbounded"]))
    value: Any = arguments[name]
    if isinstance(value, (dict, list)):
        return dumps(value)
    return None if value is None else str(value)
