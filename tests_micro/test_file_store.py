"""A state in three slots: whole or refused, whatever happened to the files."""

import os

from budget_core import BudgetError, DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore
from budget_core.checksum import decode, encode, framed
from budget_core.errors import StateCorruptError, StoreError
from budget_core.file_store import SLOT_BYTES
from tests_micro.support import FakeClock, raises, remove, temp_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 86_400
MIDNIGHT = 19_675 * DAY
STATE = {"day": 19_675, "tokens": 60, "ahead": 0, "warned": 500_001, "announced": 3, "behind": 0}
OTHER = dict(STATE, tokens=61)
THIRD = dict(STATE, tokens=62)
FOURTH = dict(STATE, tokens=63)
SLOTS = (0, 1, 2)
LARGEST = {
    "day": 99_999,
    "tokens": 10**13 - 1,
    "ahead": 10**7 - 1,
    "warned": 1_000_001,
    "announced": 63,
    "behind": 1_999_999,
}


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def slot(folder: str, number: int) -> str:
    return f"{folder}/day/{number}/state.json"


def put_folder_in_place_of(path: str) -> None:
    """Replace a file by a folder with a file in it: littlefs removes an empty one like a file."""
    os.remove(path)
    os.mkdir(path)
    write(path + "/file", b"")


def store_in(folder: str, *states: "dict[str, Any]", **options: "Any") -> FileBudgetStore:
    """Return a store as after a restart; the first state given is in slot 0, the next in slot 1."""
    before = FileBudgetStore(folder + "/day")
    for state in states:
        before.save(state)
    return FileBudgetStore(folder + "/day", **options)


def day_of(store: "Any", now: float = MIDNIGHT) -> "Any":
    return DailyBudgetTracker(DailyBudgetConfig(daily_budget=100), FakeClock(now), store)


def of_the_right_size(data: bytes) -> bytes:
    return (data + b" " * SLOT_BYTES)[:SLOT_BYTES]


def torn(good: bytes) -> "list[tuple[str, bytes]]":
    """Return (what is wrong, content) pairs of slots that a power cut may have left."""
    return [
        ("NUL bytes", b"\x00" * SLOT_BYTES),
        ("0xff bytes", b"\xff" * SLOT_BYTES),
        ("half erased", good[:64] + b"\xff" * 64),
        ("half old", good[:32] + encode(dict(THIRD, seq=77), SLOT_BYTES, True)[32:]),
        ("edited", good.replace(b":6", b":1")),
        ("no checksum", of_the_right_size(b'{"day": 19675, "tokens": 0}')),
        ("a leading space", b" " + good[:-1]),
        ("not closed", of_the_right_size(b'{"used":1')),
        ("deep lists", b"[" * SLOT_BYTES),
        ("a list", encode([1, 2], SLOT_BYTES, True)),  # type: ignore[arg-type]
        ("null", encode(None, SLOT_BYTES, True)),  # type: ignore[arg-type]
        ("no number", encode(STATE, SLOT_BYTES, True)),
        ("a number that is none", encode(dict(OTHER, seq="9"), SLOT_BYTES, True)),
        ("a number below zero", encode(dict(OTHER, seq=-9), SLOT_BYTES, True)),
    ]


def cut(good: bytes) -> "list[tuple[str, bytes]]":
    """Return (what is wrong, content) pairs of slots that no power cut leaves."""
    return [
        ("empty", b""),
        ("a byte short", good[:-1]),
        ("half", good[:64]),
        ("a trailing newline", good + b"\n"),
        ("a trailing NUL", good + b"\x00"),
        ("twice", good + good),
        ("a byte order mark", b"\xef\xbb\xbf" + good),
        ("very deep", b"[" * 200_000),
        ("too large a number", b'{"tokens": ' + b"9" * 3000 + b"}"),
    ]


# What is kept


def test_without_files_there_is_no_state_and_none_is_made() -> None:
    with temp_folder() as folder:
        assert store_in(folder).load() is None
        assert os.listdir(folder) == []
        assert store_in(folder).slots() == ["missing", "missing", "missing"]


def test_what_was_saved_is_loaded() -> None:
    for state in (STATE, LARGEST, {"text": 'ü"\\{}', "none": None, "n": -(1 << 59)}, {"a": ""}):
        with temp_folder() as folder:
            assert store_in(folder, state).load() == state, state


def test_the_last_save_counts_whatever_its_slot() -> None:
    with temp_folder() as folder:
        store = store_in(folder)
        for used in (1, 10**9, 2, 0, 7):
            store.save({"used": used})
            assert store.load() == {"used": used}, used
            assert store_in(folder).load() == {"used": used}, used


