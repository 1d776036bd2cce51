"""Devices that lease from one service: their turns, outages, power cuts and clocks, step by step.

    python -m tests.fleet.device URL KEY BLOCK FIRST COUNT SEED

Runs on both runtimes. A line is the JSON `[milliseconds, is the network up, how many of a million
devices lose their power in the midst of a turn now]`; the answer is a line of JSON with what became
of all devices so far. No device sleeps: its clocks are what the lines say. Each begins with a clock
that is right, or in 1970, 2000 or 2021, as chips do, and again after each power cut.
"""

import asyncio
import json
import sys

from budget_core.errors import BudgetError
from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_core.ledger.http_client import HttpLedger
from budget_core.ledger.lease import LeasedLedger
from budget_core.monotonic import MonotonicClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CALL = (300, 1_000)  # tokens that a call may use
CALLS = 4  # of a turn, at most
GAP_MS = (1_200_000, 19_200_000)  # between turns
KEPT_S = 3_600  # how long a device that keeps its lease leases it
MILLION = 1_000_000
LOST = 10_000  # of a million answers
CUT = 2_000  # of a million calls: the power fails
RESET = 50_000  # of a million turns: the device starts again before
CLOCKS = (None, 0, 946_684_800, 1_609_459_200)  # right, or unset: 1970, 2000, 2021
DAY_MS = 86_400_000


class World:
    """What all devices of this process share: the time, the network, chance, and what happened."""

    def __init__(self, url: str, key: str, block: int) -> None:
        self.now = 0
        self.block = {"tokens": block, "calls": CALLS}
        self.up = True
        self.url = url
        self.key = key
        self.used: dict[str, int] = {}  # tokens, by the service's day
        self.calls = self.refused = self.unreachable = self.cuts = self.resets = 0
        self.failures: list[str] = []


class Dice:
    """Chance, the same on both runtimes."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def __call__(self, sides: int) -> int:
        """Return a number from 0 to less than so many."""
        self._state = (self._state * 1_103_515_245 + 12_345) % (1 << 48)
        return (self._state >> 16) % sides


class Radio(HttpLedger):
    """A client whose network goes away, and loses answers."""

    def __init__(self, device: "Device") -> None:
        super().__init__(device.world.url, device.world.key, 120)
        self.device = device
        self.world = device.world

    async def _exchange(
        self, method: str, path: str, body: bytes, patience_s: float
    ) -> "tuple[int, bytes]":
        if not self.world.up:
            raise LedgerUnavailableError("there is no network", None, False)
        answer = await super()._exchange(method, path, body, patience_s)
        if self.device.dice(MILLION) < LOST:
            raise LedgerUnavailableError("the answer was lost", None, None)
        self.device.reached = self.world.now
        return answer


class Device:
    """One device: every other one keeps its lease between turns, the others give it back."""

    def __init__(self, world: World, number: int, seed: int) -> None:
        self.world = world
        self.dice = Dice(seed * MILLION + number)
        self.path = f"boards/{number}"
        self.keeps = number % 2 == 1
        self.due = self.dice(GAP_MS[1])
        self.reached = 0  # when the service last answered
        self.boot()

    def boot(self) -> None:
        """Start, with nothing in memory; the date is lost."""
        world = self.world
        born, at, date = world.now, self.dice(1 << 20), CLOCKS[self.dice(len(CLOCKS))]

        def monotonic() -> int:
            return at + world.now - born

        def clock() -> float:
            ms = world.now if date is None else date * 1000 + world.now - born
            return ms // 1000

        ttl = KEPT_S if self.keeps else 600
        ticks = MonotonicClock(monotonic)
        self.ledger = LeasedLedger(Radio(self), world.block, ttl, clock, ticks)
        self.is_kept = False

    async def step(self, storm: int) -> None:
        """Do what is due; in a storm the power may fail in the midst of a turn."""
        world = self.world
        struck = self.dice(MILLION) < storm
        if struck or world.now >= self.due:
            self.due = world.now + GAP_MS[0] + self.dice(GAP_MS[1] - GAP_MS[0])
            if self.dice(MILLION) < RESET:
                world.resets += 1
                self.boot()
            await self._turn(struck)
        elif self.is_kept:
            self.is_kept = False
            await self._quietly(self.ledger.expire())

    async def _turn(self, struck: bool) -> None:
        world, dice = self.world, self.dice
        for _ in range(1 + dice(CALLS)):
            asked = CALL[0] + dice(CALL[1] - CALL[0])
            try:
                hold = await self.ledger.reserve(self.path, {"tokens": asked, "calls": 1})
            except BudgetExceededError:
                world.refused += 1
                break
            except BudgetError:
                world.unreachable += 1
                break
            cut = struck or dice(MILLION) < CUT
            used = asked if cut else CALL[0] + dice(asked - CALL[0] + 1)
            world.calls += 1
            day = str(world.now // DAY_MS)
            world.used[day] = world.used.get(day, 0) + used
            if cut:
                world.cuts += 1
                self.boot()
                return
            await self._quietly(self.ledger.commit(hold, {"tokens": used}))
        if self.keeps:
            self.is_kept = True
        else:
            await self._quietly(self.ledger.close())

    async def _quietly(self, work: "Any") -> None:
        try:
            await work
        except LedgerUnavailableError:
            pass  # it is owed
        except BudgetError as error:
            self.world.failures.append(repr(error))

    async def end(self) -> None:
        """Give back all."""
        await self._quietly(self.ledger.close())


def told(world: World, devices: "list[Device]") -> "dict[str, Any]":
    """Return what has become of all devices so far."""
    return {
        "used": world.used,
        "calls": world.calls,
        "refused": world.refused,
        "unreachable": world.unreachable,
        "cuts": world.cuts,
        "resets": world.resets,
        "failures": world.failures,
        "reached": min([device.reached for device in devices]),
    }


async def main(url: str, key: str, block: int, first: int, count: int, seed: int) -> None:
    """Obey until there are no more lines; an empty list ends all devices in order."""
    world = World(url, key, block)
    devices = [Device(world, number, seed) for number in range(first, first + count)]
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        said = json.loads(line)
        if said:
            world.now, world.up, storm = said
            for device in devices:
                await device.step(storm)
        else:
            for device in devices:
                await device.end()
        print(json.dumps(told(world, devices)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], *[int(word) for word in sys.argv[3:7]]))
