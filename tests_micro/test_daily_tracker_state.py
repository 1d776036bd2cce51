"""What a day remembers after a restart, and what it does while its store fails or lies."""

import asyncio
import json

from budget_core import BudgetWrapper, DailyBudgetConfig, DailyBudgetTracker, InMemoryBudgetStore
from budget_core.errors import StateCorruptError, StoreError
from tests_micro.script import Script
from tests_micro.support import FakeClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 86_400
MIDNIGHT = 19_675 * DAY


class Store:
    """A store that can be told to fail, and counts what it is asked."""

    def __init__(self, state: "Any" = None) -> None:
        self.state = state
        self.load_error: Exception | None = None
        self.save_error: Exception | None = None
        self.loads = 0
        self.saves = 0

    def load(self) -> "Any":
        self.loads += 1
        if self.load_error is not None:
            raise self.load_error
        return self.state

    def save(self, state: "dict[str, Any]") -> None:
        self.saves += 1
        if self.save_error is not None:
            raise self.save_error
        self.state = dict(state)

    def clear(self) -> None:
        self.state = None


def tokens(count: int) -> "dict[str, int]":
    return {"prompt_tokens": count, "completion_tokens": 0, "total_tokens": count}


def day_of(store: "Any", now: float = MIDNIGHT, **config: "Any") -> "Any":
    """Return a tracker of 100 tokens a day that has just started, with its clock as `clock`."""
    config = dict({"daily_budget": 100}, **config)
    clock = FakeClock(now)
    tracker: Any = DailyBudgetTracker(DailyBudgetConfig(**config), clock, store)
    tracker.clock = clock
    return tracker


def stored(used: int, now: float = MIDNIGHT) -> "dict[str, Any]":
    """Return the state of a day that has used so many tokens."""
    store = Store()
    day_of(store, now).record(tokens(used))
    return dict(store.state)


def check_denies(tracker: "Any", case: object) -> None:
    assert tracker.is_at_limit(), case
    assert tracker.at_limit_message(), case


# Restarts


def test_every_change_is_stored_before_the_call_returns() -> None:
    store = Store()
    tracker = day_of(store)
    for used in (5, 10, 15):
        tracker.record(tokens(5))
        assert day_of(store).total_tokens == used


def test_a_reset_is_stored() -> None:
    store = Store(stored(60))
    day_of(store).reset()
    assert day_of(store).total_tokens == 0


def test_the_store_is_asked_once_while_it_works() -> None:
    store = Store()
    tracker = day_of(store)
    for _ in range(5):
        tracker.maybe_auto_reset()
        tracker.record(tokens(1))
    assert store.loads == 1


def test_an_unused_day_need_not_be_stored() -> None:
    assert day_of(Store(None)).total_tokens == 0


def test_the_state_of_an_earlier_day_is_dropped() -> None:
    for days in (1, 2, 400):
        tracker = day_of(Store(stored(100)), MIDNIGHT + days * DAY)
        assert tracker.total_tokens == 0, days
        assert not tracker.is_at_limit(), days


def test_state_is_restored_up_to_the_reset_hour_and_no_longer() -> None:
    for hour in range(24):
        store = Store()
        begin = MIDNIGHT + hour * 3600
        day_of(store, begin, reset_hour_utc=hour).record(tokens(7))
        for now, used in ((begin, 7), (begin + DAY - 1, 7), (begin + DAY, 0)):
            tracker = day_of(Store(store.state), now, reset_hour_utc=hour)
            assert tracker.total_tokens == used, (hour, now - begin)


def test_the_state_of_a_later_day_is_kept_until_that_day_is_over() -> None:
    for days in (1, 2, 30):
        tracker = day_of(Store(stored(60, MIDNIGHT + days * DAY)), MIDNIGHT)
        assert tracker.total_tokens == 60, days
        for now, used in ((MIDNIGHT + days * DAY + DAY - 1, 60), ((days + 1) * DAY + MIDNIGHT, 0)):
            tracker.clock.now = now
            tracker.maybe_auto_reset()
            assert tracker.total_tokens == used, (days, now)


def test_a_restart_with_the_clock_set_back_gives_nothing_back() -> None:
    store = Store(stored(60))
    for now in (MIDNIGHT - 5 * DAY, 0, MIDNIGHT):
        tracker = day_of(store, now)
        assert tracker.total_tokens >= 60, now
        tracker.record(tokens(1))


