"""The wall clock, read the same way on every port."""

import time

from budget_core import DailyBudgetConfig, DailyBudgetTracker
from budget_core.clock import DAY, day_key, epoch_offset, unix_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS_1970_TO_2000 = 946_684_800
NOON = 19_675 * DAY + DAY // 2


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
    assert abs(unix_time() - time.time() - epoch_offset(time.gmtime)) < 5


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
    assert day_key(19_675 * DAY - 0.25, 0) == 19_674
    assert day_key(19_675 * DAY + 0.75, 0) == 19_675


def test_without_a_clock_the_ports_own_is_read() -> None:
    tracker = DailyBudgetTracker(DailyBudgetConfig(daily_budget=10))
    tracker.record({"total_tokens": 10})
    tracker.maybe_auto_reset()
    assert tracker.total_tokens == 10
