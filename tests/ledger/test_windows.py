"""Windows of named time zones, on days when clocks are changed and on all others."""

import os
import re
import subprocess
import sys
import zoneinfo
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_core.ledger import window as core_window
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.windows import parse_window
from tests.paths import ROOT
from tests.properties import examples

HOUR = 3_600_000
ZONES = (
    "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Asia/Kathmandu", "Pacific/Apia",
    "Australia/Lord_Howe", "America/St_Johns", "America/Sao_Paulo", "Africa/Casablanca",
    "Antarctica/Troll", "Asia/Beirut", "Pacific/Kiritimati", "Etc/GMT+12",
)  # fmt: skip
UNITS = ("hour", "day", "day@2", "day@5", "day@23", "week", "week@3 sunday", "month", "month@1")


def ms(text: str) -> int:
    """Return the Unix milliseconds of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1000


def span(window: str, now: str) -> tuple[str, str]:
    """Return from when until when the window of a moment is, in UTC."""
    _, start, end = parse_window(window).bounds(ms(now))
    both = [
        datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M") for at in (start, end)
    ]
    return both[0], both[1]


@pytest.mark.parametrize(
    ("window", "now", "start", "end"),
    [
        ("day Europe/Berlin", "2026-03-02 12:00", "2026-03-01 23:00", "2026-03-02 23:00"),
        ("day Europe/Berlin", "2026-07-02 12:00", "2026-07-01 22:00", "2026-07-02 22:00"),
        ("day@5 Europe/Berlin", "2026-03-02 03:59", "2026-03-01 04:00", "2026-03-02 04:00"),
        ("day@5 Europe/Berlin", "2026-03-02 04:00", "2026-03-02 04:00", "2026-03-03 04:00"),
        ("hour Europe/Berlin", "2026-03-02 12:34", "2026-03-02 12:00", "2026-03-02 13:00"),
        ("hour Asia/Kolkata", "2026-03-02 12:34", "2026-03-02 12:30", "2026-03-02 13:30"),
        ("day Asia/Kathmandu", "2026-03-02 12:00", "2026-03-01 18:15", "2026-03-02 18:15"),
        ("week@5 sunday", "2026-03-01 04:59", "2026-02-22 05:00", "2026-03-01 05:00"),
        ("week@5 sunday", "2026-03-01 05:00", "2026-03-01 05:00", "2026-03-08 05:00"),
        ("week saturday", "2026-03-06 23:59", "2026-02-28 00:00", "2026-03-07 00:00"),
        (
            "week sunday America/New_York",
            "2026-03-08 04:59",
            "2026-03-01 05:00",
            "2026-03-08 05:00",
        ),
        (
            "week sunday America/New_York",
            "2026-03-08 05:00",
            "2026-03-08 05:00",
            "2026-03-15 04:00",
        ),
        ("month@3 Asia/Kolkata", "2026-02-28 21:29", "2026-01-31 21:30", "2026-02-28 21:30"),
        ("month@3 Asia/Kolkata", "2026-02-28 21:30", "2026-02-28 21:30", "2026-03-31 21:30"),
        ("month America/New_York", "2026-03-31 12:00", "2026-03-01 05:00", "2026-04-01 04:00"),
    ],
)
def test_a_window_begins_by_the_clock_of_its_zone(
    window: str, now: str, start: str, end: str
) -> None:
    assert span(window, now) == (start, end)


def test_the_day_the_clock_is_put_forward_has_23_hours() -> None:
    day = ("2026-03-28 23:00", "2026-03-29 22:00")
    for now in ("2026-03-28 23:00", "2026-03-29 00:59", "2026-03-29 01:00", "2026-03-29 21:59"):
        assert span("day Europe/Berlin", now) == day


def test_the_day_the_clock_is_put_back_has_25_hours() -> None:
    day = ("2026-10-24 22:00", "2026-10-25 23:00")
    for now in ("2026-10-24 22:00", "2026-10-25 00:30", "2026-10-25 01:30", "2026-10-25 22:59"):
        assert span("day Europe/Berlin", now) == day


def test_a_reset_the_clock_jumps_over_takes_place_when_it_jumps() -> None:
    # New York goes from 02:00 to 03:00, at 07:00 UTC.
    assert span("day@2 America/New_York", "2026-03-08 06:59")[1] == "2026-03-08 07:00"
    assert span("day@2 America/New_York", "2026-03-08 07:00") == (
        "2026-03-08 07:00", "2026-03-09 06:00",
    )  # fmt: skip
    # Troll went from 01:00 to 03:00, at 01:00 UTC: its two o'clock is in the middle of the gap.
    assert span("day@2 Antarctica/Troll", "2026-03-29 00:59")[1] == "2026-03-29 01:00"
    assert span("day@2 Antarctica/Troll", "2026-03-29 01:00")[0] == "2026-03-29 01:00"


def test_a_reset_that_comes_twice_takes_place_at_the_first() -> None:
    # Berlin goes from 03:00 back to 02:00, at 01:00 UTC.
    assert span("day@2 Europe/Berlin", "2026-10-24 23:59")[1] == "2026-10-25 00:00"
    for now in ("2026-10-25 00:00", "2026-10-25 00:59", "2026-10-25 01:00", "2026-10-25 01:30"):
        assert span("day@2 Europe/Berlin", now) == ("2026-10-25 00:00", "2026-10-26 01:00")


def test_a_clock_that_goes_back_over_midnight_begins_no_day_again() -> None:
    # St John's went from 00:01 back to 23:01 of the day before, at 02:31 UTC.
    for now in ("2006-10-29 02:30", "2006-10-29 02:31", "2006-10-29 03:00", "2006-10-29 03:30"):
        assert span("day America/St_Johns", now) == ("2006-10-29 02:30", "2006-10-30 03:30")


def test_the_hour_that_comes_twice_is_one_of_two() -> None:
    for now in ("2026-10-25 00:10", "2026-10-25 01:10"):
        assert span("hour Europe/Berlin", now) == ("2026-10-25 00:00", "2026-10-25 02:00")
    # Lord Howe goes from 02:00 back to 01:30.
    assert span("hour Australia/Lord_Howe", "2026-04-04 15:10") == (
        "2026-04-04 14:00", "2026-04-04 15:30",
    )  # fmt: skip


def test_a_day_the_clock_leaves_out_is_none() -> None:
    # Samoa went from the end of the 29th to the 31st of December 2011, at 10:00 UTC on the 30th.
    assert span("day Pacific/Apia", "2011-12-30 09:59") == ("2011-12-29 10:00", "2011-12-30 10:00")
    assert span("day Pacific/Apia", "2011-12-30 10:00") == ("2011-12-30 10:00", "2011-12-31 10:00")
    assert span("day@5 Pacific/Apia", "2011-12-30 09:59")[1] == "2011-12-30 10:00"
    assert span("day@5 Pacific/Apia", "2011-12-30 10:00") == (
        "2011-12-30 10:00", "2011-12-30 15:00",
    )  # fmt: skip


windows = st.one_of(
    st.builds(lambda unit, zone: f"{unit} {zone}", st.sampled_from(UNITS), st.sampled_from(ZONES)),
    st.sampled_from(["week sunday", "week@5 saturday", "day@7", "month", "rolling 86400/24"]),
)
moments = st.integers(ms("1971-02-01 00:00"), ms("2110-01-01 00:00"))


@examples(150)
@given(windows, moments)
def test_a_window_contains_its_moment_and_touches_the_next(name: str, now: int) -> None:
    window = parse_window(name)
    _, start, end = window.bounds(now)
    assert start <= now < end
    assert window.bounds(start)[1:] == window.bounds(end - 1)[1:] == (start, end)
    assert window.bounds(end)[1] == end
    assert window.bounds(start - 1)[2] == start


@examples(100)
@given(st.sampled_from(ZONES), st.integers(0, 23), moments)
def test_a_day_begins_at_the_first_moment_of_its_reset_hour(zone: str, hour: int, now: int) -> None:
    _, start, _ = parse_window(f"day@{hour} {zone}").bounds(now)
    clock = zoneinfo.ZoneInfo(zone)
    at = datetime.fromtimestamp(start / 1000, clock)
    before = datetime.fromtimestamp(start / 1000 - 1, clock)
    jumped = at.replace(tzinfo=None) - before.replace(tzinfo=None) > timedelta(seconds=1)
    assert jumped or (at.hour, at.minute, at.second) == (hour, 0, 0)


@examples(60)
@given(st.sampled_from(UNITS[:5] + ("week", "week@9", "month", "month@7")), moments)
def test_a_zone_that_is_utc_is_the_cores_window(unit: str, now: int) -> None:
    wanted = core_window.parse_window(unit).bounds(now)
    assert parse_window(unit + " Etc/GMT").bounds(now) == wanted
    assert parse_window(unit + " UTC").bounds(now) == wanted


def test_each_window_has_one_name() -> None:
    names = {
        "day": "day", "day@0": "day", "day UTC": "day", "day@0 UTC": "day", "week monday": "week",
        "week@5 monday UTC": "week@5", "week@0 sunday UTC": "week sunday",
        "day@0 Europe/Berlin": "day Europe/Berlin", "hour Europe/Berlin": "hour Europe/Berlin",
        "week@5 sunday Europe/Berlin": "week@5 sunday Europe/Berlin", "run": "run",
        "week@5 monday Europe/Berlin": "week@5 Europe/Berlin", "rolling 60/6": "rolling 60/6",
    }  # fmt: skip
    for name, canonical in names.items():
        assert parse_window(name).name == canonical
        assert parse_window(canonical).name == canonical


@pytest.mark.parametrize(
    "name",
    [
        "", "days", "Day Europe/Berlin", "day  Europe/Berlin", "day Europe/Berlin ", "day sunday",
        "month monday", "hour@5 Europe/Berlin", "day@24 Europe/Berlin", "day@05 Europe/Berlin",
        "run Europe/Berlin", "rolling 60/6 Europe/Berlin", "week Sunday@5",
        "week Europe/Berlin sunday", "day ../../etc/passwd", "day .", "day \n", 5, None, ["day"],
    ],
)  # fmt: skip
def test_any_other_name_is_refused_and_the_grammar_shown(name: object) -> None:
    with pytest.raises(ValueError, match=r"^window must be 'run'.*'week@5 sunday Europe/Berlin'"):
        parse_window(name)


@pytest.mark.parametrize(
    "name", ["day Mars/Phobos", "day Europe", "week funday", "day a//b", "week sunday monday"]
)
def test_an_unknown_zone_is_refused_by_name(name: str) -> None:
    zone = re.escape(repr(name.split()[-1]))
    with pytest.raises(ValueError, match=f"time zone, such as Europe/Berlin, not {zone}"):
        parse_window(name)


def test_a_machine_without_time_zones_says_what_to_install() -> None:
    code = """
