"""An agent on an emulated Cortex-M3: within its heap and its C stack, reached by mpremote."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import chip
from benchmarks.chip_chat import chat, largest_block
from benchmarks.emulated_chip import CHIP, KIB, EmulatedChip
from budget_cpython.board.build import Form
from budget_cpython.board.fit import LEDGER_STACK_BYTES, STACK_BYTES

TLS_BLOCK = 16 * KIB

pytestmark = pytest.mark.skipif(not CHIP.exists(), reason="make chip builds the emulated chip")


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return chip.build(tmp_path_factory.mktemp("chip"))


def test_five_steps_with_two_tools_and_a_daily_store_are_run_over_mpremote(image: bytes) -> None:
    with EmulatedChip(96 * KIB, chip.RP2_STACK, image) as board:
        mpremote = [sys.executable, "-m", "mpremote", "connect", board.port, "resume"]
        command = [*mpremote, "exec", chip.AGENT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        seen = json.loads(done.stdout)
        assert seen["steps"] == chip.STEPS
        assert set(seen["called"]) == {"list_files", "read_file"}
        assert seen["tokens"] == chip.STEPS * 100
        files = subprocess.run([*mpremote, "ls", ":budget"], capture_output=True, text=True)
        assert files.stdout.count("/") >= 3, files  # the slots of the day


def test_a_heap_that_is_collected_often_keeps_the_block_that_tls_asks_for() -> None:
    assert largest_block(chip.GC_THRESHOLD) > 3 * TLS_BLOCK
    assert largest_block(-1) < TLS_BLOCK


def test_a_heap_that_is_too_small_is_an_error_and_no_result(image: bytes) -> None:
    with pytest.raises(RuntimeError, match="MemoryError"):
        chip.run(image, chip.AGENT, kib=24)


def test_a_stack_that_is_too_small_is_an_error_and_no_result(image: bytes) -> None:
    with pytest.raises(RuntimeError, match="recursion"):
        chip.run(image, chip.AGENT, stack=3000)


def test_a_boards_turn_is_within_its_stack(image: bytes) -> None:
    assert chip.board_turn(image, chip.MAX_BOARD_STACK)["calls"] == chip.STEPS


@pytest.mark.parametrize("form", [Form.ROMFS, Form.MPY, Form.SOURCE])
@pytest.mark.parametrize("ledger", [False, True])
def test_a_boards_chat_is_within_the_stack_that_a_deploy_asks_for(form: Form, ledger: bool) -> None:
    chat(form, ledger, LEDGER_STACK_BYTES if ledger else STACK_BYTES)
    with pytest.raises(RuntimeError, match="recursion"):
        chat(form, ledger, 3000)


def test_an_agent_imported_two_modules_deep_is_within_its_stack(image: bytes) -> None:
    chip.run(image, chip.DEEP, stack=chip.MAX_DEEP_STACK)


def test_the_least_size_is_found_and_other_errors_are_raised() -> None:
    def fits(size: int) -> None:
        if size < 100:
            raise RuntimeError("MemoryError")

    def broken(size: int) -> None:
        raise RuntimeError("ImportError")

    assert chip.least(fits, 0, 1000, 1) == 100
    assert chip.least(fits, 0, 1024, 32) == 128
    with pytest.raises(RuntimeError, match="ImportError"):
        chip.least(broken, 0, 1000, 1)


def test_a_program_that_hangs_is_an_error() -> None:
    with EmulatedChip(patience_s=0.2) as board, pytest.raises(RuntimeError, match="hangs"):
        board.run("while True:\n    pass")


def test_files_are_on_the_chip_when_it_starts(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/one.py").write_text("ONE = 1\n")
    with EmulatedChip(files=tmp_path) as board:
        assert board.run("import one; print(one.ONE, one.__file__)") == "1 /lib/one.py\n"
