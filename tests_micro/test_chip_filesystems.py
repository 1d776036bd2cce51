"""The file store on the file systems of chips: real littlefs and FAT code on a RAM block device.

CPython has neither: no test is defined there.
"""

import gc
import os

from budget_core import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore, StoreError
from tests_micro.support import FakeClock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    VFS: "Any" = __import__("vfs")
except ImportError:
    VFS = None

KINDS = [kind for kind in ("VfsLfs2", "VfsFat") if hasattr(VFS, kind)]
MIDNIGHT = 19_675 * 86_400
ROOT = "/chip"
PATH = ROOT + "/data/state.json"
OLD = {"day_key": 19_675, "total_tokens": 60, "warned_ppm": 0, "told": 0, "distrusted": 0}
NEW = {"day_key": 19_675, "total_tokens": 61, "warned_ppm": 500_001, "told": 1, "distrusted": 0}
EIO = 5


class Chip:
    """A RAM block device with a file system, whose power fails after so many block writes."""

    BLOCK = 512

    def __init__(self, kind: str, blocks: int = 128) -> None:
        self.kind = getattr(VFS, kind)
        self.data = bytearray(blocks * self.BLOCK)
        self.writes_left = 1 << 30
        self.mounted = True
        self.kind.mkfs(self)

    def readblocks(self, block: int, buffer: "Any", offset: int = 0) -> None:
        if not self.mounted:
            return
        start = block * self.BLOCK + offset
        buffer[:] = self.data[start : start + len(buffer)]

    def writeblocks(self, block: int, buffer: "Any", offset: int = 0) -> None:
        if not self.mounted:
            return
        self._spend()
        start = block * self.BLOCK + offset
        self.data[start : start + len(buffer)] = buffer

    def ioctl(self, operation: int, argument: int) -> int | None:
        if operation == 4:
            return len(self.data) // self.BLOCK
        if operation == 5:
            return self.BLOCK
        if operation == 6 and self.mounted:
            self._spend()
        return 0

    def _spend(self) -> None:
        if self.writes_left <= 0:
            raise OSError(EIO)
        self.writes_left -= 1

    def __enter__(self) -> "Chip":
        self.mounted = True
        VFS.mount(self.kind(self), ROOT)
        return self

    def __exit__(self, *error: object) -> None:
        try:
            VFS.umount(ROOT)
        except OSError:
            pass
        self.mounted = False
        gc.collect()  # files that a cut left open are closed now: nothing may reach the chip


def chip_with(kind: str, state: "dict[str, Any]") -> Chip:
    chip = Chip(kind)
    with chip:
        FileBudgetStore(PATH).save(state)
    return chip


def loaded(chip: Chip) -> "Any":
    """Return what a restart finds: power is back, the file system mounted anew."""
    chip.writes_left = 1 << 30
    with chip:
        return FileBudgetStore(PATH).load()


def save_cut_off(chip: Chip, writes: int) -> bool:
    """Save the new state with power for so many block writes; tell whether it was enough."""
    chip.writes_left = writes
    with chip:
        try:
            FileBudgetStore(PATH).save(NEW)
        except (OSError, StoreError):
            return False
    return True


def day_of() -> "Any":
    config = DailyBudgetConfig(daily_budget=100)
    return DailyBudgetTracker(config, FakeClock(MIDNIGHT), FileBudgetStore(PATH))


if VFS is not None and KINDS:

    def test_a_new_chip_has_no_state() -> None:
        for kind in KINDS:
            assert loaded(Chip(kind)) is None, kind

    def test_what_was_saved_is_there_after_a_restart() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            assert loaded(chip) == OLD, kind

    def test_a_save_replaces_the_state() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            for used in range(30):
                with chip:
                    FileBudgetStore(PATH).save(dict(NEW, total_tokens=used))
                assert loaded(chip)["total_tokens"] == used, kind

    def test_a_save_in_the_root_of_the_chip_works() -> None:
        for kind in KINDS:
            with Chip(kind):
                store = FileBudgetStore(ROOT + "/state.json")
                store.save(OLD)
                store.save(NEW)
                assert store.load() == NEW, kind
                assert os.listdir(ROOT) == ["state.json"], kind

    def test_a_cleared_chip_has_no_state() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            with chip:
                FileBudgetStore(PATH).clear()
                FileBudgetStore(PATH).clear()
            assert loaded(chip) is None, kind

    def test_a_folder_in_place_of_the_file_is_an_error_of_the_store() -> None:
        for kind in KINDS:
            with Chip(kind):
                os.mkdir(ROOT + "/state.json")
                store = FileBudgetStore(ROOT + "/state.json")
                raises(StoreError, store.load)

    def test_a_day_goes_on_after_a_restart_of_the_chip() -> None:
        for kind in KINDS:
            chip = Chip(kind)
            for run in range(8):
                with chip:
                    tracker = day_of()
                    assert tracker.total_tokens == run * 9, (kind, run)
                    tracker.record({"total_tokens": 9})
                    assert tracker.store_error is None, (kind, run)

    def test_a_full_chip_denies_and_loses_nothing() -> None:
        for kind in KINDS:
            chip = chip_with(kind, OLD)
            with chip:
                tracker = day_of()
                fill(ROOT + "/filler")
                tracker.record({"total_tokens": 5})
                assert tracker.total_tokens == 65, kind
                denied = tracker.store_error is not None
                assert tracker.is_at_limit() is denied, kind
                os.remove(ROOT + "/filler")
                tracker.maybe_auto_reset()
                assert not tracker.is_at_limit(), kind
                assert tracker.store_error is None, kind
            assert loaded(chip)["total_tokens"] == 65, kind

    def fill(path: str) -> None:
        """Write until nothing more fits."""
        with open(path, "wb") as file:
            try:
                while True:
                    file.write(b"\xff" * 512)
                    file.flush()
            except OSError:
                pass

    def test_a_cut_after_any_block_write_leaves_the_old_state_or_the_new() -> None:
        for kind in KINDS:
            writes, done = 0, False
            while not done:
                chip = chip_with(kind, OLD)
                done = save_cut_off(chip, writes)
                state = loaded(chip)
                assert state in (OLD, NEW), (kind, writes, state)
                assert not done or state == NEW, (kind, writes)
                writes += 1
            assert writes > 3, kind

    def test_a_save_after_any_cut_works() -> None:
        for kind in KINDS:
            writes, done = 0, False
            while not done:
                chip = chip_with(kind, OLD)
                done = save_cut_off(chip, writes)
                assert save_cut_off(chip, 1 << 30), (kind, writes)
                assert loaded(chip) == NEW, (kind, writes)
                writes += 1

    def test_a_cut_between_the_steps_of_a_save_leaves_the_old_state_or_the_new() -> None:
        # FAT removes the old file before it renames the new one.
        for kind in KINDS:
            for steps, expected in ((1, OLD), (2, NEW), (3, NEW)):
                chip = chip_with(kind, OLD)
                with chip:
                    FileBudgetStore(ROOT + "/other").save(NEW)
                    os.rename(ROOT + "/other", PATH + ".tmp")
                    if steps > 1:
                        os.remove(PATH)
                    if steps > 2:
                        os.rename(PATH + ".tmp", PATH)
                assert loaded(chip) == expected, (kind, steps)
