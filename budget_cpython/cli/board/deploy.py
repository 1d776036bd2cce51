"""`microbudget board deploy`."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from budget_cpython.cli.board.command import add_command


def add_deploy(below: Any) -> None:
    """Add `deploy`."""
    examples = [
        "microbudget board deploy rp2_pico_w",
        "microbudget board deploy esp32_s3 --port /dev/ttyACM0 --secrets secret.py",
        "microbudget board deploy ./my_board --source",
        "microbudget board deploy ./my_board --without ledger",
    ]
    about = """\
Copies the files that differ, and verifies them: the core into /lib, the board's boot.py, main.py
and settings.py, and deployed.py, which names the board. secret.py and the budget state stay as they
are. After an interrupt the board starts nothing; deploy again.

A board of another platform or chip than the folder's board.toml names is refused, before anything
changes."""
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
    parser.add_argument(
        "--without",
        action="append",
        default=[],
        metavar="ROOM",
        help="leave out a room of the core that the program does not import: agent, board, chat or "
        "ledger; may be repeated",
    )
    parser.add_argument("--secrets", type=Path, metavar="FILE", help="copy FILE as /secret.py")
    parser.add_argument("--force", action="store_true", help="go on where a check refuses")
    parser.add_argument("--no-reset", action="store_true", help="do not start the new program")
    parser.set_defaults(form="mpy")


def _deploy(options: argparse.Namespace) -> int:
    from budget_cpython.board.build import SECRETS, Form, build_board
    from budget_cpython.board.check import check_board, check_rooms, check_secrets
    from budget_cpython.board.deploy import Deploy, refuse
    from budget_cpython.board.device import work_on
    from budget_cpython.board.known_boards import board_files, find_board
    from budget_cpython.board.state import find_state
    from budget_cpython.board.target import mismatches

    board = find_board(options.board)
    check_rooms(board, options.without)
    needs_secrets = check_board(board)
    secrets = None if options.secrets is None else check_secrets(options.secrets)
    form = Form(options.form)
    build = build_board(board, form, options.without)
    say = partial(print, flush=True)
    with work_on(options.port, restart=not options.no_reset) as device:
        refuse(mismatches(board, device, form), options.force, say)
        Deploy(device, build, say, secrets).run()
        state, made = find_state(device)
        if not made:
            print(
                f"the budget's state in {state} is gone: the board counts its day as spent; "
                "`microbudget board reset` makes a new one"
            )
        example = board_files(board).get("secret_example.py")
        if needs_secrets and example is not None and not device.digests([SECRETS]):
            print(
                f"the board has no /secret.py: fill in a copy of {example} and deploy it with "
                "--secrets"
            )
    return 0
