"""Describe the service as OpenAPI 3.1, from the table of its operations and their types."""

import json
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.json import schema, schema_components

from budget_cpython.ledger.error_answers import LEDGER_ERRORS
from budget_cpython.serve import journal_operations  # noqa: F401 - which adds operations
from budget_cpython.serve.field_types import Json, Key, Path
from budget_cpython.serve.messages import (
    BatchReply,
    BatchRequest,
    ErrorReply,
    NoFields,
    StatusReply,
)
from budget_cpython.serve.operations import SERVED, ServedOperation
from budget_cpython.version import version
from budget_cpython.web.error_responses import HTTP_ERRORS
from budget_cpython.web.request_body import BATCH_URL

_ALWAYS = (400, 401, 403, 404, 413, 422, 503)
_REF = "#/components/schemas/{name}"


@cache
def document(with_keys: bool) -> bytes:
    """Return the description as JSON, made when it is first asked for."""
    return json.dumps(describe(with_keys)).encode()


def describe(with_keys: bool) -> Json:
    """Return the OpenAPI document of a service with or without keys."""
    paths: Json = {
        "/healthz": {"get": _status("liveness", "Answer if the service runs", (200,))},
        "/readyz": {"get": _status("readiness", "Ask whether the engine answers", (200, 503))},
        BATCH_URL: {"post": _batch()},
    }
    for name, operation in SERVED.items():
        for url in operation.urls("/{path}"):
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
            "schemas": _schemas(),
            "responses": _errors(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _schemas() -> Json:
    kinds: set[type[Struct]] = {BatchRequest, BatchReply, ErrorReply, StatusReply}
    for operation in SERVED.values():
        kinds.add(operation.answer)
        if _has_body(operation):
            kinds.add(operation.request)
    in_order = sorted(kinds, key=lambda kind: kind.__name__)
    return schema_components(in_order, ref_template=_REF)[1]


def _has_body(operation: ServedOperation) -> bool:
    return operation.method != "GET" and operation.request is not NoFields


def _describe(name: str, operation: ServedOperation, on_account: bool) -> Json:
    parameters: list[Json] = []
    errors = {*_ALWAYS, *operation.errors, *(() if operation.method == "GET" else (415, 507))}
    found: Json = {
        "operationId": name if on_account == operation.on_account else f"{name}_of_all",
        "summary": operation.summary,
        "description": f"Needs the right `{operation.right.replace(' or ', '` or `')}`.",
        "parameters": parameters,
        "responses": _answers(operation.answer, errors),
    }
    if on_account:
        parameters.append({"name": "path", "in": "path", "required": True, "schema": schema(Path)})
    if _has_body(operation):
        found["requestBody"] = {"required": True, **_content(operation.request)}
    else:
        fields = schema_components([operation.request])[1][operation.request.__name__]
        for field, kind in fields["properties"].items():
            place = {"name": field, "in": "query", "required": field in fields["required"]}
            parameters.append(dict(place, schema=kind))
    if "key" in operation.request.__struct_fields__:
        header = {"name": "Idempotency-Key", "in": "header", "required": False}
        parameters.append(dict(header, schema=schema(Key), description="the same as `key`"))
    return found


def _batch() -> Json:
    return {
        "operationId": "batch",
        "summary": "Do up to 1,000 operations, each as in a request of its own, and answer each",
        "description": "Each operation needs its own right.",
        "requestBody": {"required": True, **_content(BatchRequest)},
        "responses": _answers(BatchReply, {*_ALWAYS, 415}),
    }


def _answers(answer: type[Struct], errors: set[int]) -> Json:
    answers: Json = {"200": {"description": "done", **_content(answer)}}
    for status in sorted(errors):
        answers[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return answers


def _errors() -> Json:
    rows = [row[:2] for row in LEDGER_ERRORS.values()] + list(HTTP_ERRORS.items())
    words = {str(status): {word for code, word in rows if code == status} for status, _ in rows}
    return {
        status: {"description": ", ".join(sorted(found)), **_content(ErrorReply)}
        for status, found in words.items()
    }


def _content(kind: type[Struct]) -> dict[str, Any]:
    reference = {"$ref": _REF.format(name=kind.__name__)}
    return {"content": {"application/json": {"schema": reference}}}


def _status(name: str, text: str, statuses: tuple[int, ...]) -> Json:
    answer = {"description": "the status", **_content(StatusReply)}
    answers = {str(status): answer for status in statuses}
    return {"operationId": name, "summary": text, "security": [], "responses": answers}
