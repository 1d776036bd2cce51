"""The command `microbudget completion`."""

import argparse
from functools import partial
from typing import Any

from budget_cpython.cli.service_options import run_command

_SHELLS = ("bash", "zsh", "tcsh")
_ABOUT = "Print the script that completes commands and options in a shell."
_EPILOG = """\
examples:
  microbudget completion bash > ~/.local/share/bash-completion/completions/microbudget
  microbudget completion zsh > ~/.zfunc/_microbudget    # in a folder of $fpath
  microbudget completion tcsh > ~/.microbudget.tcsh     # and `source` it in ~/.tcshrc

exit codes:
  0  it worked
  1  shtab is not installed: pip install 'microbudget[ops]'
  2  an unknown shell"""


def add_completion(commands: Any) -> None:
    """Add `completion`."""
    parser = commands.add_parser(
        "completion",
        help="print the script that completes commands in a shell",
        description=_ABOUT,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help=", ".join(_SHELLS))
    parser.set_defaults(run=partial(run_command, _completion, "ops"))


def _completion(options: argparse.Namespace) -> int:
    import shtab

    from budget_cpython.cli import make_parser

    print(shtab.complete(make_parser(), options.shell))
    return 0
