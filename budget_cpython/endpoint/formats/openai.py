"""What OpenAI's formats share: errors, the key, the list of models."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from budget_cpython.endpoint.checks import ApiError, Json

TOO_LONG: Final = (
    "This model's maximum context length is {limit} tokens. "
    "However, your messages resulted in {tokens} tokens."
)
CREATED: Final = 1_700_000_000
TIERS: Final = ("auto", "default", "flex", "scale", "priority", "fast")
_REASONING: Final = {"minimal": 8, "low": 16, "medium": 64, "high": 256, "xhigh": 512, "max": 1024}


def error(refusal: ApiError) -> Json:
    """Return an error body."""
    details = {"type": refusal.kind, "param": refusal.param, "code": refusal.code}
    return {"error": {"message": refusal.message, **details}}


def key(headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
    """Return the key that a request brings."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token if scheme == "Bearer" else None


def models(names: Iterable[str]) -> Json:
    """Return the list of models."""
    return {"object": "list", "data": [model(name) for name in names]}


def model(name: str) -> Json:
    """Return one model of the list."""
    return {"id": name, "object": "model", "created": CREATED, "owned_by": "microbudget"}


def service_tier(body: Json) -> dict[str, Any]:
    """Return the tier that served a request, if it asked for one."""
    tier = body.get("service_tier")
    return {"service_tier": "default" if tier == "auto" else tier} if tier else {}


def reasoning_tokens(effort: Any) -> int | None:
    """Return how long a model reasons at an effort; `None` if it does not."""
    return _REASONING.get(effort)
