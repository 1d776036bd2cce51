"""`microbudget board reset`, `pull` and `push`."""

import argparse

from budget_cpython.cli.board.command import command, confirm


@command("--port --yes")
def reset(options: argparse.Namespace) -> int:
    """Forget what was spent.

    examples:
      microbudget board reset --yes
    """
    from budget_cpython.board.device import work_on
    from budget_cpython.board.state import report_of, reset, what_is_lost
    from budget_cpython.board.tables import report_lines

    with work_on(options.port) as device:
        confirm(what_is_lost(report_of(device)), options.yes)
        reset(device)
        print("\n".join(report_lines(report_of(device))))
    return 0


@command("--port FOLDER")
def pull(options: argparse.Namespace) -> int:
    """Copy the budget's state from the board.

    examples:
      microbudget board pull saved
    """
    from budget_cpython.board.device import work_on
    from budget_cpython.board.new_folder import check_new
    from budget_cpython.board.state import pull

    check_new(options.folder)
    with work_on(options.port) as device:
        count = pull(device, options.folder)
    print(f"copied {count} files to {options.folder}")
    return 0


@command("--port FOLDER --yes")
def push(options: argparse.Namespace) -> int:
    """Copy a state that was pulled to the board.

    The state must be whole; it replaces what the board has counted.

    examples:
      microbudget board push saved --yes
    """
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
