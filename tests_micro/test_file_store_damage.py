"""Every flipped bit and every truncation of what a chip stored: never a lower count, no error."""

import os

from budget_core import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore
from budget_core.file_store import SLOT_BYTES
from tests_micro.support import FakeClock, temp_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOON = 19_675 * 86_400 + 43_200
BUDGET = 100_000
RECORDED = (11, 22, 33, 44, 55)
ALLOWANCES = (0, 50)


def started(folder: str, allowance: int) -> "Any":
    """Return a tracker as after a restart."""
    config = DailyBudgetConfig(daily_budget=BUDGET)
    store = FileBudgetStore(folder + "/day")
    return DailyBudgetTracker(config, FakeClock(NOON), store, write_ahead=allowance)


def used(folder: str, allowance: int) -> "list[str]":
    """Record some calls; return the slots' files, the newest first."""
    tracker = started(folder, allowance)
    for tokens in RECORDED:
        tracker.maybe_auto_reset()
        tracker.record({"total_tokens": tokens})
    words = FileBudgetStore(folder + "/day").slots()
    files = [f"{folder}/day/{number}/state.json" for number in range(len(words))]
    newest = files.pop(words.index("newest"))
    return [newest] + files


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def counted(folder: str, allowance: int) -> int:
    """Return what a restart counts, after a look at whether it can still be used."""
    tracker = started(folder, allowance)
    assert tracker.store_error is None
    assert tracker.state_error is None or tracker.is_at_limit()
    return int(tracker.total_tokens)


def flip_a_bit_of_every_slot(allowance: int, step: int) -> None:
    """Assert that flipping one bit of each slot, every `step` bits, changes no count."""
    with temp_folder() as folder:
        files = used(folder, allowance)
        whole = [read(file) for file in files]
        count = counted(folder, allowance)
        for bit in range(0, SLOT_BYTES * 8, step):
            for file, data in zip(files, whole):  # noqa: B905 - MicroPython has no `strict`
                write(file, flipped(data, bit))
            assert counted(folder, allowance) == count, (allowance, bit)


def cut_slots(allowance: int, step: int) -> None:
    """Assert that cutting one slot or all, every `step` bytes, spends the day."""
    with temp_folder() as folder:
        files = used(folder, allowance)
        whole = [read(file) for file in files]
        for hit in ([files[0]], [files[1]], files):
            for size in range(0, SLOT_BYTES, step):
                for file, data in zip(files, whole):  # noqa: B905 - MicroPython has no `strict`
                    write(file, data[:size] if file in hit else data)
                assert counted(folder, allowance) >= BUDGET, (hit, size)


def test_any_bit_flipped_in_every_slot_changes_no_count() -> None:
    for allowance in ALLOWANCES:
        flip_a_bit_of_every_slot(allowance, 11)


def test_any_bit_flipped_in_one_slot_changes_no_count() -> None:
    with temp_folder() as folder:
        files = used(folder, 0)
        for file in files[:2]:
            whole = read(file)
            for bit in range(0, SLOT_BYTES * 8, 7):
                write(file, flipped(whole, bit))
                assert counted(folder, 0) == sum(RECORDED), (file, bit)
            write(file, whole)


def test_any_slot_cut_off_anywhere_spends_the_day() -> None:
    for allowance in ALLOWANCES:
        cut_slots(allowance, 9)


def test_a_day_spent_for_damage_is_the_only_one() -> None:
    for restarts in (1, 2):
        with temp_folder() as folder:
            for file in used(folder, 0):
                write(file, b"")
            for _ in range(restarts):
                assert counted(folder, 0) >= BUDGET
            config = DailyBudgetConfig(daily_budget=BUDGET)
            store = FileBudgetStore(folder + "/day")
            next_day = DailyBudgetTracker(config, FakeClock(NOON + 86_400), store)
            assert next_day.total_tokens == 0, restarts
            assert next_day.state_error is None, restarts


def test_the_newest_slot_lost_counts_the_one_before_and_no_fresh_budget() -> None:
    with temp_folder() as folder:
        os.remove(used(folder, 0)[0])
        assert counted(folder, 0) == sum(RECORDED[:-1])
