"""The ledger upstream of a lease or a cap, as tasks or threads reach it."""

from asyncio import gather
from threading import Lock
from typing import TYPE_CHECKING, Any

from budget_core.checks import NoLock
from budget_core.ledger.backoff import LedgerWithBackoff
from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.outbox import Entry, Outbox
from budget_cpython.ledger.locks import TaskGate, ThreadGate

if TYPE_CHECKING:
    from budget_core.ledger.outbox import Ask

AT_ONCE = 1000


class ConcurrentOutbox(Outbox):
    """An outbox that delivers up to `AT_ONCE` entries together, which may share a request."""

    async def _deliver_each(self, ask: "Ask", entries: list[Entry]) -> Exception | None:
        deliver_one = super()._deliver_each
        error: Exception | None = None
        for start in range(0, len(entries), AT_ONCE):
            some = entries[start : start + AT_ONCE]
            found = await gather(*(deliver_one(ask, [entry]) for entry in some))
            errors = [one for one in found if one is not None]
            lost = [one for one in errors if isinstance(one, LedgerUnavailableError)]
            error = next(iter(lost + errors), error)
            if lost:
                break
        return error


class AwaitedLedgerWithBackoff(LedgerWithBackoff):
    """The awaited ledger behind a lease or a cap."""

    OUTBOX = ConcurrentOutbox


class AwaitedUpstream:
    """The upstream ledger, locks and gates of a lease or a cap that tasks share."""

    UPSTREAM: type[LedgerWithBackoff] = AwaitedLedgerWithBackoff
    LOCK: Any = NoLock
    GATE: Any = TaskGate


class BlockingUpstream(AwaitedUpstream):
    """The upstream ledger, locks and gates of a lease or a cap that threads share."""

    UPSTREAM = LedgerWithBackoff
    LOCK = Lock
    GATE = ThreadGate
