"""Errors of the board commands: one line that names the value and says what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from budget_cpython.board import PORT_VARIABLE, connection
from budget_cpython.board.device import Device
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.board.errors import BoardError
from tests.paths import ROOT

from .support import HEAP, PATIENCE, Cli, digests, pseudo_terminal

Ports = dict[str, str]


@pytest.fixture
def no_board(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line, with no board and no port named."""
    monkeypatch.delenv(PORT_VARIABLE, raising=False)
    connect(monkeypatch, {})
    return Cli(None, capsys)  # type: ignore[arg-type]


def connect(monkeypatch: pytest.MonkeyPatch, found: Ports) -> None:
    """Let these serial ports be found, whatever this machine has."""
    monkeypatch.setattr(connection, "serial_ports", lambda: found)


def test_without_a_port_it_says_how_to_name_one(no_board: Cli) -> None:
    said = no_board.bare("status")
    assert said.code == 2
    assert said.err.startswith("error: no serial port found")
    assert "--port or MICROBUDGET_PORT" in said.err


def test_several_ports_are_a_usage_error(no_board: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, {"/dev/ttyACM0": "", "/dev/ttyUSB1": ""})
    said = no_board.bare("status")
    assert said.code == 2
    assert "several serial ports: /dev/ttyACM0, /dev/ttyUSB1; choose one with --port" in said.err


def test_the_only_port_is_taken(cli: Cli, monkeypatch: pytest.MonkeyPatch, no_board: Cli) -> None:
    connect(monkeypatch, {cli.board.port: "A board"})
    assert no_board.bare("status").code == 0
    assert no_board.bare("list").out.endswith(f"serial ports\n  {cli.board.port}  A board\n")


def test_the_option_overrides_the_port_of_the_environment(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, no_board: Cli
) -> None:
    monkeypatch.setenv(PORT_VARIABLE, "/dev/nowhere")
    said = no_board.bare("status")
    assert said.code == 1
    assert "there is no port '/dev/nowhere'; serial ports found: none" in said.err
    assert cli("status").code == 0


def test_a_port_that_another_program_has_is_busy(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_S", 0)
    with connection.BoardConnection(cli.board.port):
        said = cli("status")
    assert said.code == 1
    assert f"{cli.board.port} cannot be opened: another program has it" in said.err


def test_a_port_that_another_program_has_for_a_moment_is_opened(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = connection.BoardConnection(cli.board.port)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        other.close()

    monkeypatch.setattr("mpremote.transport_serial.time.sleep", sleep)
    assert cli("status").code == 0
    assert waits == [1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_port_without_permission_names_the_group() -> None:
    program = (  # loaded first: where Python itself lies may be out of that user's reach
        "import os, sys, budget_cpython.cli.board\n"
        "import budget_cpython.board.state, budget_cpython.board.tables\n"
        "from budget_cpython.board.connection import BoardConnection\n"
        "from budget_cpython.cli import main, make_parser\n"
        "make_parser(); os.setuid(65534); sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, "board", "status", "--port"]
    with pseudo_terminal() as (_, theirs):
        port = os.ttyname(theirs)
        os.chmod(port, 0o600)
        done = subprocess.run(
            [*command, port],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert done.returncode == 1
    assert "no permission to open" in done.stderr
    assert "dialout" in done.stderr


def test_a_port_without_a_board_is_named(no_board: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_S", (0.01, 0.01))
    with pseudo_terminal() as (_, theirs):
        said = no_board.bare("status", "--port", os.ttyname(theirs))
    assert said.code == 1
    assert "no MicroPython answers at" in said.err


def test_run_on_windows_names_mpremote(no_board: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "termios", None)
    for board in ("unix", "rp2_pico_w"):
        said = no_board.bare("run", board)
        assert said.code == 1
        assert "mpremote connect PORT repl" in said.err


@pytest.mark.parametrize(
    ("firmware", "words"),
    [
        (
            ["micropython", [1, 23], "linux", "", 6, True],
            "runs micropython 1.23; it needs MicroPython 1.24 or later",
        ),
        (
            ["circuitpython", [9, 2], "linux", "", 6, True],
            "runs circuitpython 9.2; it needs MicroPython",
        ),
    ],
)
def test_firmware_that_cannot_run_the_core_is_refused(
    firmware: list[object], words: str, cli: Cli
) -> None:
    class Other(connection.BoardConnection):
        """A connection to a board with another firmware than we have."""

        def run(self, program: str, silence_s: float = 0) -> str:
            said = super().run(program, silence_s)
            return json.dumps(firmware) if "sys.implementation" in program else said

    with Other(cli.board.port) as other, pytest.raises(BoardError, match=words):
        Device(other).check_firmware()


def test_a_file_that_differs_when_read_does_not_replace_the_old_one(cli: Cli) -> None:
    class Worn(connection.BoardConnection):
        """A connection to a board that forgets the end of each file."""

        def write(self, path: str, data: bytes) -> None:
            super().write(path, data[:-1])

    with Worn(cli.board.port) as worn:
        before = worn.read("/main.py")
        with pytest.raises(BoardError, match=r"/main\.py differs when read"):
            Device(worn).put("/main.py", b"print('new')")
        assert worn.read("/main.py") == before


def test_a_full_board_is_named(
    tmp_path: Path, mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with UnixBoard(tmp_path / "small.img", heap=HEAP, flash_size=1 << 16) as small:
        refused = Cli(small, capsys)("deploy", mine)
        assert refused.code == 1
        assert "the file system has 57,344 bytes free, but " in refused.err
        assert digests(small) == {}
        said = Cli(small, capsys)("deploy", mine, "--force")
    assert said.code == 1
    assert "there is no room left on the board" in said.err
    assert ", or use --romfs, or use --frozen and a firmware" in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["deploy"], "the following arguments are required: BOARD"),
        (["deploy", "no_such_board"], "there is no board 'no_such_board'; boards: esp32"),
        (["deploy", "./nowhere"], "./nowhere is not a board: it has no settings.py"),
        (["deploy", "unix", "--mpy", "--source"], "not allowed with argument"),
        (["deploy", "unix", "--secrets", "nowhere"], "there is no file nowhere with secrets"),
        (["explode"], "invalid choice: 'explode'"),
        ([], "the following arguments are required: COMMAND"),
        (["run", "no_such_board"], "there is no board 'no_such_board'"),
        (["run", "unix", "--cut-power-after", "x"], "invalid int value: 'x'"),
    ],
)
def test_wrong_arguments_are_a_usage_error(no_board: Cli, arguments: list[str], words: str) -> None:
    said = no_board.bare(*arguments)
    assert said.code == 2
    assert words in said.err
    assert said.out == ""
