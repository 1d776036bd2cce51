"""A command whose model calls pass a proxy with a budget."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shutil import which

from budget_core.errors import BudgetError
from budget_core.ledger.records import Balance
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.deadline import Deadline
from budget_cpython.proxy import Proxy
from budget_cpython.run.command import Command
from budget_cpython.run.environment import Routes
from budget_cpython.run.gate import ProxyGate
from budget_cpython.run.report import Report
from budget_cpython.run.status_line import Left, StatusLine
from budget_cpython.serve.server import running

ADDRESS = "127.0.0.1:0"
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class NotStartedError(Exception):
    """The command could not be started; `exit_code` is what a shell would return."""

    def __init__(self, name: str, error: OSError) -> None:
        is_name = os.sep not in name
        if isinstance(error, FileNotFoundError) or (is_name and which(name, os.F_OK) is None):
            self.exit_code, text = NOT_FOUND, "was not found: is it installed, and in PATH?"
        else:
            self.exit_code, text = NOT_EXECUTABLE, f"cannot be executed: {error.strerror}"
        super().__init__(f"{name!r} {text}")


def run_within(
    accounts: Sequence[BudgetAccount],
    seconds: float | None,
    routes: Routes,
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    grace: float,
    shows: bool,
    notices: bool,
    strict: bool,
) -> Report:
    """Run a command to its end; its calls draw on `accounts`, and `seconds` are for it all.

    `routes` says where its calls go in the end. After SIGTERM its processes have `grace` seconds.
    With `shows` the last row of a terminal says what is left. `notices` and `strict` are those of
    the proxy. Raises `NotStartedError`, and the proxy's `OSError`.
    """
    proxy = Proxy(routes.upstreams, accounts, notices=notices, strict=strict)
    gate = ProxyGate(proxy.app, grace)
    with running(gate, ADDRESS) as url:
        begun = time.monotonic()
        if seconds is not None:
            gate.deadline = Deadline.from_now(seconds)
        found = routes.environment(environment, url)
        with _status_line(accounts, gate.deadline, shows) as line:
            one = Command(command, found, deadline=gate.deadline, grace=grace, line=line)
            try:
                ending = one.run()
            except OSError as error:
                raise NotStartedError(command[0], error) from error
        took = time.monotonic() - begun
    rows: list[Balance] = []
    for account in accounts:
        with suppress(BudgetError):  # a ledger that is out of reach now
            rows += account.balance()
    return Report(command, ending, gate.refused, gate.reason, took, proxy.usage, rows)


@contextmanager
def _status_line(
    accounts: Sequence[BudgetAccount], deadline: Deadline, shows: bool
) -> Iterator[StatusLine | None]:
    """Yield the line for a terminal, if standard error is one; give its row back at the end."""
    plain = os.environ.get("TERM", "dumb") == "dumb"
    if plain or not shows or not sys.stderr.isatty():
        yield None
        return
    left = Left(accounts, deadline)
    line = StatusLine(sys.stderr.fileno(), left.text)
    try:
        yield line
    finally:
        line.hide()
        left.close()
