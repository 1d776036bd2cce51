"""Many threads on one thing, and switches between them where they hurt.

A thread switches only between certain instructions, so a race may need years to show. What is
`unsettle`d invites the switch: where one of its attributes is read or written, the thread yields.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

THREADS = 64
PARTS = ("budget_core.tracker", "budget_core.turn_budget")


def unsettle(thing: Any) -> Any:
    """Return `thing` with every read and write of its attributes, and of its parts', a yield."""
    kind: Any = type(thing)

    def read(self: Any, name: str) -> Any:
        value = kind.__getattribute__(self, name)
        if name in kind.__getattribute__(self, "__dict__"):
            time.sleep(0)
        return value

    def write(self: Any, name: str, value: Any) -> None:
        time.sleep(0)
        kind.__setattr__(self, name, value)

    for part in vars(thing).values():
        if type(part).__module__ in PARTS:
            unsettle(part)
    thing.__class__ = type(kind.__name__, (kind,), {"__getattribute__": read, "__setattr__": write})
    return thing


@pytest.fixture(autouse=True)
def restless() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work: Callable[[], object], count: int = THREADS) -> list[Any]:
    """Return what `work` returns in each of many threads that begin together.

    Raises the first error that was raised in one of them.
    """
    results: list[Any] = []
    start = threading.Barrier(count)

    def run() -> None:
        start.wait()
        try:
            results.append(work())
        except BaseException as error:  # noqa: BLE001 - raised below
            results.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len(results) == count, "a thread hangs"
    if errors := [result for result in results if isinstance(result, BaseException)]:
        raise errors[0]
    return results
