"""A ledger behind a switch: the real one, out of reach when a test says so."""

import asyncio

from budget_core.ledger.errors import LedgerError, LedgerUnavailableError
from budget_core.ledger.lease import LeasedLedger
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from tests_micro.support import FakeClock, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PATH = "org/agent"
DAY = 1_800_000_000 // 86_400 * 86_400  # Unix time at which a day begins


class Faulty:
    """Passes operations on to a real ledger, and counts them.

    While `down` is `before`, none reaches it; while it is `after`, each is done and its answer
    lost; while it is `refused`, the ledger wants another key. `only` names the one operation that
    this happens to. `slow` ones are awaited.
    """

    def __init__(self, ledger: "Any", slow: bool = False) -> None:
        self.ledger = ledger
        self.slow = slow
        self.down = ""
        self.only = ""
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> "Any":
        method = getattr(self.ledger, name)

        def ask(*arguments: "Any") -> "Any":
            self.asked.append(name)
            lost = bool(self.down) and self.only in ("", name)
            if lost and self.down == "before":
                raise LedgerUnavailableError("down")
            if lost and self.down == "refused":
                raise LedgerError("the key has no right to this")
            answer = method(*arguments)
            if lost:
                raise LedgerUnavailableError("lost", None, None)
            return answer

        async def ask_slowly(*arguments: "Any") -> "Any":
            await asyncio.sleep(0)
            answer = ask(*arguments)
            await asyncio.sleep(0)
            return answer

        return ask_slowly if self.slow else ask


class World:
    """A ledger with limits on `org`, clocks that stand still, and processes that lease from it."""

    def __init__(
        self, calls: int = 1000, window: str = "run", slow: bool = False, axes: "Any" = None
    ) -> None:
        self.clock = FakeClock(DAY + 3600)
        self.ticks, self.monotonic = stopped_clock()
        self.ledger = Ledger(self.clock, axes=axes)
        self.ledger.set_limits("org", [Limit("calls", calls, window), Limit("tokens", None)])
        self.faulty = Faulty(self.ledger, slow)

    def leased(self, **options: "Any") -> LeasedLedger:
        """Return what another process leases with, 10 calls at a time."""
        block = options.pop("block", {"calls": 10, "tokens": 1000})
        ttl = options.pop("ttl", 100)
        return LeasedLedger(self.faulty, block, ttl, self.clock, self.monotonic, **options)

    def advance(self, seconds: float) -> None:
        """Let time pass on all clocks."""
        self.clock.advance(seconds)
        self.ticks.advance(int(seconds * 1000))

    def stands(self, axis: str = "calls") -> "tuple[int, int]":
        """Return what is spent and held of an axis upstream."""
        (found,) = [one for one in self.ledger.balance("org") if one.axis == axis]
        return found.spent, found.held


async def use(leased: LeasedLedger, calls: int = 1, tokens: int = 50) -> None:
    """Claim and settle the same."""
    hold = await leased.reserve(PATH, {"calls": calls, "tokens": tokens})
    await leased.commit(hold, {"calls": calls, "tokens": tokens})
