"""Signatures of webhooks, as Standard Webhooks 1.0 describes them."""

import base64
import binascii
import hashlib
import hmac

PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64  # bytes


def signing_key(what: str, secret: str) -> bytes:
    """Return the key of a secret such as `whsec_…`; `ValueError`, which does not show it."""
    try:
        if not secret.startswith(PREFIX):
            raise ValueError
        key = base64.b64decode(secret[len(PREFIX) :], validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST:
        text = f"{what} must be {PREFIX} and base64 of {_SHORTEST} to {_LONGEST} bytes"
        raise ValueError(f"{text}, as of: openssl rand -base64 32") from None
    return key


def signed_headers(id: str, at: int, body: bytes, key: bytes | None) -> dict[str, str]:
    """Return the headers of a webhook that is sent at a Unix second; without a key, unsigned."""
    headers = {"webhook-id": id, "webhook-timestamp": str(at)}
    if key is not None:
        digest = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
        headers["webhook-signature"] = "v1," + base64.b64encode(digest).decode()
    return headers
