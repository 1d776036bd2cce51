"""An interrupted deploy leaves no mix that runs, and the next one continues."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from budget_cpython.board.build import Build, Form
from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.deploy import Deploy
from budget_cpython.board.device import Device, work_on
from budget_cpython.board.emulator import UnixBoard
from budget_cpython.board.errors import BoardError
from budget_cpython.board.plan import Plan

from .support import HEAP, PATIENCE, Cli, build_of, digests, is_idle, is_whole


class StoppedError(Exception):
    """The end of a process, as far as the board can tell."""


class ShortConnection(BoardConnection):
    """A connection to a process that ends before its last step."""

    def __init__(self, port: str, steps: int) -> None:
        super().__init__(port)
        self.steps = steps

    def run(self, program: str, silence_s: float = 0) -> str:
        self.step()
        return super().run(program, silence_s)

    def write(self, path: str, data: bytes) -> None:
        self.step()
        super().write(path, data)

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise StoppedError


def deploy(device: Device, build: Build) -> None:
    Deploy(Plan(device, build), lambda line: None).run()


@pytest.fixture
def two_builds(mine: Path) -> tuple[Build, Build]:
    """Two builds of a small core, of which every kind of file differs, or is in one of them."""
    old = build_of(mine, Form.MPY)
    core = [path for path in old.files if path.startswith("/lib/")]
    kept = [
        path for path in core if path.endswith(("/__init__.mpy", "/wall_clock.mpy", "/_names.mpy"))
    ]
    store = ("config", "checksum", "board/device", "errors", "file_store", "checks", "bit_repair")
    kept += [path for path in core if path.endswith(tuple(f"/{name}.mpy" for name in store))]
    files = {path: data for path, data in old.files.items() if path in kept or path not in core}
    changed = {path: data + b"# new\n" for path, data in files.items() if path not in core}
    lib = "/lib/budget_core"
    first = {f"{lib}/gone.py": b"old = 1\n", f"{lib}/both.py": b"old = 1\n"} | files
    second = {f"{lib}/both.py": b"new = 1\n"} | files | changed
    return replace(old, files=first), replace(old, files=second)


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_deploy_that_ends_at_any_step_leaves_no_mix_that_runs(
    blank: UnixBoard, two_builds: tuple[Build, Build], stride: int
) -> None:
    now, then = two_builds
    with work_on(blank.port) as device:
        deploy(device, now)
    done, steps = False, 0
    while not done:
        with ShortConnection(blank.port, steps) as connection:
            try:
                deploy(Device(connection), then)
                done = True
            except StoppedError:
                steps += stride
        found = digests(blank)
        assert is_idle(found) or is_whole(found, now) or is_whole(found, then)
        if not done:
            with work_on(blank.port) as device:
                deploy(device, then)
            assert is_whole(digests(blank), then)
            now, then = then, now
    assert is_whole(found, then)
    assert steps > 15


def test_the_next_deploy_completes_a_first_one_that_ended_at_any_step(
    blank: UnixBoard, two_builds: tuple[Build, Build]
) -> None:
    build, _ = two_builds
    done, steps = False, 0
    while not done:
        with ShortConnection(blank.port, steps) as connection:
            try:
                deploy(Device(connection), build)
                done = True
            except StoppedError:
                steps += 1
        found = digests(blank)
        assert is_idle(found) or is_whole(found, build)
    assert is_whole(found, build)
    assert "/budget/made" in found


@pytest.mark.parametrize("filesystem", ["littlefs", "fat"])
def test_the_next_deploy_completes_one_that_lost_power(
    mine: Path,
    two_builds: tuple[Build, Build],
    tmp_path: Path,
    filesystem: Literal["littlefs", "fat"],
) -> None:
    now, then = two_builds
    with UnixBoard(tmp_path / "flash.img", heap=HEAP, filesystem=filesystem) as board:
        with work_on(board.port) as device:
            deploy(device, now)
        for operations in range(2, 300, 43):
            board.power_on(cut_power_after=operations)
            try:
                with work_on(board.port) as device:
                    deploy(device, then)
                break
            except BoardError:
                assert board.wait_for_power_cut(PATIENCE)
            board.power_on()
            found = digests(board)
            assert is_idle(found) or is_whole(found, now) or is_whole(found, then)
            with work_on(board.port) as device:
                deploy(device, then)
            assert is_whole(digests(board), then)
            now, then = then, now
        assert operations > 40


def test_a_deploy_with_nothing_to_copy_writes_nothing_to_flash(cli: Cli, mine: Path) -> None:
    assert cli("deploy", mine).code == 0
    cli.board.power_off()
    before = cli.board.flash.read_bytes()
    cli.board.power_on()
    assert "nothing to copy" in cli("deploy", mine).out
    cli.board.power_off()
    assert cli.board.flash.read_bytes() == before
