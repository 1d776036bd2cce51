"""The commands `microbudget alerts watch` and `microbudget alerts test`."""

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from budget_cpython.cli.command import LEDGER, Group, command
from budget_cpython.cli.ops.command import check_ledger, ledger_url, opened_ledger

if TYPE_CHECKING:
    from budget_cpython.alerts.channels import AlertChannel

_ABOUT = """\
They are also told what will be spent before its window ends. Alerts go to webhooks as signed
CloudEvents, and by apprise to Slack, mail and all that it knows. FILE is a TOML file with
[[alerts]], such as the --settings of a proxy. serve and proxy watch as well, with --alerts FILE."""


def read_channels(path: str | None, needed: bool = True) -> "list[AlertChannel]":
    """Return the channels of a file, none without one; raises as `read_alerts` does."""
    if path is None:
        return []
    from budget_cpython.alerts.channels import read_alerts

    return read_alerts(path, needed)


@contextmanager
def watching_for(channels: "Sequence[AlertChannel]", ledger: Callable[[], Any]) -> Iterator[None]:
    """Watch a service's ledger in a thread while the `with` lasts, if there are channels.

    `ledger` returns one that blocks; it is left open, as a hanging engine would not let it close.
    """
    if not channels:
        yield
        return
    try:
        from budget_cpython.alerts.watch import watching
    except ModuleNotFoundError as error:
        raise ImportError(f"{error}: pip install 'microbudget[alerts]'") from error
    with watching(ledger(), channels):
        yield


@command(f"FILE {LEDGER} --json --every --once", "alerts")
def _watch(options: argparse.Namespace) -> int:
    """Watch the limits of a ledger, and send alerts, until SIGTERM or Ctrl-C.

    Any number of processes on any machines may watch one ledger: each crossing is sent once. An
    alert that could not be sent is tried again for some nine hours, by any of them. --json is for
    --once.

    examples:
      microbudget alerts watch budgets.toml
      microbudget alerts watch budgets.toml --ledger postgresql:///budgets
      microbudget alerts watch budgets.toml --once    as from cron

    exit codes:
      1  it failed, or with --once an attempt to send did
    """
    from budget_cpython.alerts.watch import AlertWatch

    channels = read_channels(options.file)
    with opened_ledger(options) as ledger:
        watch = AlertWatch(ledger, channels)
        try:
            if options.once:
                done = watch.look_once()
                text = f"crossings: {done.crossings}, alerts sent: {done.delivered}, "
                text += f"attempts failed: {done.failed}"
                print(json.dumps(done._asdict()) if options.json else text)
                return 1 if done.failed else 0
            check_ledger(lambda: ledger.limits("readyz"), ledger_url(options))
            stop = _told_to_stop()
            print("watching for", ", ".join(channel.name for channel in channels), flush=True)
            watch.look_until(stop, options.every)
        finally:
            watch.close()
    return 0


def _told_to_stop() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set."""
    stop = threading.Event()
    for name in ("SIGTERM", "SIGINT"):
        signal.signal(getattr(signal, name), lambda number, frame: stop.set())
    return stop


@command("FILE --to --json", "alerts")
def _test(options: argparse.Namespace) -> int:
    """Send one test alert to each channel.

    It is marked as a test, and counts as no crossing.

    examples:
      microbudget alerts test budgets.toml
      microbudget alerts test budgets.toml --to desk

    exit codes:
      0  each channel took it
      1  one did not, or the file cannot be read
    """
    from budget_cpython.alerts.watch import send_test

    channels = read_channels(options.file)
    if options.to is not None:
        names = [channel.name for channel in channels]
        channels = [channel for channel in channels if channel.name == options.to]
        if not channels:
            raise ValueError(f"no channel is named {options.to!r}: there are {', '.join(names)}")
    rows = []
    for channel, reason in send_test(channels, int(time.time())):
        rows.append({"to": channel.name, "sent": not reason, "reason": reason})
        if not options.json:
            print(f"{channel.name}: {reason or 'sent'}", file=sys.stderr if reason else sys.stdout)
    if options.json:
        print(json.dumps({"alerts": rows}))
    return 0 if all(row["sent"] for row in rows) else 1


alerts = Group(
    "alerts",
    "Tell people and programs when limits are nearly spent.",
    (_watch, _test),
    _ABOUT,
)
