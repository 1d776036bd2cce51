"""`microbudget report`: its times, formats and files."""

import json
from pathlib import Path

import pytest

from budget_cpython import SqliteLedger
from budget_cpython.cli import main
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage
from budget_cpython.wall_clock import WALL
from tests.cli.ops_ledger import make_ledger, printed


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Return the URL of a ledger with the usage of this hour."""
    found = make_ledger(tmp_path)
    hour = int(WALL()) // HOUR_S * HOUR_S
    amounts = {"nano_usd": 1_234_500_000, "tokens": 5_000, "calls": 3}
    with SqliteLedger(found.removeprefix("sqlite:")) as ledger:
        ledger.add_usage([HourOfUsage(hour, "acme/research/ann", "o4\x1b[31m", "", amounts)])
    return found


def test_a_table_is_shown_without_a_format(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = printed(capsys, "report", "--ledger", url, "--since", "2h").splitlines()
    assert said[-2].split() == ["ACCOUNT", "MODEL", "SPENT", "TOKENS", "CALLS"]
    assert said[-1].split() == ["acme/research/ann", "o4\\x1b[31m", "$1.23", "5,000", "3"]


def test_calls_of_tools_have_a_column_where_there_are_some(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hour = int(WALL()) // HOUR_S * HOUR_S
    with SqliteLedger(url.removeprefix("sqlite:")) as ledger:
        ledger.add_usage([HourOfUsage(hour, "acme", "", "search", {"tool_calls": 7})])
    said = printed(capsys, "report", "--ledger", url, "--since", "2h", "--by", "tool").splitlines()
    assert said[-3].split() == ["TOOL", "SPENT", "TOKENS", "CALLS", "TOOL", "CALLS"]
    assert said[-2].split()[-2:] == ["3", "0"]
    assert said[-1].split() == ["search", "$0.00", "0", "0", "7"]


def test_a_folder_that_is_missing_is_told_by_the_files_own_name(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "missing" / "r.csv"
    assert main(["report", "--ledger", url, "--output", str(file)]) == 1
    said = capsys.readouterr().err
    assert said == f"error: cannot write {str(file)!r}: No such file or directory\n"


@pytest.mark.parametrize(
    ("name", "begins"), [("r.html", "<!doctype"), ("r.csv", "account,"), ("r.json", '{"path"')]
)
def test_the_files_name_tells_the_format(
    url: str, tmp_path: Path, name: str, begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text("an earlier report")
    assert main(["report", "--ledger", url, "--output", str(file)]) == 0
    assert file.read_text().startswith(begins)
    assert capsys.readouterr().err == f"wrote {file}\n"


def test_a_file_in_the_current_folder_needs_no_path(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", "--ledger", url, "--output", "here.csv"]) == 0
    assert (tmp_path / "here.csv").read_text().startswith("account,")


def test_json_and_focus_go_to_standard_output(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(printed(capsys, "report", "acme", "--ledger", url, "--json"))
    assert found["total"]["nano_usd"] == 1_234_500_000
    said = printed(capsys, "report", "--ledger", url, "--format", "focus")
    assert said.startswith("AvailabilityZone,BilledCost,")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--since", "yesterday"], "--since must be like 90min"),
        (["--since", "2026-13-01"], "--since must be like 90min"),
        (["--since", "1h", "--until", "2h"], "must be before --until"),
        (["--by", "modell"], "one of account, model, tool, hour, day"),
        (["--output", "report.txt"], "give --format html|csv|json|focus"),
        (["--json", "--format", "csv"], "exclude each other"),
    ],
)
def test_bad_input_is_a_usage_error(
    url: str, arguments: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--ledger", url, *arguments]) == 2
    assert reason in capsys.readouterr().err
