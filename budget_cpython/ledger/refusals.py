"""Note the refusals of a ledger for operators: each call once, and repeated ones seldom."""

import time
from contextvars import ContextVar
from threading import Lock
from weakref import ref

from budget_core.ledger.errors import BudgetExceededError, LedgerError
from budget_cpython.context.process_state import UNTOLD, begin_again_in_children, tell_at_end
from budget_cpython.ledger.noting import note_quietly, note_quietly_awaited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from budget_cpython.ledger.journal import LedgerEvent

EVERY_S = 10  # at most so often one path's refusals by one limit are noted
MOST = 1000  # paths and limits that are remembered


class RefusalLog:
    """The refusals by one ledger in this process, which it notes among its events.

    Refusals of one path by one limit are noted at most once in 10 seconds; an event says how many
    there were since the last one. Where 1,000 such pairs were noted in that time, those of further
    paths are noted together, as refusals of the account whose limit it is. `flush` notes those that
    were not noted yet. Where the ledger cannot note them, that is logged, and nothing is raised.
    `now` returns seconds that never go back.
    """

    def __init__(self, ledger: "Any", now: "Callable[[], float]" = time.monotonic) -> None:
        self._ledger = ref(ledger)
        self._kept: Any = None  # the ledger, while it is to be told something at the end
        self._now = now
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Know no refusal, in a process that was forked."""
        self._lock = Lock()
        self._known: dict[tuple[str, ...], _Repeated] = {}

    def add(self, path: str, error: BudgetExceededError) -> None:
        """Note a refusal, on a ledger that blocks; one of a call that is still tried, later."""
        if not _is_tried(self, error):
            note_quietly(self._ledger(), self._due(path, error))

    async def add_awaited(self, path: str, error: BudgetExceededError, strict: bool = True) -> None:
        """Note a refusal as `add` does; one that is not `strict` is of a call made all the same."""
        if not _is_tried(self, error):
            await note_quietly_awaited(self._ledger(), self._due(path, error, strict))

    def flush(self) -> None:
        """Note all refusals that were not noted yet, on a ledger that blocks."""
        note_quietly(self._ledger(), self._take())

    async def flush_awaited(self) -> None:
        """Note all refusals that were not noted yet."""
        await note_quietly_awaited(self._ledger(), self._take())

    def _due(
        self, path: str, error: BudgetExceededError, strict: bool = True
    ) -> "list[LedgerEvent]":
        """Remember a refusal, and return the events that are to be noted now."""
        kind = "refused" if strict else "observed"
        place = (kind, path, error.scope, error.axis, error.window)
        now = self._now()
        with self._lock:
            if place not in self._known and len(self._known) >= MOST:
                self._known = {
                    one: known
                    for one, known in self._known.items()
                    if known.times or now < known.again
                }
                if len(self._known) >= MOST:
                    place = (kind, error.scope, error.scope, error.axis, error.window)
            found = self._known.setdefault(place, _Repeated())
            found.times += 1
            found.error = error
        return self._take(now)

    def _take(self, now: float | None = None) -> "list[LedgerEvent]":
        """Return the events of what was not noted in the last 10 seconds, or ever without `now`."""
        events = []
        with self._lock:
            for place, one in self._known.items():
                if one.times and (now is None or now >= one.again):
                    events.append(one.event(place))
                    one.times = 0
                    one.again = (self._now() if now is None else now) + EVERY_S
            is_told = not any(one.times for one in self._known.values())
        ledger = self._ledger()
        if is_told or not getattr(ledger, "IS_SHARED", True):  # it ends with the process
            self._kept = None
            UNTOLD.discard(self)
        else:
            self._kept = ledger
            tell_at_end(self)
        return events


class _Repeated:
    """The refusals of one path by one limit that were not noted yet."""

    error: "Any" = None
    times = 0
    again = 0.0  # when the next one may be noted

    def event(self, place: tuple[str, ...]) -> "LedgerEvent":
        from budget_cpython.ledger.journal import LedgerEvent  # with typing: for the first of them

        kind, path, *_ = place
        error = self.error
        limit = {
            "account": error.scope,
            "axis": error.axis,
            "window": error.window,
            "cap": error.limit,
            "spent": error.spent,
            "held": error.held,
            "resets_at": error.resets_at,
        }
        details = {"limit": limit, "asked": error.asked, "times": self.times}
        if kind == "observed":
            details["would"] = "cutoff"
        return LedgerEvent(kind, path, details)


class _Attempt:
    """One call that may ask a ledger several times: it waits, or takes less."""

    is_open = True
    last: "tuple[RefusalLog, BudgetExceededError] | None" = None


_ATTEMPT: "ContextVar[_Attempt | None]" = ContextVar("microbudget.attempt", default=None)


async def as_one_call(path: str, strict: bool, asking: "Awaitable[Any]") -> "Any":
    """Return what a call gets that may ask several times, and note its refusal in the end alone.

    One that is not `strict` is made whatever the ledger says.
    """
    outer, attempt = _ATTEMPT.get(), _Attempt()
    _ATTEMPT.set(attempt)
    try:
        found = await asking
    except LedgerError as error:
        _ATTEMPT.set(outer)  # not reset: a coroutine may be closed in another context
        if attempt.last is not None and hasattr(error, "scope"):
            refusals, refusal = attempt.last
            if isinstance(error, BudgetExceededError):
                refusal = error
            await refusals.add_awaited(path, refusal, strict)
        raise
    finally:
        attempt.is_open = False
        _ATTEMPT.set(outer)
    return found


def _is_tried(refusals: RefusalLog, error: BudgetExceededError) -> bool:
    """Tell whether the call may still be granted; then it keeps the refusal until its end."""
    attempt = _ATTEMPT.get()
    if attempt is None or not attempt.is_open:
        return False
    attempt.last = refusals, error
    return True
