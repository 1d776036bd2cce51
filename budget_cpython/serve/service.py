"""What the requests of a service share: who may ask, what is done, and what is answered."""

import logging
from collections.abc import Awaitable, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct
from starlette.exceptions import HTTPException

from budget_core.ledger.checks import check_path
from budget_core.ledger.errors import LedgerError
from budget_cpython.ledger.operations import Operation
from budget_cpython.web.bearer import authenticate, check_right
from budget_cpython.web.devices import DeviceReports
from budget_cpython.web.error_responses import JsonReply, error_reply
from budget_cpython.web.keys import Key, KeyFile
from budget_cpython.web.served_ledger import ServedLedger

log = logging.getLogger("microbudget.serve")


class LedgerService:
    """A ledger for those who have keys; refusals are counted for `observer`, if there is one."""

    def __init__(
        self, ledger: ServedLedger, keys: KeyFile | None, devices: DeviceReports, observer: Any
    ) -> None:
        self.ledger = ledger
        self.devices = devices
        self._keys = keys
        self._notes_keys = True
        self._observer = observer

    async def enter(self, headers: Mapping[str, str]) -> Key | None:
        """Return a request's key, or `None` for a service without keys; `HTTPException`."""
        key = await authenticate(self._keys, headers)
        if self._keys is not None and self._notes_keys:
            await self._note_keys(self._keys)
        return key

    async def done(self, work: Awaitable[Struct]) -> Struct:
        """Return an operation's answer. After it, changed keys can be noted again."""
        answer = await work
        self._notes_keys = True
        return answer

    def refused(self, error: Exception, key: Key | None) -> JsonReply:
        """Return the answer for an error of a request, and count a refusal for `/metrics`."""
        if self._observer is not None and isinstance(error, LedgerError):
            from budget_cpython.telemetry.observer import refusal_of

            refusal = refusal_of(error)
            if refusal is not None:
                self._observer.refused(refusal)
        return error_reply(error, key)

    async def _note_keys(self, keys: KeyFile) -> None:
        """Note the keys that were added and revoked since the last request, once for all.

        What cannot be noted waits until the ledger has answered a request.
        """
        if changes := keys.take_changes():
            try:
                await self.ledger.call("note", changes)
            except Exception as error:  # noqa: BLE001 - the request is answered all the same
                self._notes_keys = False
                keys.put_back(changes)
                log.warning("a change of keys could not be noted yet: %s", error)


_check_again = lru_cache(maxsize=1024)(check_path)  # requests name the same few again and again


def authorize(operation: Operation, key: Key | None, given: Any) -> str:
    """Return the checked path of an operation, empty for `None`; `HTTPException` without a right.

    `ValueError` for a malformed path.
    """
    check = _check_again if isinstance(given, str) else check_path
    path = "" if given is None else check(given)
    if key is None:
        return path
    reach = f"key {key.name!r} is for {key.account!r}"
    check_right(key, operation.right)
    if path and not key.covers(path):
        raise HTTPException(403, f"{reach} and the accounts below it")
    if operation.right == "limits" and not path and key.path:
        raise HTTPException(403, f"{reach}, not for every account")
    return path
