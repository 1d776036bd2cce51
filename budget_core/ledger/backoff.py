"""A ledger that may be out of reach: asked less often the longer it stays so."""

from budget_core.errors import refuse
from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.outbox import Outbox
from budget_core.monotonic import MONOTONIC
from budget_core.provider import maybe_await

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.monotonic import MonotonicClock

FIRST_MS = 500  # until a ledger that was out of reach is asked again
MOST_MS = 30_000


class LedgerWithBackoff:
    """The ledger behind a lease or a cap, blocking or awaited, and the `outbox` of what it is owed.

    A ledger that was out of reach is not asked for half a second of the `monotonic` clock, then for
    twice as long each time, up to half a minute: until then `LedgerUnavailableError` is raised at
    once. The outbox, an `OUTBOX`, holds at most `most` entries.
    """

    OUTBOX = Outbox

    def __init__(
        self, ledger: "Any", monotonic: "MonotonicClock" = MONOTONIC, most: int = 10_000
    ) -> None:
        if not hasattr(ledger, "reserve"):
            refuse("ledger", "a Ledger", ledger)
        self.ledger = ledger
        self._read = monotonic.read
        self._per_ms = monotonic.per_ms
        self._most = most
        self._wait = 0
        self._again = 0
        self._cause: BaseException | None = None
        self.begin_again()

    def begin_again(self) -> None:
        """Owe nothing: what a process owes is not its child's."""
        self.outbox = self.OUTBOX(self._most)

    def now(self) -> int:
        """Return the monotonic clock's milliseconds."""
        return self._read() // self._per_ms

    async def ask(self, operation: str, *arguments: "Any") -> "Any":
        """Do an operation of the ledger, unless it was out of reach a moment ago."""
        if self._wait and self.now() < self._again:
            text = f"the ledger is out of reach, and is asked again later: {self._cause}"
            raise LedgerUnavailableError(text, self._cause)
        try:
            result = await maybe_await(getattr(self.ledger, operation)(*arguments))
        except LedgerUnavailableError as error:
            now = self.now()
            if self._cause is None:
                from budget_core.log import log  # loaded for the first outage

                log("warning", f"a ledger is out of reach: {error}")
            if now >= self._again:
                self._wait = min(MOST_MS, self._wait * 2 or FIRST_MS)
                self._again = now + self._wait
            self._cause = error
            raise
        if self._cause is not None:
            from budget_core.log import log

            log("info", "a ledger can be reached again")
        self._wait, self._cause = 0, None
        return result

    def retry_now(self) -> None:
        """Ask again at the next operation, however the last one ended."""
        self._wait = 0

    async def deliver(self) -> None:
        """Deliver what the ledger is owed; raise an error that keeps an entry in the outbox."""
        error = await self.outbox.deliver_all(self.ask)
        if error is not None and self.outbox.entries:
            raise error

    async def close(self) -> None:
        """Deliver what is owed, and close the ledger; raise if an entry stays in the outbox."""
        self.retry_now()
        await self.deliver()
        close = getattr(self.ledger, "close", None)
        if close is not None:
            await maybe_await(close())
