"""Wait for what others hold of a ledger's limits, the first to come first."""

import asyncio
import os
import time

from budget_core.ledger.checks import check_amounts, check_path, root
from budget_core.ledger.errors import BudgetExceededError, UnknownHoldError
from budget_core.ledger.hold import ROOMS, TTL, origin, process_of, time_to_wait
from budget_core.ledger.outbox import finish, new_key, reserve_or_undo
from budget_core.monotonic import MONOTONIC
from budget_core.provider import maybe_await
from budget_core.waking import cancellations, from_any_thread, raise_lost, wait_for_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from budget_core.ledger.hold import Hold

    Ask = Callable[..., Any]

WAIT = 60  # seconds
FIRST_MS = 50  # until the first of a queue asks again, if nothing is settled here
MOST_MS = 500
TURN_MS = 5000  # for which a process's calls may wait before others get a turn


try:
    _ThreadEvent: "Any" = __import__("threading").Event
except (ImportError, AttributeError):

    class _ThreadEvent:  # type: ignore[no-redef]
        """An event for a single thread, in which only time changes a thing."""

        wait = staticmethod(time.sleep)
        set = clear = staticmethod(bool)


def reserve_blocking(
    ledger: "Any",
    path: str,
    amounts: "Mapping[str, Any]",
    key: str | None,
    ttl: float,
    wait: float,
) -> "Hold":
    """Do `ledger.reserve`, and block this thread for up to `wait` seconds while others hold it."""
    event = _ThreadEvent()

    async def pause(seconds: float) -> None:
        event.wait(seconds)
        event.clear()

    wait_ms = time_to_wait(ledger, wait)
    waiter = _Waiter(path, amounts, key, ttl, wait_ms, pause, event.set)
    asking = room_of(ledger).reserve(_asks(ledger), waiter)
    hold: Hold = finish(process_of(ledger).as_one_call(path, True, asking))
    return hold


async def reserve_waiting(
    ledger: "Any",
    path: str,
    amounts: "Mapping[str, Any]",
    key: str | None = None,
    ttl: float = TTL,
    wait: float = WAIT,
    ask: "Ask | None" = None,
) -> "Hold":
    """Do `ledger.reserve`, and wait up to `wait` seconds in the event loop while others hold it.

    The ledger blocks or is awaited. A reservation that is under way at a cancellation is undone
    before that goes on. `ask(operation, *arguments)` does one operation of the ledger in another
    way, such as `undoing(…)`.
    """
    event = asyncio.Event()

    async def pause(seconds: float) -> None:
        await wait_for_event(event, seconds)
        event.clear()

    wait_ms = time_to_wait(ledger, wait)
    waiter = _Waiter(path, amounts, key, ttl, wait_ms, pause, from_any_thread(event.set))
    asking = room_of(ledger).reserve(ask or undoing(_asks(ledger)), waiter)
    hold: Hold = await process_of(ledger).as_one_call(path, True, asking)
    return hold


def undoing(ask: "Ask") -> "Ask":
    """Return a function that asks as `ask` does, and undoes a cancelled caller's reservation."""

    async def awaited(operation: str, *arguments: "Any") -> "Any":
        return await maybe_await(ask(operation, *arguments))

    async def attempt(operation: str, *arguments: "Any") -> "Any":
        found = ask(operation, *arguments)
        if not hasattr(found, "close"):
            return found
        if operation == "reserve":
            found.close()  # a coroutine that has not begun: one that may be cancelled needs a key
            path, amounts, key, ttl = arguments
            return await reserve_or_undo(awaited, path, amounts, key or new_key(), ttl)
        before = cancellations()
        try:
            return await found
        finally:
            raise_lost(before)

    return attempt


def _asks(ledger: "Any") -> "Ask":
    return lambda operation, *arguments: getattr(ledger, operation)(*arguments)


def room_of(ledger: "Any") -> "WaitingRoom":
    """Return where the calls of this process wait for a ledger."""
    ledger = origin(ledger)
    room: WaitingRoom | None = ROOMS.get(ledger)
    if room is None:
        made = WaitingRoom(getattr(ledger, "IS_SHARED", True))
        room = ROOMS.setdefault(ledger, made)
    return room


def forget_waiters() -> None:
    """Begin again in a forked process: the calls that wait are its parent's."""
    for room in list(ROOMS.values()):
        room.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_waiters)


