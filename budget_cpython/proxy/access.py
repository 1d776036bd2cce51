"""Whose account a request draws on."""

from collections.abc import Mapping

from starlette.exceptions import HTTPException

from budget_core.ledger.checks import chain, check_path
from budget_cpython.page.doors import Door, KeyDoor, OpenDoor
from budget_cpython.proxy.headers import key_of
from budget_cpython.web.addresses import check_local
from budget_cpython.web.bearer import check_right, known_key
from budget_cpython.web.keys import Key, KeyFile

KEY_HEADER = "x-microbudget-key"
ACCOUNT_HEADER = "x-microbudget-account"


class Access:
    """Finds the account of a request: that of its key, or below it as a header says.

    Without `keys` all requests draw on `account` or on accounts below it, and only those that name
    this machine, and do not come from another site's page in a browser, are answered.
    """

    def __init__(self, account: str, keys: KeyFile | None = None) -> None:
        self.account = check_path(account)
        self._keys = keys

    @property
    def is_open(self) -> bool:
        """Whether no key is asked for."""
        return self._keys is None

    def door(self, secret: bytes | None = None) -> Door:
        """Return what lets readers in to the page: those with keys, or all on this machine.

        `secret` is that of all processes that serve it.
        """
        if self._keys is None:
            return OpenDoor(self.account, secret=secret)
        return KeyDoor(self._keys, secret)

    @property
    def keys(self) -> KeyFile | None:
        """The keys that requests need; `None` if they need none."""
        return self._keys

    def account_of(self, headers: Mapping[str, str]) -> tuple[str, bool]:
        """Return the account, and whether the client's credentials are for the upstream.

        Raises `HTTPException`.
        """
        asked = headers.get(ACCOUNT_HEADER)
        if asked is not None:
            try:
                check_path(asked)
            except ValueError as error:
                raise HTTPException(400, f"{ACCOUNT_HEADER}: {error}") from error
        if self._keys is None:
            check_local(headers)
            if asked is None or self.account in chain(asked):
                return asked or self.account, True
            raise HTTPException(403, f"{ACCOUNT_HEADER} must be {self.account!r} or below it")
        key, is_apart = self._check_key(self._keys, headers)
        if not key.path:
            return asked or self.account, is_apart
        if asked is not None and not key.covers(asked):
            raise HTTPException(
                403, f"key {key.name!r} is for {key.account!r} and accounts below it"
            )
        return asked or key.path, is_apart

    def _check_key(self, keys: KeyFile, headers: Mapping[str, str]) -> tuple[Key, bool]:
        own = headers.get(KEY_HEADER)
        key = known_key(keys, key_of(headers) if own is None else own)
        if key is None:
            raise HTTPException(401, "send a key of this proxy, where an API key goes")
        check_right(key, "reserve")
        return key, own is not None
