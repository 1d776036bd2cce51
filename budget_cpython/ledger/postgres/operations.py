"""Write each operation as a call of its function on the server, and read the reply."""

import json
from collections.abc import Callable
from typing import Any

from budget_core.ledger.limit import chain, check_key, root

Arguments = dict[str, Any]
BATCH = 200  # holds that one call expires or forgets at most

_FUNCTIONS = {
    "reserve": "chain id amounts ttl_ms now bounds keep_ms forget",
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
}


class Operation:
    """One operation: its `name`, its `statement` in a schema, and its parameters as text."""

    def __init__(self, name: str, schema: str) -> None:
        fields = _FUNCTIONS[name].split()
        marks = ", ".join(f"${number + 1}" for number in range(len(fields)))
        self.name = b"microbudget_" + name.encode()
        self.statement = f'SELECT "{schema}".{name}({marks})'.encode()
        self._writers = [_writer(field) for field in fields]

    def write(self, arguments: Arguments) -> list[bytes | None]:
        """Return the parameters."""
        return [writer(arguments) for writer in self._writers]


def operations(schema: str) -> dict[str, Operation]:
    """Return all operations by name."""
    return {name: Operation(name, schema) for name in _FUNCTIONS}


class _Bounds:
    """Writes the bounds of windows; the same ones, which are never changed, only once."""

    def __init__(self) -> None:
        self._last: tuple[Any, bytes] = (None, b"")

    def __call__(self, arguments: Arguments) -> bytes:
        last = self._last
        if last[0] is not arguments["bounds"]:
            self._last = last = (arguments["bounds"], json.dumps(arguments["bounds"]).encode())
        return last[1]


def _writer(field: str) -> Callable[[Arguments], bytes | None]:
    return _Bounds() if field == "bounds" else _WRITERS.get(field) or _plain(field)


def _amounts(arguments: Arguments) -> bytes:
    amounts = arguments["amounts"]  # by axes whose names need no quoting
    return ("{" + ",".join([f'"{axis}":{amounts[axis]}' for axis in amounts]) + "}").encode()


def _plain(field: str) -> Callable[[Arguments], bytes | None]:
    def write(arguments: Arguments) -> bytes | None:
        value = arguments[field]
        return None if value is None else str(value).encode()

    return write


def _json(field: str) -> Callable[[Arguments], bytes | None]:
    def write(arguments: Arguments) -> bytes | None:
        value = arguments[field]
        return None if value is None else json.dumps(value).encode()

    return write


def _chain(arguments: Arguments) -> bytes:
    return ('{"' + '","'.join(chain(arguments["path"])) + '"}').encode()


def _root(arguments: Arguments) -> bytes:
    return root(arguments["path"]).encode()


def _id(arguments: Arguments) -> bytes:
    name: str = arguments["id"]
    if not (name.isascii() and name.isprintable()):  # libpq would end it at a NUL
        check_key(name)
    return name.encode()


def _batch(arguments: Arguments) -> bytes:
    return str(BATCH).encode()


_WRITERS: dict[str, Callable[[Arguments], bytes | None]] = {
    "chain": _chain,
    "root": _root,
    "id": _id,
    "amounts": _amounts,
    "actual": _json("actual"),
    "limits": _json("limits"),
    "batch": _batch,
}
