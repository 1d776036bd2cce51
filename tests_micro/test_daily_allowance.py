"""What a day allows of a tool's calls, or of seconds of water, and what a restart remembers."""

from budget_core import (
    BudgetError,
    DailyAllowance,
    DailyBudgetConfig,
    DailyBudgetTracker,
    InMemoryBudgetStore,
)
from budget_core.daily_allowance import DailyLimitError
from budget_core.errors import StateCorruptError, StoreError
from tests_micro.support import NO_LIMITS, FakeClock, RecordingLock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 86_400
MIDNIGHT = 19_675 * DAY
CAPS = {"calls": 4, "seconds": 120}


class FailingStore(InMemoryBudgetStore):
    """A store that fails while it has a `failure`."""

    failure: "Exception | None" = None

    def load(self) -> "dict[str, Any] | None":
        if self.failure is not None:
            raise self.failure
        return super().load()

    def save(self, state: "dict[str, Any]") -> None:
        if self.failure is not None:
            raise self.failure
        super().save(state)


class UnreadableStore(FailingStore):
    """A store that fails to load, and saves all the same."""

    def save(self, state: "dict[str, Any]") -> None:
        self._state = dict(state)


def water(store: "Any" = None, clock: "Any" = None, **options: "Any") -> DailyAllowance:
    return DailyAllowance("water", CAPS, store, clock=clock or FakeClock(MIDNIGHT), **options)


def test_a_day_allows_what_fits_each_limit() -> None:
    allowance = water()
    allowance.claim(calls=1, seconds=100)
    allowance.claim(seconds=20)
    assert allowance.left() == {"calls": 3, "seconds": 0}


def test_what_does_not_fit_is_refused_and_uses_nothing() -> None:
    allowance = water()
    allowance.claim(calls=1, seconds=100)
    error = raises(DailyLimitError, allowance.claim, calls=1, seconds=21)
    assert isinstance(error, BudgetError)
    assert (error.axis, error.asked, error.left) == ("seconds", 21, 20)
    assert error.resets_at == MIDNIGHT + DAY
    assert allowance.left() == {"calls": 3, "seconds": 20}


def test_a_refusal_says_what_is_left_and_until_when() -> None:
    allowance = water(clock=FakeClock(MIDNIGHT + 19 * 3600))
    allowance.claim(seconds=100)
    error = raises(DailyLimitError, allowance.claim, seconds=30)
    assert str(error) == (
        "water: 30 seconds refused, 20 of 120 are left today, until 00:00 UTC, in 5 h"
    )


def test_none_is_unlimited_and_zero_is_nothing() -> None:
    allowance = DailyAllowance("post", {"letters": None, "parcels": 0}, clock=FakeClock(MIDNIGHT))
    allowance.claim(letters=1_000_000)
    assert allowance.left() == {"letters": None, "parcels": 0}
    raises(DailyLimitError, allowance.claim, parcels=1)


def test_limits_counts_and_names_are_checked() -> None:
    for wrong in NO_LIMITS:
        assert "seconds" in str(raises(ValueError, DailyAllowance, "water", {"seconds": wrong}))
        assert "seconds" in str(raises(ValueError, water().claim, seconds=wrong))
    assert "calls, seconds" in str(raises(ValueError, water().claim, litres=1))
    assert "'day'" in str(raises(ValueError, DailyAllowance, "water", {"day": 1}))
    assert "name" in str(raises(ValueError, DailyAllowance, "", CAPS))
    assert "reset_hour_utc" in str(raises(ValueError, DailyAllowance, "water", CAPS, None, 24))


def test_a_new_day_begins_at_its_hour() -> None:
    clock = FakeClock(MIDNIGHT + 5 * 3600)
    allowance = water(clock=clock, reset_hour_utc=6)
    allowance.claim(seconds=120)
    clock.advance(3599)
    raises(DailyLimitError, allowance.claim, seconds=1)
    clock.advance(1)
    assert allowance.left() == {"calls": 4, "seconds": 120}


def test_a_clock_that_is_set_back_gives_nothing_back() -> None:
    clock = FakeClock(MIDNIGHT)
    store = InMemoryBudgetStore()
    water(store, clock).claim(seconds=120)
    clock.advance(-DAY)
    assert water(store, clock).left()["seconds"] == 0


def test_a_restart_continues_the_day_and_not_the_one_before() -> None:
    clock, store = FakeClock(MIDNIGHT), InMemoryBudgetStore()
    water(store, clock).claim(calls=1, seconds=100)
    assert water(store, clock).left() == {"calls": 3, "seconds": 20}
    clock.advance(DAY)
    assert water(store, clock).left() == {"calls": 4, "seconds": 120}


