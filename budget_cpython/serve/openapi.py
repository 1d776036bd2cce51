"""Describe the service as OpenAPI 3.1, from the table of its operations."""

from typing import Any

from budget_core.ledger.checks import MAX_DEPTH, MAX_KEY, MAX_LIMITS, MAX_SEGMENT, MOST
from budget_core.ledger.records import MAX_TTL, TTL
from budget_core.until import LAST_DATE
from budget_cpython.ledger.error_answers import LEDGER_ERRORS
from budget_cpython.ledger.journal import LONGEST_TEXT
from budget_cpython.serve import journal_operations  # noqa: F401 - which adds operations
from budget_cpython.serve.error_responses import HTTP_ERRORS
from budget_cpython.serve.operations import OPERATIONS, Operation, urls_of
from budget_cpython.serve.window_names import windows_pattern
from budget_cpython.version import version

Json = dict[str, Any]
_SEGMENT = rf"(?!\.+(/|$))[A-Za-z0-9_\-.@+=]{{1,{MAX_SEGMENT}}}"
_STRING = {"type": "string"}
_PATH = {"type": "string", "pattern": rf"^{_SEGMENT}(/{_SEGMENT}){{0,{MAX_DEPTH - 1}}}$"}
_AXIS = {"type": "string", "pattern": rf"^[A-Za-z0-9_\-]{{1,{MAX_SEGMENT}}}$"}
_AMOUNT = {"type": "integer", "minimum": 0, "maximum": MOST}
_MAYBE_AMOUNT = dict(_AMOUNT, type=["integer", "null"])
_COUNT = {"type": "integer", "minimum": 0}
_MAYBE_TIME = {"type": ["integer", "null"], "minimum": 0}
_AMOUNTS = {"type": "object", "propertyNames": _AXIS, "additionalProperties": _AMOUNT}
_ID = {"type": "string", "pattern": rf"^(#[!\"$-~]|[!\"$-~])[!-~]{{0,{MAX_KEY - 1}}}$"}
_KEY = {"type": "string", "pattern": rf"^[!\"$-~][!-~]{{0,{MAX_KEY - 1}}}$"}


_DIGITS = {"type": "string", "pattern": "^[0-9]{1,15}$"}
_WITHOUT_NUL = {"type": "string", "pattern": r"^[^\x00]*$"}
_MAYBE_NAME = dict(_WITHOUT_NUL, maxLength=LONGEST_TEXT)
_NAME = dict(_MAYBE_NAME, minLength=1)
_USED = dict(_AMOUNTS, additionalProperties=_COUNT)
_HOUR = {
    "type": "integer",
    "minimum": 0,
    "maximum": LAST_DATE,
    "multipleOf": 3600,
    "description": "the Unix second in which it began",
}


