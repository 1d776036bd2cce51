"""What the formats of one vendor share: errors, the key, the list of models."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from scripted_model.checks import ApiError, Json

TIERS: Final = ("auto", "default", "flex", "scale", "priority", "fast")
_REASONING: Final = {"minimal": 8, "low": 16, "medium": 64, "high": 256, "xhigh": 512, "max": 1024}


class OpenAI:
    """OpenAI's errors, key and models.

    `too_long` says that a prompt has too many `{tokens}` for a context of `{limit}`.
    """

    too_long = (
        "This model's maximum context length is {limit} tokens. "
        "However, your messages resulted in {tokens} tokens."
    )

    def error(self, refusal: ApiError) -> Json:
        """Return an error body."""
        details = {"type": refusal.kind, "param": refusal.param, "code": refusal.code}
        return {"error": {"message": refusal.message, **details}}

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """Return the key that a request brings."""
        return _bearer(headers)

    def model(self, name: str) -> Json:
        """Return one model of the list."""
        return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "microbudget"}

    def models(self, names: Iterable[str]) -> Json:
        """Return the list of models."""
        return {"object": "list", "data": list(map(self.model, names))}


class Anthropic:
    """Anthropic's errors, key (a bearer token too) and models."""

    too_long = "prompt is too long: {tokens} tokens > {limit} maximum"
    _KINDS: Final = {
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        529: "overloaded_error",
    }

    def error(self, refusal: ApiError) -> Json:
        """Return an error body."""
        other = "api_error" if refusal.status >= 500 else "invalid_request_error"
        kind = self._KINDS.get(refusal.status, other)
        details = {"type": kind, "message": refusal.message}
        return {"type": "error", "error": details, "request_id": "req_scripted"}

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """Return the key that a request brings."""
        return headers.get("x-api-key") or _bearer(headers)

    def model(self, name: str) -> Json:
        """Return one model of the list."""
        row = {"type": "model", "id": name, "display_name": name}
        return {**row, "created_at": "2023-11-14T22:13:20Z"}

    def models(self, names: Iterable[str]) -> Json:
        """Return the list of models."""
        data = list(map(self.model, names))
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]}
        return {"data": data, "has_more": False, **ends}


class Google:
    """Google's errors, key and models."""

    too_long = (
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

    def error(self, refusal: ApiError) -> Json:
        """Return an error body."""
        status = self._STATUSES.get(refusal.status, "UNKNOWN")
        return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}

    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None:
        """Return the key that a request brings."""
        return headers.get("x-goog-api-key") or query.get("key")

    def model(self, name: str) -> Json:
        """Return one model of the list."""
        methods = ["generateContent", "countTokens"]
        row = {"name": f"models/{name}", "displayName": name}
        return {**row, "supportedGenerationMethods": methods}

    def models(self, names: Iterable[str]) -> Json:
        """Return the list of models."""
        return {"models": list(map(self.model, names))}


def _bearer(headers: Mapping[str, str]) -> str | None:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return token if scheme == "Bearer" else None


Vendor = OpenAI | Anthropic | Google
OPENAI: Final = OpenAI()
ANTHROPIC: Final = Anthropic()
GOOGLE: Final = Google()


def service_tier(body: Json) -> dict[str, Any]:
    """Return the tier that served a request of OpenAI's, if it asked for one."""
    tier = body.get("service_tier")
    return {"service_tier": "default" if tier == "auto" else tier} if tier else {}


def reasoning_tokens(effort: Any) -> int | None:
    """Return how long a model reasons at an effort in OpenAI's words; `None` if it does not."""
    return _REASONING.get(effort)
