"""A day that goes on after a restart, on either runtime."""

from pathlib import Path

import pytest

from .play import play


def test_a_restart_continues_the_day(runtime: str, tmp_path: Path) -> None:
    days = [play(runtime, tmp_path, "day")["day"] for _ in range(3)]
    assert [(day["before"], day["after"]) for day in days] == [(0, 200), (200, 400), (400, 600)]


def test_a_restart_repeats_no_warning_and_no_hook(runtime: str, tmp_path: Path) -> None:
    days = [play(runtime, tmp_path, "day")["day"] for _ in range(3)]
    assert [day["notices"] for day in days] == [
        ["user: [warning] 33% of the daily: 100/300 tokens"],
        ["user: [cutoff] 100% of the daily: 300/300 tokens"],
        [],
    ]
    spend = {"scope": "daily", "cap": 300, "unit": "tokens"}
    crossed = {**spend, "threshold": 0.3, "utilization": pytest.approx(1 / 3), "used": 100}
    reached = {**spend, "utilization": 1.0, "used": 300}
    assert [day["crossed"] for day in days] == [[crossed], [], []]
    assert [day["reached"] for day in days] == [[], [reached], []]


def test_a_day_begun_on_one_runtime_goes_on_on_the_other(runtime: str, tmp_path: Path) -> None:
    other = {"cpython": "micropython", "micropython": "cpython"}[runtime]
    play(runtime, tmp_path, "day")
    day = play(other, tmp_path, "day")["day"]
    assert (day["before"], day["after"]) == (200, 400)
    assert day["crossed"] == []
