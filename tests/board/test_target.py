"""Whether the connected board is the one that a folder is for."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from budget_cpython.board.build import MPY_VERSION, Form, build_board
from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.device import Device, Identity
from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import find_board, known_boards
from budget_cpython.board.target import Target, mismatches, read_target
from tests.board.emulator.noon import NoonBoard

from .support import HEAP, Cli, digests

PICO = ("rp2", "Raspberry Pi Pico W with RP2040")
S3 = ("esp32", "Generic ESP32S3 module with ESP32-S3")


@contextmanager
def posing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], poses_as: tuple[str, str] | None
) -> Iterator[Cli]:
    with NoonBoard(tmp_path / "flash.img", heap=HEAP, poses_as=poses_as) as board:
        yield Cli(board, capsys)


def test_a_board_of_another_chip_is_refused_and_force_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mine: Path
) -> None:
    (mine / "board.toml").write_text('platform = "rp2"\nchip = "RP2350"\nfirmware = "PICO2"\n')
    with posing(tmp_path, capsys, PICO) as cli:
        said = cli("deploy", mine)
        assert said.code == 1
        assert "mine is for PICO2 (rp2, RP2350), and the board at /dev/" in said.err
        assert "is rp2, 'Raspberry Pi Pico W with RP2040': deploy rp2_pico_w" in said.err
        assert "--force" in said.err
        assert digests(cli.board) == {}
        forced = cli("deploy", mine, "--force")
        assert forced.code == 0
        assert "warning: mine is for PICO2" in forced.out
        assert "/main.py" in digests(cli.board)


def test_the_unix_board_is_for_no_chip_and_no_chip_is_the_unix_board(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with posing(tmp_path, capsys, S3) as cli:
        said = cli("deploy", "unix")
        assert said.code == 1
        assert "unix is for the unix port (linux)" in said.err
        assert "deploy esp32_s3" in said.err
        said = cli("deploy", "esp32_s3")
        assert said.code == 1
        assert "has no module network: install ESP32_GENERIC_S3" in said.err
        assert digests(cli.board) == {}


def test_an_older_release_than_the_folder_needs_is_refused(cli: Cli, mine: Path) -> None:
    (mine / "board.toml").write_text(
        'platform = "linux"\nfirmware = "unix"\nmicropython = "9.1"\nmodules = ["time"]\n'
    )
    said = cli("deploy", mine)
    assert said.code == 1
    assert "mine needs 9.1: install a newer unix" in said.err
    assert "module" not in said.err


@pytest.mark.parametrize(
    ("chip", "machine", "is_met"),
    [
        ("ESP32", "Generic ESP32 module with ESP32", True),
        ("ESP32", "Generic ESP32 module with SPIRAM with ESP32", True),
        ("ESP32", "Generic ESP32S3 module with ESP32S3", False),
        ("ESP32S3", "Generic ESP32S3 module with ESP32-S3", True),
        ("RP2040", "Raspberry Pi Pico 2 W with RP2350", False),
        ("", "anything", True),
    ],
)
def test_a_chip_is_the_end_of_the_machines_name(chip: str, machine: str, is_met: bool) -> None:
    found = Identity("micropython", (1, 29), "port", machine, 6, False)
    assert Target("port", "FIRMWARE", chip).is_met_by(found) is is_met
    assert not Target("another", "FIRMWARE", chip).is_met_by(found)


@pytest.mark.parametrize(
    ("version", "words"), [(0, "loads no .mpy files"), (5, "loads .mpy files of version 5")]
)
def test_firmware_for_other_mpy_files_needs_source(
    cli: Cli, mine: Path, version: int, words: str
) -> None:
    class Other(BoardConnection):
        """A connection to a board whose firmware loads other files."""

        def run(self, program: str, silence_s: float = 0) -> str:
            said = super().run(program, silence_s)
            if "sys.implementation" not in program:
                return said
            return json.dumps(["micropython", [1, 25], "linux", "", version, True])

    with Other(cli.board.port) as other:
        found = mismatches(mine, Device(other), Form.MPY)
        assert [f"the firmware {words}, not of version 6: deploy with --source"] == found
        assert mismatches(mine, Device(other), Form.SOURCE) == []


def test_mpy_cross_makes_files_of_the_version_that_is_compared(mine: Path) -> None:
    files = build_board(mine, Form.MPY).files
    assert {data[1] for path, data in files.items() if path.endswith(".mpy")} == {MPY_VERSION}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("platform =", "Invalid value"),
        ('platform = "rp2"', "firmware is missing"),
        ('platform = "rp2"\nfirmware = "F"\nboard = "x"', "board is not known; the names are"),
        ('platform = "rp2"\nfirmware = "F"\nchip = 5', "chip = 5 must be a str"),
        ('platform = "rp2"\nfirmware = "F"\nmodules = "x"', "modules = 'x' must be a list"),
        ('platform = "rp2"\nfirmware = "F"\nmicropython = "new"', "'new'"),
    ],
)
def test_a_malformed_file_is_named(mine: Path, text: str, words: str) -> None:
    (mine / "board.toml").write_text(text)
    with pytest.raises(UsageError, match=r"mine/board\.toml: ") as error:
        read_target(mine)
    assert words in str(error.value)


def test_the_c6_is_a_board_of_the_first_release_with_its_firmware() -> None:
    target = read_target(find_board("esp32_c6"))
    assert target is not None
    assert target.oldest == (1, 24)


def test_every_board_of_ours_names_its_device() -> None:
    targets = {name: read_target(folder) for name, folder in known_boards().items()}
    assert all(target is not None for target in targets.values()), targets
