"""The garden on a battery: it sleeps between the hours, and no clock is believed for the sleep."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_cpython.board.emulator import UnixBoard
from budget_cpython.cli import main
from scripted_model import Asked, Reply, ScriptedEndpoint
from tests.board.emulator.client import Terminal
from tests.board.emulator.noon import NoonBoard
from tests.test_garden import HERE

from .network import PASSWORD, radio
from .support import digests, remove, write

CHIP = ("esp32", "Generic ESP32S3 module with ESP32S3")
ALL_HOURS = tuple(range(24))
ASLEEP = re.compile(r"asleep for (\d+) s")
# A time server that answers once, with what the board's own clock has.
ONCE = """
import os
host, timeout = "", 0
def settime():
    if "asked" in os.listdir("/"):
        raise OSError(110, "timed out")
    open("/asked", "w").close()
"""


def dry(asked: Asked) -> Reply:
    return Reply("All beds are moist.")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """The garden's folder, with a model, a Wi-Fi, and the settings of a battery."""
    place = tmp_path / "garden"
    shutil.copytree(HERE, place, ignore=shutil.ignore_patterns("__pycache__"))
    with ScriptedEndpoint(scripts={"dry": dry}) as endpoint:
        with (place / "settings.py").open("a") as file:
            file.write(f"BASE_URL = {endpoint.base_url!r}\nMODEL = 'dry'\nSLEEPS = True\n")
            file.write(f"HOURS_UTC = {ALL_HOURS}\nAWAKE_S = 0.1\nNTP_RETRIES = 0\n")
        secret = f"WIFI_NAME = 'garden'\nWIFI_PASSWORD = {PASSWORD!r}\nAPI_KEY = ''\n"
        (place / "secret.py").write_text(secret)
        yield place


def deploy(place: Path, board: UnixBoard) -> None:
    """Deploy the garden, and switch the board on; its time server has not been asked yet."""
    options = ["--secrets", str(place / "secret.py"), "--port", board.port, "--no-reset"]
    assert main(["board", "deploy", str(place), *options]) == 0
    if "/asked" in digests(board):
        remove(board, ["/asked"])
    board.power_on()


def test_a_garden_that_sleeps_wakes_each_hour_and_its_day_goes_on(
    place: Path, tmp_path: Path
) -> None:
    with NoonBoard(tmp_path / "flash.img", "700k") as board:
        deploy(place, board)
        with Terminal(board.port) as terminal:
            used = []
            for _ in range(3):
                shown = terminal.read_until(b" s\r\n").decode()
                assert "All beds are moist." in shown
                used.append(int(shown.split("today ")[-1].partition("/")[0]))
                (asleep,) = ASLEEP.findall(shown)
                assert 1800 <= int(asleep) < 5400
        first, second, third = used
        assert first > 0
        assert second == 2 * first
        assert third == 3 * first


def test_a_date_that_was_kept_over_a_sleep_is_not_believed_until_a_server_says_it(
    place: Path, tmp_path: Path
) -> None:
    with NoonBoard(tmp_path / "flash.img", "700k", poses_as=CHIP) as board:
        write(board, "/network.py", radio(joined=True))
        write(board, "/ntptime.py", ONCE)
        deploy(place, board)
        with Terminal(board.port) as terminal:
            shown = terminal.read_until(b" s\r\n").decode()
            assert "All beds are moist." in shown
            assert "clock: 20" in shown
            shown = terminal.read_until(b" s\r\n").decode()
            assert "wifi: no time from pool.ntp.org" in shown
            assert "All beds are moist." not in shown
            assert "asleep for 3600 s" in shown