def test_saves_take_the_slots_in_turn_also_over_restarts() -> None:
    with temp_folder() as folder:
        store_in(folder).provision()
        for used in range(9):
            before = [read(slot(folder, number)) for number in SLOTS]
            store_in(folder).save({"used": used})
            after = [read(slot(folder, number)) for number in SLOTS]
            changed = [number for number in SLOTS if after[number] != before[number]]
            assert changed == [used % 3], used


def test_a_slot_is_always_of_the_same_size_and_says_what_it_holds() -> None:
    with temp_folder() as folder:
        store = store_in(folder)
        for state in (STATE, LARGEST, {}, {"a": 1}):
            store.save(state)
            for number in SLOTS:
                assert len(read(slot(folder, number))) == SLOT_BYTES == 128
        store.save(STATE)
        assert b'"tokens":60' in read(slot(folder, 1))


def test_a_save_leaves_the_slots_and_what_says_that_they_were_made() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER, THIRD)
        assert sorted(os.listdir(folder + "/day")) == ["0", "1", "2", "made"]
        for number in SLOTS:
            assert os.listdir(f"{folder}/day/{number}") == ["state.json"]


def test_missing_parent_folders_are_made_and_a_slash_at_the_end_is_no_matter() -> None:
    with temp_folder() as folder:
        FileBudgetStore(folder + "/a/b/c/").save(STATE)
        assert FileBudgetStore(folder + "/a/b/c").load() == STATE


def test_a_path_relative_to_the_current_folder_works() -> None:
    before = os.getcwd()
    with temp_folder() as folder:
        os.chdir(folder)
        try:
            for path in ("day", "deep/er/day", "./dot/day"):
                FileBudgetStore(path).save(STATE)
                assert FileBudgetStore(path).load() == STATE, path
        finally:
            os.chdir(before)


def test_a_cleared_store_has_no_state_and_stays_provisioned() -> None:
    with temp_folder() as folder:
        store = store_in(folder, STATE, OTHER)
        store.clear()
        assert store.load() is None
        assert store_in(folder, provisioned=True).load() is None
        for number in SLOTS:
            assert b"tokens" not in read(slot(folder, number))
        store.save(THIRD)
        assert store_in(folder).load() == THIRD


def test_a_state_that_does_not_fit_is_not_saved() -> None:
    with temp_folder() as folder:
        store = store_in(folder, STATE, OTHER)
        for size in (97, 100, 1000, 100_000):
            raises(StoreError, store.save, {"text": "x" * size})
            assert store_in(folder).load() == OTHER, size


def test_a_state_may_fill_its_slot_to_the_last_byte() -> None:
    with temp_folder() as folder:
        largest = {"text": "x" * 96}
        store_in(folder, largest)
        assert store_in(folder).load() == largest
        assert len(read(slot(folder, 0))) == SLOT_BYTES
        assert b" " not in read(slot(folder, 0))


def test_a_board_that_is_provisioned_has_slots_and_no_state() -> None:
    with temp_folder() as folder:
        store_in(folder).provision()
        assert store_in(folder).slots() == ["empty", "empty", "empty"]
        assert store_in(folder, provisioned=True).load() is None


def test_provisioning_again_keeps_the_state() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER).provision()
        assert store_in(folder).load() == OTHER
        assert store_in(folder).slots() == ["older", "newest", "empty"]


def test_provisioning_that_was_cut_off_is_finished_later_and_denies_no_call() -> None:
    with temp_folder() as model:
        store_in(model).provision()
        whole = read(slot(model, 0))
    for left in (b"", whole[:50], b"\x00" * 128, whole):
        for number in SLOTS:
            with temp_folder() as folder:
                store_in(folder).provision()
                os.remove(folder + "/day/made")
                for later in SLOTS[number:]:
                    os.remove(slot(folder, later))
                write(slot(folder, number) + ".new", left)
                assert store_in(folder).load() is None, (left, number)
                store_in(folder).save(STATE)
                assert store_in(folder).load() == STATE, (left, number)


def test_slots_full_of_something_else_are_no_new_board() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER)
        os.remove(folder + "/day/made")
        for number in SLOTS:
            write(slot(folder, number), b"\xff" * SLOT_BYTES)
        for use in ("load", "provision", "clear"):
            error = raises(StoreError, getattr(store_in(folder), use))
            assert folder + "/day' is not a budget state: it is left alone" in str(error)
        tracker = day_of(store_in(folder))
        tracker.record({"total_tokens": 1})
        tracker.maybe_auto_reset()
        assert tracker.is_at_limit()
        assert os.listdir(folder + "/day/0") == ["state.json"]
        assert "made" not in os.listdir(folder + "/day")
        for number in SLOTS:
            assert read(slot(folder, number)) == b"\xff" * SLOT_BYTES


