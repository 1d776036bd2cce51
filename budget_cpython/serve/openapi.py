"""Describe the service as OpenAPI 3.1, from the same table that it works by."""

from typing import Any

from budget_core.ledger.limit import MAX_DEPTH, MAX_KEY, MAX_LIMITS, MAX_SEGMENT, MOST
from budget_core.ledger.memory import TTL
from budget_core.ledger.records import MAX_TTL
from budget_cpython.cli.version import version
from budget_cpython.serve.operations import OPERATIONS, Operation, place_of
from budget_cpython.serve.refusals import HTTP_ERRORS, LEDGER_ERRORS

Json = dict[str, Any]
_SEGMENT = rf"(?!\.+(/|$))[A-Za-z0-9_\-.@+=]{{1,{MAX_SEGMENT}}}"
_TEXT = {"type": "string"}
_PATH = {"type": "string", "pattern": rf"^{_SEGMENT}(/{_SEGMENT}){{0,{MAX_DEPTH - 1}}}$"}
_AXIS = {"type": "string", "pattern": rf"^[A-Za-z0-9_\-]{{1,{MAX_SEGMENT}}}$"}
_AMOUNT = {"type": "integer", "minimum": 0, "maximum": MOST}
_MAYBE_AMOUNT = dict(_AMOUNT, type=["integer", "null"])
_COUNT = {"type": "integer", "minimum": 0}
_MAYBE_TIME = {"type": ["integer", "null"], "minimum": 0}
_STATES = {"enum": ["held", "committed", "released", "expired"]}
_AMOUNTS = {"type": "object", "propertyNames": _AXIS, "additionalProperties": _AMOUNT}
_MAYBE_AMOUNTS = dict(_AMOUNTS, type=["object", "null"])
_ID = {"type": "string", "pattern": rf"^(#[!\"$-~]|[!\"$-~])[!-~]{{0,{MAX_KEY - 1}}}$"}
_KEY = {"type": "string", "pattern": rf"^[!\"$-~][!-~]{{0,{MAX_KEY - 1}}}$"}
_ROWS = {"type": "array", "maxItems": MAX_LIMITS, "items": {"$ref": "#/components/schemas/Limit"}}


def _says(schema: Json, text: str) -> Json:
    return dict(schema, description=text)


