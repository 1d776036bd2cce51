"""A day's count takes no more memory after many calls than after a few."""

import gc
import sys

from budget_core import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore, TurnBudgetTracker
from tests_micro.support import FakeClock, temp_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOON = 19_675 * 86_400 + 43_200
USAGE = {"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 100}
CALLS = 10_000

mem_alloc: "Any" = getattr(gc, "mem_alloc", None)


def day_of(store: "Any" = None, write_ahead: int = 0) -> "Any":
    config = DailyBudgetConfig(daily_budget=1 << 29)
    return DailyBudgetTracker(config, FakeClock(NOON), store, write_ahead=write_ahead)


def call(tracker: "Any", times: int) -> None:
    for _ in range(times):
        tracker.maybe_auto_reset()
        tracker.record(USAGE)


def grows(tracker: "Any", calls: int = CALLS) -> bool:
    """Tell whether the heap in use grows by a byte a call or more.

    The collector may keep an object or two that the stack still seems to point to.
    """
    call(tracker, 100)
    gc.collect()
    before = mem_alloc()
    call(tracker, calls)
    gc.collect()
    return bool(mem_alloc() - before >= calls)


if mem_alloc is not None:

    def test_counting_alone_takes_no_memory() -> None:
        assert not grows(day_of())
        assert not grows(TurnBudgetTracker())

    def test_a_record_takes_96_bytes_of_the_heap_of_a_chip() -> None:
        day = day_of()
        call(day, 100)
        gc.collect()
        gc.disable()
        before = mem_alloc()
        call(day, 1)
        taken = mem_alloc() - before
        gc.enable()
        assert taken <= (192 if sys.maxsize > 1 << 31 else 96)

    def test_counting_with_a_store_takes_no_memory() -> None:
        with temp_folder() as folder:
            assert not grows(day_of(FileBudgetStore(folder + "/every")), CALLS // 10)
            assert not grows(day_of(FileBudgetStore(folder + "/ahead"), 10_000))
