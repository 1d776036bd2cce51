"""A table of the budgets of all boards; one that does not answer stops none of the others."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from budget_cpython.board import PORT_VARIABLE, connection
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.board.tables import boards_table
from tests.board.emulator.noon import NoonBoard

from .support import HEAP, Cli, damage, pseudo_terminal, runs, spend

HEAD = ["port", "board", "spent", "limit", "left", "resets", "clock"]


@pytest.fixture
def boards(tmp_path: Path, deployed_flash: Path) -> Iterator[list[UnixBoard]]:
    """Two boards that are on, with 1,234 and 50,000 tokens spent."""
    with ExitStack() as stack:
        on: list[UnixBoard] = []
        for number, tokens in enumerate((1234, 50_000)):
            shutil.copy(deployed_flash, tmp_path / f"{number}.img")
            on.append(stack.enter_context(NoonBoard(tmp_path / f"{number}.img", heap=HEAP)))
            spend(on[-1], tokens)
        yield on


@pytest.fixture
def cli(
    boards: list[UnixBoard],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Cli:
    """The command line, with the ports of both boards in the environment."""
    monkeypatch.setenv(PORT_VARIABLE, ", ".join(board.port for board in boards))
    return Cli(boards[0], capsys)


def test_a_table_has_a_line_for_each_board(cli: Cli, boards: list[UnixBoard]) -> None:
    said = cli.bare("status", "--all")
    assert (said.code, said.err) == (0, "")
    head, first, second = (line.split() for line in said.out.splitlines())
    assert head == HEAD
    assert first[:5] == [boards[0].port, "mine", "1,234", "50,000", "48,766"]
    assert second[:5] == [boards[1].port, "mine", "50,000", "50,000", "0"]
    assert first[-1] == second[-1] == "trusted"
    assert first[5:-1] == second[5:-1]
    assert "UTC" in first
    lines = said.out.splitlines()
    assert len({line.index(line.split()[-1]) for line in lines}) == 1
    assert all(runs(board) for board in boards)


def test_as_json_it_is_a_list(cli: Cli, boards: list[UnixBoard]) -> None:
    said = cli.bare("status", "--all", "--json")
    assert said.code == 0
    assert said.out.count("\n") == 1
    found = json.loads(said.out)
    assert [board["port"] for board in found] == [board.port for board in boards]
    assert [board["spent"] for board in found] == [1234, 50_000]
    assert [board["error"] for board in found] == [None, None]


def test_repeated_ports_override_the_environment(cli: Cli, boards: list[UnixBoard]) -> None:
    port = boards[1].port
    said = cli.bare("status", "--all", "--json", "--port", port, "--port", port)
    assert [board["spent"] for board in json.loads(said.out)] == [50_000]


def test_a_board_that_does_not_answer_stops_no_other(
    cli: Cli, boards: list[UnixBoard], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pseudo_terminal() as (_, theirs):
        ports = ["/dev/nowhere", boards[0].port, os.ttyname(theirs), boards[1].port]
        monkeypatch.setenv(PORT_VARIABLE, ",".join(ports))
        monkeypatch.setattr(connection, "ANSWER_S", (1, 1, 1))
        said = cli.bare("status", "--all")
        assert said.code == 1
        lines = said.out.splitlines()
        assert [line.split()[0] for line in lines[:3]] == ["port", boards[0].port, boards[1].port]
        assert lines[3].startswith("/dev/nowhere: error: there is no port '/dev/nowhere'")
        assert lines[4].startswith(f"{ports[2]}: error: no MicroPython answers at {ports[2]}")
        found = json.loads(cli.bare("status", "--all", "--json").out)
        assert [board["port"] for board in found] == ports
        assert ["spent" in board for board in found] == [False, True, False, True]


def test_a_damaged_state_is_an_error_beside_its_line(cli: Cli, boards: list[UnixBoard]) -> None:
    damage(cli)
    said = cli.bare("status", "--all")
    assert said.code == 1
    lines = said.out.splitlines()
    assert lines[1].split()[:5] == [boards[0].port, "mine", "50,000", "50,000", "0"]
    assert lines[3].startswith(f"{boards[0].port}: error: budget state '/budget' is damaged")


def test_all_serial_ports_are_taken_where_none_is_named(
    cli: Cli, boards: list[UnixBoard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PORT_VARIABLE)
    monkeypatch.setattr(connection, "serial_ports", lambda: {board.port: "" for board in boards})
    assert len(cli.bare("status", "--all").out.splitlines()) == 3
    monkeypatch.setattr(connection, "serial_ports", dict)
    said = cli.bare("status", "--all")
    assert said.code == 2
    assert "no serial port found" in said.err


def test_without_all_one_port_is_wanted(cli: Cli, boards: list[UnixBoard]) -> None:
    said = cli.bare("status")
    assert said.code == 2
    assert f"several serial ports: {boards[0].port}, {boards[1].port}" in said.err
    said = cli.bare("status", "--port", boards[0].port, "--port", boards[1].port)
    assert said.code == 2
    assert "--port was given 2 times: give one, or --all for a table" in said.err


def test_what_is_not_known_is_said_so() -> None:
    report = {
        "port": "/dev/x", "board": None, "spent": 5, "cap": None, "left": None, "resets_at": 0,
        "trusted": False, "error": None,
    }  # fmt: skip
    line = " ".join(boards_table([report])[1].split())
    assert line == "/dev/x not known 5 none no limit not known not trusted"
