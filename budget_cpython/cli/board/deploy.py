"""`microbudget board deploy`."""

import argparse
from functools import partial

from budget_cpython.cli.board.command import command


def _add_forms(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    for name, text in (
        ("source", "the core as source, which the board compiles"),
        ("mpy", "the core precompiled (the default)"),
        ("romfs", "the core precompiled in the board's ROMFS partition, and nothing else there"),
        ("frozen", "no core: the firmware has it frozen in"),
    ):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
    parser.set_defaults(form="mpy")


@command(
    "--port BOARD --with --without --secrets --ca --dry-run --force --no-reset", extend=_add_forms
)
def deploy(options: argparse.Namespace) -> int:
    """Copy the core and a board's program.

    Copies the files that differ, and verifies them: what the programs use of the core into /lib,
    the board's boot.py, main.py and settings.py, and deployed.py, which names the board. For an
    https endpoint it copies the root certificates that this machine trusts it by. secret.py and the
    budget state stay as they are. After an interrupt the board starts nothing; deploy again.

    It refuses, before anything changes, a board of another platform or chip than the folder's
    board.toml names, secrets that are still those of the example, and a board whose heap or file
    system is too small. --force goes on.

    examples:
      microbudget board deploy rp2_pico_w --dry-run
      microbudget board deploy rp2_pico_w --secrets secret.py
      microbudget board deploy esp32_s3 --port /dev/ttyACM0 --romfs
      microbudget board deploy ./my_board --with ledger
      microbudget board deploy ./my_board --ca my_root.pem
    """
    from budget_cpython.board.build import Form
    from budget_cpython.board.deploy import Deploy
    from budget_cpython.board.device import work_on
    from budget_cpython.board.fit import heap_at_start
    from budget_cpython.board.known_boards import find_board
    from budget_cpython.board.order import Order

    say = partial(print, flush=True)
    order = Order(
        find_board(options.board),
        Form(options.form),
        say,
        vars(options)["with"],
        options.without,
        options.secrets,
        options.ca,
        options.force,
    )
    with work_on(options.port, restart=not options.no_reset) as device:
        plan = order.plan(device)
        if options.dry_run:
            print(*plan.lines(), sep="\n")
        else:
            Deploy(plan, say).run()
        for line in order.missing(plan):
            say(line)
        if not options.dry_run:
            say(heap_at_start(device, order.board))
    return 0
