"""A command whose model calls pass a proxy with a budget."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from budget_core.errors import BudgetError
from budget_core.ledger.hold import Balance
from budget_cpython.context.deadline import Deadline
from budget_cpython.proxy.usage_by_model import UsageByModel
from budget_cpython.run.accounts import DeferredAccount
from budget_cpython.run.background_proxy import BackgroundProxy
from budget_cpython.run.command import Command
from budget_cpython.run.environment import Routes
from budget_cpython.run.report import Report
from budget_cpython.run.status_line import Left, StatusLine
from budget_cpython.web.addresses import ListenAddress

if TYPE_CHECKING:
    from budget_cpython.run.gate import ProxyGate

_ADDRESS = ListenAddress("127.0.0.1")
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class NotStartedError(Exception):
    """The command could not be started; `exit_code` is what a shell would return."""

    def __init__(self, name: str, error: OSError) -> None:
        from shutil import which

        is_name = os.sep not in name
        if isinstance(error, FileNotFoundError) or (is_name and which(name, os.F_OK) is None):
            self.exit_code, text = NOT_FOUND, "was not found: is it installed, and in PATH?"
        else:
            self.exit_code, text = NOT_EXECUTABLE, f"cannot be executed: {error.strerror}"
        super().__init__(f"{name!r} {text}")


def run_within(
    accounts: Sequence[DeferredAccount],
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
    the proxy, which is loaded while the command runs. Raises `NotStartedError`, and what the proxy
    raises, once the command has been ended for it.
    """
    with _ADDRESS.listen() as listener:
        url = _ADDRESS.url(listener)
        found = routes.environment(environment, url)
        begun = time.monotonic()
        deadline = Deadline.never() if seconds is None else Deadline.from_now(seconds)
        with _status_line(accounts, deadline, shows) as line:
            one = Command(command, found, deadline=deadline, grace=grace, line=line)
            make = partial(_make_gate, accounts, routes, deadline, grace, notices, strict)
            with BackgroundProxy(make, listener, url, one.end) as proxy:
                try:
                    ending = one.run()
                except OSError as error:
                    raise NotStartedError(command[0], error) from error
                took = time.monotonic() - begun
    if proxy.error is not None:
        raise proxy.error
    rows: list[Balance] = []
    for account in accounts:
        with suppress(BudgetError):  # a ledger that is out of reach now
            rows += account.balance()
    gate = proxy.gate
    counts = (gate.refused, gate.reason) if gate else (0, "")
    usage = gate.usage if gate else UsageByModel()
    return Report(command, ending, *counts, took, usage, rows)


def _make_gate(
    accounts: Sequence[DeferredAccount],
    routes: Routes,
    deadline: Deadline,
    grace: float,
    notices: bool,
    strict: bool,
) -> "ProxyGate":
    from budget_cpython.proxy.app import Proxy
    from budget_cpython.run.gate import ProxyGate

    loaded = [account.load() for account in accounts]
    proxy = Proxy(routes.upstreams, loaded, notices=notices, strict=strict)
    return ProxyGate(proxy.app, grace, deadline, proxy.usage)


@contextmanager
def _status_line(
    accounts: Sequence[DeferredAccount], deadline: Deadline, shows: bool
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