def test_a_file_of_others_in_the_place_of_a_slot_is_left_alone() -> None:
    for number in SLOTS:
        for data in (b"", b"{}", b"x" * SLOT_BYTES, b"x" * 1000):
            with temp_folder() as folder:
                os.mkdir(folder + "/day")
                os.mkdir(f"{folder}/day/{number}")
                write(slot(folder, number), data)
                tracker = day_of(store_in(folder))
                tracker.record({"total_tokens": 1})
                assert tracker.is_at_limit()
                assert "not a budget state" in str(tracker.store_error)
                assert os.listdir(folder + "/day") == [str(number)]
                assert read(slot(folder, number)) == data


def test_a_file_in_the_place_of_the_folder_is_left_alone() -> None:
    with temp_folder() as folder:
        write(folder + "/day", b'{"model": "small-model"}')
        tracker = day_of(store_in(folder))
        tracker.record({"total_tokens": 1})
        assert tracker.is_at_limit()
        assert folder + "/day" in str(tracker.store_error)
        assert os.listdir(folder) == ["day"]
        assert read(folder + "/day") == b'{"model": "small-model"}'


def test_what_says_that_the_slots_were_made_is_made_again() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER)
        os.remove(folder + "/day/made")
        assert store_in(folder).load() == OTHER
        store_in(folder).save(THIRD)
        assert "made" in os.listdir(folder + "/day")
        assert store_in(folder).load() == THIRD


# Two stores on one folder


def test_a_store_that_another_one_saved_after_is_told_and_writes_nothing() -> None:
    for before in range(4):
        for saves in range(1, 8):
            with temp_folder() as folder:
                store_in(folder).provision()
                ours = store_in(folder, *[STATE] * before)
                ours.save(OTHER)
                theirs = store_in(folder)
                for _ in range(saves):
                    theirs.save(THIRD)
                kept = [read(slot(folder, number)) for number in SLOTS]
                for _ in range(4):
                    error = raises(StoreError, ours.save, FOURTH)
                    assert "another store" in str(error), (before, saves)
                    assert folder + "/day" in str(error)
                    assert not isinstance(error, StateCorruptError)
                assert [read(slot(folder, number)) for number in SLOTS] == kept, (before, saves)
                theirs.save(STATE)
                assert store_in(folder).load() == STATE


def test_a_store_that_was_told_goes_on_once_it_has_loaded() -> None:
    with temp_folder() as folder:
        ours, theirs = store_in(folder), store_in(folder)
        ours.save(STATE)
        theirs.save(OTHER)
        raises(StoreError, ours.save, THIRD)
        assert ours.load() == OTHER
        ours.save(THIRD)
        raises(StoreError, theirs.save, FOURTH)
        assert store_in(folder).load() == THIRD


def test_of_two_trackers_on_one_folder_one_is_told_and_denies() -> None:
    with temp_folder() as folder:
        ours, theirs = day_of(store_in(folder)), day_of(store_in(folder))
        ours.record({"total_tokens": 20})
        assert ours.store_error is None
        theirs.record({"total_tokens": 30})
        assert isinstance(theirs.store_error, StoreError)
        assert theirs.is_at_limit()
        ours.record({"total_tokens": 5})
        theirs.maybe_auto_reset()
        assert theirs.is_at_limit()
        assert not ours.is_at_limit()
        assert day_of(store_in(folder)).total_tokens == 25


# What happens to a slot


def test_a_slot_that_a_power_cut_left_gives_way_to_the_next() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER)
        good = read(slot(folder, 1))
        for case, data in torn(good):
            write(slot(folder, 1), data)
            assert store_in(folder).load() == STATE, case
            assert store_in(folder).slots() == ["newest", "damaged", "empty"], case


def test_an_older_slot_that_is_damaged_changes_nothing() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER)
        for case, data in torn(read(slot(folder, 0))):
            write(slot(folder, 0), data)
            assert store_in(folder).load() == OTHER, case


