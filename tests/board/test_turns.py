"""A board from a deploy to its turns, over power cuts: real programs, flash and firmware.

Heaps are those of a chip, the unix board's own programs included, which take some 7 KB of it; a
64-bit port needs twice the bytes for the same.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from benchmarks.mpy import find_micropython32
from budget_core.ledger.limit import Limit
from budget_cpython.board.build import Form
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.board.fit import LEDGER_KIB, TURN_KIB
from budget_cpython.board.known_boards import find_board
from budget_cpython.cli import main
from budget_cpython.ledger.http import HttpLedger
from scripted_model import ScriptedEndpoint
from tests.board.emulator.client import PATIENCE, Terminal, mpremote
from tests.board.emulator.noon import NoonBoard
from tests.serve.support import Service

PROMPT = b"\n> "
WRITE_AHEAD = 4_000  # of boards/unix/settings.py
QUESTION = b"What is left to do?\r"
SHORT_DAY = 5_000  # it nears its end in the second turn, and the third is refused


class Served(ScriptedEndpoint):
    """An endpoint that tells the tokens of its answers once."""

    seen = 0

    def taken(self) -> list[int]:
        """Return what was used since the last time."""
        used = [answer.usage for answer in self.answers[self.seen :] if answer.usage]
        self.seen += len(used)
        return [usage.prompt + usage.completion for usage in used]


@pytest.fixture
def endpoint() -> Iterator[Served]:
    endpoint = Served()
    with endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def micropython32() -> str:
    """A MicroPython whose pointers are as long as a chip's."""
    found = find_micropython32()
    if found is None:
        pytest.skip("there is no 32-bit MicroPython for this machine")
    return found


def short_day(folder: Path, ledger: str = "") -> Path:
    """Return a board with a day that is over after two turns, and maybe a ledger's URL."""
    mine = folder / "mine"
    mine.mkdir()
    for source in find_board("unix").glob("*.py"):
        text = source.read_text().replace("DAILY_BUDGET = 50_000", f"DAILY_BUDGET = {SHORT_DAY}")
        text = text.replace(f"WRITE_AHEAD = {WRITE_AHEAD:_}", "WRITE_AHEAD = 200")
        (mine / source.name).write_text(text.replace('LEDGER = ""', f'LEDGER = "{ledger}"'))
    return mine


def set_up(
    board: UnixBoard, form: str, endpoint: Served, folder: Path, program: str | Path = "unix"
) -> None:
    """Deploy the agent program, secrets and two notes."""
    secret = folder / "secret.py"
    secret.write_text(f'API_KEY = ""\nBASE_URL = "{endpoint.base_url}"\nMODEL = "scripted"\n')
    (folder / "todo.txt").write_text("Water the tomatoes.")
    (folder / "done.txt").write_text("Sow the beans.")
    options = ["--port", board.port, "--secrets", str(secret), "--no-reset"]
    assert main(["board", "deploy", str(program), f"--{form}", *options]) == 0
    mpremote(board.port, "mkdir", ":notes")
    mpremote(board.port, "cp", folder / "todo.txt", folder / "done.txt", ":notes/")