def test_a_clock_that_was_never_set_keeps_its_count_over_a_restart() -> None:
    for hour in range(24):
        for now in (0, 1, 3600 * 23, 946_684_800):
            store = Store()
            day_of(store, now, reset_hour_utc=hour).record(tokens(7))
            tracker = day_of(store, now + 1, reset_hour_utc=hour)
            assert tracker.state_error is None, (hour, now, tracker.state_error)
            assert tracker.total_tokens == 7, (hour, now)


def test_warnings_are_not_repeated_after_a_restart() -> None:
    store = Store()
    tracker = day_of(store, warning_thresholds=(0.5, 0.8))
    tracker.record(tokens(55))
    assert tracker.consume_threshold_warning()
    tracker = day_of(store, warning_thresholds=(0.5, 0.8))
    assert tracker.consume_threshold_warning() is None
    tracker.record(tokens(30))
    assert "85%" in tracker.consume_threshold_warning()


def test_lower_thresholds_stay_told_after_a_restart() -> None:
    store = Store()
    tracker = day_of(store, warning_thresholds=(0.5, 0.8))
    tracker.record(tokens(85))
    tracker.consume_threshold_warning()
    assert day_of(store, warning_thresholds=(0.5, 0.8)).consume_threshold_warning() is None


def test_the_limit_is_not_told_again_after_a_restart() -> None:
    store = Store()
    tracker = day_of(store)
    tracker.record(tokens(100))
    assert tracker.consume_at_limit_warning()
    tracker = day_of(store)
    assert tracker.is_at_limit()
    assert tracker.consume_at_limit_warning() is None


def test_a_warning_not_yet_told_is_told_after_a_restart() -> None:
    store = Store()
    day_of(store, warning_thresholds=(0.5,)).record(tokens(60))
    tracker = day_of(store, warning_thresholds=(0.5,))
    assert tracker.consume_threshold_warning()


def test_a_state_is_a_flat_dict_that_json_keeps() -> None:
    state = stored(60)
    assert json.loads(json.dumps(state)) == state
    for name in state:
        assert isinstance(name, str), name
        assert state[name] is None or isinstance(state[name], (int, str)), name


def test_a_tracker_without_a_store_reports_no_errors() -> None:
    tracker = DailyBudgetTracker()
    tracker.record(tokens(5))
    assert tracker.store_error is None
    assert tracker.state_error is None


# A store that cannot be read

LOAD_ERRORS = (
    OSError(5),
    StoreError("down"),
    RuntimeError("down"),
    Exception("down"),
    MemoryError(),
    ValueError("bad port"),
    KeyError("REDIS_URL"),
    TypeError("no connection"),
)


def unreadable(error: Exception, used: int = 60) -> "tuple[Store, Any]":
    store = Store(stored(used))
    store.load_error = error
    return store, day_of(store)


def test_a_store_that_cannot_be_read_denies() -> None:
    for error in LOAD_ERRORS:
        _, tracker = unreadable(error)
        check_denies(tracker, error)
        assert tracker.store_error is error, error


def test_a_store_that_cannot_be_read_is_not_written() -> None:
    for error in LOAD_ERRORS:
        store, tracker = unreadable(error)
        tracker.record(tokens(5))
        tracker.maybe_auto_reset()
        tracker.consume_at_limit_warning()
        assert store.saves == 0, error


def test_what_was_used_while_the_store_was_unreadable_is_added_when_it_recovers() -> None:
    for error in LOAD_ERRORS:
        store, tracker = unreadable(error)
        tracker.record(tokens(5))
        store.load_error = None
        tracker.maybe_auto_reset()
        assert tracker.total_tokens == 65, error
        assert not tracker.is_at_limit(), error
        assert tracker.store_error is None, error
        assert day_of(store).total_tokens == 65, error


def test_a_store_that_stays_unreadable_is_asked_before_each_call() -> None:
    store, tracker = unreadable(OSError(5))
    for loads in (2, 3, 4):
        tracker.maybe_auto_reset()
        assert store.loads == loads
        check_denies(tracker, loads)


def test_asking_for_the_limit_does_not_try_a_store_again() -> None:
    store, tracker = unreadable(OSError(5))
    store.load_error = None
    for _ in range(3):
        check_denies(tracker, "not tried again yet")
    assert store.loads == 1
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()


def test_a_store_unreadable_over_midnight_recovers_into_the_new_day() -> None:
    store, tracker = unreadable(OSError(5))
    tracker.record(tokens(5))
    tracker.clock.advance(DAY)
    tracker.maybe_auto_reset()
    check_denies(tracker, "still unreadable")
    store.load_error = None
    tracker.maybe_auto_reset()
    assert tracker.total_tokens == 0
    assert not tracker.is_at_limit()


