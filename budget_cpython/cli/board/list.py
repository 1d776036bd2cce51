"""`microbudget board list`."""

import argparse
from typing import Any

from budget_cpython.cli.board.command import add_command


def add_list(below: Any) -> None:
    """Add `list`."""
    examples = ["microbudget board list"]
    add_command(below, _list, "show the boards and the serial ports", examples, port=False)


def _list(options: argparse.Namespace) -> int:
    from budget_cpython.board.connection import serial_ports
    from budget_cpython.board.known_boards import known_boards

    print("boards", *known_boards(), sep="\n  ")
    ports = serial_ports()
    print("serial ports" if ports else "no serial port found")
    for port, what in ports.items():
        print(f"  {port}  {what}".rstrip())
    return 0
