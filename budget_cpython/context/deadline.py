"""The core's deadlines and what CPython adds: cancellation, a current one, the way elsewhere."""

import copyreg
from contextlib import contextmanager
from threading import Lock

from budget_core import deadline as core
from budget_core import deadline_token
from budget_core.errors import DeadlineExceeded
from budget_core.monotonic import MONOTONIC
from budget_cpython.context.entered import WithEntry, enter, entered, leave

TYPE_CHECKING = False
if TYPE_CHECKING:
    from asyncio import Timeout
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Any


class Deadline(core.Deadline):
    """An instant on the monotonic clock by which work has to be over.

    Made by `from_now`, `at`, `never` or `from_wire`, and never changed. `check_or_raise` raises
    `DeadlineExceeded` once it has passed, `scope()` cancels what runs then, and `as_current()`
    makes it the one that `current()` returns. `intersect` gives the earlier of two.

    Pickled it sends the milliseconds that remain, never the instant; it then runs by the
    receiver's own clock. A copy is the deadline itself.
    """

    __slots__ = ()

    async def async_check_or_raise(self) -> None:
        """Raise `DeadlineExceeded` if the deadline has passed, after other tasks had their turn.

        A task that has been cancelled, or is meanwhile, gets its `CancelledError` instead.
        """
        from asyncio import sleep

        await sleep(0)
        self.check_or_raise()

    def scope(self) -> "Scope":
        """Return an `async with` whose body is cancelled at the deadline.

        Only that cancellation becomes `DeadlineExceeded`. One that comes from elsewhere, at
        whatever moment, stays a `CancelledError`, and the body's own errors stay what they are. Of
        nested scopes that have passed, the outermost says so. A deadline that has passed already
        raises, and the body is not run.

        A body is cancelled once, where it awaits: one that ends without an error raises nothing,
        however late, and one that swallows the `CancelledError` runs on without a limit. A deadline
        with a clock of its own is held to by the loop's clock, from what remains on entry. Raises
        `RuntimeError` outside a task, and where a scope is entered twice.
        """
        return Scope(self)

    @classmethod
    def current(cls) -> "Deadline":
        """Return the deadline that `as_current` set around this code, or one that never passes.

        Tasks have that of the code which made them, and so has what runs in a copy of the context,
        as in `asyncio.to_thread`. A new `threading.Thread` starts with none. One that a generator
        set is around its own code, and not around the code that iterates it.
        """
        return current_or_none() or NEVER

    @contextmanager
    def as_current(self) -> "Iterator[Deadline]":
        """Return a `with` in which `current` is this deadline, or the one around it if earlier.

        `as` gives the one that holds. Nothing is raised or cancelled when it has passed: code that
        asks `current` does that. Raises `ValueError` inside a deadline of another clock.
        """
        entry = set_current(self)
        try:
            yield Deadline.current()
        finally:
            leave(entry)

    def __copy__(self) -> "Deadline":
        return self

    def __deepcopy__(self, _memo: object) -> "Deadline":
        return self

    def __reduce__(self) -> "tuple[Callable[..., Deadline], tuple[int | None]]":
        return type(self).from_wire, (self.to_wire(0),)

    def _loop_time(self) -> float | None:
        """Return the instant on the running loop's clock; `None` for never."""
        if self.is_never():
            return None
        if self._clock is MONOTONIC:
            return self.instant
        from asyncio import get_running_loop

        return get_running_loop().time() + self.remaining_seconds()


NEVER = Deadline.never()


def current_or_none() -> Deadline | None:
    """Return the deadline that the context has, or `None`."""
    earliest: Deadline | None = None
    for entry in entered():
        if entry.deadline is not None and (earliest is None or entry.deadline < earliest):
            earliest = entry.deadline
    return earliest


def set_current(deadline: Deadline, account: "Any" = None) -> WithEntry:
    """Make a deadline, or the one around it if earlier, the current one until the entry is left."""
    around = current_or_none()
    if around is not None:
        deadline.intersect(around)  # which refuses one of another clock
    return enter(account, deadline)


class Scope:
    """What `Deadline.scope` returns, to be entered once; `as` gives the deadline."""

    __slots__ = ("_deadline", "_entered", "_timeout")

    def __init__(self, deadline: Deadline) -> None:
        from asyncio import timeout_at

        self._deadline = deadline
        self._timeout: Timeout = timeout_at(None)
        self._entered = False

    async def __aenter__(self) -> Deadline:
        from asyncio import current_task, get_running_loop, sleep

        if self._entered:  # asyncio itself refuses since 3.11.4 only
            raise RuntimeError("the scope of a deadline has already been entered")
        self._entered = True
        task = current_task()
        if task is not None and task.cancelling():
            await sleep(0)  # a cancellation that is still to come is not the deadline's
        await self._timeout.__aenter__()
        self._timeout.reschedule(self._deadline._loop_time())
        # Asked when the timer is set, and refused by the timer: so asyncio tells in one way, here
        # and in the body, which of several scopes and cancellations wins.
        if self._deadline.is_expired():
            try:
                await get_running_loop().create_future()
            except BaseException as error:
                await self.__aexit__(type(error), error, None)
                raise
        return self._deadline

    async def __aexit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        traceback: "TracebackType | None",
    ) -> None:
        try:
            await self._timeout.__aexit__(kind, error, traceback)
        except TimeoutError:
            raise DeadlineExceeded(self._deadline) from error


class DeadlineToken(deadline_token.DeadlineToken):
    """Tells one piece of work when to stop: at its deadline, or when it is cancelled.

    Work that asks `is_expired()` now and then can end early with what it has. Any number of threads
    may ask, and one may `cancel()`.
    """

    LOCK = Lock
    deadline: Deadline


def _revive(state: "dict[str, Any]") -> DeadlineExceeded:
    error = DeadlineExceeded.__new__(DeadlineExceeded)
    error.__setstate__(state)
    return error


def _reduce(error: DeadlineExceeded) -> "tuple[Callable[..., DeadlineExceeded], tuple[object]]":
    deadline = error.deadline
    if not isinstance(deadline, Deadline):  # the core's would send its instant
        deadline = Deadline.from_wire(deadline.to_wire(0))
    return _revive, ({**vars(error), "args": error.args, "deadline": deadline},)


copyreg.pickle(DeadlineExceeded, _reduce)
