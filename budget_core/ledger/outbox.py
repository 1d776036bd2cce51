"""Ask a ledger that may be out of reach, and remember what it has not been told yet."""

import os
from binascii import hexlify

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
from budget_core.ledger.limit import MAX_LIMITS, MOST, check_axis, check_path
from budget_core.monotonic import MONOTONIC
from budget_core.provider import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.ledger.records import Hold
    from budget_core.monotonic import MonotonicClock

FIRST_MS = 500  # until a ledger that was out of reach is asked again
MOST_MS = 30_000
_FINAL = (HoldSettledError, KeyReusedError, UnknownAccountError, UnknownHoldError, ValueError)


class Upstream:
    """A ledger, plain or with coroutines for methods, and a queue of what it is still owed.

    What could not be reached is not asked again for half a second of the `monotonic` clock, then
    for twice as long each time, up to half a minute: until then `LedgerUnavailableError` comes at
    once. Nothing runs in between.

    The queue holds at most `most` entries, which are told in order. Each can be told any number of
    times and counts once: a commit by its hold, a charge by its key. What the ledger refuses for
    good is left out: `refused` counts these, `refusal` is the newest.
    """

    def __init__(
        self, ledger: "Any", monotonic: "MonotonicClock" = MONOTONIC, most: int = 10_000
    ) -> None:
        self.ledger = ledger
        self.refused = 0
        self.refusal: Exception | None = None
        self._read = monotonic.read
        self._per_ms = monotonic.per_ms
        self._most = most
        self._keys = 0
        self.begin_again()
        self._wait = 0
        self._again = 0
        self._cause: BaseException | None = None

    def begin_again(self) -> None:
        """Owe nothing, under a name of its own: what was owed in a process that forked is its."""
        self._queue: list[_Owed] = []
        self._name = "owed-" + hexlify(os.urandom(8)).decode() + "-"

    def now(self) -> int:
        """Return the monotonic clock's milliseconds."""
        return self._read() // self._per_ms

    def key(self) -> str:
        """Return a key that nobody else has."""
        self._keys += 1
        return self._name + str(self._keys)

    @property
    def owing(self) -> int:
        """How many entries are in the queue."""
        return len(self._queue)

    async def ask(self, name: str, *arguments: "Any") -> "Any":
        """Do an operation of the ledger, unless it was out of reach a moment ago."""
        if self._wait and self.now() < self._again:
            text = f"the ledger is out of reach, and is asked again later: {self._cause}"
            raise LedgerUnavailableError(text, self._cause)
        try:
            result = await settle(getattr(self.ledger, name)(*arguments))
        except LedgerUnavailableError as error:
            now = self.now()
            if now >= self._again:
                self._wait = min(MOST_MS, self._wait * 2 or FIRST_MS)
                self._again = now + self._wait
            self._cause = error
            raise
        self._wait = 0
        return result

    def commit(self, hold: "Hold", actual: "dict[str, int] | None" = None) -> None:
        """Have a hold committed when it can be; raises `ValueError` for what is no axis."""
        _check_axes(actual or {})
        self._add(_Owed("commit", hold, actual))

    def release(self, hold: "Hold") -> None:
        """Have a hold given back when it can be."""
        self._add(_Owed("release", hold))

    def charge(self, path: str, amounts: "dict[str, int]", key: str | None = None) -> None:
        """Have amounts recorded when they can be; those without a key are added up by path.

        Raises `ValueError` for what is no path or axis.
        """
        check_path(path)
        _check_axes(amounts)
        if key is None:
            for owed in self._queue:
                if owed.takes(path, amounts):
                    sum_up(owed.arguments[1], amounts)
                    return
        mine = key is None
        self._add(_Owed("charge", path, dict(amounts), key or self.key(), mine=mine))

    def redeem(
        self, path: str, amounts: "dict[str, int]", key: str, ttl: float, actual: "dict[str, int]"
    ) -> None:
        """Have a hold taken, unless it was, and committed; recorded all the same if it is refused.

        With nothing in `actual` this undoes one of which nobody knows whether it was taken.
        """
        self._add(_Owed("redeem", path, amounts, key, ttl, actual))

    def hurry(self) -> None:
        """Ask again at the next call, however the last one ended."""
        self._wait = 0

    async def settle(self) -> None:
        """Tell the ledger what it is owed, in order; one caller at a time.

        Raises `LedgerUnavailableError`, `LedgerFullError`, and any other refusal that may not be
        for good, such as one of a key's rights, once the others have been told; what was not told
        stays in the queue.
        """
        at, refusal = 0, None
        while at < len(self._queue):
            owed = self._queue[at]
            owed.mine = False  # it may be known from now on, and must stay as it is
            try:
                await self._tell(owed)
            except _FINAL as error:
                self.refused += 1
                self.refusal = error
            except (LedgerUnavailableError, LedgerFullError):
                raise
            except LedgerError as error:
                refusal = refusal or error
                at += 1
                continue
            self._queue.pop(at)
        if refusal is not None:
            raise refusal

    async def _tell(self, owed: "_Owed") -> None:
        if owed.name == "redeem":
            path, amounts, key, ttl, actual = owed.arguments
            try:
                hold = await self.ask("reserve", path, amounts, key, ttl)
                owed.become("commit", hold, actual)
            except BudgetExceededError:
                owed.become("charge", path, actual, key)
            except KeyReusedError:
                owed.become("charge", path, actual, self.key())
        await self.ask(owed.name, *owed.arguments)

    async def close(self) -> None:
        """Close the ledger, if it can be."""
        close = getattr(self.ledger, "close", None)
        if close is not None:
            await settle(close())

    def _add(self, owed: "_Owed") -> None:
        if len(self._queue) >= self._most:
            raise LedgerFullError(f"the ledger is owed {self._most} entries, which is all that fit")
        self._queue.append(owed)


class _Owed:
    """An operation that is still to be done; one of `mine` may still be added to."""

    __slots__ = ("arguments", "mine", "name")

    def __init__(self, name: str, *arguments: "Any", mine: bool = False) -> None:
        self.become(name, *arguments)
        self.mine = mine

    def become(self, name: str, *arguments: "Any") -> None:
        """Be told as another operation from now on."""
        self.name = name
        self.arguments = arguments

    def takes(self, path: str, amounts: "dict[str, int]") -> bool:
        """Whether amounts may be added: an operation is of so many axes at most."""
        if not self.mine or self.arguments[0] != path:
            return False
        return len(set(self.arguments[1]) | set(amounts)) <= MAX_LIMITS


def _check_axes(amounts: "dict[str, int]") -> None:
    for axis in amounts:
        check_axis(axis)


def sum_up(total: "dict[str, int]", amounts: "dict[str, int]") -> None:
    """Add amounts to a total, by axis."""
    for axis in amounts:
        total[axis] = min(MOST, total.get(axis, 0) + amounts[axis])
