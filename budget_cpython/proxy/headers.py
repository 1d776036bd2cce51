"""Which headers pass the proxy, in both directions."""

from collections.abc import Iterable, Mapping

from budget_cpython.proxy.upstreams import ANTHROPIC, GOOGLE, Upstream

Headers = list[tuple[bytes, bytes]]
OWN = b"x-microbudget-"
# Those of one connection, by RFC 9110, and the ones before it that are still sent.
_HOP_BY_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}
_CREDENTIALS = (b"authorization", b"x-api-key", b"api-key", b"x-goog-api-key")
_NOT_ON = {b"host", b"content-length", b"expect"}
_NOT_BACK = {b"date"}  # the proxy's own server says it


def _one_connection(headers: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    named = b",".join(value for name, value in headers if name.lower() == b"connection")
    return _HOP_BY_HOP | {part.strip().lower() for part in named.split(b",") if part.strip()}


def to_upstream(
    headers: Headers, upstream: Upstream, vendor: str, keep_credentials: bool
) -> Headers:
    """Return a request's headers for an upstream, with its own key if it has one.

    Without one the client's pass, unless they are a key of ours.
    """
    left_out = _one_connection(headers) | _NOT_ON
    if upstream.key is not None or not keep_credentials:
        left_out |= set(_CREDENTIALS)
    found = [
        (name, value)
        for name, value in headers
        if name not in left_out and not name.startswith(OWN)
    ]
    if upstream.key is not None:
        found.append(_credential(upstream.key, vendor))
    return found


def _credential(key: str, vendor: str) -> tuple[bytes, bytes]:
    if vendor == ANTHROPIC:
        return b"x-api-key", key.encode()
    if vendor == GOOGLE:
        return b"x-goog-api-key", key.encode()
    return b"authorization", b"Bearer " + key.encode()


def to_client(headers: Headers) -> Headers:
    """Return an answer's headers for the client."""
    left_out = _one_connection(headers) | _NOT_BACK
    return [(name.lower(), value) for name, value in headers if name.lower() not in left_out]


def key_of(headers: Mapping[str, str]) -> str:
    """Return the key that a client sent, in any of the ways in which SDKs send theirs."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    for name in _CREDENTIALS[1:]:
        value = headers.get(name.decode())
        if value:
            return value.strip()
    return ""
