"""`microbudget history` and `microbudget suggest`."""

from pathlib import Path

import pytest

from budget_cpython import Limit, SqliteLedger, parse_limits
from budget_cpython.wall_clock import WALL
from tests.cli.ops_ledger import printed, printed_json
from tests_micro.support import FakeClock

DAY = 86_400


def ledger_of_days(folder: Path, days: int) -> str:
    """Make a ledger that spent 100 calls and one more each day; its last day is next week."""
    path = folder / "days.db"
    clock = FakeClock((int(WALL()) // DAY + 7 - days) * DAY + 100)
    with SqliteLedger(path, clock=clock) as ledger:
        ledger.set_limits("org/a", [Limit("calls", 1000, "day"), Limit("tokens", 5)])
        for day in range(days + 1):
            ledger.charge("org/a", {"calls": 100 + day})
            clock.now += DAY
    return f"sqlite:{path}"


def test_past_windows_are_a_line_and_a_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = ledger_of_days(tmp_path, 12)
    said = printed(capsys, "history", "org/a", "--windows", "3", "--ledger", url).splitlines()
    assert said[0] == "org/a"
    assert said[2].startswith("1000 calls/day  ")
    assert len(said[2].split("  ")[1]) == 13
    assert said[3] == "12 windows before this one, highest 111, median 105"
    assert [line.split()[-4:-2] for line in said[5:9]] == [
        ["112", "1,000"],
        ["111", "1,000"],
        ["110", "1,000"],
        ["109", "1,000"],
    ]
    assert "(now)" in said[5]


def test_a_rolling_window_has_its_buckets(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    clock = FakeClock(int(WALL()) // DAY * DAY)
    with SqliteLedger(tmp_path / "rate.db", clock=clock) as ledger:
        ledger.set_limits("org/a", parse_limits("50 calls/10min"))
        for calls in (3, 9, 4):
            ledger.charge("org/a", {"calls": calls})
            clock.now += 60
    url = f"sqlite:{tmp_path / 'rate.db'}"
    said = printed(capsys, "history", "org/a", "--ledger", url).splitlines()
    assert said[3].split(", ")[:2] == ["3 buckets", "highest 9"]
    assert said[4].startswith("BUCKET BEGAN")


def test_json_has_all_windows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = printed_json(capsys, "history", "org/a", "--ledger", ledger_of_days(tmp_path, 12))
    assert [one["now"]["axis"] for one in said] == ["calls", "tokens"]
    assert [row["spent"] for row in said[0]["past"]] == list(range(111, 99, -1))


def test_an_account_without_limits_of_its_own_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = ledger_of_days(tmp_path, 1)
    assert "no limits of its own" in printed(capsys, "history", "org/a/b", "--ledger", url, code=2)
    assert "no account" in printed(capsys, "history", "other", "--ledger", url, code=1)


def test_limits_are_suggested_with_what_they_would_have_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = ledger_of_days(tmp_path, 30)
    (one,) = printed_json(capsys, "suggest", "--ledger", url)
    assert (one["account"], one["axis"], one["window"]) == ("org/a", "calls", "day")
    assert (one["windows"], one["highest"], one["suggested"]) == (30, 129, 160)
    assert one["refused"] == 0
    said = printed(capsys, "suggest", "org", "--headroom", "1", "--ledger", url)
    assert "--toml prints them" in said
    assert "1000 calls/day" in said
    assert "nothing" in said


def test_suggested_limits_can_be_imported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url, file = ledger_of_days(tmp_path, 30), tmp_path / "limits.toml"
    file.write_text(printed(capsys, "suggest", "--toml", "--ledger", url))
    printed(capsys, "limits", "import", str(file), "--yes", "--ledger", url)
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        assert set(ledger.limits("org/a")) == set(parse_limits("160 calls/day + 5 tokens"))


def test_too_little_history_suggests_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "too little" in printed(capsys, "suggest", "--ledger", ledger_of_days(tmp_path, 3))