FIELDS: dict[str, Json] = {
    "amounts": _says(_AMOUNTS, "how much of each axis; an axis without limits is not counted"),
    "actual": _says(_MAYBE_AMOUNTS, "what was used; axes that are not named count as held"),
    "key": _says(
        dict(_KEY, type=["string", "null"]),
        "what makes a repeated request do nothing twice; one below the same root at a time",
    ),
    "id": _says(_ID, "the id of a hold"),
    "ttl": _says(
        {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": MAX_TTL},
        f"seconds for which the hold is live; {TTL} where none is given",
    ),
    "limits": _says(dict(_ROWS, uniqueItems=True), "no two on the same axis and window"),
    "after": _says(_TEXT, "the `next` of the page before"),
}


def _object(properties: Json, optional: tuple[str, ...] = ()) -> Json:
    required = [name for name in properties if name not in optional]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


SCHEMAS: Json = {
    "Hold": _object(
        {
            "path": _PATH,
            "id": _says(_ID, "its key, or one that was made for it"),
            "amounts": _AMOUNTS,
            "state": _STATES,
            "expires": _says(_MAYBE_TIME, "Unix milliseconds; null for what was charged"),
            "actual": _says(_MAYBE_AMOUNTS, "what counts as spent for it; null while it is held"),
        }
    ),
    "Balance": _object(
        {
            "account": _PATH,
            "axis": _AXIS,
            "window": _TEXT,
            "limit": _says(_MAYBE_AMOUNT, "null for unlimited"),
            "spent": _COUNT,
            "held": _COUNT,
            "left": _says(_MAYBE_AMOUNT, "what may still be used; null for unlimited"),
            "debt": _says(_COUNT, "what was used past the limit"),
            "begins_at": _says(_COUNT, "Unix seconds"),
            "resets_at": _says(_MAYBE_TIME, "Unix seconds; null for a window that never ends"),
        }
    ),
    "Limit": _object(
        {
            "axis": _AXIS,
            "cap": _says(_MAYBE_AMOUNT, "null for unlimited, 0 for nothing"),
            "window": _says(
                dict(_TEXT, default="run"),
                "run, hour, day, week, month, day@5 (from 5:00 UTC), rolling 86400/24, …",
            ),
        },
        optional=("window",),
    ),
    "Balances": _object(
        {"balances": {"type": "array", "items": {"$ref": "#/components/schemas/Balance"}}}
    ),
    "Limits": _object({"limits": _ROWS}),
    "Accounts": _object(
        {
            "accounts": {"type": "array", "items": _PATH},
            "next": _says({"type": ["string", "null"]}, "`after` for the next page; null at last"),
        }
    ),
    "Expired": _object({"expired": _COUNT}),
    "Status": _object({"status": {"enum": ["ok", "unavailable"]}}),
    "Error": {
        "type": "object",
        "properties": {
            "error": {
                "enum": sorted(
                    {row[1] for row in LEDGER_ERRORS.values()}
                    | set(HTTP_ERRORS.values())
                    | {"ledger_error", "refused"}
                )
            },
            "message": _says(_TEXT, "for people"),
            "applied": _says(
                {"enum": [False, None]},
                "of `ledger_unavailable`: false where nothing was done, null where that is not "
                "known; the same request with the same key is safe to repeat",
            ),
        },
        "required": ["error", "message"],
    },
}
_ALWAYS = (400, 401, 403, 404, 422, 503)


def describe(with_keys: bool) -> Json:
    """Return the OpenAPI document of a service that wants keys, or of one that does not."""
    paths: Json = {
        "/healthz": {"get": _status("liveness", "Tell that the service runs", (200,))},
        "/readyz": {"get": _status("readiness", "Tell whether the engine answers", (200, 503))},
    }
    for name, operation in OPERATIONS.items():
        url = place_of(name) + ("/{path}" if operation.on_account else "")
        paths.setdefault(url, {})[operation.method.lower()] = _describe(name, operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "microbudget",
            "version": version(),
            "description": "Budgets by account, shared over HTTP. An account's path keeps its "
            "slashes in a URL: /v1/balance/org/team.",
        },
        "security": [{"key": []}] if with_keys else [],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(name: str, operation: Operation) -> Json:
    parameters: list[Json] = []
    found: Json = {
        "operationId": name,
        "summary": operation.summary,
        "description": f"Takes the right to `{operation.right}`.",
        "parameters": parameters,
        "responses": _answers(operation),
    }
    if operation.on_account:
        parameters.append({"name": "path", "in": "path", "required": True, "schema": _PATH})
    known = operation.required + operation.optional
    if operation.method == "GET":
        for field in known:
            required = field in operation.required
            place = {"name": field, "in": "query", "required": required}
            parameters.append(dict(place, schema=FIELDS[field]))
    elif known:
        schema = _object({field: FIELDS[field] for field in known}, operation.optional)
        content = {"application/json": {"schema": schema}}
        found["requestBody"] = {"required": True, "content": content}
    if "key" in known:
        header = {"name": "Idempotency-Key", "in": "header", "required": False}
        parameters.append(dict(header, schema=_says(_KEY, "the same as `key`")))
    return found


def _answers(operation: Operation) -> Json:
    errors = set(_ALWAYS + operation.errors)
    if operation.method != "GET":
        errors |= {408, 413, 415, 507}
    answers = {"200": _answer("done", operation.answer)}
    for status in sorted(errors):
        words = {word for code, word, _ in LEDGER_ERRORS.values() if code == status}
        words |= {HTTP_ERRORS[status]} if status in HTTP_ERRORS else set()
        answers[str(status)] = _answer(", ".join(sorted(words)), "Error")
    return answers


def _answer(text: str, schema: str) -> Json:
    reference = {"$ref": f"#/components/schemas/{schema}"}
    return {"description": text, "content": {"application/json": {"schema": reference}}}


def _status(name: str, text: str, statuses: tuple[int, ...]) -> Json:
    answers = {str(status): _answer("how it is", "Status") for status in statuses}
    return {"operationId": name, "summary": text, "security": [], "responses": answers}