import sys
sys.modules["tzdata"] = None
from budget_cpython.ledger.windows import parse_window
assert parse_window("day").name == "day"
parse_window("day Europe/Berlin")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=dict(os.environ, PYTHONTZPATH=""),
        capture_output=True, text=True,
    )  # fmt: skip
    assert "nor 'Europe/Berlin': pip install tzdata" in done.stderr.splitlines()[-1]


def test_a_time_no_calendar_reaches_still_has_a_window() -> None:
    for now in (ms("9999-12-31 12:00"), 1 << 50, 1 << 52):
        _, start, end = parse_window("day Europe/Berlin").bounds(now)
        assert start <= now < end
        assert end - start in (23 * HOUR, 24 * HOUR, 25 * HOUR)


def test_a_clock_without_a_date_has_no_zone() -> None:
    for name in ("day", "day Europe/Berlin", "week sunday"):
        assert parse_window(name).bounds(0) == (0, 0, core_window.NO_DATE)


def test_a_ledger_takes_a_window_of_a_zone() -> None:
    now = ms("2026-10-24 21:59") // 1000
    ledger = Ledger(lambda: now)
    ledger.set_limits("org", [Limit("calls", 1, "day@0 Europe/Berlin")])
    ledger.charge("org", {"calls": 1})
    (row,) = ledger.balance("org")
    assert (row.window, row.resets_at) == ("day Europe/Berlin", now + 60)
    now += 60
    (row,) = ledger.balance("org")
    assert (row.spent, row.resets_at) == (0, now + 25 * 3600)
