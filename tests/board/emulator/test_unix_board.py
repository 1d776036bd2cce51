"""The unix board is a device to the real mpremote."""

import hashlib
import os
import pty
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from budget_cpython.board.emulator import UnixBoard, serial_line
from tests.board.emulator.client import PATIENCE, Terminal, mpremote


@pytest.fixture
def board(tmp_path: Path) -> Iterator[UnixBoard]:
    with UnixBoard(tmp_path / "flash.img", romfs=tmp_path / "rom.img") as board:
        yield board


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    (folder / "pack").mkdir(parents=True)
    (folder / "one.py").write_text("ONE = 1\n")
    (folder / "pack/two.py").write_text("TWO = 2\n")
    (folder / "package.json").write_text('{"urls": [["two.py", "pack/two.py"]]}')
    return folder


@pytest.mark.parametrize("filesystem", ["littlefs", "fat"])
def test_files_are_copied_and_outlive_the_board(
    tmp_path: Path, sources: Path, filesystem: Literal["littlefs", "fat"]
) -> None:
    flash = tmp_path / "flash.img"
    digest = hashlib.sha256(b"ONE = 1\n").hexdigest()
    with UnixBoard(flash, filesystem=filesystem) as board:
        mpremote(board.port, "mkdir", ":lib")
        mpremote(board.port, "cp", "-r", sources / "pack", ":lib/")
        mpremote(board.port, "cp", sources / "one.py", ":one.py")
        mpremote(board.port, "cp", sources / "one.py", ":gone.py", "+", "rm", ":gone.py")
        assert digest in mpremote(board.port, "sha256sum", "one.py")
    with UnixBoard(flash, filesystem=filesystem) as board:
        assert mpremote(board.port, "ls").split() == ["ls", ":", "0", "lib/", "8", "one.py"]
        said = mpremote(board.port, "exec", "import one, pack.two; print(one.ONE + pack.two.TWO)")
        assert said == "3\n"
        kind = {"littlefs": "VfsLfs2", "fat": "VfsFat"}[filesystem]
        assert kind in mpremote(board.port, "df")


def test_programs_are_run(board: UnixBoard, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("for n in range(300):\n    print(n)\n" + "# a long comment\n" * 300)
    assert mpremote(board.port, "run", program).split() == [str(n) for n in range(300)]
    assert mpremote(board.port, "eval", "6 * 7") == "42\n"
    assert mpremote(board.port, "exec", "def f():\n  1 / 0\nf()", code=1) == (
        "Traceback (most recent call last):\n"
        '  File "<stdin>", line 3, in <module>\n'
        '  File "<stdin>", line 2, in f\n'
        "ZeroDivisionError: divide by zero\n"
    )


def test_much_output_is_shown_in_full(board: UnixBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial_line, "_PATIENCE_MS", PATIENCE * 1000)
    said = mpremote(board.port, "exec", "for n in range(20_000): print(n)")
    assert said.split() == [str(n) for n in range(20_000)]


def test_a_program_finds_what_it_would_on_a_board(board: UnixBoard) -> None:
    program = "import sys, os; print(sys.path, sys.argv, os.getcwd(), os.listdir('/'), __name__)"
    assert mpremote(board.port, "exec", program) == "['', '.frozen', '/lib'] [] / [] __main__\n"


def test_a_mounted_folder_is_read_and_written(board: UnixBoard, sources: Path) -> None:
    program = """
import one
from pack.two import TWO
with open("new.bin", "wb") as file:
    file.write(bytes(range(256)) * 4)
print(one.ONE + TWO, open("new.bin", "rb").read() == bytes(range(256)) * 4)
"""
    assert "3 True" in mpremote(board.port, "mount", sources, "exec", program)
    assert (sources / "new.bin").read_bytes() == bytes(range(256)) * 4


def test_a_package_is_installed_from_a_folder(board: UnixBoard, sources: Path) -> None:
    mpremote(board.port, "mip", "install", sources / "package.json")
    assert mpremote(board.port, "exec", "import two; print(two.__file__)") == "/lib/two.py\n"


def test_a_soft_reset_forgets_and_runs_no_main(board: UnixBoard, tmp_path: Path) -> None:
    for name in ("boot", "main"):
        (tmp_path / f"{name}.py").write_text(f"{name} = print('this is {name}')\n")
        mpremote(board.port, "cp", tmp_path / f"{name}.py", f":{name}.py")
    mpremote(board.port, "exec", "x = 1", "+", "soft-reset")
    names = "print([name in globals() for name in ('x', 'boot', 'main')])"
    assert mpremote(board.port, "resume", "exec", names) == "[False, True, False]\n"


def test_a_hard_reset_runs_main(board: UnixBoard, tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text("print('this is main')\n")
    mpremote(board.port, "cp", tmp_path / "main.py", ":main.py")
    with Terminal(board.port) as terminal:
        mpremote(board.port, "reset")
        assert b"this is main\r\nMicroPython v1" in terminal.read_until(b">>> ")


def test_the_repl_is_used_at_a_console(board: UnixBoard) -> None:
    console, its_end = pty.openpty()
    command = [sys.executable, "-m", "mpremote", "connect", board.port, "repl"]
    with subprocess.Popen(command, stdin=its_end, stdout=its_end) as repl:
        os.close(its_end)
        shown = b""
        while termios.tcgetattr(console)[3] & termios.ICANON:  # it makes a line end of a return
            assert repl.poll() is None
            time.sleep(0.01)
        for keys, end in ((b"", b"Ctrl-]"), (b"\r", b">>> "), (b"6 * 7\r", b"42\r\n")):
            os.write(console, keys)
            while end not in shown:
                shown += os.read(console, 4096)
        os.write(console, b"\x1d")
        assert repl.wait() == 0
    os.close(console)


def test_an_image_is_deployed_to_the_partition_and_imported(
    board: UnixBoard, sources: Path
) -> None:
    built = sources.with_suffix(".romfs")
    assert "524288 bytes" in mpremote(board.port, "romfs", "query")
    mpremote(board.port, "romfs", "build", sources)
    mpremote(board.port, "romfs", "deploy", built)
    assert "ROMFS image size" in mpremote(board.port, "romfs", "query")
    program = "import one, sys; print(one.__file__, sys.path)"
    said = "/rom/one.mpy ['', '.frozen', '/rom', '/rom/lib', '/lib']\n"
    assert mpremote(board.port, "exec", program) == said


def test_without_a_partition_there_is_no_romfs(tmp_path: Path) -> None:
    with UnixBoard(tmp_path / "flash.img") as board:
        assert "not enabled" in mpremote(board.port, "romfs", "query")
