"""The commands for operators: see a ledger, change it, and examine it."""

from argparse import ArgumentParser
from typing import Any


def add_ops(commands: Any, parser: ArgumentParser) -> None:
    """Add the commands for operators to those of a parser."""
    from budget_cpython.cli.ops.backup import add_backup
    from budget_cpython.cli.ops.charge import add_charge
    from budget_cpython.cli.ops.completion import add_completion
    from budget_cpython.cli.ops.doctor import add_doctor
    from budget_cpython.cli.ops.history import add_history
    from budget_cpython.cli.ops.holds import add_holds
    from budget_cpython.cli.ops.limits import add_limits
    from budget_cpython.cli.ops.report import add_report
    from budget_cpython.cli.ops.status import add_status
    from budget_cpython.cli.ops.suggest import add_suggest
    from budget_cpython.cli.ops.top import add_top

    add_status(commands)
    add_top(commands)
    add_history(commands)
    add_holds(commands)
    add_limits(commands)
    add_charge(commands)
    add_report(commands)
    add_suggest(commands)
    add_doctor(commands)
    add_backup(commands)
    add_completion(commands, parser)
