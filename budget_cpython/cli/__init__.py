"""The command line, `microbudget`."""

import argparse
import os
import signal
import sys
from importlib import import_module
from types import FrameType

from budget_cpython.board.errors import BoardError

INTERRUPTED = 130
_ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
_OPS = "status top history holds limits charge report suggest doctor backup completion"
_MODULES = {name: f"ops.{name}" for name in _OPS.split()}
_MODULES |= {name: name for name in ("board", "run", "serve", "proxy", "page", "alerts")}
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
    given = sys.argv[1:] if arguments is None else arguments
    if not given:
        print(_OVERVIEW, end="")
        return 0
    if given[0] == "holds":
        from budget_cpython.cli.ops.holds import with_list

        given = with_list(given)
    options = make_parser(given[0]).parse_args(given)
    run = vars(options).pop("run")  # the rest may be sent to the processes of a service
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number, handler in before.items():
        if handler != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, _end)
    try:
        code: int = run(options)
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


def make_parser(only: str = "") -> argparse.ArgumentParser:
    """Return the parser of the command line, with one command's alone if it has that name."""
    parser = argparse.ArgumentParser(
        prog="microbudget",
        description="Budgets for LLM agents, from a microcontroller to a fleet.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in [only] if only in _MODULES else _MODULES:
        module = import_module(f"budget_cpython.cli.{_MODULES[name]}")
        getattr(module, name).add_to(commands)
    return parser


class _Version(argparse.Action):
    """Print the version, which takes some time to find."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from budget_cpython.version import version

        print(f"microbudget {version()}")
        parser.exit()