def test_the_next_save_goes_into_the_damaged_slot() -> None:
    for number in SLOTS:
        for case, data in torn(encode(dict(THIRD, seq=9), SLOT_BYTES, True)):
            with temp_folder() as folder:
                store_in(folder, STATE, OTHER, FOURTH)
                write(slot(folder, number), data)
                others = [n for n in SLOTS if n != number]
                kept = [read(slot(folder, other)) for other in others]
                store_in(folder).save(THIRD)
                assert [read(slot(folder, other)) for other in others] == kept, (number, case)
                assert store_in(folder).load() == THIRD, (number, case)


def test_a_slot_that_is_missing_gives_way_to_the_next_and_is_left_alone() -> None:
    for number, expected in ((0, FOURTH), (1, FOURTH), (2, OTHER)):
        with temp_folder() as folder:
            store_in(folder, STATE, OTHER, FOURTH)
            os.remove(slot(folder, number))
            assert store_in(folder).load() == expected, number
            assert store_in(folder).slots()[number] == "missing"
            for state in (THIRD, STATE, OTHER):
                store_in(folder).save(state)
                assert store_in(folder).load() == state, number
            assert store_in(folder).slots()[number] == "missing"


def test_with_one_slot_left_the_others_are_made_again() -> None:
    for number in SLOTS:
        with temp_folder() as folder:
            store_in(folder, STATE, OTHER, FOURTH)
            for other in SLOTS:
                if other != number:
                    os.remove(slot(folder, other))
                    os.rmdir(f"{folder}/day/{other}")
            store_in(folder).save(THIRD)
            store_in(folder).save(OTHER)
            assert store_in(folder).load() == OTHER, number
            assert store_in(folder).slots().count("missing") == 1


def test_a_slot_that_lost_or_gained_a_part_is_no_power_cuts_doing() -> None:
    for number in SLOTS:
        with temp_folder() as folder:
            store_in(folder, STATE, OTHER, FOURTH)
            for case, data in cut(read(slot(folder, number))):
                write(slot(folder, number), data)
                raises(StateCorruptError, store_in(folder).load)
                assert store_in(folder).slots()[number] == "damaged", (number, case)
            store_in(folder).save(THIRD)
            assert store_in(folder).load() == THIRD, number


def test_several_slots_that_lost_a_part_are_all_written_by_the_next_save() -> None:
    for first, second in ((0, 1), (0, 2), (1, 2)):
        with temp_folder() as folder:
            store_in(folder, STATE, OTHER, FOURTH)
            for number in (first, second):
                write(slot(folder, number), b"")
            store_in(folder).save(THIRD)
            assert store_in(folder).load() == THIRD, (first, second)


def test_every_flipped_bit_is_repaired() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER)
        good = read(slot(folder, 1))
        for place in range(0, len(good), 3):
            for bit in range(0, 8, 3):
                bad = bytearray(good)
                bad[place] ^= 1 << bit
                write(slot(folder, 1), bytes(bad))
                assert store_in(folder).load() == OTHER, (place, bit)


def test_slots_of_a_provisioned_board_that_are_all_damaged_or_missing_are_refused() -> None:
    cases: list[tuple[str, Any]] = [("missing", None)]
    for case, data in cases + torn(encode(dict(THIRD, seq=9), SLOT_BYTES, True)):
        with temp_folder() as folder:
            store_in(folder, STATE, OTHER)
            for number in SLOTS:
                if data is None:
                    os.remove(slot(folder, number))
                else:
                    write(slot(folder, number), data)
            raises(StateCorruptError, store_in(folder).load)
            tracker = day_of(store_in(folder))
            assert tracker.is_at_limit(), case
            assert tracker.state_error is not None, case
            assert day_of(store_in(folder)).is_at_limit(), case
            assert day_of(store_in(folder), MIDNIGHT + DAY).total_tokens == 0, case


def test_a_file_system_formatted_anew_is_no_new_board_to_a_program_that_knows_better() -> None:
    with temp_folder() as folder:
        assert store_in(folder).load() is None
        store = store_in(folder, provisioned=True)
        raises(StateCorruptError, store.load)
        assert day_of(store).is_at_limit()
        assert day_of(store_in(folder, provisioned=True)).is_at_limit()
        assert day_of(store_in(folder, provisioned=True), MIDNIGHT + DAY).total_tokens == 0


def test_a_day_without_a_state_to_trust_may_use_the_allowance() -> None:
    with temp_folder() as folder:
        tracker = day_of(store_in(folder, provisioned=True, allowance=30))
        assert tracker.total_tokens == 70
        tracker.record({"total_tokens": 30})
        assert day_of(store_in(folder, provisioned=True, allowance=30)).is_at_limit()


