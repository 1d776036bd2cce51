"""A state in a file: whole or refused, whatever happened to the file."""

import os

from budget_core import (
    BudgetError,
    DailyBudgetConfig,
    DailyBudgetTracker,
    FileBudgetStore,
    StateCorruptError,
    StoreError,
)
from tests_micro.support import FakeClock, raises, temp_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 86_400
MIDNIGHT = 19_675 * DAY
STATE = {"day_key": 19_675, "total_tokens": 60, "warned_ppm": 500_001, "told": 3}
OTHER = {"day_key": 19_675, "total_tokens": 61, "warned_ppm": 0, "told": 0}


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def saved(state: "dict[str, Any]") -> bytes:
    """Return what a file with that state contains."""
    with temp_folder() as folder:
        FileBudgetStore(folder + "/state.json").save(state)
        return read(folder + "/state.json")


def files_left(folder: str) -> "list[str]":
    return sorted(os.listdir(folder))


def day_of(store: "Any", now: float = MIDNIGHT) -> "Any":
    return DailyBudgetTracker(DailyBudgetConfig(daily_budget=100), FakeClock(now), store)


def not_whole(good: bytes) -> "list[tuple[str, bytes]]":
    """Return (what is wrong, content) pairs of files that are no whole state."""
    return [
        ("empty", b""),
        ("NUL bytes", b"\x00" * len(good)),
        ("0xff bytes", b"\xff" * len(good)),
        ("a trailing newline", good + b"\n"),
        ("a trailing NUL", good + b"\x00"),
        ("trailing text", good + b"{}"),
        ("twice", good + good),
        ("a leading space", b" " + good),
        ("a byte order mark", b"\xef\xbb\xbf" + good),
        ("no checksum", b'{"day_key": 19675, "total_tokens": 0, "warned_ppm": 0, "told": 0}'),
        ("edited", good.replace(b"60", b"10")),
        ("a list", b"[1, 2]"),
        ("null", b"null"),
        ("not closed", b'{"used":1'),
        ("duplicate keys", good.replace(b'"told"', b'"total_tokens": 0, "told"')),
        ("deep lists", b"[" * 3000),
        ("deep objects", b'{"a":' * 500),
        ("very deep", b"[" * 200_000),
        ("too large", good + b" " * 100_000),
        ("too large a number", b'{"total_tokens": ' + b"9" * 3000 + b"}"),
    ]


def test_without_a_file_there_is_no_state() -> None:
    with temp_folder() as folder:
        assert FileBudgetStore(folder + "/state.json").load() is None
        assert FileBudgetStore(folder + "/no/such/folder/state.json").load() is None
        assert files_left(folder) == []


def test_what_was_saved_is_loaded() -> None:
    for state in (STATE, {}, {"text": 'ü €\n"\\{}', "none": None, "n": -(1 << 59)}, {"a": ""}):
        with temp_folder() as folder:
            FileBudgetStore(folder + "/state.json").save(state)
            assert FileBudgetStore(folder + "/state.json").load() == state, state


def test_the_last_save_counts() -> None:
    with temp_folder() as folder:
        store = FileBudgetStore(folder + "/state.json")
        for used in (1, 10**9, 2, 0):
            store.save({"used": used})
            assert store.load() == {"used": used}, used


def test_a_save_leaves_one_file() -> None:
    with temp_folder() as folder:
        store = FileBudgetStore(folder + "/state.json")
        store.save(STATE)
        store.save(OTHER)
        assert files_left(folder) == ["state.json"]


def test_missing_parent_folders_are_made() -> None:
    with temp_folder() as folder:
        path = folder + "/a/b/c/state.json"
        FileBudgetStore(path).save(STATE)
        assert FileBudgetStore(path).load() == STATE


def test_a_path_relative_to_the_current_folder_works() -> None:
    before = os.getcwd()
    with temp_folder() as folder:
        os.chdir(folder)
        try:
            for path in ("state.json", "deep/er/state.json", "./dot/state.json"):
                FileBudgetStore(path).save(STATE)
                assert FileBudgetStore(path).load() == STATE, path
        finally:
            os.chdir(before)


def test_a_cleared_store_is_empty() -> None:
    with temp_folder() as folder:
        store = FileBudgetStore(folder + "/state.json")
        store.save(STATE)
        store.clear()
        assert store.load() is None
        assert files_left(folder) == []


def test_clearing_an_empty_store_does_no_harm() -> None:
    with temp_folder() as folder:
        store = FileBudgetStore(folder + "/no/state.json")
        store.clear()
        assert store.load() is None


def test_clearing_removes_what_an_unfinished_save_left() -> None:
    with temp_folder() as folder:
        path = folder + "/state.json"
        write(path + ".tmp", saved(STATE))
        FileBudgetStore(path).clear()
        assert FileBudgetStore(path).load() is None
        assert files_left(folder) == []


def test_no_truncation_is_taken_for_a_state() -> None:
    good = saved(STATE)
    with temp_folder() as folder:
        path = folder + "/state.json"
        for length in range(len(good)):
            write(path, good[:length])
            raises(StateCorruptError, FileBudgetStore(path).load)


def test_no_flipped_bit_is_taken_for_a_state() -> None:
    good = saved(STATE)
    with temp_folder() as folder:
        path = folder + "/state.json"
        for place in range(len(good)):
            for bit in range(8):
                bad = bytearray(good)
                bad[place] ^= 1 << bit
                write(path, bytes(bad))
                raises(StateCorruptError, FileBudgetStore(path).load)


def test_a_file_that_is_no_whole_state_is_refused() -> None:
    with temp_folder() as folder:
        path = folder + "/state.json"
        for case, data in not_whole(saved(STATE)):
            write(path, data)
            try:
                state = FileBudgetStore(path).load()
            except StateCorruptError:
                continue
            raise AssertionError((case, state))


