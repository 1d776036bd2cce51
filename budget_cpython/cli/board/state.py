"""`microbudget board reset`, `pull` and `push`."""

import argparse
from pathlib import Path
from typing import Any

from budget_cpython.cli.board.command import add_command, add_yes, confirm


def add_reset(below: Any) -> None:
    """Add `reset`."""
    examples = ["microbudget board reset --yes"]
    parser = add_command(below, _reset, "forget what was spent", examples)
    add_yes(parser)


def add_pull(below: Any) -> None:
    """Add `pull`."""
    examples = ["microbudget board pull saved"]
    parser = add_command(below, _pull, "copy the budget's state from the board", examples)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a new or empty folder")


def add_push(below: Any) -> None:
    """Add `push`."""
    examples = ["microbudget board push saved --yes"]
    about = "The state must be whole; it replaces what the board has counted."
    parser = add_command(below, _push, "copy a state that was pulled to the board", examples, about)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="a folder that `pull` filled")
    add_yes(parser)


def _reset(options: argparse.Namespace) -> int:
    from budget_cpython.board.device import work_on
    from budget_cpython.board.state import report_of, reset, what_is_lost
    from budget_cpython.board.tables import report_lines

    with work_on(options.port) as device:
        confirm(what_is_lost(report_of(device)), options.yes)
        reset(device)
        print("\n".join(report_lines(report_of(device))))
    return 0


def _pull(options: argparse.Namespace) -> int:
    from budget_cpython.board.device import work_on
    from budget_cpython.board.new_folder import check_new
    from budget_cpython.board.state import pull

    check_new(options.folder)
    with work_on(options.port) as device:
        count = pull(device, options.folder)
    print(f"copied {count} files to {options.folder}")
    return 0


def _push(options: argparse.Namespace) -> int:
    from budget_cpython.board.state import check_pulled, push, report_of, what_is_lost
    from budget_cpython.board.tables import report_lines

    files = check_pulled(options.folder)
    from budget_cpython.board.device import work_on

    with work_on(options.port) as device:
        confirm(what_is_lost(report_of(device)), options.yes)
        push(device, options.folder, files)
        print(f"copied {len(files)} files to the board")
        print("\n".join(report_lines(report_of(device))))
    return 0