class WaitingRoom:
    """The calls of one process that wait for what others hold of one ledger's limits.

    Calls that compete for a limit are admitted in the order in which they came. The first asks the
    ledger after each settlement that the ledger tells `hold.wake` of, as ours do, and by itself
    50 ms after it was refused, then after twice as long each time, up to half a second, each time
    less a random part of up to a half. The ledger's own `reserve` decides; the room only decides
    who asks.

    If a ledger `is_shared` with other processes, whose order among one another is not kept, this
    one gives way for half a second after each 5 seconds in which its calls have waited.
    """

    def __init__(self, is_shared: bool = True) -> None:
        self._queue: list[_Waiter] = []
        self._is_shared = is_shared
        self._turn_ends = self._closed_until = 0

    @property
    def waiting(self) -> int:
        """How many calls were refused, and wait."""
        return len([waiter for waiter in self._queue if waiter.last])

    def clear(self) -> None:
        """Forget all who wait."""
        self._queue = []

    def wake(self, path: str | None = None) -> None:
        """Have those ask again who are first, below the root of a path or everywhere."""
        now, own = _now(), None if path is None else root(path)
        if self._is_shared and now >= self._turn_ends:
            self._closed_until = now + MOST_MS
            self._turn_ends = self._closed_until + TURN_MS
        first: list[_Waiter] = []
        for waiter in list(self._queue):
            if own not in (None, waiter.root) or waiter.until <= now:
                continue
            for earlier in first:
                if waiter.is_behind_of(earlier):
                    break
            else:
                waiter.wake()
                first.append(waiter)

    async def reserve(self, ask: "Ask", waiter: "_Waiter") -> "Hold":
        """Return a hold, as soon as it is this call's turn and the ledger grants it.

        Raises `BudgetExceededError` once the amount is spent, or the time is over.
        """
        if not self._queue:
            self._turn_ends = _now() + TURN_MS
        self._queue.append(waiter)
        try:
            may_ask = waiter.key is not None and await self._is_known(ask, waiter)
            while True:
                blocker = None if may_ask else _blocker(list(self._queue), waiter)
                may_ask = False
                if blocker is not None:
                    waiter.last = blocker, True
                elif not waiter.waited or _now() >= self._closed_until:
                    try:
                        hold: Hold = await maybe_await(ask("reserve", *waiter.arguments))
                        return hold
                    except BudgetExceededError as error:
                        waiter.last = error, False
                        self._tell_later(waiter, error)
                    if waiter.pause_ms in (0, MOST_MS) and not waiter.is_hopeless:
                        await _count_expired(ask, waiter.path)
                    waiter.pause_ms = min(MOST_MS, waiter.pause_ms * 2 or FIRST_MS)
                left_ms = waiter.until - _now()
                if left_ms <= 0 or waiter.is_hopeless:
                    waited = waiter.waited or left_ms <= 0
                    raise waiter.refusal(waiter.wait_ms - max(0, left_ms) if waited else 0)
                await waiter.pause(min(left_ms, _shortened(waiter.pause_ms or MOST_MS)) / 1000)
                waiter.waited = True
        finally:
            if waiter in self._queue:
                self._queue.remove(waiter)
            self.wake(waiter.path)

    def _tell_later(self, waiter: "_Waiter", error: BudgetExceededError) -> None:
        """Wake the calls behind one for which what is spent leaves too little."""
        queue = list(self._queue)
        for later in queue[queue.index(waiter) + 1 :]:
            if later.last is not None and later.is_behind_of(waiter):
                later.last = error, True
                if later.is_hopeless:
                    later.wake()

    async def _is_known(self, ask: "Ask", waiter: "_Waiter") -> bool:
        """Tell whether a call would be put behind others although its key has its hold already."""
        if _blocker(list(self._queue), waiter) is None:
            return False
        try:
            await maybe_await(ask("hold", waiter.path, waiter.key))
            return True
        except UnknownHoldError:
            return False


class _Waiter:
    """One call that asks, or waits to ask.

    `last` is the newest refusal, and whether that was not its own but that of a call before it. A
    later call that asks for the same waits behind it.
    """

    last: "Any" = None  # one value: threads cannot tear it
    waited = False

    def __init__(
        self,
        path: str,
        amounts: "Mapping[str, Any]",
        key: str | None,
        ttl: float,
        wait_ms: int,
        pause: "Callable[[float], Awaitable[None]]",
        wake: "Callable[[], object]",
    ) -> None:
        self.path = check_path(path)
        self.root = root(path)
        self.key = key
        self.wait_ms = wait_ms
        self.until = _now() + wait_ms
        self.amounts = check_amounts(amounts, True)
        self.arguments = (path, self.amounts, key, ttl)
        self.pause = pause
        self.wake = wake
        self.pause_ms = 0

    @property
    def is_hopeless(self) -> bool:
        """Whether no settlement of what is held can help it, as far as is known."""
        error, is_behind = self.last
        if not is_behind:
            return not error.is_held
        asked = self.amounts[error.axis]
        return asked is None or error.spent + asked > error.limit

    def refusal(self, waited_ms: int) -> BudgetExceededError:
        """Return the error of a call that waited in vain.

        What a call before it waits for counts as held.
        """
        error, is_behind = self.last
        asked, held = error.asked, error.held
        if is_behind:
            asked = self.amounts[error.axis]
            held = min(max(0, error.limit - error.spent), held + (error.asked or 0))
        found: BudgetExceededError = error.but(asked, error.spent, held, waited_ms)
        return found

    def is_behind_of(self, earlier: "_Waiter") -> bool:
        """Tell whether it asks for what an earlier call was refused."""
        if earlier.last is None:
            return False
        error = earlier.last[0]
        along = (self.path + "/").startswith(error.scope + "/")
        return along and self.amounts.get(error.axis, 0) != 0


async def _count_expired(ask: "Ask", path: str) -> None:
    """Have a ledger count holds that are over as spent, as it does before it tells a balance."""
    try:
        await maybe_await(ask("balance", path))
    except Exception:  # noqa: BLE001, S110 - the next request says what is wrong
        pass


def _blocker(queue: "list[_Waiter]", waiter: _Waiter) -> BudgetExceededError | None:
    """Return what an earlier call was refused that this one asks for too, or `None`."""
    now = _now()
    for earlier in queue:
        if earlier is waiter:
            break
        if waiter.is_behind_of(earlier) and earlier.until > now:  # else it was left behind
            refusal: BudgetExceededError = earlier.last[0]
            return refusal
    return None


def _now() -> int:
    return MONOTONIC.read() // MONOTONIC.per_ms


def _shortened(ms: int) -> int:
    """Return a random time between a half and all of one, so that processes ask apart."""
    return ms - ms * os.urandom(1)[0] // 512