def test_the_store_has_the_count_before_the_use() -> None:
    store = InMemoryBudgetStore()
    allowance = water(store)
    allowance.claim(seconds=20)
    state = store.load()
    assert state is not None
    assert state["seconds"] == 20


def test_a_limit_that_is_new_has_its_whole_day() -> None:
    store = InMemoryBudgetStore()
    water(store).claim(seconds=20)
    wider = DailyAllowance("water", {"litres": 5, "seconds": 30}, store, clock=FakeClock(MIDNIGHT))
    assert wider.left() == {"litres": 5, "seconds": 10}


def test_a_store_that_fails_refuses_and_is_tried_again() -> None:
    store = FailingStore()
    allowance = water(store)
    store.failure = StoreError("the flash is full")
    error = raises(DailyLimitError, allowance.claim, seconds=20)
    assert "because the flash is full" in str(error)
    assert allowance.store_error is store.failure
    store.failure = None
    allowance.claim(seconds=20)
    assert allowance.store_error is None
    assert allowance.left() == {"calls": 4, "seconds": 100}


def test_a_store_that_cannot_be_read_refuses_until_it_can() -> None:
    store = FailingStore()
    water(store).claim(seconds=100)
    store.failure = StoreError("the card is out")
    allowance = water(store)
    assert allowance.left() == {"calls": 0, "seconds": 0}
    raises(DailyLimitError, allowance.claim, seconds=1)
    store.failure = None
    assert allowance.left() == {"calls": 4, "seconds": 20}


def test_a_claim_of_nothing_is_granted_and_not_stored() -> None:
    store = UnreadableStore()
    water(store).claim(seconds=100)
    store.failure = StoreError("the card is out")
    allowance = water(store)
    allowance.claim(seconds=0)
    allowance.claim()
    store.failure = None
    assert allowance.left() == {"calls": 4, "seconds": 20}


def test_a_store_that_fails_leaves_nothing_until_it_takes_the_count() -> None:
    store = FailingStore()
    allowance = water(store)
    store.failure = StoreError("the flash is full")
    error = raises(DailyLimitError, allowance.claim, seconds=5, calls=0)
    assert (error.axis, error.asked, error.left) == ("seconds", 5, 0)
    assert allowance.left() == {"calls": 0, "seconds": 0}
    store.failure = None
    assert allowance.left() == {"calls": 4, "seconds": 120}


def test_the_state_of_another_budget_counts_as_a_day_spent() -> None:
    clock, store = FakeClock(MIDNIGHT), InMemoryBudgetStore()
    tracker = DailyBudgetTracker(DailyBudgetConfig(100), clock, store)
    tracker.record({"prompt_tokens": 60, "completion_tokens": 0, "total_tokens": 60})
    assert water(store, clock).left() == {"calls": 0, "seconds": 0}
    clock.advance(DAY)
    assert water(store, clock).left() == {"calls": 4, "seconds": 120}


def test_a_stored_day_that_no_clock_has_counts_as_a_day_spent() -> None:
    clock, store = FakeClock(MIDNIGHT), InMemoryBudgetStore()
    store.save({"day": 1 << 50, "behind": 0, "calls": 1, "seconds": 100})
    allowance = water(store, clock)
    assert allowance.left() == {"calls": 0, "seconds": 0}
    clock.advance(DAY)
    assert allowance.left() == {"calls": 4, "seconds": 120}


def test_a_damaged_state_counts_as_a_day_spent_also_after_a_restart() -> None:
    for damage in (StateCorruptError("a bit flipped"), None):
        store, clock = FailingStore(), FakeClock(MIDNIGHT)
        store.failure = damage
        if damage is None:
            store.save({"day": 19_675, "behind": 0, "seconds": -4})
        allowance = water(store, clock)
        store.failure = None
        error = raises(DailyLimitError, allowance.claim, seconds=1)
        assert "the day counts as spent" in str(error)
        assert allowance.state_error is not None
        clock.advance(DAY)
        assert allowance.left() == {"calls": 4, "seconds": 120}
        assert allowance.state_error is None


def test_a_damaged_state_is_replaced_by_a_day_spent() -> None:
    store, clock = FailingStore(), FakeClock(MIDNIGHT)
    store.save({"day": "today"})
    water(store, clock)
    allowance = water(store, clock)
    assert allowance.left() == {"calls": 0, "seconds": 0}
    assert "earlier state was damaged" in str(raises(DailyLimitError, allowance.claim, seconds=1))
    clock.advance(DAY)
    assert water(store, clock).left() == {"calls": 4, "seconds": 120}


def test_the_lock_is_held_while_it_counts() -> None:
    lock = RecordingLock()
    allowance = water(lock=lock)
    allowance.claim(seconds=1)
    allowance.left()
    raises(DailyLimitError, allowance.claim, seconds=200)
    assert lock.taken == 3
    assert not lock.held
