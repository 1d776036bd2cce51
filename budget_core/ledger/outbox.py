"""The settlements and charges that a ledger could not take yet, and their delivery."""

from asyncio import CancelledError
from binascii import hexlify
from os import urandom

from budget_core.errors import refuse
from budget_core.ledger.checks import MAX_LIMITS, MOST, check_axis, check_path, root
from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_core.ledger.hold import Hold
from budget_core.waking import cancellations, raise_lost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    Ask = Callable[..., Awaitable[Any]]  # ask(operation, *arguments), an operation of the ledger

COMMIT = "commit"
RELEASE = "release"
CHARGE = "charge"
_REDEEM = "redeem"
_UNDOINGS = 5  # of one reservation, if they are cancelled too
# with which a ledger refuses an operation for good
FOR_GOOD = (HoldSettledError, KeyReusedError, UnknownAccountError, ValueError)


def check_account(ledger: "Any", path: "Any", operations: "tuple[str, ...]") -> str:
    """Accept a ledger that has those operations, and the path of an account in it."""
    for name in operations:
        if not hasattr(ledger, name):
            refuse("ledger", "a Ledger", ledger)
    if not path:
        refuse("account", "the path of an account in the ledger", path)
    return check_path(path)


def new_key() -> str:
    """Return a key that is used nowhere else: 64 random bits."""
    return "owed-" + hexlify(urandom(8)).decode()


class Entry:
    """One operation that a ledger is owed.

    - `operation`: `COMMIT` or `RELEASE` of `hold`; `CHARGE` of `actual` to the hold's path, with
      its id as the key; `_REDEEM`: take the hold, by its id as the key, for `ttl` seconds, and
      commit `actual`, or charge `actual` if the hold is refused.
    - `tried`: the ledger may know it, so nothing is added to it.
    - `sending`: its owner is delivering it for the first time; others leave it alone.
    """

    __slots__ = ("actual", "hold", "operation", "sending", "tried", "ttl")

    def __init__(
        self,
        operation: str,
        hold: Hold,
        actual: "dict[str, int] | None" = None,
        ttl: float = 0,
    ) -> None:
        self.operation = operation
        self.hold = hold
        self.actual = actual
        self.ttl = ttl
        self.tried = self.sending = False


