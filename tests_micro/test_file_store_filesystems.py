"""The file store on the file systems of chips: real littlefs and FAT code on flash in memory.

CPython has neither: no test is defined there.
"""

import os

from budget_core import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore
from budget_core.errors import StateCorruptError, StoreError
from tests_micro.flash import KINDS, LOST, ROOT, Flash, cuts
from tests_micro.support import FakeClock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MIDNIGHT = 19_675 * 86_400
PATH = ROOT + "/data/budget"
OLD = {"day": 19_675, "tokens": 60, "ahead": 0, "warned": 0, "announced": 0, "behind": 0}
NEW = {"day": 19_675, "tokens": 61, "ahead": 0, "warned": 500_001, "announced": 1, "behind": 0}
PLENTY = 1 << 30


def chip_with(kind: str, *states: "dict[str, Any]") -> Flash:
    """Return a chip that saved the states one after the other."""
    chip = Flash(kind)
    with chip:
        for state in states:
            FileBudgetStore(PATH).save(state)
    return chip


def loaded(chip: Flash) -> "Any":
    """Return what a restart finds: power is back, the file system mounted anew."""
    chip.left = PLENTY
    with chip:
        return FileBudgetStore(PATH).load()


def save_cut_off(chip: Flash, writes: int) -> bool:
    """Save the new state with power for so many block writes; tell whether it was enough."""
    chip.left = writes
    with chip:
        try:
            FileBudgetStore(PATH).save(NEW)
        except StoreError:
            return False
    return True


def day_of() -> "Any":
    config = DailyBudgetConfig(daily_budget=100)
    return DailyBudgetTracker(config, FakeClock(MIDNIGHT), FileBudgetStore(PATH))


def fill(path: str) -> None:
    """Write until nothing more fits."""
    with open(path, "wb") as file:
        try:
            while True:
                file.write(b"\xff" * 512)
                file.flush()
        except OSError:
            pass


if KINDS:

    def test_a_new_chip_has_no_state() -> None:
        for kind in KINDS:
            assert loaded(Flash(kind)) is None, kind

    def test_files_of_others_are_left_as_they_were() -> None:
        for kind in KINDS:
            for taken in (PATH, PATH + "/0/state.json"):
                with Flash(kind):
                    for end in range(len(ROOT) + 1, len(taken)):
                        if taken[end] == "/":
                            os.mkdir(taken[:end])
                    with open(taken, "wb") as file:
                        file.write(b"not a state")
                    tracker = day_of()
                    tracker.record({"total_tokens": 1})
                    tracker.maybe_auto_reset()
                    assert tracker.is_at_limit(), (kind, taken)
                    assert PATH in str(tracker.store_error), (kind, taken)
                    assert os.listdir(taken[: taken.rfind("/")]) == [taken[taken.rfind("/") + 1 :]]
                    with open(taken, "rb") as file:
                        assert file.read() == b"not a state", (kind, taken)

    def test_a_chip_formatted_anew_is_denied_where_the_program_knows_that_it_was_in_use() -> None:
        for kind in KINDS:
            with Flash(kind):
                raises(StateCorruptError, FileBudgetStore(PATH, provisioned=True).load)

    def test_what_was_saved_is_there_after_a_restart() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            assert loaded(chip) == OLD, kind

    def test_a_save_replaces_the_state() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            for used in range(30):
                with chip:
                    FileBudgetStore(PATH).save(dict(NEW, tokens=used))
                assert loaded(chip)["tokens"] == used, kind

    def test_a_store_in_the_root_of_the_chip_works() -> None:
        for kind in KINDS:
            with Flash(kind):
                store = FileBudgetStore(ROOT)
                store.save(OLD)
                store.save(NEW)
                assert store.load() == NEW, kind

    def test_a_cleared_chip_has_no_state() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD, NEW, OLD)
            with chip:
                FileBudgetStore(PATH).clear()
                FileBudgetStore(PATH).clear()
            assert loaded(chip) is None, kind

    def test_a_day_goes_on_after_a_restart_of_the_chip() -> None:
        for kind in KINDS:
            chip = Flash(kind)
            for run in range(8):
                with chip:
                    tracker = day_of()
                    assert tracker.total_tokens == run * 9, (kind, run)
                    tracker.record({"total_tokens": 9})
                    assert tracker.store_error is None, (kind, run)

    def test_a_full_chip_goes_on_counting() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            with chip:
                tracker = day_of()
                fill(ROOT + "/filler")
                for _ in range(5):
                    tracker.record({"total_tokens": 1})
                    assert tracker.store_error is None, kind
            assert loaded(chip)["tokens"] == 65, kind

    def test_a_chip_that_was_full_from_the_beginning_denies_until_there_is_room() -> None:
        for kind in KINDS:
            chip = Flash(kind)
            with chip:
                fill(ROOT + "/filler")
                tracker = day_of()
                tracker.record({"total_tokens": 65})
                assert tracker.store_error is not None, kind
                assert tracker.is_at_limit(), kind
                os.remove(ROOT + "/filler")
                tracker.maybe_auto_reset()
                assert tracker.store_error is None, kind
                assert not tracker.is_at_limit(), kind
            assert loaded(chip)["tokens"] == 65, kind

    def test_a_chip_that_fails_after_any_block_write_keeps_the_old_state_or_the_new() -> None:
        for kind in KINDS:
            writes, done = 0, False
            while not done:
                chip = chip_with(kind, OLD)
                done = save_cut_off(chip, writes)
                state = loaded(chip)
                assert state in (OLD, NEW), (kind, writes, state)
                assert not done or state == NEW, (kind, writes)
                writes += 1
            assert writes > 1, kind

    def test_a_save_after_any_failure_works() -> None:
        for kind in KINDS:
            writes, done = 0, False
            while not done:
                chip = chip_with(kind, OLD)
                done = save_cut_off(chip, writes)
                assert save_cut_off(chip, PLENTY), (kind, writes)
                assert loaded(chip) == NEW, (kind, writes)
                writes += 1

    def test_a_tracker_whose_chip_fails_for_a_while_denies_and_then_goes_on() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            with chip:
                tracker = day_of()
                chip.left = 0
                tracker.record({"total_tokens": 5})
                assert tracker.store_error is not None, kind
                assert tracker.is_at_limit(), kind
                chip.left = PLENTY
                tracker.maybe_auto_reset()
                assert tracker.store_error is None, kind
                assert not tracker.is_at_limit(), kind
            assert loaded(chip)["tokens"] == 65, kind

    def test_a_chip_that_fails_holds_what_the_notes_say_of_a_cut_that_loses_the_write() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            before = dict(chip.image)
            log = chip.noted()
            save_cut_off(chip, PLENTY)
            for number, image, _ in cuts(before, log, LOST, chip.size):
                failing = Flash(kind, before)
                save_cut_off(failing, number)
                assert failing.image == image, (kind, number)

    def test_a_worn_block_loses_no_state_that_was_saved() -> None:
        for kind in KINDS:
            saved = 0
            whole = chip_with(kind, OLD, OLD, OLD)
            for block in range(whole.blocks):
                chip = Flash(kind, whole.image)
                chip.worn = block
                with chip:
                    store, kept = FileBudgetStore(PATH), OLD
                    for tokens in (61, 62, 63, 64):
                        state = dict(NEW, tokens=tokens)
                        try:
                            store.save(state)
                            kept = state
                        except StoreError:
                            pass
                    saved += kept["tokens"] == 64
                assert loaded(chip) == kept, (kind, block)
            assert saved > whole.blocks // 2, kind
