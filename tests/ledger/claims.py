"""Let many processes claim one budget while they are killed, and count what was granted.

Each worker reserves one call at a time and commits it. Workers are killed with SIGKILL at random
instants and started again; what a killed one held is left to expire. Half-way the clock, which all
share, moves to the next hour. There are more claims than the two hours allow, so at the end each
hour must have counted its limit exactly, and workers must have been told of all of it but one claim
for each kill. The exit code is 1 if not.
"""

import argparse
import atexit
import contextlib
import mmap
import os
import random
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.limit import Limit
from tests.ledger.patience import NO_HURRY

BEGIN = 20_000 * 86_400 + 600  # ten past midnight
ROLL = BEGIN + 3600
TTL = 600
ACCOUNTS = ("org", "org/team")
PATH = "org/team/agent"
AXIS = "calls"
NUMBER = struct.Struct("<q")
FIELDS = 3  # of a worker: claims made, granted in the first hour, granted in the second

Make = Callable[[Callable[[], float]], Any]


class BrokenPromiseError(Exception):
    """What was granted is not what was promised."""


class Shared:
    """Numbers that all processes see: the clock, and the fields of each worker."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._memory = mmap.mmap(-1, NUMBER.size * (1 + workers * FIELDS))
        self.set_clock(BEGIN)

    def clock(self) -> float:
        return float(NUMBER.unpack_from(self._memory)[0])

    def set_clock(self, now: int) -> None:
        NUMBER.pack_into(self._memory, 0, now)

    def get(self, worker: int, field: int) -> int:
        return int(NUMBER.unpack_from(self._memory, self._at(worker, field))[0])

    def add(self, worker: int, field: int) -> None:
        NUMBER.pack_into(self._memory, self._at(worker, field), self.get(worker, field) + 1)

    def total(self, field: int) -> int:
        return sum(self.get(worker, field) for worker in range(self._workers))

    def _at(self, worker: int, field: int) -> int:
        return NUMBER.size * (1 + worker * FIELDS + field)


class Claims:
    """A campaign on the ledger that `make` opens, in each process its own, on a given clock."""

    def __init__(self, make: Make, processes: int, claims: int, kills: int, seed: int = 0) -> None:
        self.cap = processes * claims // 4
        if self.cap <= kills:
            raise ValueError(f"{kills} kills are too many for {processes} times {claims} claims")
        self._make = make
        self._processes = processes
        self._claims = claims
        self._random = random.Random(seed)  # noqa: S311 - instants, not secrets
        total = processes * claims
        self._kill_at = sorted(self._random.randrange(total) for _ in range(kills))
        self._shared = Shared(processes)
        self._running: dict[int, int] = {}  # workers by process id
        self.kills = 0

    def run(self) -> None:
        """Do it all; raises `BrokenPromiseError`."""
        with contextlib.closing(self._make(self._shared.clock)) as ledger:
            for account in ACCOUNTS:
                ledger.set_limits(account, [Limit(AXIS, self.cap, "hour")])
        try:
            for worker in range(self._processes):
                self._start(worker)
            while self._running:
                self._look_after()
        finally:
            self._end_all()
        self._check()

    def _start(self, worker: int) -> None:
        child = os.fork()
        if not child:
            self._work(worker)
        self._running[child] = worker

    def _work(self, worker: int) -> None:
        try:
            ledger = self._make(self._shared.clock)
            while self._shared.get(worker, 0) < self._claims:
                while self._shared.get(worker, 0) >= self._claims * 3 // 4 and not self._rolled():
                    time.sleep(0.001)  # for the others: the hour ends in the midst of claims
                self._claim(ledger, worker)
                self._shared.add(worker, 0)  # killed before, it claims again
            ledger.close()
            os._exit(0)
        except BaseException:  # noqa: BLE001 - whatever it is, the campaign has failed
            traceback.print_exc()
        finally:
            os._exit(1)

    def _claim(self, ledger: Any, worker: int) -> None:
        try:
            hold = ledger.reserve(PATH, {AXIS: 1}, ttl=TTL)
        except BudgetExceededError:
            return
        taken = hold.expires_at - TTL
        self._shared.add(worker, 1 if taken < ROLL else 2)
        ledger.commit(hold, {AXIS: 1})

    def _rolled(self) -> bool:
        return self._shared.clock() >= ROLL

    def _look_after(self) -> None:
        """Wait for a random while, kill who is due to be, end the hour when it is time."""
        time.sleep(self._random.random() * 0.02)
        self._reap()
        claimed = self._shared.total(0)
        while self._running and self._kill_at and claimed > self._kill_at[0]:
            del self._kill_at[0]
            self._kill()
        if not self._rolled() and claimed * 2 >= self._processes * self._claims:
            self._shared.set_clock(ROLL)

    def _kill(self) -> None:
        """Kill a worker, and start it again."""
        victim = self._random.choice(sorted(self._running))
        os.kill(victim, signal.SIGKILL)  # a child that was not waited for: the id is its own
        _, status = os.waitpid(victim, 0)
        worker = self._running.pop(victim)
        if os.WIFSIGNALED(status):
            self.kills += 1
            self._start(worker)
        elif os.WEXITSTATUS(status):
            raise BrokenPromiseError(f"worker {worker} failed")

    def _reap(self) -> None:
        for child in list(self._running):
            if os.waitpid(child, os.WNOHANG)[0]:
                worker = self._running.pop(child)
                if self._shared.get(worker, 0) < self._claims:
                    raise BrokenPromiseError(f"worker {worker} failed")

    def _end_all(self) -> None:
        for child in self._running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self._running.clear()

    def _check(self) -> None:
        self._shared.set_clock(ROLL + 2 * TTL)
        with contextlib.closing(self._make(self._shared.clock)) as ledger:
            ledger.expire()
            for account in ACCOUNTS:
                first, second = ledger.history(account)[0], ledger.balance(account)[-1]
                counted = [(one.account, one.spent, one.held) for one in (first, second)]
                if counted != [(account, self.cap, 0)] * 2:
                    raise BrokenPromiseError(f"limit {self.cap}, counted {counted}")
        told = [self._shared.total(1), self._shared.total(2)]
        most = self.cap + self._processes  # each may read the clock, and be served an hour later
        if max(told) > most or not 2 * self.cap - self.kills <= sum(told) <= 2 * self.cap:
            raise BrokenPromiseError(f"limit {self.cap}, workers were granted {told}")


def maker(engine: str) -> Make:
    """Return what opens the ledger of `sqlite:PATH`, `redis:URL` or `postgres:DSN`.

    Without a place, a file or a server is made for it and removed at the end.
    """
    kind, _, place = engine.partition(":")
    place = place or _own(kind)
    if kind == "sqlite" and place:
        from budget_cpython.ledger.sqlite import SqliteLedger

        return lambda clock: SqliteLedger(place, clock=clock, timeout=NO_HURRY)
    if kind == "redis" and place:
        from budget_cpython.ledger.redis import RedisLedger

        return lambda clock: RedisLedger(place, clock=clock, timeout=NO_HURRY)
    if kind == "postgres" and place:
        from budget_cpython.ledger.postgres import PostgresLedger

        return lambda clock: PostgresLedger(place, clock=clock, timeout=NO_HURRY)
    raise argparse.ArgumentTypeError(f"not sqlite:PATH, redis:URL or postgres:DSN: {engine!r}")


def _own(kind: str) -> str:
    if kind == "sqlite":
        folder = tempfile.TemporaryDirectory(prefix="claims-")
        atexit.register(folder.cleanup)
        return f"{folder.name}/budget.db"
    if kind == "redis":
        from tests.ledger.redis import server as redis_server

        return redis_server.server().url
    if kind == "postgres":
        from tests.ledger.postgres import server as postgres_server

        return postgres_server.server().conninfo()
    return ""


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.ledger.claims",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--engine",
        type=maker,
        default="sqlite",
        metavar="KIND[:PLACE]",
        help="sqlite, redis or postgres, on its own here unless it is sqlite:PATH, redis:URL or "
        "postgres:DSN, which must have no accounts yet (default: sqlite)",
    )
    parser.add_argument("--processes", type=int, default=32, help="workers (default: 32)")
    parser.add_argument("--claims", type=int, default=5000, help="of each (default: 5000)")
    parser.add_argument("--kills", type=int, default=200, help="at most (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="of the instants (default: 0)")
    options = parser.parse_args()
    work = Claims(options.engine, options.processes, options.claims, options.kills, options.seed)
    began = time.monotonic()
    try:
        work.run()
    except BrokenPromiseError as error:
        print(f"FAILED with --seed {options.seed}: {error}")
        return 1
    total = options.processes * options.claims
    print(
        f"{total} claims by {options.processes} processes in {time.monotonic() - began:.1f} s, "
        f"{work.kills} killed: {work.cap} granted in each of two hours, the limit exactly"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