def _schema(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(items: Json, **more: Any) -> Json:
    return {"type": "array", "items": items, **more}


def _text(schema: Json, text: str) -> Json:
    return dict(schema, description=text)


def _object(optional: tuple[str, ...] = (), /, **properties: Json) -> Json:
    required = [name for name in properties if name not in optional]
    found = {"type": "object", "properties": properties, "required": required}
    return dict(found, additionalProperties=False)


_ONCE = "a repeated request with the same key is done once"
_BY_AXIS = "the amount of each axis"
_OF_RESERVE = f"{_BY_AXIS}; an axis that no limit counts is refused, except tokens, calls and \
nano_usd; `null` has no bound: any cap refuses it"
_WINDOWS = "run, hour, day, week, month, day@5 (from 5:00 UTC), week sunday, day@5 Europe/Berlin; \
rolling 86400/24 and others, whose seconds are a multiple of their buckets"
_USD_TEXT = {"type": "string", "pattern": r"^([0-8]?[0-9]{1,6}(\.[0-9]{0,9})?|\.[0-9]{1,9})$"}
_USD_WHOLE = {"type": "integer", "minimum": 0, "maximum": 9_007_199}
_USD_PART = {"type": "number", "minimum": 1e-9, "maximum": 9_007_199}
_DOLLARS = [_USD_TEXT, _USD_WHOLE, _USD_PART]
_USD = {"anyOf": _DOLLARS, "description": "dollars, as in `0.05`, for nano_usd"}
_MAYBE_USD = dict(_USD, anyOf=[*_DOLLARS, {"type": "null"}])
_NOT_BOTH = {"not": {"required": ["usd", "nano_usd"]}, "maxProperties": MAX_LIMITS}
_SPENT = dict(_AMOUNTS, type=["object", "null"])
_ACTUAL = dict(_SPENT, properties={"usd": _USD}, **_NOT_BOTH)
_CHARGED = dict(_AMOUNTS, properties={"usd": _USD}, **_NOT_BOTH)
_ASKED = dict(
    _AMOUNTS, properties={"usd": _MAYBE_USD}, additionalProperties=_MAYBE_AMOUNT, **_NOT_BOTH
)
_APPLIED = "of `ledger_unavailable`: false if nothing was done, null if that is unknown; the same \
request with the same key is safe to repeat"
_MAYBE_TTL = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": MAX_TTL}
_MAYBE_WAIT = {"type": ["number", "null"], "minimum": 0}
_CAP = "null for unlimited, 0 for nothing; dollars of usd are shown as nano_usd"


def _limit(axis: Json, cap: Json) -> Json:
    return _object(("window",), axis=axis, cap=cap, window=_schema("Window"))


_ROWS = _list(_schema("Limit"), maxItems=MAX_LIMITS)
_NEXT = _text({"type": ["string", "null"]}, "`after` for the next page; null on the last")
FIELDS: dict[str, Json] = {
    "amounts": _text(_CHARGED, _BY_AXIS),
    "reserve amounts": _text(_ASKED, _OF_RESERVE),
    "renew amounts": _text(_ASKED, _OF_RESERVE),
    "actual": _text(_ACTUAL, "the amounts used; an axis that is missing counts as held"),
    "key": _text(dict(_KEY, type=["string", "null"]), _ONCE),
    "id": _text(_ID, "the id of a hold"),
    "ttl": _text(_MAYBE_TTL, f"seconds for which the hold is live; {TTL} by default"),
    "wait": _text(_MAYBE_WAIT, "seconds to wait in turn for what others hold, up to 60; else 0"),
    "limits": _text(dict(_ROWS, uniqueItems=True), "no two with the same axis and window"),
    "after": _text(_STRING, "the `next` of the previous page"),
    "events after": _text(_DIGITS, "a number: the first events above it; else the last ones"),
    "kinds": _text(_WITHOUT_NUL, "kinds of events, with commas between; else all"),
    "most": _text(_DIGITS, "how many at most, up to 1,000"),
    "since": _text(_DIGITS, "the Unix second of the first hour; later the `next` of a page"),
    "events": _list(_schema("NewEvent")),
    "rows": _list(_schema("NewUsage")),
}
_WORDS = {word for _, word, _ in LEDGER_ERRORS.values()} | {*HTTP_ERRORS.values()}
SCHEMAS: Json = {
    "Hold": _object(
        path=_PATH,
        id=_text(_ID, "its key, or the one that the service made"),
        amounts=_AMOUNTS,
        state={"enum": ["held", "committed", "released", "expired"]},
        expires_at=_text(_MAYBE_TIME, "Unix seconds; null for a charge"),
        actual=_text(
            dict(_AMOUNTS, type=["object", "null"]),
            "the amounts that count as spent; null while it is held",
        ),
    ),
    "Balance": _object(
        account=_PATH,
        axis=_AXIS,
        window=_STRING,
        limit=_text(_MAYBE_AMOUNT, "null for unlimited"),
        spent=_COUNT,
        held=_COUNT,
        left=_text(_MAYBE_AMOUNT, "the amount that may still be used; null for unlimited"),
        debt=_text(_COUNT, "the amount used above the limit"),
        begins_at=_text(_COUNT, "Unix seconds"),
        resets_at=_text(_MAYBE_TIME, "Unix seconds; null for a window that never ends"),
    ),
    "Limit": {
        "anyOf": [
            _limit({"type": "string", "const": "usd"}, _MAYBE_USD),
            _limit(dict(_AXIS, **{"not": {"const": "usd"}}), _text(_MAYBE_AMOUNT, _CAP)),
        ]
    },
    "Window": _text({"type": "string", "pattern": windows_pattern(), "default": "run"}, _WINDOWS),
    "Balances": _object(balances=_list(_schema("Balance"))),
    "Limits": _object(limits=_ROWS),
    "Accounts": _object(accounts=_list(_PATH), next=_NEXT),
    "Devices": _object(devices=_list(_schema("Device")), next=_NEXT),
    "Device": _object(
        account=_PATH,
        seen_at=_text(_COUNT, "its last contact, in Unix seconds, to a minute"),
        spent=_text(_COUNT, "the tokens that its own day had used then"),
        cap=_text(_MAYBE_AMOUNT, "its own day's limit; null for unlimited"),
        resets_at=_text(_COUNT, "the end of its own day, in Unix seconds; 0 if it is not known"),
        left=_text(_AMOUNTS, "the least that its account has left of each axis that is limited"),
    ),
    "AllBalances": _object(balances=_list(_schema("Balance")), next=_NEXT),
    "OpenHolds": _object(holds=_list(_schema("OpenHold"))),
    "OpenHold": _object(
        path=_PATH,
        id=_text(_STRING, "the id by which the ledger knows it"),
        amounts=_AMOUNTS,
        taken_at=_text(_COUNT, "Unix seconds; 0 if it is not known"),
        expires_at=_text(_COUNT, "Unix seconds"),
    ),
    "Events": _object(events=_list(_schema("Event"))),
    "Event": _object(
        kind=_STRING,
        account=_text(_STRING, "a path; empty for the whole ledger"),
        details={"type": "object"},
        name=_text(_STRING, "one that only one event has; empty for none"),
        at=_text(_COUNT, "Unix seconds"),
        number=_text(_COUNT, "its place in the log"),
    ),
    "NewEvent": _object(
        ("details", "name"),
        kind=_NAME,
        details={"type": "object"},
        name=_text(_MAYBE_NAME, "one that only one event of the ledger has"),
    ),
    "Numbers": _object(numbers=_list(_text(_COUNT, "0 for a name that is known already"))),
    "HoursOfUsage": _object(
        usage=_list(_schema("HourOfUsage")),
        next=_text(_MAYBE_TIME, "`since` for the next page; null on the last"),
    ),
    "HourOfUsage": _object(hour=_HOUR, path=_PATH, model=_STRING, tool=_STRING, amounts=_USED),
    "NewUsage": _object(
        ("model", "tool"), hour=_HOUR, model=_MAYBE_NAME, tool=_MAYBE_NAME, amounts=_AMOUNTS
    ),
    "Added": _object(added=_COUNT),
    "Expired": _object(expired=_COUNT),
    "Status": _object(status={"enum": ["ok", "unavailable"]}),
    "Error": {
        "type": "object",
        "properties": {
            "error": {"enum": sorted(_WORDS | {"ledger_error", "refused"})},
            "message": _text(_STRING, "for people"),
            "applied": _text({"enum": [False, None]}, _APPLIED),
        },
        "required": ["error", "message"],
    },
}
_ALWAYS = (400, 401, 403, 404, 413, 422, 503)


def describe(with_keys: bool) -> Json:
    """Return the OpenAPI document of a service with or without keys."""
    paths: Json = {
        "/healthz": {"get": _status("liveness", "Answer if the service runs", (200,))},
        "/readyz": {"get": _status("readiness", "Ask whether the engine answers", (200, 503))},
    }
    for name, operation in OPERATIONS.items():
        for url in urls_of(name, operation, "/{path}"):
            described = _describe(name, operation, "{path}" in url)
            paths.setdefault(url, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "microbudget",
            "version": version(),
            "description": "Budgets by account, shared over HTTP. In a URL an account's path "
            "keeps its slashes: /v1/balance/org/team.",
        },
        "security": [{"key": []}] if with_keys else [],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(name: str, operation: Operation, on_account: bool) -> Json:
    parameters: list[Json] = []
    found: Json = {
        "operationId": name if on_account == operation.on_account else f"{name}_of_all",
        "summary": operation.summary,
        "description": f"Needs the right `{operation.right.replace(' or ', '` or `')}`.",
        "parameters": parameters,
        "responses": _answers(operation),
    }
    if on_account:
        parameters.append({"name": "path", "in": "path", "required": True, "schema": _PATH})
    known = operation.required + operation.optional
    if operation.method == "GET":
        for field in known:
            required = field in operation.required
            place = {"name": field, "in": "query", "required": required}
            parameters.append(dict(place, schema=FIELDS.get(f"{name} {field}", FIELDS[field])))
    elif known:
        fields = {field: FIELDS.get(f"{name} {field}", FIELDS[field]) for field in known}
        schema = _object(operation.optional, **fields)
        content = {"application/json": {"schema": schema}}
        found["requestBody"] = {"required": True, "content": content}
    if "key" in known:
        header = {"name": "Idempotency-Key", "in": "header", "required": False}
        parameters.append(dict(header, schema=_text(_KEY, "the same as `key`")))
    return found


def _answers(operation: Operation) -> Json:
    errors = set(_ALWAYS + operation.errors)
    if operation.method != "GET":
        errors |= {415, 507}
    answers = {"200": _answer("done", operation.answer)}
    rows = [row[:2] for row in LEDGER_ERRORS.values()] + list(HTTP_ERRORS.items())
    for status in sorted(errors):
        words = {word for code, word in rows if code == status}
        answers[str(status)] = _answer(", ".join(sorted(words)), "Error")
    return answers


def _answer(text: str, schema: str) -> Json:
    return {"description": text, "content": {"application/json": {"schema": _schema(schema)}}}


def _status(name: str, text: str, statuses: tuple[int, ...]) -> Json:
    answers = {str(status): _answer("the status", "Status") for status in statuses}
    return {"operationId": name, "summary": text, "security": [], "responses": answers}
