"""The command `microbudget completion`."""

import argparse

from budget_cpython.cli.command import command


@command("SHELL")
def completion(options: argparse.Namespace) -> int:
    """Print the script that completes commands and options in a shell.

    examples:
      microbudget completion bash > ~/.local/share/bash-completion/completions/microbudget
      microbudget completion zsh > ~/.zfunc/_microbudget    # in a folder of $fpath
      microbudget completion tcsh > ~/.microbudget.tcsh     # and `source` it in ~/.tcshrc

    exit codes:
      1  shtab is not installed: pip install 'microbudget[ops]'
      2  an unknown shell
    """
    import shtab

    from budget_cpython.cli import make_parser

    print(shtab.complete(make_parser(), options.shell))
    return 0
