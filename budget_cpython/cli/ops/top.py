"""The command `microbudget top`."""

import argparse
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from budget_core.errors import BudgetError
from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import (
    ledger_url,
    opened_ledger,
    print_json,
    shown_place,
)
from budget_cpython.cli.ops.screen import Screen, as_rich
from budget_cpython.cli.ops.top_view import TopView
from budget_cpython.ops.json_rows import hold_row, limit_row
from budget_cpython.wall_clock import WALL


@command(f"PATH {LEDGER} --json --once --every")
def top(options: argparse.Namespace) -> int:
    """Watch accounts: their rates, time to empty and open holds.

    RATE is what the last 5 minutes spent by the hour, at first what the window did so far. EMPTY IN
    is when a limit will be empty at that rate, if that is before its reset.

    keys, on a terminal of Linux or macOS:
      r e u h a  sort by rate, time to empty, use, holds or account
      /          filter accounts by a part of their path; Enter keeps it, Esc clears it
      q          quit

    examples:
      microbudget top
      microbudget top acme --every 5
      microbudget top --once
    """
    view = TopView(shown_place(ledger_url(options)))
    with opened_ledger(options) as ledger:
        if options.json or options.once:
            _ask(view, ledger, options.path)
            screen = Screen()
            if options.json:
                print_json(_as_json(view))
            else:
                screen.show(view.lines(screen, None))
        elif sys.stdin.isatty() and sys.stdout.isatty():
            _watch(view, ledger, options)
        else:
            raise ValueError("top needs a terminal: give --once for a still picture")
    return 0


def _ask(view: TopView, ledger: Any, path: str) -> None:
    """Have the view show what the ledger says now, or why it says nothing."""
    view.update(ledger.balances(path), ledger.open_holds(path, 10_000), int(WALL()))


def _as_json(view: TopView) -> dict[str, Any]:
    limits = [limit_row(limit) for _, limit in view.rows()]
    return {"at": view.now, "limits": limits, "holds": [hold_row(hold) for hold in view.holds]}


def _watch(view: TopView, ledger: Any, options: argparse.Namespace) -> None:
    """Show the view on the whole terminal until `q` is pressed."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    keys = sys.stdin.fileno()
    live = Live(
        console=console,
        screen=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with _single_keys(keys), live:
        due = 0.0
        while True:
            now = time.monotonic()
            if now >= due:
                try:
                    _ask(view, ledger, options.path)
                    view.trouble = ""
                except BudgetError as error:
                    view.trouble = str(error)
                due = now + options.every
            screen = Screen()
            lines = [as_rich(line) for line in view.lines(screen, console.height)]
            shown = Text("\n", no_wrap=True, overflow="crop").join(lines)
            live.update(shown, refresh=True)
            if select.select([keys], [], [], min(1.0, max(0.0, due - time.monotonic())))[0]:
                typed = os.read(keys, 64).decode("utf-8", "replace")
                if not typed or view.press(typed):
                    return


@contextmanager
def _single_keys(terminal: int) -> Iterator[None]:
    """Have a terminal give each key at once and show none; at the end it is as before."""
    import termios
    import tty

    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal)
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