def spent(board: UnixBoard, capsys: pytest.CaptureFixture[str]) -> int:
    """Return what `status` says was spent, of a state that is well."""
    capsys.readouterr()
    assert main(["board", "status", "--json", "--port", board.port]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["error"] is None
    assert report["left"] == max(0, report["cap"] - report["spent"])
    return int(report["spent"])


def check_short_day(board: UnixBoard, endpoint: Served) -> int:
    """Have two turns of six calls with two tools, and one refused; return the tokens of all."""
    total = 0
    board.power_on()
    with Terminal(board.port) as terminal:
        terminal.read_until(PROMPT)
        for _ in range(2):
            shown = terminal.answer(QUESTION, PROMPT).decode()
            used = endpoint.taken()
            total += sum(used)
            assert "I read 2 of 2 files." in shown
            assert shown.count("read_file: completed") == len(used) - 2 == 4, shown
            assert "list_files: completed" in shown
            assert f"[{sum(used)} tokens in {len(used)} calls; today {total}/{SHORT_DAY}" in shown
        assert "The daily budget is spent" in terminal.answer(QUESTION, PROMPT).decode()
        assert endpoint.taken() == []
    return total


def chat_on(terminal: Terminal) -> None:
    """Ask until the port is gone."""
    while True:
        terminal.answer(QUESTION, PROMPT)


@pytest.mark.parametrize(
    ("form", "bits"),
    [
        ("mpy", 64),
        ("romfs", 32),
        pytest.param("mpy", 32, marks=pytest.mark.slow),
        pytest.param("romfs", 64, marks=pytest.mark.slow),
        pytest.param("source", 32, marks=pytest.mark.slow),
        pytest.param("source", 64, marks=pytest.mark.slow),
    ],
)
def test_a_board_does_its_turns_in_the_heap_of_a_chip(
    form: str,
    bits: int,
    tmp_path: Path,
    endpoint: Served,
    request: pytest.FixtureRequest,
    capsys: pytest.CaptureFixture[str],
) -> None:
    micropython = request.getfixturevalue("micropython32") if bits == 32 else None
    heap = f"{TURN_KIB[Form(form)]}wk"
    flash, romfs = tmp_path / "flash.img", tmp_path / "rom.img"
    with NoonBoard(flash, heap, romfs=romfs, micropython=micropython) as board:
        set_up(board, form, endpoint, tmp_path, short_day(tmp_path))
        total = check_short_day(board, endpoint)
        assert spent(board, capsys) == total


@pytest.mark.parametrize(
    "form", ["romfs", *(pytest.param(form, marks=pytest.mark.slow) for form in ("mpy", "source"))]
)
def test_a_board_on_a_ledger_does_its_turns_in_the_heap_of_a_chip(
    form: str,
    tmp_path: Path,
    endpoint: Served,
    micropython32: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    heap = f"{TURN_KIB[Form(form)] + LEDGER_KIB[Form(form)]}wk"
    flash, romfs = tmp_path / "flash.img", tmp_path / "rom.img"
    with (
        Service("--engine", "memory:", "--listen", "127.0.0.1:0") as service,
        closing(HttpLedger(service.url, None, PATIENCE)) as ledger,
        NoonBoard(flash, heap, romfs=romfs, micropython=micropython32) as board,
    ):
        ledger.set_limits("boards", [Limit("tokens", 1_000_000, "day")])
        set_up(board, form, endpoint, tmp_path, short_day(tmp_path, service.url))
        total = check_short_day(board, endpoint)
        assert spent(board, capsys) == total
        (row,) = ledger.balance("boards")
        assert (row.spent, row.held) == (total, 0)


@pytest.mark.parametrize("filesystem", ["littlefs", pytest.param("fat", marks=pytest.mark.slow)])
def test_a_power_cut_during_a_turn_loses_no_call(
    filesystem: Literal["littlefs", "fat"],
    tmp_path: Path,
    endpoint: Served,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with NoonBoard(tmp_path / "flash.img", "384k", filesystem) as board:
        set_up(board, "mpy", endpoint, tmp_path)
        true = 0
        for cuts, operations in enumerate((1, 2, 3, 5), 1):
            board.power_on(cut_power_after=operations)
            with Terminal(board.port) as terminal:
                terminal.read_until(PROMPT)
                with pytest.raises(EOFError):
                    chat_on(terminal)
            assert board.wait_for_power_cut(PATIENCE)
            true += sum(endpoint.taken())
            board.power_on()
            over = spent(board, capsys) - true
            assert 0 <= over <= cuts * WRITE_AHEAD, operations
        board.power_on()
        with Terminal(board.port) as terminal:
            terminal.read_until(PROMPT)
            terminal.answer(QUESTION, PROMPT)
        assert spent(board, capsys) == true + over + sum(endpoint.taken())