class Outbox:
    """What one ledger is still owed, in order.

    An entry may be delivered any number of times and counts once: a commit by its hold, a charge by
    its key. It stays until the ledger has accepted it. An entry is given up only if the ledger
    cannot ever accept it: its account was removed, its key stands for another operation, or it is
    invalid. `dropped` counts these, `refusal` is the newest error, and each is logged.

    At most `most` entries wait; one more raises `LedgerFullError`. `None` is unlimited.
    """

    def __init__(self, most: int | None = None) -> None:
        self.entries: list[Entry] = []
        self.dropped = 0
        self.refusal: Exception | None = None
        self._most = most

    def add(self, entry: Entry) -> None:
        """Keep an entry for the next delivery."""
        if self._most is not None and len(self.entries) >= self._most:
            raise LedgerFullError(f"the ledger is owed {self._most} entries: no more are kept")
        self.entries.append(entry)

    def commit(self, hold: Hold, actual: "dict[str, int] | None" = None) -> None:
        """Commit a hold at the next delivery; raises `ValueError` for a malformed axis."""
        _check_axes(actual or {})
        self.add(Entry(COMMIT, hold, actual))

    def release(self, hold: Hold) -> None:
        """Release a hold at the next delivery."""
        self.add(Entry(RELEASE, hold))

    def charge(self, path: str, amounts: "dict[str, int]", key: str | None = None) -> None:
        """Charge amounts at the next delivery; without a key they are added up by path.

        Raises `ValueError` for a malformed path or axis.
        """
        check_path(path)
        _check_axes(amounts)
        for entry in self.entries:
            if key is None and _takes(entry, path, amounts):
                add_amounts(entry.actual or {}, amounts)
                return
        entry = Entry(CHARGE, Hold(path, key or new_key()), dict(amounts))
        entry.tried = key is not None
        self.add(entry)

    def redeem(self, hold: Hold, ttl: float, actual: "dict[str, int]") -> None:
        """Take a hold by its key and commit it, or charge `actual` if it is refused.

        With zeros in `actual` this undoes a reservation whose outcome is unknown.
        """
        self.add(Entry(_REDEEM, hold, actual, ttl))

    def reserve(
        self,
        ask: "Ask",
        path: str,
        amounts: "Mapping[str, Any]",
        key: str,
        ttl: float,
        *wait: float,
    ) -> "Awaitable[Hold]":
        """Take a hold; if its outcome stays unknown, the next delivery undoes it.

        So it is if the caller is cancelled meanwhile, or the answer is lost.
        """
        taken = ask("reserve", path, amounts, key, ttl, *wait)
        return self._taken(taken, Hold(path, key, dict(amounts)), ttl)

    def renew(
        self,
        ask: "Ask",
        hold: Hold,
        actual: "dict[str, int]",
        amounts: "Mapping[str, Any]",
        key: str,
        ttl: float,
    ) -> "Awaitable[Hold]":
        """Commit a hold and take the next one, which is undone as `reserve` says.

        The former hold is its owner's to commit then: it may be held or committed.
        """
        taken = ask("renew", hold, actual, amounts, key, ttl)
        return self._taken(taken, Hold(hold.path, key, dict(amounts)), ttl)

    async def _taken(self, taken: "Awaitable[Hold]", hold: Hold, ttl: float) -> Hold:
        in_doubt = True
        try:
            held = await taken
            in_doubt = False
            return held
        except Exception as error:
            in_doubt = getattr(error, "applied", False) is None
            raise
        finally:
            if in_doubt:
                self.redeem(hold, ttl, dict.fromkeys(hold.amounts, 0))

    def waits(self, path: str) -> bool:
        """Tell whether an undelivered entry is below the same root as a path."""
        return any(not one.sending and root(one.hold.path) == root(path) for one in self.entries)

    async def deliver(self, ask: "Ask", entry: Entry) -> Exception | None:
        """Deliver a new entry at once and keep it if that fails; return the error, if any."""
        entry.sending = True
        self.add(entry)
        try:
            return await self._send(ask, entry)
        except Exception as error:  # noqa: BLE001 - whatever a ledger raises, the entry is kept
            return error
        finally:
            entry.sending = False

    async def deliver_all(self, ask: "Ask", path: str | None = None) -> Exception | None:
        """Deliver what is owed, in order, entries below the root of `path` first.

        A refusal of one entry does not stop the others; a ledger that cannot be reached does.
        Several callers may deliver at once. Returns an error that kept an entry here, or else the
        last refusal.
        """
        own: list[Entry] = []
        others: list[Entry] = []
        for entry in self.entries:
            is_own = path is not None and root(entry.hold.path) == root(path)
            (own if is_own else others).append(entry)
        return await self._deliver_each(ask, own + others)

    async def _deliver_each(self, ask: "Ask", entries: "list[Entry]") -> Exception | None:
        kept = refused = None
        for entry in entries:
            if entry.sending or entry not in self.entries:
                continue
            try:
                refused = await self._send(ask, entry) or refused
            except Exception as error:  # noqa: BLE001 - whatever a ledger raises, the entry is kept
                kept = kept or error
                if not isinstance(error, LedgerError) or isinstance(error, LedgerUnavailableError):
                    break
        return kept or refused

    async def _send(self, ask: "Ask", entry: Entry) -> Exception | None:
        """Deliver an entry and remove it; return the refusal if it was given up."""
        entry.tried = True
        refusal = None
        try:
            while await self._step(ask, entry):
                pass
        except FOR_GOOD as error:
            refusal = error
        try:
            self.entries.remove(entry)
        except ValueError:
            return None  # another thread delivered it as well
        if refusal is not None:
            self.dropped += 1
            self.refusal = refusal
            from budget_core.log import log  # loaded for the first refusal

            text = f"a ledger refused a {entry.operation} on {entry.hold.path!r}"
            log("error", f"{text} for good: {refusal!r}")
        return refusal

    async def _step(self, ask: "Ask", entry: Entry) -> bool:
        """Ask the ledger for an entry's operation; return whether it has become another one."""
        operation, hold = entry.operation, entry.hold
        try:
            if operation == _REDEEM:
                held = await ask("reserve", hold.path, hold.amounts, hold.id, entry.ttl)
                return _become(entry, _REDEEM, COMMIT, held)
            if operation == CHARGE:
                await ask(CHARGE, hold.path, entry.actual, hold.id)
            elif operation == COMMIT:
                await ask(COMMIT, hold, entry.actual)
            else:
                await ask(RELEASE, hold)
        except (BudgetExceededError, ValueError):  # the latter for an axis that nothing counts
            if operation != _REDEEM:
                raise
            return _become(entry, _REDEEM, CHARGE, hold)
        except KeyReusedError:
            if operation != _REDEEM:
                raise
            return _become(entry, _REDEEM, CHARGE, Hold(hold.path, new_key()))
        except UnknownHoldError:  # the ledger has lost it
            if operation == COMMIT:
                used = dict(hold.amounts)
                used.update(entry.actual or {})
                return _become(entry, COMMIT, CHARGE, Hold(hold.path, new_key()), used)
        return False


async def reserve_or_undo(
    ask: "Ask", path: str, amounts: "Mapping[str, Any]", key: str, ttl: float, *wait: float
) -> Hold:
    """Take a hold; if the caller is cancelled meanwhile, undo that first."""
    before = cancellations()
    try:
        try:
            held: Hold = await ask("reserve", path, amounts, key, ttl, *wait)
            return held
        finally:
            raise_lost(before)
    except CancelledError:
        outbox = Outbox()
        outbox.redeem(Hold(path, key, dict(amounts)), ttl, dict.fromkeys(amounts, 0))
        for _ in range(_UNDOINGS):
            try:
                await outbox.deliver_all(ask)
                break
            except CancelledError:
                pass  # it is undone first
        raise


def _become(
    entry: Entry, was: str, operation: str, hold: Hold, actual: "dict[str, int] | None" = None
) -> bool:
    """Turn an entry into another operation, unless another caller has done so meanwhile."""
    if entry.operation == was:
        entry.operation = operation
        entry.hold = hold
        entry.actual = actual or entry.actual
    return True


def _takes(entry: Entry, path: str, amounts: "dict[str, int]") -> bool:
    """Tell whether amounts may be added to an entry, within what one operation may have."""
    if entry.tried or entry.operation != CHARGE or entry.hold.path != path:
        return False
    total = dict(entry.actual or {})
    add_amounts(total, amounts)
    return len(total) <= MAX_LIMITS and max(total.values(), default=0) <= MOST


def _check_axes(amounts: "dict[str, int]") -> None:
    for axis in amounts:
        check_axis(axis)


def add_amounts(total: "dict[str, int]", amounts: "dict[str, int]") -> None:
    """Add amounts to a total, by axis."""
    for axis in amounts:
        total[axis] = total.get(axis, 0) + amounts[axis]


def finish(coroutine: "Any") -> "Any":
    """Return the result of a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    coroutine.close()
    raise RuntimeError("a ledger that blocks awaited something")
