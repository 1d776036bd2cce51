"""The report of a board's budget, also where parts of it are unknown."""

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.board.tables import report_lines
from tests.board.emulator.noon import AHEAD_S

from .support import HEAP, Cli, damage, spend, status, write


def test_status_says_what_the_device_holds(cli: Cli) -> None:
    spend(cli.board, 1234)
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() + AHEAD_S))
    said = cli("status")
    assert said.code == 0
    rows = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert rows["spent"] == "1,234 tokens of 50,000"
    assert rows["left"] == "48,766 tokens"
    assert rows["day"] == day
    assert rows["slots"].startswith("newest, empty")
    assert rows["resets"].endswith(" 00:00 UTC")
    assert rows["clock"] == "trusted"
    assert len({line.index(line.split()[1]) for line in said.out.splitlines()}) == 1


def test_as_json_it_says_the_same(cli: Cli) -> None:
    spend(cli.board, 1234)
    found = status(cli)
    assert (found["spent"], found["left"], found["cap"]) == (1234, 48766, 50000)
    assert found["slots"] == ["newest", "empty", "empty"]
    assert found["error"] is None


def test_a_damaged_state_is_an_exit_code_of_1(cli: Cli) -> None:
    spend(cli.board, 1234)
    damage(cli)
    said = cli("status")
    assert said.code == 1
    rows = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert rows["spent"] == "50,000 tokens of 50,000"
    assert set(rows["slots"].split(", ")) == {"damaged"}
    assert "/budget" in rows["damaged"]
    assert cli("status", "--json").code == 1


def test_with_nothing_deployed_it_says_so(new_cli: Cli) -> None:
    said = new_cli("status")
    assert said.code == 1
    assert said.out == ""
    assert "has no microbudget" in said.err
    assert "`microbudget board deploy BOARD` copies it" in said.err


def test_a_deploy_that_was_interrupted_is_to_be_repeated(cli: Cli) -> None:
    with BoardConnection(cli.board.port) as connection:
        connection.run(
            "import os\nos.rename('/main.py', '/main.py.off')\nos.remove('/settings.py')"
        )
    said = cli("status")
    assert said.code == 1
    assert "was interrupted: repeat it, `microbudget board deploy BOARD`" in said.err
    write(cli.board, "/deployed.py", "BOARD = 'esp32_s3'")
    assert "repeat it, `microbudget board deploy esp32_s3`" in cli("status").err


def test_an_unknown_date_is_not_shown() -> None:
    report: dict[str, Any] = {
        "spent": 0, "ahead": 0, "left": 5, "cap": 5, "day": 0, "resets_at": 86_400,
        "slots": ["empty"] * 3, "error": None, "trusted": False,
    }  # fmt: skip
    assert "day     not known" in report_lines(report)
    assert "resets  not known" in report_lines(report)
    assert "day     not known; the count of 1970-01-03 continues" in report_lines(
        report | {"day": 2}
    )
    assert "day     1970-01-03" in report_lines(report | {"day": 2, "trusted": True})


def test_a_board_with_an_unset_clock_shows_no_date(
    deployed_flash: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flash = tmp_path / "flash.img"
    shutil.copy(deployed_flash, flash)
    with UnixBoard(flash, heap=HEAP, clock="unset") as board:
        cli = Cli(board, capsys)
        rows = dict(line.split(maxsplit=1) for line in cli("status").out.splitlines())
    assert (rows["day"], rows["resets"]) == ("not known", "not known")
    assert rows["clock"].startswith("not trusted")
