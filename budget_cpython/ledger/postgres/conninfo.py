"""Complete a conninfo, and never repeat a password."""

import re
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from budget_core.errors import refuse

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_NAMES = re.compile(r"[^@]*\Z")
_PORTS = re.compile(r"[0-9,]*\Z")


def check_schema(schema: Any) -> str:
    """Accept a schema's name: up to 63 lowercase letters, digits and `_`, no digit first."""
    plain = isinstance(schema, str) and _SCHEMA.match(schema) and not schema.startswith("pg_")
    if not plain:
        refuse("schema", "up to 63 of a-z, 0-9 and _, no digit and no pg_ first", schema)
    return str(schema)


def milliseconds(timeout: float) -> int:
    """Return the time that the server lets a statement take, where no pooler is between."""
    return max(1, round(timeout * 1000))


def complete(
    conninfo: str | Callable[[], str], timeout: float, pooler: bool
) -> str | Callable[[], str]:
    """Return a conninfo, or a function that returns one, with defaults for what it leaves open.

    Raises `ValueError`, which does not show it: libpq's own words would.
    """
    if callable(conninfo):
        return lambda: _complete(conninfo(), timeout, pooler)
    return _complete(conninfo, timeout, pooler)


def _complete(conninfo: str, timeout: float, pooler: bool) -> str:
    known = _read(conninfo)
    settings = {
        "connect_timeout": str(max(2, round(timeout))),
        "target_session_attrs": "read-write",
        "fallback_application_name": "microbudget",
        "tcp_user_timeout": str(round(timeout * 1000)),
        **known,
    }
    if not pooler:
        settings["options"] = " ".join(
            [
                known.get("options", ""),
                f"-c statement_timeout={milliseconds(timeout)}",
                "-c default_transaction_isolation=read\\ committed",
            ]
        ).strip()
    return make_conninfo("", **settings)


def _read(conninfo: Any) -> dict[str, str]:
    known: dict[str, str] = {}
    try:
        for name, value in conninfo_to_dict(conninfo).items():
            known[name] = str(value)
    except (psycopg.Error, TypeError):
        known = {"host": "@"}
    hosts = known.get("host", "") + known.get("hostaddr", "") + known.get("dbname", "")
    if not _NAMES.match(hosts) or not _PORTS.match(known.get("port", "")):
        raise ValueError(
            "conninfo must be a connection string or URI as libpq reads it, with special "
            "characters in the password of a URI percent-encoded"
        )
    return known
