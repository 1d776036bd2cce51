"""What a reservation and its commit cost in memory, beside a locked dict, and as a ledger grows."""

import time
from collections.abc import Callable
from threading import Lock

from benchmarks.figures import Figure, ratio
from budget_cpython import Ledger, Limit

MOST_US = 6.0
MOST_GROWTH = 1.25  # 1.0 but for the caches of the machine
_PLENTY = 10**12
_AMOUNTS = {"tokens": 10}


def measure(quick: bool = False) -> list[Figure]:
    """Return microseconds and ratios; the best round of each counts, taken in turns."""
    rounds, calls = (3, 2_000) if quick else (15, 10_000)
    accounts, holds = (20_000, 2_000) if quick else (1_000_000, 100_000)
    small, deep, large = _ledger(calls), _ledger(1), _ledger(accounts)
    for depth in ("org/a0/b", "org/a0/b/c"):
        deep.set_limits(depth, [Limit("tokens", _PLENTY, "day")])
    for index in range(holds):
        large.reserve(f"org/a{index % accounts}", _AMOUNTS, ttl=86_400)
    spread = [f"org/a{index * (accounts // calls)}" for index in range(calls)]
    each = [f"org/a{index}" for index in range(calls)]
    flat, two, four, many, big, far, dictionary = _best(
        rounds,
        calls,
        lambda n: _claims(small, ["org"], n),
        lambda n: _claims(small, ["org/a0"], n),
        lambda n: _claims(deep, ["org/a0/b/c"], n),
        lambda n: _claims(small, each, n),
        lambda n: _claims(large, each, n),
        lambda n: _claims(large, spread, n),
        _updates,
    )
    return [
        Figure("ledger in memory: reserve + commit", flat, "µs", MOST_US),
        Figure("ledger in memory: a locked dict update", dictionary, "µs"),
        ratio("ledger in memory: reserve + commit over it", flat, dictionary),
        ratio("ledger in memory: four accounts deep over one", four, flat),
        ratio(f"ledger in memory: a claim on each of {calls:,} accounts over one", many, two),
        ratio(
            f"ledger in memory: {accounts:,} accounts, {holds:,} holds over {calls:,} and none",
            big,
            many,
            MOST_GROWTH,
        ),
        ratio("ledger in memory: the same, accounts far apart in the machine's memory", far, many),
    ]


def _ledger(accounts: int) -> Ledger:
    ledger = Ledger(max_accounts=accounts + 10)
    ledger.set_limits("org", [Limit("tokens", _PLENTY, "day")])
    for index in range(accounts):
        ledger.set_limits(f"org/a{index}", [Limit("tokens", _PLENTY, "day")])
    return ledger


def _best(rounds: int, calls: int, *contenders: Callable[[int], None]) -> list[float]:
    best = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for index, work in enumerate(contenders):
            start = time.perf_counter_ns()
            work(calls)
            best[index] = min(best[index], (time.perf_counter_ns() - start) / calls / 1000)
    return best


def _claims(ledger: Ledger, paths: list[str], calls: int) -> None:
    for index in range(calls):
        hold = ledger.reserve(paths[index % len(paths)], _AMOUNTS)
        ledger.commit(hold, _AMOUNTS)


def _updates(calls: int) -> None:
    counts, lock = {"tokens": 0}, Lock()
    for _ in range(calls):
        with lock:
            counts["tokens"] += 10
