"""What a ledger was not told yet, by anybody in this process."""

from binascii import hexlify
from os import urandom

from budget_core.ledger.errors import (
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownHoldError,
)
from budget_core.ledger.limit import MOST, root
from budget_core.ledger.records import Hold
from budget_core.provider import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

COMMIT = "commit"
RELEASE = "release"
CHARGE = "charge"
_MOST_KEYS = 1024


class Entry:
    """A commit, a release or a charge that a ledger is to be told of.

    A charge's `hold` has its path, and its key as the `id`. What was `tried` may have arrived:
    nothing is added to it any more.
    """

    def __init__(
        self, what: str, hold: Hold, actual: "dict[str, int] | None" = None, tried: bool = True
    ) -> None:
        self.what = what
        self.hold = hold
        self.actual = actual
        self.tried = tried

    @classmethod
    def charge(cls, path: str, used: "dict[str, int]", tried: bool = True) -> "Entry":
        """Return a charge with a key of its own, which may be told any number of times."""
        key = "late-" + hexlify(urandom(8)).decode()
        return cls(CHARGE, Hold(path, key), dict(used), tried)


class Untold:
    """What waits to be told to one ledger, and which keys this process has used in it."""

    def __init__(self, ledger: "Any") -> None:
        self.ledger = ledger
        self.entries: list[Entry] = []
        self._keys: set[tuple[str, str]] = set()
        self._former: set[tuple[str, str]] = set()

    def add(self, entry: Entry) -> None:
        """Have an entry told before the next call below the same root."""
        self.entries.append(entry)

    def charge_later(self, path: str, used: "dict[str, int]") -> None:
        """Have a charge made later, with all others on the path that were not tried, as one."""
        for entry in self.entries:
            total = entry.actual
            if not entry.tried and entry.hold.path == path and total is not None:
                for axis in used:
                    total[axis] = min(MOST, total.get(axis, 0) + used[axis])
                return
        self.add(Entry.charge(path, used, False))

    def waits(self, path: str) -> bool:
        """Tell whether something waits below the root of a path."""
        return any(root(entry.hold.path) == root(path) for entry in self.entries)

    async def flush(self, path: str) -> Exception | None:
        """Tell what waits, up to the first failure; what is below the root of `path` goes first.

        Others may do the same meanwhile: nothing is gone before it is told, and all of it can be
        told twice. Returns the last error.
        """
        own = [entry for entry in self.entries if root(entry.hold.path) == root(path)]
        error: Exception | None = None
        for entry in own + [entry for entry in self.entries if entry not in own]:
            if entry in self.entries:
                try:
                    error = await self.say(entry) or error
                except Exception as failure:  # noqa: BLE001 - whatever it is, the entry is kept
                    return failure
                try:
                    self.entries.remove(entry)
                except ValueError:
                    pass  # another thread told it as well
        return error

    async def say(self, entry: Entry) -> Exception | None:
        """Tell the ledger; return the error of what it will never take, which helps no retry.

        A commit of a hold that the ledger has lost is a charge from then on. Raises what a retry
        may help.
        """
        entry.tried = True
        try:
            if entry.what == COMMIT and await self._committed(entry):
                return None
            if entry.what == RELEASE:
                await settle(self.ledger.release(entry.hold))
            else:
                await settle(self.ledger.charge(entry.hold.path, entry.actual, entry.hold.id))
        except (LedgerUnavailableError, LedgerFullError):
            raise
        except (LedgerError, ValueError) as error:
            return error
        return None

    async def _committed(self, entry: Entry) -> bool:
        try:
            await settle(self.ledger.commit(entry.hold, entry.actual))
            return True
        except UnknownHoldError:
            if entry.what == COMMIT:  # and nobody else has seen to it meanwhile
                used = dict(entry.hold.amounts)
                used.update(entry.actual or {})
                charge = Entry.charge(entry.hold.path, used)
                entry.what, entry.hold, entry.actual = charge.what, charge.hold, charge.actual
            return False

    def claim(self, path: str, key: str) -> bool:
        """Note a key, and tell whether it is new here: a call of this process has no successor.

        At least the last 1,024 are known.
        """
        place = (path, key)
        if place in self._keys or place in self._former:
            return False
        if len(self._keys) >= _MOST_KEYS:
            self._former, self._keys = self._keys, set()
        self._keys.add(place)
        return True

    def disclaim(self, path: str, key: str) -> None:
        """Forget a key whose call was not made."""
        self._keys.discard((path, key))
        self._former.discard((path, key))