def test_a_file_that_is_no_whole_state_is_none_at_all_where_fresh_was_chosen() -> None:
    with temp_folder() as folder:
        path = folder + "/state.json"
        for case, data in not_whole(saved(STATE)):
            write(path, data)
            assert FileBudgetStore(path, on_corrupt="fresh").load() is None, case


def test_a_day_with_a_damaged_file_is_spent_and_the_next_one_clean() -> None:
    with temp_folder() as folder:
        path = folder + "/state.json"
        for case, data in not_whole(saved(STATE)):
            write(path, data)
            for start in ("first", "restart"):
                tracker = day_of(FileBudgetStore(path))
                assert tracker.is_at_limit(), (case, start)
            assert day_of(FileBudgetStore(path), MIDNIGHT + DAY).total_tokens == 0, case


def test_a_day_with_a_damaged_file_begins_again_where_fresh_was_chosen() -> None:
    with temp_folder() as folder:
        path = folder + "/state.json"
        write(path, b"damaged")
        tracker = day_of(FileBudgetStore(path, "fresh"))
        assert tracker.total_tokens == 0
        assert not tracker.is_at_limit()
        tracker.record({"total_tokens": 5})
        assert day_of(FileBudgetStore(path)).total_tokens == 5


def test_an_unknown_choice_for_damaged_files_is_refused() -> None:
    for choice in ("", "Fresh", "ignore", None, True, 0):
        error = raises(ValueError, FileBudgetStore, "state.json", on_corrupt=choice)
        assert "on_corrupt" in str(error), choice


def test_a_save_cut_off_while_it_wrote_leaves_the_old_state() -> None:
    new = saved(OTHER)
    with temp_folder() as folder:
        path = folder + "/state.json"
        FileBudgetStore(path).save(STATE)
        for length in range(len(new) + 1):
            write(path + ".tmp", new[:length])
            assert FileBudgetStore(path).load() == STATE, length


def test_a_save_cut_off_after_the_old_file_was_removed_gives_the_new_state() -> None:
    with temp_folder() as folder:
        path = folder + "/state.json"
        write(path + ".tmp", saved(OTHER))
        assert FileBudgetStore(path).load() == OTHER


def test_a_first_save_cut_off_while_it_wrote_is_never_taken_for_a_state() -> None:
    new = saved(OTHER)
    with temp_folder() as folder:
        path = folder + "/state.json"
        for length in range(len(new)):
            write(path + ".tmp", new[:length])
            assert FileBudgetStore(path).load() is None, length


def test_a_save_works_whatever_an_earlier_one_left() -> None:
    for left in (b"", b"x" * 10_000, saved(OTHER)):
        with temp_folder() as folder:
            path = folder + "/state.json"
            write(path + ".tmp", left)
            FileBudgetStore(path).save(STATE)
            assert FileBudgetStore(path).load() == STATE
            assert files_left(folder) == ["state.json"]


def test_a_folder_in_place_of_the_file_is_an_error_of_the_store() -> None:
    for choice in ("deny", "fresh"):
        with temp_folder() as folder:
            os.mkdir(folder + "/state.json")
            store = FileBudgetStore(folder + "/state.json", choice)
            raises(StoreError, store.load)
            raises(StoreError, store.save, STATE)
            raises(StoreError, store.clear)


def test_a_day_with_a_folder_in_place_of_its_file_is_denied() -> None:
    with temp_folder() as folder:
        os.mkdir(folder + "/state.json")
        assert day_of(FileBudgetStore(folder + "/state.json")).is_at_limit()


def test_a_file_in_place_of_a_parent_folder_is_an_error_of_the_store() -> None:
    with temp_folder() as folder:
        write(folder + "/file", b"")
        store = FileBudgetStore(folder + "/file/state.json")
        raises(StoreError, store.load)
        raises(StoreError, store.save, STATE)


def test_a_save_that_fails_keeps_the_old_state() -> None:
    with temp_folder() as folder:
        path = folder + "/state.json"
        FileBudgetStore(path).save(STATE)
        os.mkdir(path + ".tmp")
        raises(StoreError, FileBudgetStore(path).save, OTHER)
        assert FileBudgetStore(path).load() == STATE


def test_a_state_too_large_to_be_loaded_is_not_saved() -> None:
    for size in (3000, 4000, 4096, 5000, 100_000):
        with temp_folder() as folder:
            store = FileBudgetStore(folder + "/state.json")
            store.save(STATE)
            large = {"text": "x" * size}
            try:
                store.save(large)
            except (StoreError, ValueError):
                large = dict(STATE)  # type: ignore[arg-type]
            assert store.load() == large, size


def test_an_error_of_the_store_names_the_path_and_its_cause() -> None:
    with temp_folder() as folder:
        os.mkdir(folder + "/state.json")
        error = raises(StoreError, FileBudgetStore(folder + "/state.json").load)
        assert folder + "/state.json" in str(error)
        assert isinstance(error.cause, OSError)
        assert isinstance(error, BudgetError)


def test_a_repr_names_the_path() -> None:
    assert "'/flash/state.json'" in repr(FileBudgetStore("/flash/state.json"))


def test_making_a_store_touches_nothing() -> None:
    with temp_folder() as folder:
        FileBudgetStore(folder + "/a/state.json")
        assert files_left(folder) == []


def test_a_day_goes_on_from_its_file_after_a_restart() -> None:
    with temp_folder() as folder:
        path = folder + "/var/state.json"
        for run in range(5):
            tracker = day_of(FileBudgetStore(path))
            assert tracker.total_tokens == run * 9
            tracker.record({"total_tokens": 9})
        assert day_of(FileBudgetStore(path), MIDNIGHT + DAY).total_tokens == 0
