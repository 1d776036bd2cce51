"""What a chip's budget wears of its flash, and allocates, on real littlefs and FAT code.

A daily tracker with its store in flash records one call after another; a block device in memory
counts the erases of each block. FAT's sector is erased whenever it is overwritten. The day of the
years of flash has 1,000 calls of 1,000 tokens, and each block bears 100,000 erases: what counts is
the block erased most. It is a small flash, of 128 KiB on littlefs: littlefs moves what is written
often, so a larger one lasts longer.

Allocation is measured on files of the host, after the first calls: what a record takes of the heap,
half of them less and half more, and what of it 10,000 leave behind after garbage collection.
"""

import json
from tempfile import TemporaryDirectory

from benchmarks.figures import Figure
from benchmarks.mpy import ROOT, find_micropython, run_micropython

MOST_ERASES = 0.07
CYCLES = 100_000
CALLS_A_DAY = 1_000
TOKENS_A_CALL = 1_000
WRITE_AHEAD = (0, 2_000, 20_000, 200_000)
_WARM_UP = 100
_PROGRAM = """
import json
from budget_core import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore
from tests_micro.flash import ROOT, Flash
from tests_micro.support import FakeClock

NOON = 19_675 * 86_400 + 43_200
USAGE = {{"prompt_tokens": {tokens} - 100, "completion_tokens": 100, "total_tokens": {tokens}}}

def wear(kind, ahead, calls):
    flash = Flash(kind)
    with flash:
        store = FileBudgetStore(ROOT + "/budget")
        day = DailyBudgetTracker(
            DailyBudgetConfig(daily_budget=1 << 40), FakeClock(NOON), store, write_ahead=ahead
        )
        save, written = store.save, [0]
        def counted(state):
            written[0] += 1
            save(state)
        store.save = counted
        for call in range({warm_up} + calls):
            if call == {warm_up}:
                flash.erases = [0] * flash.blocks
                written[0] = 0
            day.maybe_auto_reset()
            day.record(USAGE)
        if day.store_error or day.state_error:
            raise SystemExit(str(day.store_error or day.state_error))
    return written[0] / calls, sum(flash.erases) / calls, max(flash.erases) / calls

print(json.dumps(wear({kind!r}, {ahead}, {calls})))
"""
_ALLOCATION = """
import gc, json
from budget_core import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore
from tests_micro.support import FakeClock

NOON = 19_675 * 86_400 + 43_200
USAGE = {{"prompt_tokens": 900, "completion_tokens": 100, "total_tokens": 1000}}

def one(ahead):
    store = None if ahead is None else FileBudgetStore({folder!r} + "/" + str(ahead))
    return DailyBudgetTracker(
        DailyBudgetConfig(daily_budget=1 << 29), FakeClock(NOON), store, write_ahead=ahead or 0
    )

def call(day, calls):
    for _ in range(calls):
        day.maybe_auto_reset()
        day.record(USAGE)

def measured(day):
    call(day, {warm_up})
    gc.collect()
    gc.disable()
    taken = [0] * 11
    for number in range(len(taken)):
        start = gc.mem_alloc()
        call(day, 1)
        taken[number] = gc.mem_alloc() - start
    gc.enable()
    gc.collect()
    start = gc.mem_alloc()
    call(day, {calls})
    gc.collect()
    grown = gc.mem_alloc() - start
    return sorted(taken)[5], grown

print(json.dumps([measured(one(ahead)) for ahead in (None, 0, 200_000)]))
"""
KINDS = {
    "littlefs 32": "littlefs, programmes of 32 B",
    "littlefs 256": "littlefs, programmes of 256 B",
    "FAT 512": "FAT, sectors of 512 B",
    "FAT 4096": "FAT, sectors of 4096 B",
}


def measure(quick: bool = False) -> list[Figure]:
    """Return erases an update, years of flash by write-ahead allowance, and allocation.

    Raises `RuntimeError` where MicroPython is missing.
    """
    micropython = find_micropython()
    if micropython is None:
        raise RuntimeError("flash needs MicroPython: set MICROPYTHON to its path")
    calls = 1_000 if quick else 10_000
    figures = []
    hottest = {}
    for kind, title in KINDS.items():
        _, erases, most = _worn(micropython, kind, 0, calls)
        hottest[title] = most
        target = MOST_ERASES * 1000 if kind.startswith("littlefs") else None
        figures += [
            Figure(f"erases of 1,000 updates: {title}", erases * 1000, "", target),
            Figure(f"the same, block erased most: {title}", most * 1000),
        ]
    for ahead in WRITE_AHEAD:
        writes, _, _ = _worn(micropython, next(iter(KINDS)), ahead, calls)
        figures.append(Figure(f"writes a day, K = {ahead:,}", writes * CALLS_A_DAY))
        for title, most in hottest.items():
            years = CYCLES / (most * writes * CALLS_A_DAY * 365)
            figures.append(Figure(f"years of flash, K = {ahead:,}: {title}", years))
    return figures + _allocation(micropython, calls)


def _worn(micropython: str, kind: str, ahead: int, calls: int) -> list[float]:
    """Return writes and erases a call, and those of the block erased most."""
    values = {
        "kind": kind,
        "ahead": ahead,
        "calls": calls,
        "tokens": TOKENS_A_CALL,
        "warm_up": _WARM_UP,
    }
    said = run_micropython(micropython, _PROGRAM.format(**values), ROOT, ".")
    found: list[float] = json.loads(said)
    return found


def _allocation(micropython: str, calls: int) -> list[Figure]:
    with TemporaryDirectory() as folder:
        values = {"folder": folder, "calls": calls, "warm_up": _WARM_UP}
        said = run_micropython(micropython, _ALLOCATION.format(**values), ROOT, ".")
    figures = []
    for store, (taken, growth) in zip(
        ("no store", "a store, K = 0", "a store, K = 200,000"), json.loads(said), strict=True
    ):
        figures += [
            Figure(f"allocated by a record: {store}", taken, "B"),
            Figure(f"heap growth over {calls:,} records: {store}", growth, "B", 0),
        ]
    return figures
