"""`microbudget doctor`."""

from pathlib import Path

import pytest

from tests.cli.ops_ledger import make_ledger, printed, printed_json


def test_each_check_has_a_line_and_its_fix(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = make_ledger(tmp_path)
    (tmp_path / "ledger.db").chmod(0o640)
    said = printed(capsys, "doctor", "--ledger", url)
    assert "ok       engine      SQLite" in said
    assert "warning  files" in said
    assert f"fix: chmod 600 {tmp_path / 'ledger.db'}" in said


def test_the_exit_code_is_1_if_a_check_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from budget_cpython.cli import main

    assert main(["doctor", "--ledger", f"sqlite:{tmp_path / 'none.db'}"]) == 1
    assert "fails    engine" in capsys.readouterr().out


def test_json_names_the_checks_and_no_password(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = printed_json(capsys, "doctor", "--ledger", make_ledger(tmp_path))
    assert said["ok"]
    assert said["checks"][0]["check"] == "engine"
    assert set(said["checks"][0]) == {"check", "result", "found", "fix"}
