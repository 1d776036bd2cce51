"""What Google's formats share: errors, the key, the list of models."""

from collections.abc import Iterable, Mapping
from typing import Final

from budget_cpython.endpoint.checks import ApiError, Json

TOO_LONG: Final = (
    "The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit})."
)
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def error(refusal: ApiError) -> Json:
    """Return an error body."""
    status = _STATUSES.get(refusal.status, "UNKNOWN")
    return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}


def key(headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    """Return the key that a request brings."""
    return headers.get("x-goog-api-key") or query.get("key")


def models(names: Iterable[str]) -> Json:
    """Return the list of models."""
    return {"models": [model(name) for name in names]}


def model(name: str) -> Json:
    """Return one model of the list."""
    methods = ["generateContent", "countTokens"]
    return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