def test_an_unreadable_store_does_not_deny_an_unlimited_day() -> None:
    store = Store()
    store.load_error = OSError(5)
    tracker = day_of(store, daily_budget=None)
    assert not tracker.is_at_limit()
    assert tracker.store_error is not None


def test_warnings_told_before_the_store_failed_are_not_repeated_when_it_recovers() -> None:
    store = Store()
    tracker = day_of(store, warning_thresholds=(0.5,))
    tracker.record(tokens(60))
    tracker.consume_threshold_warning()
    store.load_error = OSError(5)
    tracker = day_of(store, warning_thresholds=(0.5,))
    store.load_error = None
    tracker.maybe_auto_reset()
    assert tracker.total_tokens == 60
    assert tracker.consume_threshold_warning() is None


# A store that cannot be written


def test_a_store_that_cannot_be_written_denies_and_loses_nothing() -> None:
    store = Store()
    tracker = day_of(store)
    tracker.record(tokens(5))
    store.save_error = OSError(28)
    tracker.record(tokens(5))
    check_denies(tracker, "failing")
    assert tracker.total_tokens == 10
    assert tracker.store_error is store.save_error
    tracker.maybe_auto_reset()
    check_denies(tracker, "still failing")
    store.save_error = None
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()
    assert tracker.store_error is None
    assert day_of(store).total_tokens == 10


def test_a_store_that_fails_says_so_in_the_limit_message() -> None:
    store = Store()
    tracker = day_of(store)
    store.save_error = OSError(28)
    tracker.record(tokens(5))
    assert "5 of 100" not in tracker.at_limit_message()


def test_a_record_whose_save_fails_does_not_raise() -> None:
    for error in LOAD_ERRORS:
        store = Store()
        tracker = day_of(store)
        store.save_error = error
        tracker.record(tokens(5))
        assert tracker.total_tokens == 5, error
        assert tracker.store_error is error, error


def test_a_later_save_that_works_lifts_the_denial() -> None:
    store = Store()
    tracker = day_of(store)
    store.save_error = OSError(28)
    tracker.record(tokens(5))
    store.save_error = None
    tracker.record(tokens(5))
    assert not tracker.is_at_limit()
    assert day_of(store).total_tokens == 10


def test_a_new_day_whose_state_cannot_be_written_denies_until_it_can() -> None:
    store = Store(stored(60))
    tracker = day_of(store)
    store.save_error = OSError(28)
    tracker.clock.advance(DAY)
    tracker.maybe_auto_reset()
    check_denies(tracker, "failing")
    store.save_error = None
    tracker.maybe_auto_reset()
    assert tracker.total_tokens == 0
    assert not tracker.is_at_limit()
    assert day_of(store, MIDNIGHT + DAY).total_tokens == 0


def test_an_outage_does_not_use_up_the_warning_for_the_real_limit() -> None:
    store = Store()
    tracker = day_of(store)
    store.save_error = OSError(28)
    tracker.record(tokens(5))
    assert tracker.consume_at_limit_warning()
    store.save_error = None
    tracker.maybe_auto_reset()
    tracker.record(tokens(95))
    assert "100 of 100 tokens" in (tracker.consume_at_limit_warning() or "nothing was said")


# A state that cannot be trusted


def broken_states() -> "list[tuple[object, Any]]":
    """Return (what is wrong, state) pairs."""
    good = stored(10)
    foreign: list[Any] = [[], [1], 5, "x", {}, True, 0.5]
    bad: list[Any] = [1.5, "5", None, True, float("nan"), float("inf"), [1], {}, 10**5000]
    states: list[tuple[object, Any]] = [(repr(state), state) for state in foreign]
    for name in good:
        states.append((name + " is missing", {n: good[n] for n in good if n != name}))
        for value in bad:
            if not isinstance(good[name], str):
                states.append((name, dict(good, **{name: value})))
    states.append(("negative tokens", dict(good, tokens=-5)))
    states.append(("a day that no clock has", dict(good, day=1 << 50)))
    states.append(("foreign", {"count": 5}))
    return states


def test_a_state_that_cannot_be_trusted_denies_for_the_rest_of_its_day() -> None:
    for case, state in broken_states():
        store = Store(state)
        tracker = day_of(store)
        check_denies(tracker, case)
        assert tracker.state_error is not None, case
        tracker.clock.now = MIDNIGHT + DAY - 1
        tracker.maybe_auto_reset()
        check_denies(tracker, case)


