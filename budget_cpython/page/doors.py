"""Who may see the page, and who may change limits on it."""

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from starlette.exceptions import HTTPException
from starlette.requests import Request

from budget_cpython.ledger.selection import is_below
from budget_cpython.web.addresses import check_local
from budget_cpython.web.keys import Key, KeyFile, KeyFileError

SESSION_S = 12 * 3600
log = logging.getLogger("microbudget.serve")


class PageReader(NamedTuple):
    """Someone who sees an account and all below it; an empty `path` is all accounts.

    `name` is who that is, as the log of events has it, such as `key ann`. `form_token` is what a
    form of this reader must have for a change.
    """

    name: str
    path: str
    may_change: bool
    form_token: str

    def sees(self, path: str) -> bool:
        """Tell whether an account is the reader's own, or below it."""
        return is_below(path, self.path)


class Door(Protocol):
    """What lets readers in."""

    def reader(self, request: Request) -> PageReader | None:
        """Return who asks, or `None` for one who has to sign in; `HTTPException`."""

    def sign_in(self, request: Request, key: str) -> str | None:
        """Return a new session for a key, or `None` for one that may not read; `HTTPException`."""


class OpenDoor:
    """Lets in every request that names this machine and comes from none of another site's pages.

    `path` is the account that is shown, `name` who changes limits. `secret` is that of all
    processes that serve the page; by default a new one. `check` raises `HTTPException` for the
    headers of others: `check_host` is enough where the page's URL is a secret.
    """

    def __init__(
        self,
        path: str = "",
        name: str = "",
        secret: bytes | None = None,
        check: Callable[[Mapping[str, str]], None] = check_local,
    ) -> None:
        self._check = check
        form_token = _digest(secret or secrets.token_bytes(32), "form")
        self._reader = PageReader(name, path, True, form_token)

    def reader(self, request: Request) -> PageReader:
        """Return the only reader there is; `HTTPException` for a request from elsewhere."""
        self._check(request.headers)
        return self._reader

    def sign_in(self, request: Request, key: str) -> None:
        """Refuse: there is nothing to sign in to."""


class KeyDoor:
    """Lets in keys with the right to read, by a session of 12 hours.

    A session is a name and a time, signed with a `secret` of the process; the key itself is not in
    it. It ends at once when its key is revoked or replaced. `clock` returns Unix seconds.
    """

    def __init__(
        self,
        keys: KeyFile,
        secret: bytes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys = keys
        self._secret = secret or secrets.token_bytes(32)
        self._clock = clock

    def reader(self, request: Request) -> PageReader | None:
        """Return the reader of a request's session; `HTTPException` if the keys are unreadable."""
        session = request.cookies.get(cookie_name(request), "")
        name, _, rest = session.partition(".")
        ends_at, _, mark = rest.partition(".")
        if not (ends_at.isascii() and ends_at.isdigit() and len(ends_at) < 12):
            return None
        key = self._read().get(name)
        if key is None or int(ends_at) <= self._clock() or "read" not in key.rights:
            return None
        if not hmac.compare_digest(mark.encode(), self._mark(key, ends_at).encode()):
            return None
        form_token = _digest(self._secret, f"form {session}")
        return PageReader(f"key {key.name}", key.path, "limits" in key.rights, form_token)

    def sign_in(self, request: Request, key: str) -> str | None:
        """Return a new session for a key, or `None` for one that may not read."""
        self._read()
        found = self._keys.check(key.strip())
        if found is None or "read" not in found.rights:
            return None
        ends_at = str(int(self._clock()) + SESSION_S)
        return f"{found.name}.{ends_at}.{self._mark(found, ends_at)}"

    def _mark(self, key: Key, ends_at: str) -> str:
        return _digest(self._secret, f"session {key.name} {key.digest} {ends_at}")

    def _read(self) -> dict[str, Key]:
        try:
            return self._keys.keys()
        except KeyFileError as error:
            log.error("%s", error)
            raise HTTPException(503, "The keys cannot be read now.") from error


def cookie_name(request: Request) -> str:
    """Return the name of the session's cookie, which browsers send to all ports of a host."""
    server = request.scope.get("server") or ("", None)
    return f"microbudget_{server[1] or 0}"


def _digest(secret: bytes, text: str) -> str:
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()
