"""Keep who may do what on which accounts, in a file that knows no key itself.

A key is a random number of 256 bits: nobody finds it by trying, so its plain SHA-256 gives nothing
away, and a slow hash as for passwords would only make each request dear.
"""

import hashlib
import hmac
import json
import os
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from budget_core.errors import BudgetError, StoreError, refuse
from budget_core.ledger.limit import check_path
from budget_cpython.file_lock import PathClaim
from budget_cpython.plain_file import remove, sync_folder, what_else, write_new

RIGHTS = ("reserve", "charge", "read", "limits")
EVERY_ACCOUNT = "*"
MAX_BYTES = 1 << 22
_PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_READ = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
_DIGEST = re.compile("[0-9a-f]{64}")
_YEAR_10000 = 253_402_300_800
_NOBODY = hashlib.sha256(b"").hexdigest()


class KeyFileError(BudgetError):
    """The file of keys cannot be read, trusted or written: nobody is let in."""


@dataclass(frozen=True)
class Key:
    """What the holder of a key may do: `rights` on `account` and all below it, `*` for any.

    `digest` is the SHA-256 of the key, in hexadecimal; `made_at` is in Unix seconds.
    """

    name: str
    account: str
    rights: tuple[str, ...]
    digest: str
    made_at: int

    def __post_init__(self) -> None:
        """Refuse what no key can be."""
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
            raise ValueError(f"the digest of key {self.name!r} is no SHA-256 in hexadecimal")
        if type(self.made_at) is not int or not 0 <= self.made_at < _YEAR_10000:
            refuse("made_at", "Unix seconds", self.made_at)

    def covers(self, path: str) -> bool:
        """Tell whether an account is the key's own, or below it."""
        return self.account in (EVERY_ACCOUNT, path) or path.startswith(self.account + "/")


class KeyFile:
    """The keys in a JSON file, which only its owner may write; a change counts at once.

    `check` looks whether the file is another by now, so that a key is gone as soon as it is
    revoked, in every process. A file that cannot be read lets nobody in.
    """

    def __init__(self, path: "str | os.PathLike[str]") -> None:
        self.path = os.path.abspath(path)
        self._seen: tuple[int, ...] = ()
        self._keys: dict[str, Key] = {}

    def keys(self) -> dict[str, Key]:
        """Return the keys by name, as they are now; `KeyFileError` where they cannot be had."""
        try:
            status = os.lstat(self.path)
            dates = (status.st_mtime_ns, status.st_ctime_ns)
            seen = (status.st_dev, status.st_ino, status.st_size, status.st_mode, *dates)
            if seen != self._seen:
                self._keys = self._load(status)
                self._seen = seen
        except FileNotFoundError as error:
            text = f"no file of keys {self.path!r}: `microbudget serve key add` makes one"
            raise KeyFileError(text) from error
        except OSError as error:
            raise KeyFileError(f"cannot read the keys in {self.path!r}: {error}") from error
        return self._keys

    def check(self, token: str) -> Key | None:
        """Return the key that a bearer token is, `None` for one that is none.

        The time that it takes tells nobody how much of a token is right.
        """
        key = self.keys().get(_name_of(token))
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
        right = hmac.compare_digest(digest, _NOBODY if key is None else key.digest)
        return key if right else None

    def add(self, name: str, account: str, rights: Sequence[str]) -> str:
        """Make a key, and return it: it is stored nowhere, and cannot be shown again.

        Raises `ValueError` for a name that is taken, and for what is no name, account or right.
        """
        token = f"mb.{name}.{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(token.encode()).hexdigest()
        ordered = tuple(right for right in RIGHTS if right in rights)
        unknown = tuple(right for right in rights if right not in RIGHTS)
        key = Key(name, account, ordered + unknown, digest, int(time.time()))
        claim = self._claim()
        try:
            keys = dict(self.keys()) if os.path.lexists(self.path) else {}
            if name in keys:
                raise ValueError(
                    f"there is a key {name!r} already: revoke it, or take another name"
                )
            keys[name] = key
            self._save(keys)
        finally:
            claim.release()
        return token

    def revoke(self, name: str) -> None:
        """Let a key in no more; `ValueError` where there is none of that name."""
        self.keys()  # where there is no file, a claim would leave one beside it
        claim = self._claim()
        try:
            keys = dict(self.keys())
            if keys.pop(name, None) is None:
                raise ValueError(f"there is no key {name!r} in {self.path!r}")
            self._save(keys)
        finally:
            claim.release()

    def _claim(self) -> PathClaim:
        claim = PathClaim(self.path)
        try:
            with claim.used(reading=True):
                return claim
        except StoreError as error:
            text = f"the keys in {self.path!r} are being changed by somebody else: try again"
            raise KeyFileError(f"{text} ({error.cause or error})") from error

    def _load(self, status: os.stat_result) -> dict[str, Key]:
        self._refuse_other(status)
        file = os.open(self.path, _READ)
        with open(file, "rb") as opened:
            self._refuse_other(os.fstat(file))
            data = opened.read(MAX_BYTES + 1)
        try:
            if len(data) > MAX_BYTES:
                raise ValueError(f"it is larger than {MAX_BYTES} bytes")
            return _read_keys(json.loads(data))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            text = f"{self.path!r} is no file of keys, or damaged: {error}"
            raise KeyFileError(text) from error

    def _refuse_other(self, status: os.stat_result) -> None:
        what = what_else(status)
        if what:
            raise KeyFileError(f"{self.path!r} is {what}, not a plain file with one name")
        if hasattr(os, "getuid") and status.st_mode & 0o022:
            raise KeyFileError(f"others may write to {self.path!r}: chmod 600 it, and look at it")
        if hasattr(os, "geteuid") and status.st_uid not in (0, os.geteuid()):
            raise KeyFileError(f"{self.path!r} is somebody else's: chown it, and look at it")

    def _save(self, keys: dict[str, Key]) -> None:
        rows = [asdict(key) for key in keys.values()]
        data = json.dumps({"version": 1, "keys": rows}, indent=1).encode() + b"\n"
        new = self.path + ".tmp"
        try:
            remove(new)
            write_new(new, data)
            os.replace(new, self.path)
            sync_folder(os.path.dirname(self.path))
        except OSError as error:
            raise KeyFileError(f"cannot write the keys to {self.path!r}: {error}") from error


def _name_of(token: str) -> str:
    parts = token.split(".")
    return parts[1] if len(parts) == 3 and parts[0] == "mb" else ""


def _read_keys(data: Any) -> dict[str, Key]:
    if data["version"] != 1:
        raise ValueError(f"its version is {data['version']!r}, and 1 is known")
    keys: dict[str, Key] = {}
    for row in data["keys"]:
        key = Key(**dict(row, rights=tuple(row["rights"])))
        if keys.setdefault(key.name, key) is not key:
            raise ValueError(f"two keys are called {key.name!r}")
    return keys
