"""What `microbudget` alone says, completion, and the help of operators' commands."""

import shutil
import subprocess
from pathlib import Path

import pytest

from budget_cpython.cli import main
from tests.cli.ops_ledger import printed

COMMANDS = [
    ["status"],
    ["top"],
    ["history"],
    ["holds", "list"],
    ["holds", "release"],
    ["limits", "show"],
    ["limits", "set"],
    ["limits", "remove"],
    ["limits", "import"],
    ["limits", "export"],
    ["charge"],
    ["report"],
    ["suggest"],
    ["doctor"],
    ["backup"],
    ["alerts", "watch"],
    ["alerts", "test"],
    ["page"],
    ["completion"],
]


def test_alone_it_says_in_fifteen_lines_what_it_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys).splitlines()
    assert len(lines) <= 15
    assert lines[2].startswith("  microbudget run ")
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_has_examples_and_exit_codes(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command, "--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert "examples:\n  microbudget " in said
    assert "exit codes:\n  0  " in said
    assert max(map(len, said.splitlines())) <= 100


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_is_a_script_of_a_shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, shell: str
) -> None:
    pytest.importorskip("shtab")
    said = printed(capsys, "completion", shell)
    assert "release" in said
    program = shutil.which(shell)
    if program is not None:
        file = tmp_path / "complete"
        file.write_text(said)
        subprocess.run([program, "-n", str(file)], check=True, timeout=120)
