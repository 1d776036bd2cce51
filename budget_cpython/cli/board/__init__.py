"""The commands `microbudget board …`; each imports what it needs when it runs."""

from budget_cpython.cli.board import deploy, new, reports, run, state
from budget_cpython.cli.board.command import PORT
from budget_cpython.cli.command import Group

board = Group(
    "board",
    "Put the agent program on a board, and look after its budget.",
    (
        reports.list_,
        new.new,
        deploy.deploy,
        run.run,
        reports.status,
        reports.doctor,
        state.reset,
        state.pull,
        state.push,
        reports.fleet,
    ),
    PORT,
)
