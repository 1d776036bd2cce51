"""`microbudget board deploy`."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from budget_cpython.cli.board.command import add_command


def add_deploy(below: Any) -> None:
    """Add `deploy`."""
    examples = [
        "microbudget board deploy rp2_pico_w --dry-run",
        "microbudget board deploy rp2_pico_w --secrets secret.py",
        "microbudget board deploy esp32_s3 --port /dev/ttyACM0 --romfs",
        "microbudget board deploy ./my_board --with ledger",
        "microbudget board deploy ./my_board --ca my_root.pem",
    ]
    about = """\
Copies the files that differ, and verifies them: what the programs use of the core into /lib, the
board's boot.py, main.py and settings.py, and deployed.py, which names the board. For an https
endpoint it copies the root certificates that this machine trusts it by. secret.py and the budget
state stay as they are. After an interrupt the board starts nothing; deploy again.

It refuses, before anything changes, a board of another platform or chip than the folder's
board.toml names, secrets that are still those of the example, and a board whose heap or file system
is too small. --force goes on."""
    parser = add_command(below, _deploy, "copy the core and a board's program", examples, about)
    parser.add_argument("board", metavar="BOARD", help="its name, or a folder, as in ./my_board")
    form = parser.add_mutually_exclusive_group()
    for name, text in (
        ("source", "the core as source, which the board compiles"),
        ("mpy", "the core precompiled (the default)"),
        ("romfs", "the core precompiled in the board's ROMFS partition, and nothing else there"),
        ("frozen", "no core: the firmware has it frozen in"),
    ):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
    for option, text in (
        ("with", "copy a module or a room of the core that the programs do not import"),
        ("without", "leave out a room also where it is not known what the programs import"),
    ):
        parser.add_argument(
            f"--{option}",
            dest=f"{option}_rooms",
            action="append",
            default=[],
            metavar="ROOM",
            help=f"{text}: agent, board, chat or ledger; may be repeated",
        )
    parser.add_argument("--secrets", type=Path, metavar="FILE", help="copy FILE as /secret.py")
    parser.add_argument("--ca", type=Path, metavar="FILE", help="trust the certificates in FILE")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, no more")
    parser.add_argument("--force", action="store_true", help="go on where a check refuses")
    parser.add_argument("--no-reset", action="store_true", help="do not start the new program")
    parser.set_defaults(form="mpy")


def _deploy(options: argparse.Namespace) -> int:
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
        options.with_rooms,
        options.without_rooms,
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
