"""The port's own lock, for trackers that threads share."""

import sys

from budget_core import TurnBudgetConfig, TurnBudgetTracker
from budget_core.threads import thread_lock
from tests_micro.support import module_or_skip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RECORDS = 5_000
THREADS = 4


def test_a_lock_is_taken_and_given_back() -> None:
    module_or_skip("_thread")
    lock = thread_lock()
    assert lock is not None
    for _ in range(3):
        with lock:
            pass
    assert thread_lock() is not lock


def test_without_threads_there_is_no_lock() -> None:
    kept: Any = sys.modules.get("_thread")
    sys.modules["_thread"] = NotThere()  # type: ignore[assignment]
    try:
        assert thread_lock() is None
    finally:
        del sys.modules["_thread"]
        if kept is not None:
            sys.modules["_thread"] = kept


class NotThere:
    """What stands for the threads of a port without any."""


def test_threads_that_share_a_tracker_lose_no_record() -> None:
    start_new_thread = module_or_skip("_thread").start_new_thread
    tracker = TurnBudgetTracker(TurnBudgetConfig(), thread_lock())
    ending: Any = thread_lock()  # not every port's lists stand two threads
    done: list[int] = []
    usage = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}

    def work() -> None:
        for _ in range(RECORDS):
            tracker.record(usage)
        with ending:
            done.append(1)

    for _ in range(THREADS):
        start_new_thread(work, ())
    while len(done) < THREADS:
        pass
    assert tracker.total_tokens == tracker.iterations_seen == THREADS * RECORDS
