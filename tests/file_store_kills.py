"""Kill a process in the midst of its writes, many times, and look at what it left.

Each kill starts a process that records one token after another and acknowledges each over a pipe.
At a random instant it gets SIGKILL. Then the stored count must be the last acknowledged one or one
more, and there may be no files but the state's and their temporary names. Every twentieth process
starts in a folder that is yet to be made. The exit code is 1 as soon as a kill breaks the promise.

SIGKILL shows what a crash of the process does; a power loss needs a simulated disk.
"""

import argparse
import os
import random
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import budget_core.file_store
import budget_cpython
from budget_core.errors import StoreError
from budget_core.file_store import SLOTS

STORES: dict[str, Callable[[str], Any]] = {
    "server": budget_cpython.FileBudgetStore,
    "core": budget_core.file_store.FileBudgetStore,
}
FILES = {
    "server": {"", ".microbudget.tmp", ".lock"},
    "core": {f"/{slot}/state.json{end}" for slot in range(SLOTS) for end in ("", ".new")}
    | {"/made"},
}
CONFIG = budget_cpython.DailyBudgetConfig(daily_budget=None, enforcement="observe")
ONE_TOKEN = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}
NOON = 20_000 * 86_400 + 43_200
NAME = "state.json"
FRESH_EVERY = 20
COUNT = struct.Struct("<Q")


class BrokenPromiseError(Exception):
    """What a kill left is not what was promised."""


class Kills:
    """Kills writers of one kind of store, one after the other, and adds up what it saw."""

    def __init__(self, store: str, seed: int, folder: Path) -> None:
        self._make_store = STORES[store]
        self._files = {NAME + end for end in FILES[store]}
        self._random = random.Random(seed)  # noqa: S311 - instants, not secrets
        self._root = folder
        self._folder = folder
        self._known = 0
        self.kills = self.saves = self.ahead = self.inside = 0

    def kill_one(self) -> None:
        """Start a writer, kill it at a random instant, check what is stored."""
        if self.kills % FRESH_EVERY == 0:
            self._folder = self._root / str(self.kills) / "new"
            self._known = 0
        acknowledged = self._acknowledged_until_killed()
        self.kills += 1
        self.saves += acknowledged - self._known
        state = self._make_store(str(self._folder / NAME)).load()
        stored = state["tokens"] if state else 0
        files = (path for path in self._folder.rglob("*") if path.is_file())
        found = {str(path.relative_to(self._folder)) for path in files}
        if not acknowledged <= stored <= acknowledged + 1:
            raise BrokenPromiseError(f"acknowledged {acknowledged}, stored {stored}")
        if not found <= self._files:
            raise BrokenPromiseError(f"files left behind: {sorted(found)}")
        self.ahead += stored > acknowledged
        self.inside += any(name.endswith((".tmp", ".new")) for name in found)
        self._known = stored

    def _acknowledged_until_killed(self) -> int:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            self._write_for_ever(writing)
        os.close(writing)
        try:
            acknowledged = self._known
            for _ in range(self._random.randrange(4)):
                acknowledged = _next(reading) or acknowledged
            time.sleep(self._random.random() * 0.002)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if not os.WIFSIGNALED(status):
                raise BrokenPromiseError("a writer failed before it was killed")
            while count := _next(reading):
                acknowledged = count
            return acknowledged
        finally:
            os.close(reading)

    def _write_for_ever(self, pipe: int) -> None:
        try:
            store = self._make_store(str(self._folder / NAME))
            tracker = budget_cpython.DailyBudgetTracker(CONFIG, lambda: NOON, store)
            while not tracker.store_error and not tracker.state_error:
                tracker.record(ONE_TOKEN)
                os.write(pipe, COUNT.pack(tracker.total_tokens))
            print(tracker.store_error or tracker.state_error, file=sys.stderr, flush=True)
        finally:
            os._exit(1)


def _next(pipe: int) -> int:
    """Return the next count from the pipe, and 0 at its end."""
    data = os.read(pipe, COUNT.size)
    return COUNT.unpack(data)[0] if data else 0


def run(store: str, kills: int, seed: int) -> int:
    """Kill the writers of one store, say how it went, and return the exit code."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Kills(store, seed, Path(folder))
        try:
            for _ in range(kills):
                work.kill_one()
                if work.kills % max(1, kills // 10) == 0:
                    print(f"{store}: {work.kills} kills, {work.saves} saves", flush=True)
        except (BrokenPromiseError, StoreError) as error:
            print(f"{store}: FAILED at kill {work.kills} with --seed {seed}: {error}")
            return 1
    print(
        f"{store}: {work.kills} kills in {time.monotonic() - began:.1f} s, {work.saves} saves "
        f"acknowledged, {work.inside} temporary files left, {work.ahead} counts one ahead, 0 broken"
    )
    return 0


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=1000, help="for each store (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, help="of the instants (default: 0)")
    parser.add_argument("--store", choices=STORES, help="one store only (default: both)")
    options = parser.parse_args()
    stores = [options.store] if options.store else list(STORES)
    return max(run(store, options.kills, options.seed) for store in stores)


if __name__ == "__main__":
    sys.exit(main())
