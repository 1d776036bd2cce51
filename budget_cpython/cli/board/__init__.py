"""The commands `microbudget board …`; each imports what it needs when it runs."""

import argparse
from typing import Any

from budget_cpython.cli.board.command import PORT
from budget_cpython.cli.board.deploy import add_deploy
from budget_cpython.cli.board.new import add_new
from budget_cpython.cli.board.reports import add_doctor, add_fleet, add_list, add_status
from budget_cpython.cli.board.run import add_run
from budget_cpython.cli.board.state import add_pull, add_push, add_reset


def add_board(commands: Any) -> None:
    """Add `board` and its subcommands."""
    board = commands.add_parser(
        "board",
        help="put the agent program on a board, look after its budget",
        description="Put the agent program on a board, and look after its budget.\n" + PORT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    below = board.add_subparsers(metavar="COMMAND", required=True)
    for add in (
        add_list,
        add_new,
        add_deploy,
        add_run,
        add_status,
        add_doctor,
        add_reset,
        add_pull,
        add_push,
        add_fleet,
    ):
        add(below)
