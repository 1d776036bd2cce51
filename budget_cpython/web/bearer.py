"""The key that a request to the service has."""

import asyncio
import logging
from collections.abc import Mapping

from starlette.exceptions import HTTPException

from budget_cpython.web.addresses import check_local
from budget_cpython.web.keys import Key, KeyFile, KeyFileError

WRONG_KEY_S = 0.1  # before its answer: who tries many takes little of the others' time
log = logging.getLogger("microbudget.serve")


async def authenticate(keys: KeyFile | None, headers: Mapping[str, str]) -> Key | None:
    """Return a request's key, or `None` for a service without keys; `HTTPException`.

    A request without a known key is refused after a tenth of a second.
    """
    if keys is None:
        check_local(headers)
        return None
    scheme, _, token = headers.get("authorization", "").partition(" ")
    key = known_key(keys, token) if scheme.lower() == "bearer" else None
    if key is None:
        await asyncio.sleep(WRONG_KEY_S)
        text = "send a known key, as in Authorization: Bearer KEY"
        raise HTTPException(401, text, {"WWW-Authenticate": "Bearer"})
    return key


def known_key(keys: KeyFile, token: str) -> Key | None:
    """Return the key of a token, or `None` if it is unknown; `HTTPException`."""
    try:
        return keys.check(token.strip())
    except KeyFileError as error:
        log.error("%s", error)
        again = {"Retry-After": "1"}
        raise HTTPException(503, "the keys cannot be read now", again) from error


def check_right(key: Key | None, right: str) -> None:
    """Raise `HTTPException` for a key without a right, or without any of `charge or reserve`."""
    if key is not None and not set(right.split(" or ")) & set(key.rights):
        raise HTTPException(403, f"key {key.name!r} lacks the right {right!r}")
