"""Look for an order in which one ledger after the other explains what threads saw at once.

A history is what some threads asked of one ledger, with the instants at which each call began and
ended. It is linearizable if the calls can be put in one order, none before one that had ended when
it began, in which the reference gives the same answers. The search is Wing and Gong's, which does
not look twice at the same calls left over in the same state.
"""

import copy
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from budget_core.ledger.errors import LedgerError
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from tests.ledger.machine import comparable

NOON = 20_000 * 86_400 + 43_200
PATHS = ("org", "org/a", "org/b")
KEYS = ("k1", "k2", "k3", "k4")
Call = tuple[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Operation:
    """A call, its answer, and when it began and ended."""

    call: Call
    answer: Any
    began: float
    ended: float


def clock() -> float:
    """Stand still: which window counts is not the question."""
    return float(NOON)


def answer(ledger: Any, call: Call) -> Any:
    """Make a call, and return what it gave or raised in a form that can be compared."""
    name, arguments = call
    own = [Hold(*one[1:]) if isinstance(one, tuple) else one for one in arguments]
    try:
        return comparable(getattr(ledger, name)(*own))
    except (LedgerError, ValueError) as error:
        return comparable(error)


def record(ledger: Any, threads: Sequence[Sequence[Call]]) -> list[Operation]:
    """Make the calls, each list in a thread of its own, all at once."""
    found: list[Operation] = []
    start = threading.Barrier(len(threads))

    def make(calls: Sequence[Call]) -> None:
        began = time.perf_counter()
        start.wait()  # the first calls have all begun before one of them ends
        for call in calls:
            got = answer(ledger, call)
            found.append(Operation(call, got, began, time.perf_counter()))
            began = time.perf_counter()

    running = [threading.Thread(target=make, args=(calls,)) for calls in threads]
    for one in running:
        one.start()
    for one in running:
        one.join()
    if len(found) != sum(len(calls) for calls in threads):
        raise AssertionError("a call raised what no ledger may raise")
    return found


def explain(reference: Ledger, history: Sequence[Operation]) -> list[Operation] | None:
    """Return an order of the history in which the reference answers the same, if there is one."""
    seen: set[Any] = set()

    def search(state: Ledger, left: frozenset[int]) -> list[Operation] | None:
        if not left:
            return []
        latest = min(history[at].ended for at in left)
        for at in sorted(left):
            if history[at].began > latest:
                continue
            after = copy.deepcopy(state)
            if answer(after, history[at].call) != history[at].answer:
                continue
            place = (left - {at}, fingerprint(after))
            if place in seen:
                continue
            seen.add(place)
            rest = search(after, left - {at})
            if rest is not None:
                return [history[at], *rest]
        return None

    return search(reference, frozenset(range(len(history))))


def fingerprint(ledger: Ledger) -> str:
    """Return what two ledgers that answer alike have in common."""
    known = [answer(ledger, ("hold", (path, key))) for path in PATHS for key in KEYS]
    return repr(([answer(ledger, ("balance", (path,))) for path in PATHS], known))


def prepare(ledger: Any) -> None:
    """Make the accounts, and a hold for threads to fight about."""
    ledger.set_limits("org", [Limit("tokens", 10, "day"), Limit("calls", None)])
    ledger.set_limits("org/a", [Limit("tokens", 6)])
    ledger.reserve("org/a", {"tokens": 2, "calls": 1}, "k1")


def random_calls(seed: int, threads: int = 4, each: int = 4) -> list[list[Call]]:
    """Return what each thread is to ask: the same few keys, settled in several ways at once."""
    chance = random.Random(seed)  # noqa: S311 - a history, not a secret

    def one() -> Call:
        path, key = chance.choice(PATHS[1:]), chance.choice(KEYS)
        amounts = {"tokens": chance.randint(0, 5)}
        names = ("reserve", "reserve", "charge", "commit", "renew", "release", "balance")
        name = chance.choice(names)
        if name in ("reserve", "charge"):
            return name, (path, amounts, key)
        if name == "balance":
            return name, (path,)
        hold = ("hold", chance.choice(PATHS[1:]), key)
        if name == "renew":
            next_key = chance.choice(KEYS)
            return name, (hold, amounts, {"tokens": chance.randint(0, 5)}, next_key)
        return name, (hold, amounts) if name == "commit" else (hold,)

    return [[one() for _ in range(each)] for _ in range(threads)]


def check(make: Callable[[Callable[[], float]], Any], seeds: Sequence[int]) -> int:
    """Record a history for each seed on a fresh ledger, and explain it.

    Returns how many operations were in flight at the same time as another one. Raises
    `AssertionError` with a history that no order explains.
    """
    overlapping = 0
    for seed in seeds:
        ledger, reference = make(clock), Ledger(clock)
        prepare(ledger)
        prepare(reference)
        history = record(ledger, random_calls(seed))
        if explain(reference, history) is None:
            text = "\n".join(repr(one) for one in sorted(history, key=lambda one: one.began))
            raise AssertionError(f"no order explains the history of seed {seed}:\n{text}")
        overlapping += sum(
            any(one is not other and one.began < other.ended and other.began < one.ended
                for other in history)
            for one in history
        )  # fmt: skip
    return overlapping