def test_an_allowance_is_a_whole_number() -> None:
    for value in (-1, 1.5, "1", None, True, float("nan")):
        error = raises(ValueError, FileBudgetStore, "day", allowance=value)
        assert "allowance" in str(error), value


# What is in the way


def test_a_slot_that_cannot_be_read_or_written_gives_way_to_the_others() -> None:
    for number, expected in ((0, FOURTH), (1, FOURTH), (2, OTHER)):
        with temp_folder() as folder:
            store_in(folder, STATE, OTHER, FOURTH)
            put_folder_in_place_of(slot(folder, number))
            assert store_in(folder).load() == expected, number
            assert store_in(folder).slots()[number] == "unreadable"
            store = store_in(folder)
            for state in (THIRD, STATE, OTHER):
                store.save(state)
                assert store_in(folder).load() == state, number


def test_where_only_one_slot_can_be_written_it_is_not_written_over() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER, FOURTH)
        for number in (0, 1):
            put_folder_in_place_of(slot(folder, number))
        store = store_in(folder)
        raises(StoreError, store.save, THIRD)
        raises(StoreError, store.save, THIRD)
        assert store_in(folder).load() == FOURTH
        remove(slot(folder, 0))
        store.save(THIRD)
        assert store_in(folder).load() == THIRD


def test_where_no_slot_can_be_read_it_is_an_error_of_the_store() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER)
        for number in SLOTS:
            put_folder_in_place_of(slot(folder, number))
        raises(StoreError, store_in(folder).load)
        raises(StoreError, store_in(folder).save, THIRD)
        raises(StoreError, store_in(folder).provision)
        assert store_in(folder).slots() == ["unreadable", "unreadable", "unreadable"]
        tracker = day_of(store_in(folder))
        assert tracker.is_at_limit()
        assert tracker.store_error is not None


def test_two_slots_that_were_half_written_are_not_a_power_cuts_doing() -> None:
    with temp_folder() as folder:
        store_in(folder, STATE, OTHER, FOURTH)
        for number in (0, 1):
            write(slot(folder, number), b"\xff" * SLOT_BYTES)
        error = raises(StateCorruptError, store_in(folder).load)
        assert "damaged, damaged, newest" in str(error)
        assert day_of(store_in(folder)).is_at_limit()
        assert day_of(store_in(folder)).is_at_limit()


def test_a_file_in_place_of_a_parent_folder_is_an_error_of_the_store() -> None:
    with temp_folder() as folder:
        write(folder + "/file", b"")
        store = FileBudgetStore(folder + "/file/day")
        raises(StoreError, store.load)
        raises(StoreError, store.save, STATE)


def test_an_error_of_the_store_names_the_path_and_its_cause() -> None:
    with temp_folder() as folder:
        write(folder + "/day", b"")
        error = raises(StoreError, store_in(folder).load)
        assert folder + "/day" in str(error)
        assert isinstance(error.cause, OSError)
        assert isinstance(error, BudgetError)


def test_a_path_is_where_it_was_when_the_store_was_made() -> None:
    before = os.getcwd()
    with temp_folder() as folder:
        os.chdir(folder)
        try:
            store = FileBudgetStore("day")
            os.mkdir("elsewhere")
            os.chdir("elsewhere")
            store.save(STATE)
        finally:
            os.chdir(before)
        assert store_in(folder).load() == STATE


def test_an_empty_path_is_refused() -> None:
    for path in ("", None, 5):
        assert "path" in str(raises(ValueError, FileBudgetStore, path))


def test_a_repr_names_the_path() -> None:
    assert "'/flash/day'" in repr(FileBudgetStore("/flash/day"))


def test_making_a_store_touches_nothing() -> None:
    with temp_folder() as folder:
        store_in(folder)
        assert os.listdir(folder) == []


def test_a_day_goes_on_from_its_files_after_a_restart() -> None:
    with temp_folder() as folder:
        for run in range(5):
            tracker = day_of(store_in(folder))
            assert tracker.total_tokens == run * 9
            tracker.record({"total_tokens": 9})
        assert day_of(store_in(folder), MIDNIGHT + DAY).total_tokens == 0


# The checksum


def test_a_whole_text_that_is_no_state_is_refused() -> None:
    assert "not a JSON object" in str(raises(StateCorruptError, decode, framed(b"7")))


def test_a_state_is_read_only_behind_its_own_checksum() -> None:
    good = encode(STATE, 4096)
    assert decode(good) == STATE
    for length in range(len(good)):
        raises(StateCorruptError, decode, good[:length])
