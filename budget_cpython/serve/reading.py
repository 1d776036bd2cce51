"""Read the fields of a request as its type, and say in plain words which one is wrong."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from msgspec import Struct, ValidationError, convert

from budget_core.errors import refuse
from budget_core.ledger.checks import MAX_KEY, check_amounts, check_key
from budget_core.ledger.hold import check_ttl, check_wait
from budget_cpython.serve.field_types import Json
from budget_cpython.serve.messages import LimitRow, NewEvent, NewUsage

T = TypeVar("T", bound=Struct)


def read(kind: type[T], fields: Json) -> T:
    """Return a request's fields as its type; `ValueError` names the one that is wrong."""
    try:
        return convert(fields, kind)
    except ValidationError as error:
        _explain(kind, fields)
        raise ValueError(str(error)) from error


def _explain(kind: type[Struct], fields: Json) -> None:
    """Raise `ValueError` for the first field that is unknown, missing or of the wrong kind."""
    known = kind.__struct_fields__
    for name in fields:
        if name not in known:
            text = f"the known ones are {', '.join(known)}" if known else "there are none"
            raise ValueError(f"unknown field {name[:64]!r}: {text}")
    for name in known[: len(known) - len(kind.__struct_defaults__)]:
        if name not in fields:
            raise ValueError(f"the field {name!r} is missing")
    for name, value in fields.items():
        if value is not None or name not in _MAYBE:
            _CHECKS[name](value)


def _check_rows(name: str, row: type[Struct], example: str, rows: Any) -> None:
    if not isinstance(rows, list):
        refuse(name, f"a list of objects like {example}", rows)
    for number, one in enumerate(rows):
        try:
            convert(one, row)
        except ValidationError:
            refuse(f"{name}[{number}]", f"an object like {example}", one)


def _check_actual(value: Any) -> None:
    if not isinstance(value, dict):
        refuse("actual", "an object of whole numbers by axis", value)


def check_id(value: Any) -> None:
    """Raise `ValueError` for a malformed id of a hold: a key, or one that the ledger made."""
    try:
        check_key(value[1:] if isinstance(value, str) and value[:1] == "#" else value)
    except ValueError:
        refuse("id", f"that of a hold, up to {MAX_KEY} printable ASCII characters", value)


_MAYBE = ("actual", "key", "ttl", "wait")  # the fields that may be null
_CHECKS: dict[str, Callable[[Any], object]] = {
    "amounts": partial(check_amounts, unbounded=True),
    "actual": _check_actual,
    "key": check_key,
    "id": check_id,
    "ttl": check_ttl,
    "wait": check_wait,
    "limits": partial(
        _check_rows, "limits", LimitRow, '{"axis": "tokens", "cap": 1000, "window": "day"}'
    ),
    "events": partial(
        _check_rows, "events", NewEvent, '{"kind": "deployed", "details": {"version": "1.2"}}'
    ),
    "rows": partial(
        _check_rows,
        "rows",
        NewUsage,
        '{"hour": 1772366400, "model": "small", "amounts": {"tokens": 20}}',
    ),
}
