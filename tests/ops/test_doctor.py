"""The checks of a ledger and of a machine."""

import os
from pathlib import Path

import pytest

from budget_cpython import Limit, SqliteLedger
from budget_cpython.finding import Finding, Result
from budget_cpython.ops.doctor import examine
from budget_cpython.ops.doctor.engine import compare_clocks
from budget_cpython.web.keys import KeyFile

LATER = 1 << 40  # no file was written after it
NAMES = ["engine", "clock", "durability", "files", "keys", "prices", "versions"]


def ledger_in(folder: Path) -> Path:
    path = folder / "ledger.db"
    with SqliteLedger(path) as ledger:
        ledger.set_limits("org", [Limit("calls", 5)])
    return path


def found(path: Path, now: int = LATER, keys: str | None = None) -> dict[str, Finding]:
    return dict(examine(f"sqlite:{path}", now, {}, keys))


def test_a_ledger_that_is_well_has_no_finding(tmp_path: Path) -> None:
    findings = found(ledger_in(tmp_path))
    assert list(findings) == NAMES
    assert {findings[name].result for name in ("engine", "clock", "files", "versions")} == {
        Result.OK
    }
    assert "1 account" in findings["engine"].found
    assert findings["durability"].result in (
        Result.OK,
        Result.WARNING,
    )  # tests may be on tmpfs


def test_without_an_answer_of_the_engine_its_other_checks_are_not_run(tmp_path: Path) -> None:
    findings = found(tmp_path / "none.db")
    assert findings["engine"].result is Result.FAILS
    assert "limits set" in (findings["engine"].fix or "")
    assert {findings[name].result for name in NAMES[1:4]} == {Result.NOT_RUN}
    assert not (tmp_path / "none.db").exists()


def test_a_file_that_is_no_ledger_fails(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("no ledger at all, and long enough to have a header of a hundred bytes " * 9)
    assert found(path)["engine"].result is Result.FAILS


def test_files_that_others_may_read_are_a_warning(tmp_path: Path) -> None:
    path = ledger_in(tmp_path)
    path.chmod(0o644)
    finding = found(path)["files"]
    assert (finding.result, finding.fix) == (Result.WARNING, f"chmod 600 {path}")


def test_a_folder_that_others_may_write_fails(tmp_path: Path) -> None:
    path = ledger_in(tmp_path)
    tmp_path.chmod(0o777)
    try:
        finding = found(path)["files"]
    finally:
        tmp_path.chmod(0o700)
    assert (finding.result, finding.fix) == (Result.FAILS, f"chmod go-w {tmp_path}")


def test_a_clock_behind_the_file_is_a_warning(tmp_path: Path) -> None:
    path = ledger_in(tmp_path)
    written = int(os.stat(path).st_mtime)
    assert found(path, written - 30)["clock"].result is Result.OK
    assert found(path, written - 3600)["clock"].result is Result.WARNING


@pytest.mark.parametrize(("off", "said"), [(60, "60 s ahead of"), (-3600, "3,600 s behind")])
def test_clocks_that_differ_are_a_warning(off: int, said: str) -> None:
    finding = compare_clocks(1000.0 + off, 1000, "the server's")
    assert finding.result is Result.WARNING
    assert said in finding.found
    assert compare_clocks(1004.6, 1000, "the server's").result is Result.OK


def test_a_file_of_keys_is_examined(tmp_path: Path) -> None:
    ledger, keys = ledger_in(tmp_path), tmp_path / "keys.json"
    assert found(ledger)["keys"].result is Result.NOT_RUN
    assert found(ledger, keys=str(keys))["keys"].result in (Result.WARNING, Result.FAILS)
    KeyFile(keys).add("pico", "org", ["read"])
    assert found(ledger, keys=str(keys))["keys"].result is Result.OK
    keys.write_text("{")
    assert found(ledger, keys=str(keys))["keys"].result is Result.FAILS


def test_an_unknown_url_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with"):
        list(examine("ftp://host", LATER, {}))
