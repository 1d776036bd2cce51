"""Kill processes in the midst of their writes to one SQLite ledger, many times, and count.

Each round starts processes whose threads charge, reserve, renew and commit one token after another
on one account, and acknowledge each token over a pipe. At a random instant one process after the
other gets SIGKILL. Then what is spent and held must be what was acknowledged, or up to one more for
each thread; the file must be whole, and only SQLite's own files may lie beside it. Every twentieth
round begins without a file. The exit code is 1 as soon as a kill breaks the promise.

SIGKILL shows what a crash of the process does; a power loss needs a simulated disk.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from threading import Thread
from typing import NoReturn

from budget_core.ledger.errors import LedgerError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.file_store_kills import COUNT, FRESH_EVERY, NOON, BrokenPromiseError, _next
from tests.ledger.patience import NO_HURRY

NAME = "ledger.db"
FILES = {NAME, NAME + "-wal", NAME + "-shm"}
PATH = "org/team"
ONE = {"tokens": 1}
WRITERS = 2
THREADS = 3  # of each, which share commits


class Kills:
    """Kills the writers of one ledger, round after round, and adds up what it saw."""

    def __init__(self, folder: Path, seed: int, durability: str) -> None:
        self._durability = durability
        self._random = random.Random(seed)  # noqa: S311 - instants, not secrets
        self._root = folder
        self._folder = folder
        self._known = 0
        self.rounds = self.kills = self.acknowledged = self.ahead = self.held = 0

    def kill_some(self) -> None:
        """Start writers, kill them at random instants, check what is stored."""
        if self.rounds % FRESH_EVERY == 0:
            self._folder = self._root / str(self.rounds)
            self._folder.mkdir()
            self._known = 0
        self.rounds += 1
        acknowledged = self._acknowledged_until_killed()
        stored = self._stored()
        self.acknowledged += acknowledged
        if not acknowledged <= stored - self._known <= acknowledged + WRITERS * THREADS:
            text = f"acknowledged {acknowledged}, stored {stored - self._known} more"
            raise BrokenPromiseError(text)
        found = {path.name for path in self._folder.iterdir()}
        if not found <= FILES:
            raise BrokenPromiseError(f"files left behind: {sorted(found)}")
        self.ahead += stored - self._known > acknowledged
        self._known = stored

    def _stored(self) -> int:
        with self._open() as ledger:
            found = ledger.balance(PATH)
        if len({(one.spent, one.held) for one in found}) > 1:
            raise BrokenPromiseError(f"the accounts differ: {found}")
        with SqliteLedger.view(self._folder / NAME) as view:
            (word,) = view.execute("PRAGMA integrity_check").fetchone()
            (holds,) = view.execute("SELECT count(*) FROM holds_live").fetchone()
        view.close()
        if word != "ok":
            raise BrokenPromiseError(f"the file is damaged: {word}")
        if found and holds != found[0].held:
            raise BrokenPromiseError(f"{holds} holds, {found[0].held} held")
        self.held = max(self.held, holds)
        return found[0].spent + found[0].held if found else 0

    def _open(self) -> SqliteLedger:
        ledger = SqliteLedger(
            self._folder / NAME,
            clock=lambda: NOON,
            timeout=NO_HURRY,
            durability=self._durability,
        )
        for account in ("org", PATH):
            if not ledger.limits(account):
                ledger.set_limits(account, [Limit("tokens", None, "day")])
        return ledger

    def _acknowledged_until_killed(self) -> int:
        writers = [self._start() for _ in range(WRITERS)]
        try:
            read = [_read(pipe, self._random.randrange(4)) for _, pipe in writers]
            for child, _ in writers:
                time.sleep(self._random.random() * 0.002)
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                if not os.WIFSIGNALED(status):
                    raise BrokenPromiseError("a writer failed before it was killed")
                self.kills += 1
            return sum(read) + sum(_read(pipe, sys.maxsize) for _, pipe in writers)
        finally:
            for _, pipe in writers:
                os.close(pipe)

    def _start(self) -> tuple[int, int]:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            self._write_for_ever(writing)
        os.close(writing)
        return child, reading

    def _write_for_ever(self, pipe: int) -> NoReturn:
        try:
            ledger = self._open()
            for _ in range(THREADS):
                Thread(target=_write, args=(ledger, pipe)).start()
            signal.pause()
        except BaseException:  # noqa: BLE001 - the parent learns of it by the exit code
            traceback.print_exc()
        finally:
            os._exit(1)


def _write(ledger: SqliteLedger, pipe: int) -> None:
    try:
        while True:
            ledger.charge(PATH, ONE)
            os.write(pipe, COUNT.pack(1))
            hold = ledger.reserve(PATH, ONE)
            os.write(pipe, COUNT.pack(1))
            hold = ledger.renew(hold, ONE, ONE)
            os.write(pipe, COUNT.pack(1))
            ledger.commit(hold, ONE)
    except BaseException:  # noqa: BLE001 - the parent learns of it by the exit code
        traceback.print_exc()
    finally:
        os._exit(1)


def _read(pipe: int, most: int) -> int:
    """Return how many tokens are acknowledged, up to so many."""
    found = 0
    while found < most and _next(pipe):
        found += 1
    return found


def run(kills: int, seed: int, folder: str | None = None, durability: str = "full") -> int:
    """Kill so many writers, say how it went, and return the exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder) as place:
        work = Kills(Path(place), seed, durability)
        try:
            while work.kills < kills:
                work.kill_some()
                if work.rounds % max(1, kills // WRITERS // 10) == 0:
                    print(f"{work.kills} kills, {work.acknowledged} tokens", flush=True)
        except (BrokenPromiseError, LedgerError) as error:
            print(f"FAILED at kill {work.kills} with --seed {seed}: {error}")
            return 1
    print(
        f"{work.kills} kills in {time.monotonic() - began:.1f} s, {work.acknowledged} tokens "
        f"acknowledged, {work.ahead} rounds ahead, {work.held} holds at most, 0 broken"
    )
    return 0


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=10_000, help="in all (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of the instants (default: 0)")
    parser.add_argument(
        "--folder",
        help="where the files are made; one in memory is quicker (default: for temporary files)",
    )
    parser.add_argument(
        "--durability", default="full", choices=["full", "settle"], help="(default: full)"
    )
    options = parser.parse_args()
    return run(options.kills, options.seed, options.folder, options.durability)


if __name__ == "__main__":
    sys.exit(main())
