"""Boards that are on, with and without what a deploy puts there."""

import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from budget_cpython.board import build, connection
from budget_cpython.board.build import Form
from budget_cpython.board.deploy import Deploy
from budget_cpython.board.device import work_on
from budget_cpython.board.emulator import UnixBoard, serial_line
from budget_cpython.board.plan import Plan
from tests.board.emulator.noon import NoonBoard

from .support import HEAP, PATIENCE, Cli, build_of, make_board


@contextmanager
def patient() -> Iterator[None]:
    """Wait longer than for a real board: on a busy machine all of one may stand still."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "ANSWER_S", (1, 2, 4, 8, 16, 32))
        patch.setattr(connection, "SILENCE_S", PATIENCE)
        patch.setattr(serial_line, "_PATIENCE_MS", PATIENCE * 1000)
        yield


@pytest.fixture(autouse=True)
def patience() -> Iterator[None]:
    """Be patient in every test of this folder."""
    with patient():
        yield


@pytest.fixture(scope="package", autouse=True)
def core_built_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Build each form of the core once: that takes a process for each of its modules."""
    folder = tmp_path_factory.mktemp("core")
    build_core = build.build_core

    def copy_core(form: Form, target: Path, without: Collection[str] = ()) -> None:
        built = folder / f"{form.value}-{hash(frozenset(without))}"
        if not built.exists():
            build_core(form, built, without)
        shutil.copytree(built, target, dirs_exist_ok=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "build_core", copy_core)
        yield


@pytest.fixture(scope="package")
def deployed_flash(tmp_path_factory: pytest.TempPathFactory, core_built_once: None) -> Path:
    """The flash of a board with a program of our own, precompiled."""
    folder = tmp_path_factory.mktemp("deployed")
    mine = build_of(make_board(folder / "mine"), Form.MPY)
    flash = folder / "flash.img"
    with patient(), NoonBoard(flash, heap=HEAP) as board, work_on(board.port) as device:
        Deploy(Plan(device, mine), lambda line: None).run()
    return flash


@pytest.fixture
def blank(tmp_path: Path) -> Iterator[UnixBoard]:
    """A board that is new, with a ROMFS partition."""
    with NoonBoard(tmp_path / "blank.img", heap=HEAP, romfs=tmp_path / "rom.img") as board:
        yield board


@pytest.fixture
def board(tmp_path: Path, deployed_flash: Path) -> Iterator[UnixBoard]:
    """A board with our program."""
    flash = tmp_path / "flash.img"
    shutil.copy(deployed_flash, flash)
    with NoonBoard(flash, heap=HEAP) as board:
        yield board


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """The folder of our board."""
    return make_board(tmp_path / "mine")


@pytest.fixture
def cli(board: UnixBoard, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line, at our board."""
    return Cli(board, capsys)


@pytest.fixture
def new_cli(blank: UnixBoard, capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command line, at a new board."""
    return Cli(blank, capsys)
