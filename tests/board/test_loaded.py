"""Which copy of the core a board loads: the one that was deployed, or its firmware's own."""

from pathlib import Path

import pytest

from budget_cpython.board.build import LIBRARY, Form
from budget_cpython.board.connection import BoardConnection
from budget_cpython.board.device import Device

from .support import Cli, build_of, copied, digests, hashes, library, write

# Like a frozen module, a module in / comes before /lib.
IN_ROOT = "/budget_core.py"


def test_frozen_copies_no_core_and_the_next_copies_nothing(cli: Cli, mine: Path) -> None:
    core = (build_of(mine, Form.SOURCE).files[f"{LIBRARY}/__init__.py"]).decode()
    write(cli.board, IN_ROOT, core)
    said = cli("deploy", mine, "--frozen")
    assert (said.code, said.err) == (0, "")
    assert copied(said.out) == 1
    assert "copy /deployed.py" in said.out
    found = digests(cli.board)
    assert library(found) == {}
    wanted = hashes(build_of(mine, Form.FROZEN))
    assert set(wanted) == {"/boot.py", "/main.py", "/settings.py", "/deployed.py"}
    assert {path: found[path] for path in wanted} == wanted
    assert "all 4 files are there already" in cli("deploy", mine, "--frozen").out


def test_frozen_needs_a_firmware_with_the_core_and_changes_nothing_without(
    cli: Cli, mine: Path
) -> None:
    before = digests(cli.board)
    said = cli("deploy", mine, "--frozen")
    assert said.code == 1
    assert "firmware has no budget_core frozen in" in said.err
    assert digests(cli.board) == before


@pytest.mark.parametrize("change", [False, True])
def test_a_firmware_with_the_core_is_refused_before_anything_changes(
    cli: Cli, mine: Path, change: bool
) -> None:
    write(cli.board, IN_ROOT, "print('of long ago')")
    if change:
        (mine / "main.py").write_text("print('changed')")
    before = digests(cli.board)
    said = cli("deploy", mine)
    assert said.code == 1
    assert copied(said.out) == 0
    assert "budget_core.py, which comes before /lib/budget_core" in said.err
    assert "--frozen" in said.err
    assert digests(cli.board) == before


def test_a_deploy_with_nothing_to_copy_still_checks_the_import(cli: Cli, mine: Path) -> None:
    (mine / "boot.py").write_text("import sys\nsys.path.remove('/lib')\nprint('noise')\n")
    assert cli("deploy", mine).code == 0
    said = cli("deploy", mine)
    assert said.code == 1
    assert copied(said.out) == 0
    assert "imports nothing and not /lib/budget_core: is that on its sys.path" in said.err


def test_a_copy_that_comes_later_on_the_path_is_left_alone(cli: Cli, mine: Path) -> None:
    (mine / "boot.py").write_text("import sys\nsys.path.append('/later')\n")
    assert cli("deploy", mine).code == 0
    with BoardConnection(cli.board.port) as connection:
        connection.run("import os\nos.mkdir('/later')")
    write(cli.board, f"/later{IN_ROOT}", "")
    said = cli("deploy", mine)
    assert (said.code, said.err) == (0, "")
    assert "nothing to copy" in said.out


def test_a_module_may_print_when_it_is_imported(cli: Cli, mine: Path) -> None:
    write(cli.board, "/noisy.py", "print('noise')\nprint('')")
    with BoardConnection(cli.board.port) as connection:
        assert Device(connection).imported_from("noisy") == "noisy.py"
