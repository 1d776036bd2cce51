"""The command line, `microbudget`."""

import argparse
import os
import signal
import sys
from types import FrameType

from budget_cpython.board.errors import BoardError

INTERRUPTED = 130
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_OVERVIEW = """\
microbudget keeps LLM agents within a budget. Most used first:

  microbudget run --budget '$5' -- agent    run a command within a budget
  microbudget status, microbudget top       what is spent and left, and what ends too early
  microbudget report                        what was spent, by account, model, tool and time
  microbudget limits set acme '$5/day'      change limits; also show, remove, import, export
  microbudget history acme, suggest acme    what past windows spent, and limits from that
  microbudget holds                         calls in flight, and how to release one
  microbudget alerts watch FILE             webhooks and messages when a limit is nearly spent
  microbudget page                          all of this as a page in the browser
  microbudget doctor                        what is wrong with the ledger, and the fix
  microbudget proxy, microbudget serve      budgets for any program, and for other machines
  microbudget board COMMAND                 an agent on a microcontroller

microbudget --help lists all commands, microbudget COMMAND --help has examples of each.
"""
_EXAMPLES = """\
examples:
  microbudget run --budget '$5' -- agent    run a command within a budget
  microbudget status                        what all accounts have spent and have left
  microbudget limits set acme '$5/day'      change the limits of an account
  microbudget serve --engine sqlite:b.db    serve budgets to devices and other languages
  microbudget proxy --upstream openai=https://api.openai.com --limit '$5/day'
                                            keep LLM calls of any program within a budget
  microbudget board deploy rp2_pico_w       put the agent program on a board
  microbudget board doctor                  what does not work there, and the fix
  microbudget board fleet --url URL         what all boards of a service have left
  microbudget COMMAND --help                more of each
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit code: 0, 1 for a failure, 2 for a usage error."""
    from budget_cpython.cli.ops.holds import with_list

    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        print(_OVERVIEW, end="")
        return 0
    options = make_parser().parse_args(with_list(given))
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, _end)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BoardError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code


def _end(number: int, frame: FrameType | None) -> None:
    """End as Ctrl-C does: what a command began on a board is finished or undone."""
    sys.exit(128 + number)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    from budget_cpython.cli.alerts import add_alerts
    from budget_cpython.cli.board import add_board
    from budget_cpython.cli.ops import add_ops
    from budget_cpython.cli.page import add_page
    from budget_cpython.cli.proxy import add_proxy
    from budget_cpython.cli.run import add_run
    from budget_cpython.cli.serve import add_serve
    from budget_cpython.version import version

    parser = argparse.ArgumentParser(
        prog="microbudget",
        description="Budgets for LLM agents, from a microcontroller to a fleet.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"microbudget {version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    add_ops(commands, parser)
    add_board(commands)
    add_run(commands)
    add_serve(commands)
    add_proxy(commands)
    add_page(commands)
    add_alerts(commands)
    return parser
