"""The command line, `microbudget`."""

import argparse
import os
import signal
import sys
from types import FrameType

from budget_cpython.board.errors import BoardError

INTERRUPTED = 130
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_EXAMPLES = """\
examples:
  microbudget board list                    boards, and what is connected
  microbudget board new my_board            make a folder for a board of your own
  microbudget board deploy rp2_pico_w       put the agent program on a board
  microbudget board doctor                  what does not work there, and the fix
  microbudget board status                  what its budget has left
  microbudget board fleet --url URL         what all boards of a service have left
  microbudget run --budget '$5' -- agent    run a command within a budget
  microbudget serve --engine sqlite:b.db    serve budgets to devices and other languages
  microbudget proxy --upstream openai=https://api.openai.com --limit '$5/day'
                                            keep LLM calls of any program within a budget
  microbudget alerts watch FILE             send alerts when limits are nearly spent
  microbudget board COMMAND --help          more of each; microbudget serve --help
"""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return the exit code: 0, 1 for a failure, 2 for a usage error."""
    options = make_parser().parse_args(arguments)
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
    add_board(commands)
    add_run(commands)
    add_serve(commands)
    add_proxy(commands)
    add_page(commands)
    add_alerts(commands)
    return parser
