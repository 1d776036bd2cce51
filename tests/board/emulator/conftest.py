"""Fixtures of the emulator's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from budget_cpython.board.emulator import UnixBoard
from tests.board.emulator.client import Terminal


@pytest.fixture(autouse=True)
def patience() -> None:
    """Wait no longer than a user of the emulator does."""


@pytest.fixture
def board(tmp_path: Path) -> Iterator[UnixBoard]:
    """A new board, with no program."""
    with UnixBoard(tmp_path / "flash.img", heap="64k") as board:
        yield board


@pytest.fixture
def terminal(board: UnixBoard) -> Iterator[Terminal]:
    """A terminal at its prompt."""
    with Terminal(board.port) as terminal:
        terminal.read_until(b">>> ")
        yield terminal