def test_a_state_that_cannot_be_trusted_still_denies_after_a_restart() -> None:
    for case, state in broken_states():
        store = Store(state)
        day_of(store)
        check_denies(day_of(store, MIDNIGHT + DAY - 1), case)


def test_why_a_state_was_not_trusted_is_still_known_after_a_restart() -> None:
    store = Store({"foreign": 1})
    assert day_of(store).state_error is not None
    assert day_of(store).state_error is not None


def test_the_day_after_a_state_that_could_not_be_trusted_is_clean() -> None:
    for case, state in broken_states():
        store = Store(state)
        tracker = day_of(store)
        for next_day in (tracker, day_of(store, MIDNIGHT + DAY)):
            next_day.clock.now = MIDNIGHT + DAY
            next_day.maybe_auto_reset()
            assert next_day.total_tokens == 0, case
            assert not next_day.is_at_limit(), case
            assert next_day.state_error is None, case
            assert next_day.store_error is None, case


def test_a_store_that_calls_its_state_corrupt_denies_for_the_day() -> None:
    store = Store()
    store.load_error = StateCorruptError("damaged")
    tracker = day_of(store)
    check_denies(tracker, "corrupt")
    assert tracker.state_error is store.load_error
    store.load_error = None
    check_denies(day_of(store), "restarted")
    assert not day_of(store, MIDNIGHT + DAY).is_at_limit()


def test_a_day_whose_state_cannot_be_trusted_may_use_the_stores_allowance() -> None:
    for case, state in broken_states():
        store = Store(state)
        store.allowance = 30  # type: ignore[attr-defined]
        tracker = day_of(store)
        assert tracker.total_tokens == 70, case
        assert tracker.state_error is not None, case
        assert not tracker.is_at_limit(), case
        tracker.record(tokens(30))
        check_denies(tracker, case)
        check_denies(day_of(store), case)


def test_an_allowance_above_the_budget_is_the_budget() -> None:
    store = Store({})
    store.allowance = 1000  # type: ignore[attr-defined]
    assert day_of(store).total_tokens == 0


def test_a_state_that_cannot_be_trusted_does_not_deny_an_unlimited_day() -> None:
    assert not day_of(Store([1]), daily_budget=None).is_at_limit()


def test_further_fields_in_a_state_do_no_harm() -> None:
    tracker = day_of(Store(dict(stored(60), more="text", later=None)))
    assert tracker.total_tokens == 60
    assert tracker.state_error is None


def test_a_broken_state_whose_store_cannot_be_written_denies_all_the_same() -> None:
    store = Store({})
    store.save_error = OSError(28)
    tracker = day_of(store)
    check_denies(tracker, "unwritable")
    store.save_error = None
    tracker.maybe_auto_reset()
    check_denies(tracker, "written")
    check_denies(day_of(store), "restarted")


def test_a_damaged_state_says_so_in_place_of_a_notice_and_a_limit() -> None:
    for thresholds in ((), (0.5, 1)):
        store = Store({})
        for _ in range(2):
            tracker = day_of(store, warning_thresholds=thresholds, enforcement="cutoff")
            wrapper = BudgetWrapper(Script([]), tracker)
            text = asyncio.run(wrapper.chat([])).content
            assert "daily budget is damaged, so the day counts as spent" in text, text
            assert "100" not in text, text
            assert tracker.consume_threshold_warning(True) is None
        tracker.clock.advance(DAY)
        tracker.maybe_auto_reset()
        tracker.record(tokens(100))
        assert "100 of 100 tokens" in tracker.at_limit_message()


# The store in memory


def test_the_store_in_memory_begins_empty() -> None:
    assert InMemoryBudgetStore().load() is None


def test_the_store_in_memory_keeps_a_copy_of_what_it_is_given() -> None:
    store, state = InMemoryBudgetStore(), {"a": 1}
    store.save(state)
    state["a"] = 2
    assert store.load() == {"a": 1}


def test_the_store_in_memory_gives_a_copy_of_what_it_keeps() -> None:
    store = InMemoryBudgetStore()
    store.save({"a": 1})
    loaded = store.load()
    assert loaded
    loaded["a"] = 2
    assert store.load() == {"a": 1}


def test_the_store_in_memory_can_be_cleared() -> None:
    store = InMemoryBudgetStore()
    store.save({"a": 1})
    store.clear()
    store.clear()
    assert store.load() is None


def test_two_trackers_can_follow_each_other_on_the_store_in_memory() -> None:
    store = InMemoryBudgetStore()
    day_of(store).record(tokens(7))
    assert day_of(store).total_tokens == 7
