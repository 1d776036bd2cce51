"""The types of fields in requests and answers: what JSON has there, and what programs are told.

Of a request's values the type is what is read; which of them are valid the ledger decides, and
says in its own words. The rest of a type describes them.
"""

from typing import Annotated, Any

from msgspec import Meta

from budget_core.ledger.checks import MAX_DEPTH, MAX_KEY, MAX_LIMITS, MAX_SEGMENT, MOST
from budget_core.ledger.hold import MAX_TTL, TTL
from budget_core.until import LAST_DATE
from budget_cpython.ledger.journal import HOUR_S, LONGEST_TEXT
from budget_cpython.serve.window_names import windows_pattern

Json = dict[str, Any]


def like(text: str | None = None, /, **schema: Any) -> Meta:
    """Return a field's description, and its bounds as JSON Schema has them."""
    return Meta(description=text, extra_json_schema=schema)


_SEGMENT = rf"(?!\.+(/|$))[A-Za-z0-9_\-.@+=]{{1,{MAX_SEGMENT}}}"
AXIS = {"type": "string", "pattern": rf"^[A-Za-z0-9_\-]{{1,{MAX_SEGMENT}}}$"}
AMOUNT = {"type": "integer", "minimum": 0, "maximum": MOST}
MAYBE_AMOUNT = {**AMOUNT, "type": ["integer", "null"]}
_DOLLARS = [
    {"type": "string", "pattern": r"^([0-8]?[0-9]{1,6}(\.[0-9]{0,9})?|\.[0-9]{1,9})$"},
    {"type": "integer", "minimum": 0, "maximum": 9_007_199},
    {"type": "number", "minimum": 1e-9, "maximum": 9_007_199},
]
_USD = {"anyOf": _DOLLARS, "description": "dollars, as in `0.05`, for nano_usd"}
_MAYBE_USD = {**_USD, "anyOf": [*_DOLLARS, {"type": "null"}]}
BY_AXIS = "the amount of each axis"


def _amounts(text: str, amount: Json = AMOUNT, usd: Json = _USD) -> Meta:
    more = {"not": {"required": ["usd", "nano_usd"]}, "maxProperties": MAX_LIMITS}
    kinds = {"propertyNames": AXIS, "properties": {"usd": usd}, "additionalProperties": amount}
    return like(text, **kinds, **more)


_ASKED = _amounts(
    f"{BY_AXIS}; an axis that no limit counts is refused, except tokens, calls and nano_usd; "
    "`null` has no bound: any cap refuses it",
    MAYBE_AMOUNT,
    _MAYBE_USD,
)
LIMIT_KINDS = [
    {"properties": {"axis": {"const": "usd"}, "cap": _MAYBE_USD}},
    {"properties": {"axis": {"not": {"const": "usd"}}, "cap": MAYBE_AMOUNT}},
]
_WINDOWS = "run, hour, day, week, month, day@5 (from 5:00 UTC), week sunday, day@5 Europe/Berlin; \
rolling 86400/24 and others, whose seconds are a multiple of their buckets"

Path = Annotated[str, like(pattern=rf"^{_SEGMENT}(/{_SEGMENT}){{0,{MAX_DEPTH - 1}}}$")]
Axis = Annotated[str, like(pattern=AXIS["pattern"])]
Id = Annotated[
    str, like("the id of a hold", pattern=rf"^(#[!\"$-~]|[!\"$-~])[!-~]{{0,{MAX_KEY - 1}}}$")
]
Key = Annotated[
    Annotated[str, like(pattern=rf"^[!\"$-~][!-~]{{0,{MAX_KEY - 1}}}$")] | None,
    Meta(description="a repeated request with the same key is done once"),
]
_TTL = f"seconds for which the hold is live; {TTL} by default"
_WAIT = "seconds to wait in turn for what others hold, up to 60; else 0"
Ttl = Annotated[float, like(_TTL, exclusiveMinimum=0, maximum=MAX_TTL)] | None
Wait = Annotated[float, like(_WAIT, minimum=0)] | None
Asked = Annotated[Json, _ASKED]
Used = Annotated[Json, _amounts(BY_AXIS)]
Actual = (
    Annotated[Json, _amounts("the amounts used; an axis that is missing counts as held")] | None
)
Text = Annotated[str, like(pattern=r"^[^\x00]*$", maxLength=LONGEST_TEXT)]
Name = Annotated[str, like(pattern=r"^[^\x00]*$", minLength=1, maxLength=LONGEST_TEXT)]
Count = Annotated[int, Meta(ge=0)]
Counted = Annotated[dict[Axis, Count], Meta(description=BY_AXIS)]
At = Annotated[int, Meta(ge=0, description="Unix seconds")]
Left = Annotated[int, Meta(ge=0, description="the amount that may still be used")] | None
Next = Annotated[str | None, Meta(description="`after` for the next page; null on the last")]
_HOUR = "the Unix second in which it began"
Hour = Annotated[int, like(_HOUR, minimum=0, maximum=LAST_DATE, multipleOf=HOUR_S)]
DIGITS = "^[0-9]{1,15}$"
Window = Annotated[str, like(_WINDOWS, pattern=windows_pattern())]
