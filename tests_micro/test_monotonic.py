"""One clock of elapsed milliseconds for every port, right across the wrap of its ticks."""

import time

from budget_core import Deadline
from budget_core.durations import in_ms
from budget_core.monotonic import MONOTONIC, MonotonicClock, clock_of
from tests_micro.support import raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    pass

INFINITY = float("inf")
NAN = float("nan")
PERIOD = 1 << 30
REACH = PERIOD // 2
NO_NUMBERS = ("5", "", b"5", None, True, False, [5], 5j)


class ChipTime:
    """The `time` of a chip: milliseconds that start again at 0 after 12.4 days."""

    def __init__(self, now: int = 0) -> None:
        self.now = now

    def ticks_ms(self) -> int:
        return self.now % PERIOD

    def ticks_add(self, ticks: int, delta: int) -> int:
        return (ticks + delta) % PERIOD


class ServerTime:
    """The `time` of a server."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic_ns(self) -> int:
        return self.now


def chip(now: int = 0) -> "tuple[ChipTime, MonotonicClock]":
    port = ChipTime(now)
    return port, clock_of(port)


def test_a_clock_reads_the_milliseconds_it_is_given() -> None:
    fake, clock = stopped_clock(7)
    assert clock.read() == 7
    fake.advance(5)
    assert clock.read() == 12


def test_a_server_is_read_in_its_own_nanoseconds() -> None:
    port = ServerTime()
    clock = clock_of(port)
    port.now = 3 * 10**18 + 7
    assert clock.read() == 3 * 10**18 + 7
    assert clock.per_ms == 1_000_000
    assert clock.reach_ms > 100 * 365 * 86_400_000


def test_a_chip_is_read_in_milliseconds_and_reaches_half_a_period() -> None:
    _, clock = chip()
    assert (clock.per_ms, clock.reach_ms) == (1, REACH)


def test_a_deadline_in_nanoseconds_passes_at_its_very_nanosecond() -> None:
    port = ServerTime()
    port.now = 7_000_000
    deadline = Deadline.from_now(0.002, clock_of(port))
    port.now = 8_999_999
    assert not deadline.is_expired()
    assert 0 < deadline.remaining_seconds() < 0.00001
    port.now = 9_000_000
    assert deadline.is_expired()
    assert deadline.remaining_seconds() == 0


def test_ticks_are_counted_on_where_they_start_again() -> None:
    port, clock = chip(PERIOD - 3)
    seen = []
    for _ in range(6):
        seen.append(clock.read() - (PERIOD - 3))
        port.now += 1
    assert seen == [0, 1, 2, 3, 4, 5]


def test_a_clock_asked_once_just_under_a_period_misses_nothing() -> None:
    port, clock = chip(12345)
    for _ in range(50):
        port.now += PERIOD - 1
        assert clock.read() == port.now


def test_many_wraps_are_counted_whatever_the_steps() -> None:
    port, clock = chip(PERIOD - 1)
    for turn in range(2000):
        port.now += (turn * 7_654_321) % PERIOD
        assert clock.read() == port.now, turn
    assert port.now > 500 * PERIOD


def test_a_clock_that_stands_still_reads_the_same() -> None:
    port, clock = chip(5)
    assert [clock.read(), clock.read(), clock.read()] == [5, 5, 5]
    port.now = PERIOD + 5
    assert clock.read() == 5, "a whole period later a chip cannot tell, and must not go backwards"


def test_a_clock_begins_where_the_port_is() -> None:
    port, clock = chip(40)
    assert clock.read() == 40
    port.now = PERIOD + 10
    assert clock.read() == PERIOD + 10
    port.now = 2 * PERIOD + 9
    assert clock.read() == 2 * PERIOD + 9


def test_a_deadline_is_seen_to_pass_across_the_wrap() -> None:
    port, clock = chip(PERIOD - 1000)
    deadline = Deadline.from_now(2, clock)
    for later, left in ((0, 2.0), (999, 1.001), (1000, 1.0), (1001, 0.999), (1999, 0.001)):
        port.now = PERIOD - 1000 + later
        assert not deadline.is_expired(), later
        assert abs(deadline.remaining_seconds() - left) < 0.00001, later
    port.now = PERIOD + 1000
    assert deadline.is_expired()
    assert deadline.remaining_seconds() == 0
    assert deadline.elapsed_seconds() == 2


def test_a_deadline_as_far_as_the_clock_can_measure_passes_on_time() -> None:
    for start in (0, 1, REACH, PERIOD - 1):
        port, clock = chip(start)
        deadline = Deadline.from_wire(REACH, clock)
        port.now += REACH - 1
        assert not deadline.is_expired(), start
        port.now += 1
        assert deadline.is_expired(), start


def test_a_deadline_is_seen_to_have_passed_by_whoever_looks_half_a_period_late() -> None:
    port, clock = chip(17)
    deadline = Deadline.from_wire(REACH, clock)
    port.now += REACH + REACH - 1
    assert deadline.is_expired()
    assert deadline.remaining_seconds() == 0
    port.now += PERIOD - 1
    assert deadline.is_expired(), "it stays passed"


def test_a_deadline_beyond_the_clock_is_refused_in_clear_words() -> None:
    _, clock = chip()
    text = str(raises(ValueError, Deadline.from_now, 604_800, clock))
    assert text == (
        "this clock can measure 536870 s ahead, not 604800 s; Deadline.never() sets no limit"
    )
    for ms in (REACH + 1, PERIOD, 10 * PERIOD):
        raises(ValueError, Deadline.from_wire, ms, clock)
    for seconds in (REACH // 1000 + 1, 10**9, 10**12, 1e30, 10**30):
        raises(ValueError, Deadline.from_now, seconds, clock)
    assert not Deadline.from_now(REACH // 1000, clock).is_never()
    for clock in (stopped_clock()[1], clock_of(ServerTime()), MONOTONIC):
        for seconds in (10**16, 10**18, 1e20, 10**30):
            raises(ValueError, Deadline.from_now, seconds, clock)


def test_what_is_refused_for_one_clock_is_exact_on_a_wider_one() -> None:
    _, clock = stopped_clock(0)
    for days in (7, 400, 5_000_000):
        assert Deadline.from_now(days * 86_400, clock).to_wire(0) == days * 86_400_000


def test_never_is_not_refused_on_any_clock() -> None:
    for clock in (chip()[1], clock_of(ServerTime()), stopped_clock()[1]):
        assert Deadline.never(clock).is_never()
        assert Deadline.from_now(INFINITY, clock).is_never()
        assert Deadline.from_wire(None, clock).is_never()


def test_this_machines_clock_only_goes_forward() -> None:
    seen = [MONOTONIC.read() for _ in range(100)]
    assert seen == sorted(seen)
    assert type(seen[0]) is int
    assert MONOTONIC.reach_ms >= REACH


def test_this_machines_instants_are_those_of_its_own_monotonic_clock() -> None:
    if hasattr(time, "monotonic"):
        before = time.monotonic()
        at = Deadline.from_now(0).instant
        assert before - 0.001 <= at <= time.monotonic()


def test_seconds_are_taken_to_the_nearest_millisecond() -> None:
    for seconds, ms in (
        (0, 0),
        (1, 1000),
        (1.5, 1500),
        (0.25, 250),
        (0.0004, 0),
        (0.0006, 1),
        (0.0625, 62),
        (12.3, 12300),
        (0.1 + 0.2, 300),
        (10**9, 10**12),
    ):
        assert in_ms("wait", seconds) == ms, seconds
        assert type(in_ms("wait", seconds)) is int, seconds


def test_infinity_is_no_number_of_milliseconds() -> None:
    assert in_ms("wait", INFINITY) is None


def test_below_zero_is_zero_where_that_is_allowed() -> None:
    for seconds in (-1, -0.001, -1e30, -(10**30), -INFINITY):
        assert in_ms("wait", seconds, -INFINITY) == 0, seconds


def test_what_is_below_the_least_is_refused_by_name() -> None:
    for seconds in (-1, -0.001, -INFINITY):
        text = str(raises(ValueError, in_ms, "wait", seconds))
        assert "wait must be a number of seconds >= 0, not -" in text, text


def test_what_is_no_number_of_seconds_is_refused_by_name() -> None:
    for least in (0, -INFINITY):
        for value in NO_NUMBERS + (NAN,):
            text = str(raises(ValueError, in_ms, "wait", value, least))
            assert "wait must be a number of seconds" in text, text
            assert repr(value) in text, text
    assert ">=" not in str(raises(ValueError, in_ms, "wait", NAN, -INFINITY))
