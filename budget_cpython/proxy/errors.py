"""What the proxy itself answers in an upstream's place, in its vendor's error shape."""

from typing import Any

ANTHROPIC, GOOGLE, OPENAI = "anthropic", "google", "openai"
# Of each status: Anthropic's word, Google's, ours as OpenAI's `code`, and whether to try again.
_WORDS = {
    400: ("invalid_request_error", "INVALID_ARGUMENT", "bad_request", False),
    401: ("authentication_error", "UNAUTHENTICATED", "invalid_api_key", False),
    403: ("permission_error", "PERMISSION_DENIED", "forbidden", False),
    404: ("not_found_error", "NOT_FOUND", "unknown_url", False),
    413: ("request_too_large", "INVALID_ARGUMENT", "too_large", False),
    500: ("api_error", "INTERNAL", "internal", False),
    502: ("api_error", "UNAVAILABLE", "upstream_unreachable", True),
    503: ("overloaded_error", "UNAVAILABLE", "unavailable", True),
    504: ("timeout_error", "DEADLINE_EXCEEDED", "deadline_exceeded", False),
}


class ProxyError(Exception):
    """A request that the proxy answers itself; `status` is that of the answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def error_of(vendor: str, status: int, message: str) -> tuple[dict[str, str], Any]:
    """Return the headers and the body of an error, as a vendor's SDKs read it.

    They repeat requests that failed with 409, 429 or 5xx unless a header says otherwise.
    """
    anthropic, google, code, again = _WORDS[status]
    body: dict[str, Any]
    if vendor == ANTHROPIC:
        body = {"type": "error", "error": {"type": anthropic, "message": message}}
    elif vendor == GOOGLE:
        body = {"error": {"code": status, "message": message, "status": google}}
    else:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        body = {"error": {"message": message, "type": kind, "param": None, "code": code}}
    return ({} if again else {"x-should-retry": "false"}), body
