"""What Anthropic's formats share: errors, the key, the list of models."""

from collections.abc import Iterable, Mapping
from typing import Final

from budget_cpython.endpoint.checks import ApiError, Json

TOO_LONG: Final = "prompt is too long: {tokens} tokens > {limit} maximum"
CREATED: Final = "2023-11-14T22:13:20Z"
_KINDS: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error(refusal: ApiError) -> Json:
    """Return an error body."""
    other = "api_error" if refusal.status >= 500 else "invalid_request_error"
    kind = _KINDS.get(refusal.status, other)
    details = {"type": kind, "message": refusal.message}
    return {"type": "error", "error": details, "request_id": "req_scripted"}


def key(headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    """Return the key that a request brings: an API key, or a bearer token."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return headers.get("x-api-key") or (token if scheme == "Bearer" else None)


def models(names: Iterable[str]) -> Json:
    """Return the list of models."""
    data = [model(name) for name in names]
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]}
    return {"data": data, "has_more": False, **ends}


def model(name: str) -> Json:
    """Return one model of the list."""
    return {"type": "model", "id": name, "display_name": name, "created_at": CREATED}
