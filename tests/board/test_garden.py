"""The garden on a board: no power cut gives more water than the day has."""

import shutil
from pathlib import Path

from budget_cpython.cli import main
from scripted_model import ScriptedEndpoint
from tests.board.emulator.client import PATIENCE, Terminal
from tests.board.emulator.noon import NoonBoard
from tests.test_garden import HERE, SECONDS_A_DAY, as_much_as_is_left, water

PROMPT = b"\n> "


def test_water_stays_within_the_day_whenever_the_power_is_cut(tmp_path: Path) -> None:
    place = tmp_path / "garden"
    shutil.copytree(HERE, place, ignore=shutil.ignore_patterns("__pycache__"))
    ran: list[int] = []
    with (
        ScriptedEndpoint(scripts={"thirsty": as_much_as_is_left}) as endpoint,
        NoonBoard(tmp_path / "flash.img", "700k") as board,
    ):
        with (place / "settings.py").open("a") as file:
            file.write(f"BASE_URL = {endpoint.base_url!r}\nMODEL = 'thirsty'\n")
        assert main(["board", "deploy", str(place), "--port", board.port, "--no-reset"]) == 0
        for operations in (1, 2, 3, 5, 8):
            board.power_on(cut_power_after=operations)
            with Terminal(board.port) as terminal:
                ran += water(until_the_cut(terminal))
            assert board.wait_for_power_cut(PATIENCE)
        board.power_on()
        with Terminal(board.port) as terminal:
            terminal.read_until(PROMPT)
            ran += water(terminal.answer(b"Water the beans.\r", PROMPT).decode())
            shown = terminal.answer(b"/water\r", PROMPT).decode()
        assert 0 < sum(ran) <= SECONDS_A_DAY
        assert "and 0 s of water left today" in shown


def until_the_cut(terminal: Terminal) -> str:
    """Ask for water until the port is gone; return all that was shown."""
    shown = b""
    try:
        shown += terminal.read_until(PROMPT)
        while True:
            shown += terminal.answer(b"Water the beans.\r", PROMPT)
    except EOFError as end:
        last: bytes = end.args[0]
        return (shown + last).decode(errors="replace")
