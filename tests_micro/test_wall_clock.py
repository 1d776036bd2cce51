"""The wall clock: read the same way on every port, believed as far as it deserves."""

import time

from budget_core import DailyBudgetConfig, DailyBudgetTracker, InMemoryBudgetStore
from budget_core.day import OVER, STAYS, DayWindow
from budget_core.monotonic import clock_of
from budget_core.wall_clock import BUILT, DAY, WALL, WallClock, epoch_offset, unix_time
from tests_micro.support import FakeClock, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

SECONDS_1970_TO_2000 = 946_684_800
NOON = 19_675 * DAY + DAY // 2
RENAMED = 1
UNKNOWN = 0


def day_key(now: float, hour: int) -> int:
    """Return the day that a window is in at a time."""
    return DayWindow(FakeClock(now), hour).day


def gmtime_from(year: int) -> "Callable[[int], tuple[int, ...]]":
    """Return the `gmtime` of a port whose second 0 is the beginning of that year."""
    return lambda seconds: (year, 1, 1, 0, 0, seconds, 0, 1)


def test_a_port_whose_epoch_is_1970_needs_no_offset() -> None:
    assert epoch_offset(gmtime_from(1970)) == 0


def test_a_port_whose_epoch_is_2000_is_thirty_years_behind() -> None:
    assert epoch_offset(gmtime_from(2000)) == SECONDS_1970_TO_2000


def test_this_runtime_reads_unix_time() -> None:
    # The first of January 2024, on any port: the tests are younger than that.
    assert unix_time() > 1_704_067_200
    before = time.time()
    read = unix_time() - epoch_offset(time.gmtime)
    assert before - 2 <= read <= time.time() + 2


