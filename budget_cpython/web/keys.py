"""Keep the keys' rights in a file, with the SHA-256 of each key instead of the key.

A key is a random number of 256 bits, which cannot be guessed from a plain SHA-256. A slow hash, as
for passwords, would only make each request slow.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from budget_core.errors import BudgetError, StoreError, refuse
from budget_core.ledger.checks import check_path
from budget_core.until import LAST_DATE
from budget_cpython.files.lock import FileLock
from budget_cpython.ledger.journal import LedgerEvent
from budget_cpython.ledger.selection import is_below
from budget_cpython.plain_file import read_plain, replace_file

RIGHTS = ("reserve", "charge", "read", "limits")
EVERY_ACCOUNT = "*"
MAX_BYTES = 1 << 22
_MOST_CHANGES = 1000
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_DIGEST = re.compile("[0-9a-f]{64}")
_NO_KEY = hashlib.sha256(b"").hexdigest()


class KeyFileError(BudgetError):
    """The file of keys cannot be read, trusted or written."""


@dataclass(frozen=True)
class Key:
    """A key's `rights` on `account` and all accounts below it; `*` is every account.

    `digest` is the SHA-256 of the key in hexadecimal, `made_at` is in Unix seconds.
    """

    name: str
    account: str
    rights: tuple[str, ...]
    digest: str
    made_at: int

    def __post_init__(self) -> None:
        """Raise `ValueError` for bad values."""
        named = isinstance(self.name, str) and all(char in _PLAIN for char in self.name)
        if not (named and 0 < len(self.name) <= 64):
            refuse("the key's name", "up to 64 letters, digits, _ and -", self.name)
        if self.account != EVERY_ACCOUNT:
            check_path(self.account)
        for right in self.rights:
            if right not in RIGHTS:
                refuse("a right", "one of " + ", ".join(RIGHTS), right)
        if not self.rights:
            raise ValueError("a key needs at least one right of " + ", ".join(RIGHTS))
        if not (isinstance(self.digest, str) and _DIGEST.fullmatch(self.digest)):
            raise ValueError(f"the digest of key {self.name!r} is not a SHA-256 in hexadecimal")
        if type(self.made_at) is not int or not 0 <= self.made_at <= LAST_DATE:
            refuse("made_at", "Unix seconds", self.made_at)

    @property
    def path(self) -> str:
        """The account that it is for, with all below it; empty for every account."""
        return "" if self.account == EVERY_ACCOUNT else self.account

    def covers(self, path: str) -> bool:
        """Tell whether an account is the key's own, or below it."""
        return is_below(path, self.path)


class KeyFile:
    """The keys in a JSON file, which only its owner may write; a change counts at once.

    `check` reads the file again when it has changed, so a revoked key is refused at once, in every
    process. A file that cannot be read or trusted lets no key in.
    """

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = os.path.abspath(path)
        self._read: tuple[int, ...] = ()
        self._keys: dict[str, Key] = {}
        self._changes: list[LedgerEvent] = []

    def keys(self) -> dict[str, Key]:
        """Return the keys by name, as they are now; `KeyFileError` if they cannot be read."""
        try:
            if _version(os.lstat(self.path)) != self._read:
                self._load()
        except FileNotFoundError as error:
            text = f"no file of keys {self.path!r}: `microbudget serve key add` makes one"
            raise KeyFileError(text) from error
        except OSError as error:
            raise KeyFileError(f"cannot read the keys in {self.path!r}: {error}") from error
        return self._keys

    def check(self, token: str) -> Key | None:
        """Return the key of a bearer token, or `None` if it is unknown.

        The time that it takes does not tell how much of a token is right.
        """
        key = self.keys().get(_name_of(token))
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        right = hmac.compare_digest(digest, _NO_KEY if key is None else key.digest)
        return key if right else None

    def add(self, name: str, account: str, rights: Sequence[str]) -> str:
        """Make a key, and return it: it is stored nowhere, and cannot be shown again.

        Raises `ValueError` for a name that is taken, and for a bad name, account or right.
        """
        token = f"mb.{name}.{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(token.encode()).hexdigest()
        in_order = sorted(set(rights), key=lambda right: (RIGHTS + (right,)).index(right))
        key = Key(name, account, tuple(in_order), digest, int(time.time()))
        with self._locked():
            keys = dict(self.keys()) if os.path.lexists(self.path) else {}
            if keys.setdefault(name, key) is not key:
                raise ValueError(f"the key {name!r} exists: revoke it, or take another name")
            self._save(keys)
        return token

    def revoke(self, name: str) -> None:
        """Remove a key; `ValueError` if there is none of that name."""
        self.keys()  # makes no lock file where there are no keys
        with self._locked():
            keys = dict(self.keys())
            if keys.pop(name, None) is None:
                raise ValueError(f"there is no key {name!r} in {self.path!r}")
            self._save(keys)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        lock = FileLock(self.path)
        try:
            with lock.held():
                yield
        except (OSError, StoreError) as error:
            raise KeyFileError(f"cannot change the keys now, try again: {error}") from error
        finally:
            lock.close()

    def _load(self) -> None:
        data, status = read_plain(self.path, MAX_BYTES + 1)
        if hasattr(os, "getuid"):
            if status.st_mode & 0o022:
                raise KeyFileError(f"others may write to {self.path!r}: check it, and chmod 600 it")
            if status.st_uid not in (0, os.geteuid()):
                raise KeyFileError(f"another user owns {self.path!r}: check it, and chown it")
        try:
            if len(data) > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES} bytes")
            keys = _parse_keys(json.loads(data))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            text = f"{self.path!r} is damaged, or not a file of keys: {error}"
            raise KeyFileError(text) from error
        if self._read:
            gone = [key for key in self._keys.values() if key != keys.get(key.name)]
            new = [key for key in keys.values() if key != self._keys.get(key.name)]
            self._changes += [_change(key, "revoked") for key in gone]
            self._changes += [_change(key, "added") for key in new]
        self._keys, self._read = keys, _version(status)

    def take_changes(self) -> list[LedgerEvent]:
        """Return the events of keys that were added or revoked since the last time, once.

        They have names: several services with one file and one ledger note each once.
        """
        found, self._changes = self._changes, []
        return found

    def put_back(self, changes: list[LedgerEvent]) -> None:
        """Have changes that could not be noted taken again, the last 1,000 of them."""
        self._changes = (changes + self._changes)[-_MOST_CHANGES:]

    def _save(self, keys: dict[str, Key]) -> None:
        rows = [asdict(key) for key in keys.values()]
        data = json.dumps({"version": 1, "keys": rows}, indent=1).encode() + b"\n"
        replace_file(self.path, data)


def _version(status: os.stat_result) -> tuple[int, ...]:
    dates = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mode, *dates)


def _change(key: Key, change: str) -> LedgerEvent:
    details = {"key": key.name, "change": change, "account": key.account, "rights": [*key.rights]}
    return LedgerEvent("keys", key.path, details, f"keys/{key.name}/{key.digest[:16]}/{change}")


def _name_of(token: str) -> str:
    parts = token.split(".")
    return parts[1] if len(parts) == 3 and parts[0] == "mb" else ""


def _parse_keys(data: Any) -> dict[str, Key]:
    if data["version"] != 1:
        raise ValueError(f"its version is {data['version']!r}, not 1")
    keys: dict[str, Key] = {}
    for row in data["keys"]:
        key = Key(**dict(row, rights=tuple(row["rights"])))
        if keys.setdefault(key.name, key) is not key:
            raise ValueError(f"two keys have the name {key.name!r}")
    return keys
