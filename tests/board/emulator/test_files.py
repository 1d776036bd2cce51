"""The files of the unix board: which are formatted, refused, or locked."""

import hashlib
import os
from pathlib import Path
from typing import Any, Literal

import pytest

from budget_cpython.board.emulator import UnixBoard
from tests.board.emulator.client import Terminal, mpremote

FREE = "import gc; gc.collect(); print(gc.mem_free())"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_refused(path: Path, words: str, **options: Any) -> None:
    """Check that a file is refused as a flash, and is unchanged."""
    before = digest(path)
    with pytest.raises(ValueError, match=words) as refusal, UnixBoard(path, **options):
        pass
    assert str(path) in str(refusal.value)
    assert digest(path) == before
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("size", [5, 4095, 1 << 16])
@pytest.mark.parametrize("filesystem", ["littlefs", "fat"])
def test_a_file_that_is_not_an_image_is_refused_and_unchanged(
    tmp_path: Path, filesystem: str, size: int
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"notes" * (size // 5) + b"." * (size % 5))
    words = "has no" if size == 1 << 16 else f"has {size} bytes"
    check_refused(path, words, filesystem=filesystem)


@pytest.mark.parametrize(("made", "named"), [("littlefs", "fat"), ("fat", "littlefs")])
def test_an_image_of_another_file_system_is_not_formatted(
    tmp_path: Path, made: Literal["littlefs", "fat"], named: str
) -> None:
    with UnixBoard(tmp_path / "flash.img", filesystem=made):
        pass
    check_refused(tmp_path / "flash.img", f"has no {named}", filesystem=named)


def test_an_image_that_is_damaged_is_not_formatted(tmp_path: Path) -> None:
    path = tmp_path / "flash.img"
    with UnixBoard(path):
        pass
    with path.open("r+b") as image:
        image.write(bytes(8192))
    check_refused(path, "has no littlefs")


@pytest.mark.parametrize("size", [0, 1 << 15, 1 << 20])
@pytest.mark.parametrize("filesystem", ["littlefs", "fat"])
def test_a_file_that_is_empty_or_blank_is_formatted(
    tmp_path: Path, filesystem: Literal["littlefs", "fat"], size: int
) -> None:
    path = tmp_path / "flash.img"
    path.write_bytes(b"\xff" * size)
    for _ in range(2):
        with UnixBoard(path, filesystem=filesystem) as board:
            mpremote(board.port, "touch", ":file")
    assert path.stat().st_size == (size or 1 << 20)


def test_an_image_that_is_blank_except_its_end_is_not_formatted(tmp_path: Path) -> None:
    path = tmp_path / "dump.bin"
    path.write_bytes(b"\xff" * (1 << 20) + b"kept" * 1024)
    check_refused(path, "has no littlefs")


def test_a_flash_that_could_not_be_formatted_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "flash.img"
    with pytest.raises(RuntimeError, match="cannot format"):
        UnixBoard(path, micropython="/bin/false").__enter__()
    assert path.read_bytes() == b""
    with UnixBoard(path) as board:
        assert "VfsLfs2" in mpremote(board.port, "df")


@pytest.mark.parametrize("what", ["flash", "romfs"])
def test_a_file_of_another_board_is_refused(tmp_path: Path, what: str) -> None:
    mine: dict[str, Any] = {"flash": tmp_path / "mine", what: tmp_path / "shared.img"}
    other: dict[str, Any] = dict(mine, flash=mine["flash"] if what == "flash" else tmp_path / "b")
    with UnixBoard(**mine) as board, Terminal(board.port) as terminal:
        terminal.run("with open('file', 'w') as file: file.write('kept')")
        with (
            pytest.raises(RuntimeError, match=r"shared\.img is in use by another board"),
            UnixBoard(**other),
        ):
            pass
        assert terminal.run("print(open('file').read())") == "kept\r\n"
    with UnixBoard(**other):
        pass


def test_a_file_that_is_not_a_romfs_is_refused(tmp_path: Path) -> None:
    romfs = tmp_path / "notes.txt"
    romfs.write_text("notes")
    with (
        pytest.raises(ValueError, match=r"notes\.txt is neither a ROMFS image"),
        UnixBoard(tmp_path / "flash.img", romfs=romfs),
    ):
        pass
    assert romfs.read_text() == "notes"


def test_a_folder_and_a_fifo_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    refused = {
        tmp_path: "regular file",
        tmp_path / "fifo": "regular file",
        tmp_path / "no/flash.img": "there is no folder",
    }
    for path, words in refused.items():
        with pytest.raises(ValueError, match=words), UnixBoard(path):
            pass


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"flash_size": 4096}, "img has 4096 bytes, but a flash with littlefs has 32768 or more"),
        ({"flash_size": 99_999}, "a multiple of 4096"),
        ({"cut_power_after": 0}, "at least one"),
    ],
)
def test_a_wrong_size_or_limit_is_refused(tmp_path: Path, wrong: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        UnixBoard(tmp_path / "flash.img", **wrong).__enter__()


def test_a_heap_that_micropython_refuses_is_an_error(tmp_path: Path) -> None:
    board = UnixBoard(tmp_path / "flash.img", heap="lots")
    with pytest.raises(RuntimeError, match="before it was a board: Invalid command line"):
        board.__enter__()


@pytest.mark.parametrize("filesystem", ["littlefs", "fat"])
def test_the_smallest_board_runs_a_program(
    tmp_path: Path, filesystem: Literal["littlefs", "fat"]
) -> None:
    smallest: dict[str, Any] = {"heap": "32k", "flash_size": 1 << 15}
    with UnixBoard(tmp_path / "flash.img", filesystem=filesystem, **smallest) as board:
        mpremote(board.port, "exec", "with open('file', 'w') as file: file.write('x')")
        assert int(mpremote(board.port, "exec", FREE)) > 0