def test_the_same_moment_is_the_same_day_on_both_epochs() -> None:
    for hour in range(24):
        for moment in (NOON, NOON - DAY // 2, NOON + DAY // 2 - 1, NOON + DAY // 2):
            port_time = moment - SECONDS_1970_TO_2000
            read = port_time + epoch_offset(gmtime_from(2000))
            assert day_key(read, hour) == day_key(moment, hour), (hour, moment)


def test_a_day_begins_at_its_reset_hour() -> None:
    for hour in range(24):
        begin = 19_675 * DAY + hour * 3600
        days = [day_key(begin + seconds, hour) for seconds in (-1, 0, 1, DAY - 1, DAY)]
        assert days == [19_674, 19_675, 19_675, 19_675, 19_676], hour


def test_a_fraction_of_a_second_does_not_begin_a_day() -> None:
    assert day_key(DAY - 0.25, 0) == 0  # floats of 32 bits hold no later fractions
    assert day_key(DAY + 0.75, 0) == 1


# What is believed


BUILT_THEN = 19_600 * DAY


class Machine:
    """A machine with a wall clock that anybody may set and a monotonic one that nobody can."""

    def __init__(self, date: float = NOON, needs_sync: bool = False) -> None:
        self.wall = FakeClock(date)
        self.ticks, monotonic = stopped_clock()
        self.clock = WallClock(self.wall, monotonic, needs_sync, BUILT_THEN)

    def turn_ticks(self) -> None:
        """Give it the ticks of a chip, which start again at 0 after 12.4 days."""
        self.clock = WallClock(self.wall, clock_of(Ticks(self.ticks)), True, BUILT_THEN)

    def sleep(self, seconds: int) -> None:
        self.wall.advance(seconds)
        self.ticks.advance(seconds * 1000)


def test_a_date_that_is_not_before_the_build_is_believed() -> None:
    for date, believed in ((0, 0), (BUILT_THEN - 1, 0), (BUILT_THEN, BUILT_THEN), (NOON, NOON)):
        clock = Machine(date).clock
        assert clock() == believed, date


def test_a_clock_that_needs_a_sync_is_believed_after_it() -> None:
    machine = Machine(NOON, needs_sync=True)
    assert machine.clock() == 0
    machine.sleep(3600)
    assert machine.clock() == 0
    assert machine.clock.mark_synced() is True
    assert machine.clock() == NOON + 3600


def test_a_sync_to_a_date_before_the_build_is_none() -> None:
    for date in (0, 946_684_800, BUILT_THEN - 1):
        machine = Machine(date, needs_sync=True)
        assert machine.clock.mark_synced() is False
        assert machine.clock() == 0


def test_a_clock_that_is_set_while_it_is_not_believed_is_believed_then() -> None:
    machine = Machine(5)
    assert machine.clock() == 0
    machine.wall.now = NOON
    assert machine.clock() == NOON


def test_whoever_sets_a_clock_that_is_believed_changes_nothing() -> None:
    for needs_sync in (False, True):
        machine = Machine(NOON, needs_sync)
        machine.clock.mark_synced()
        for date in (0, NOON + 30 * 365 * DAY, NOON - DAY, NOON + DAY, BUILT_THEN):
            machine.wall.now = date
            assert machine.clock() == NOON, date
        machine.sleep(100)
        assert machine.clock() == NOON + 100


def test_a_sync_sets_the_date_back_as_often_as_it_likes() -> None:
    machine = Machine(NOON)
    machine.clock.mark_synced()
    for back in (1, 3600, 2 * DAY):
        machine.wall.now = NOON - back
        assert machine.clock.mark_synced()
        assert machine.clock() == NOON - back


def test_a_sync_sets_the_date_far_forward_once_a_day() -> None:
    machine = Machine(NOON)
    machine.clock.mark_synced()
    machine.wall.now = NOON + 3 * DAY
    assert not machine.clock.mark_synced()
    assert machine.clock() == NOON
    machine.sleep(DAY - 1)
    assert not machine.clock.mark_synced()
    machine.sleep(1)
    assert machine.clock.mark_synced()
    assert machine.clock() == NOON + 4 * DAY
    machine.wall.now += 700
    assert not machine.clock.mark_synced()


def test_a_sync_sets_the_date_a_little_forward_at_any_time() -> None:
    machine = Machine(NOON)
    machine.clock.mark_synced()
    machine.wall.now = NOON + 600
    assert machine.clock.mark_synced()
    assert machine.clock() == NOON + 600
    machine.wall.now += 601
    assert not machine.clock.mark_synced()


def test_syncs_that_creep_forward_come_no_further_than_one() -> None:
    machine = Machine(NOON, needs_sync=True)
    machine.clock.mark_synced()
    for step in range(1, 200):
        machine.wall.now = NOON + 100 * step
        assert machine.clock.mark_synced() is (step <= 6), step
    assert machine.clock() == NOON + 600


def test_a_sync_that_set_the_date_back_is_set_right_by_the_next() -> None:
    machine = Machine(NOON)
    machine.clock.mark_synced()
    for back in (60, 3 * DAY):
        machine.wall.now = NOON - back
        assert machine.clock.mark_synced()
        machine.wall.now = NOON
        assert machine.clock.mark_synced(), back
        assert machine.clock() == NOON


def test_the_first_sync_of_a_server_that_began_with_a_late_clock_sets_it_right() -> None:
    machine = Machine(NOON - 7 * DAY)
    assert machine.clock() == NOON - 7 * DAY
    machine.wall.now = NOON
    assert machine.clock.mark_synced()
    assert machine.clock() == NOON


class Ticks:
    """A port's `time` module whose ticks have 30 bits."""

    def __init__(self, fake: FakeClock) -> None:
        self._fake = fake

    def ticks_ms(self) -> int:
        return int(self._fake()) % TURN_MS

    def ticks_add(self, ticks: int, by: int) -> int:
        return (ticks + by) % TURN_MS


TURN_MS = 1 << 30
TURN = 1_073_741  # seconds


def board(date: int = NOON) -> Machine:
    """Return a chip whose clock was set now."""
    machine = Machine(date)
    machine.turn_ticks()
    assert machine.clock.mark_synced()
    return machine


def test_a_sync_is_believed_after_a_gap_that_the_ticks_cannot_have_seen() -> None:
    for gap in (TURN + 5, TURN + 36_000, TURN + DAY - 700, 2 * TURN + 60, 30 * TURN + 3600):
        for drift in (-300, 0, 300):
            machine = board()
            tracker = DailyBudgetTracker(DailyBudgetConfig(daily_budget=5), machine.clock)
            tracker.record({"total_tokens": 5})
            machine.sleep(gap)
            machine.wall.advance(drift)
            tracker.maybe_auto_reset()
            assert tracker.is_at_limit() is (gap % TURN < DAY // 2), gap
            assert machine.clock.mark_synced(), (gap, drift)
            assert abs(machine.clock() - machine.wall()) <= 1, (gap, drift)
            tracker.maybe_auto_reset()
            assert not tracker.is_at_limit(), (gap, drift)
            assert tracker.resets_at - DAY <= machine.wall() < tracker.resets_at
            tracker.record({"total_tokens": 5})
            machine.sleep(3600)
            assert machine.clock.mark_synced()
            tracker.maybe_auto_reset()
            assert tracker.is_at_limit() is (
                machine.clock() // DAY == (machine.clock() - 3600) // DAY
            )


def test_a_sync_that_is_ahead_by_no_whole_turn_of_the_ticks_is_not_believed() -> None:
    for ahead in (DAY, TURN - 700, TURN + 700, TURN + DAY // 2, 30 * 365 * DAY, TURN // 2):
        machine = board()
        machine.wall.advance(ahead)
        assert not machine.clock.mark_synced(), ahead
        assert machine.clock() == NOON, ahead


def test_a_time_server_that_lies_by_whole_turns_gives_one_more_day_in_a_day() -> None:
    machine = board()
    tracker = DailyBudgetTracker(DailyBudgetConfig(daily_budget=1), machine.clock)
    days = 3
    used = 0
    for _ in range(days * 48):
        machine.wall.advance(TURN)
        machine.clock.mark_synced()
        tracker.maybe_auto_reset()
        if not tracker.is_at_limit():
            tracker.record({"total_tokens": 1})
            used += 1
        machine.sleep(1800)
    assert used <= 2 * days + 2, used


def test_a_date_is_stale_a_day_after_its_sync() -> None:
    machine = Machine(NOON)
    assert machine.clock() == NOON
    assert machine.clock.stale
    machine.clock.mark_synced()
    assert not machine.clock.stale
    machine.sleep(DAY - 1)
    assert not machine.clock.stale
    machine.sleep(1)
    assert machine.clock.stale
    machine.clock.mark_synced()
    assert not machine.clock.stale


def test_a_belief_without_a_sync_ends_where_one_is_asked_for() -> None:
    machine = Machine(NOON)
    assert machine.clock() > 0
    machine.clock.needs_sync = True
    assert machine.clock() == 0
    machine.clock.mark_synced()
    machine.clock.needs_sync = True
    assert machine.clock() > 0


def test_a_wall_clock_that_fails_or_says_nonsense_is_not_believed() -> None:
    def broken() -> float:
        raise OSError(5)

    _, monotonic = stopped_clock()
    reads: list[Any] = [broken]
    for value in (float("nan"), float("inf"), -1, None, "now", 1e300, 10**30, 1 << 40):
        reads.append(FakeClock(value))  # type: ignore[arg-type]
    for read in reads:
        clock = WallClock(read, monotonic)
        assert clock() == 0, read
        assert clock.mark_synced() is False, read
        tracker = DailyBudgetTracker(DailyBudgetConfig(daily_budget=5), clock)
        tracker.maybe_auto_reset()
        tracker.record({"total_tokens": 3})
        assert tracker.total_tokens == 3, read


def test_this_machines_clock_is_believed() -> None:
    assert abs(WALL() - unix_time()) < 5
    assert WALL() > 0
    assert 0 < BUILT <= unix_time()


# Which day is counted


def test_a_day_ends_once_and_never_begins_again() -> None:
    clock = FakeClock(NOON)
    window = DayWindow(clock, 0)
    assert window.follow(NOON + DAY // 2 - 1) == STAYS
    assert window.follow(NOON + DAY // 2) == OVER
    for now in (NOON, 0, -5, NOON + DAY // 2):
        assert window.follow(now) == STAYS, now
    assert window.day == 19_676


def test_an_injected_clock_that_goes_back_for_days_changes_nothing() -> None:
    window = DayWindow(FakeClock(NOON), 0)
    for day in range(100):
        assert window.follow(NOON - 50 * DAY + day * DAY // 4) == STAYS, day


def test_what_was_used_before_the_date_was_known_counts_for_the_first_day_that_is() -> None:
    machine = Machine(5)
    window = DayWindow(machine.clock, 3)
    assert window.day == UNKNOWN
    machine.wall.now = NOON
    assert window.follow(machine.clock()) == RENAMED
    assert window.day == 19_675
    assert window.follow(machine.clock()) == STAYS


def test_a_stored_day_is_gone_on_with_unless_it_is_over() -> None:
    for stored, counts, day in (
        (19_675, True, 19_675),
        (19_674, False, 19_675),
        (19_677, True, 19_677),
    ):
        for clock in (FakeClock(NOON), Machine(NOON).clock):
            window = DayWindow(clock, 0)
            assert window.adopt(stored, 0) is counts, stored
            assert window.day == day, stored


def test_a_stored_day_that_was_unknown_counts_for_today() -> None:
    window = DayWindow(Machine(NOON).clock, 0)
    assert window.adopt(UNKNOWN, 0)
    assert window.day == 19_675


def test_a_stored_day_is_gone_on_with_while_the_date_is_not_known() -> None:
    machine = Machine(NOON, needs_sync=True)
    window = DayWindow(machine.clock, 0)
    assert window.adopt(19_670, 0)
    machine.sleep(40 * DAY)
    assert window.follow(machine.clock()) == STAYS
    machine.clock.mark_synced()
    assert window.follow(machine.clock()) == OVER


def test_an_injected_clock_that_says_nonsense_changes_nothing() -> None:
    clock = FakeClock(NOON)
    tracker = DailyBudgetTracker(DailyBudgetConfig(daily_budget=5), clock)
    tracker.record({"total_tokens": 3})
    for now in (float("nan"), float("inf"), -float("inf"), 1e300, 10**30, 1 << 41):
        clock.now = now
        tracker.maybe_auto_reset()
        assert tracker.total_tokens == 3, now
    clock.now = NOON + DAY
    tracker.maybe_auto_reset()
    assert tracker.total_tokens == 0
    for now in (float("nan"), float("inf"), 1e300):
        assert DayWindow(FakeClock(now), 0).day == UNKNOWN


def test_a_boot_without_a_date_is_no_day_behind() -> None:
    machine = Machine(NOON, needs_sync=True)
    window = DayWindow(machine.clock, 0)
    window.adopt(19_675, 0)
    for _ in range(50):
        assert window.follow(machine.clock()) == STAYS
        machine.sleep(3600)
    machine.wall.now = NOON
    machine.clock.mark_synced()
    assert window.follow(machine.clock()) == STAYS
    assert window.day == 19_675


def test_a_date_that_was_behind_for_a_while_begins_anew_when_it_is_again() -> None:
    machine = Machine(NOON)
    window = DayWindow(machine.clock, 0)
    window.adopt(19_676, 0)
    assert window.follow(machine.clock()) == RENAMED
    machine.sleep(DAY // 2)
    assert window.follow(machine.clock()) == STAYS
    assert window.behind == 0
    machine.wall.now = NOON - DAY
    machine.clock.mark_synced()
    assert window.follow(machine.clock()) == RENAMED
    machine.sleep(DAY - 1)
    assert window.follow(machine.clock()) == STAYS


def test_since_when_a_day_was_ahead_is_known_after_restarts() -> None:
    store = InMemoryBudgetStore()
    config = DailyBudgetConfig(daily_budget=10)
    for hour in range(0, 37, 12):
        machine = Machine(NOON + hour * 3600)
        if not hour:
            future = Machine(NOON + 10_000 * DAY)
            DailyBudgetTracker(config, future.clock, store).record({"total_tokens": 10})
        tracker = DailyBudgetTracker(config, machine.clock, store)
        tracker.maybe_auto_reset()
        assert tracker.is_at_limit() is (hour < 36), hour


def test_no_two_days_end_within_one_whatever_a_sync_says() -> None:
    machine = Machine(NOON)
    window = DayWindow(machine.clock, 0)
    ends = []
    for minute in range(0, 5 * 24 * 60, 10):
        machine.wall.now = NOON + (minute // 60 // 13) * DAY + minute * 60
        machine.clock.mark_synced()
        if window.follow(machine.clock()) == OVER:
            ends.append(minute)
        machine.sleep(600)
    assert len(ends) > 3
    for number in range(1, len(ends)):
        assert ends[number] - ends[number - 1] >= 24 * 60 - 10, ends


def test_a_late_sync_does_not_put_off_the_next_midnight() -> None:
    machine = Machine(NOON + DAY // 2 - 600, needs_sync=True)
    window = DayWindow(machine.clock, 0)
    window.adopt(19_670, 0)
    machine.clock.mark_synced()
    assert window.follow(machine.clock()) == OVER
    machine.sleep(600)
    assert window.follow(machine.clock()) == OVER
    assert window.day == 19_676


def test_a_stored_day_that_never_was_locks_nobody_out_for_more_than_a_day() -> None:
    machine = Machine(NOON)
    window = DayWindow(machine.clock, 0)
    assert window.adopt(40_000, 0)
    assert window.follow(machine.clock()) == RENAMED  # it notes since when
    assert (window.day, window.behind) == (40_000, NOON)
    for _ in range(24):
        assert window.follow(machine.clock()) == STAYS
        machine.sleep(3600)
    assert window.follow(machine.clock()) == RENAMED
    assert window.day == 19_676
    machine.sleep(DAY // 2)
    assert window.follow(machine.clock()) == OVER


def test_without_a_clock_the_ports_own_is_read() -> None:
    tracker = DailyBudgetTracker(DailyBudgetConfig(daily_budget=10))
    tracker.record({"total_tokens": 10})
    tracker.maybe_auto_reset()
    assert tracker.total_tokens == 10
