"""Run a command whose model calls pass a proxy with a budget."""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from shutil import which

from budget_core.errors import BudgetError
from budget_core.ledger.records import Balance
from budget_cpython.adapters.layer import Layer
from budget_cpython.deadline import Deadline
from budget_cpython.proxy import Proxy
from budget_cpython.run.command import Command, Ending
from budget_cpython.run.environment import Routes
from budget_cpython.run.gate import Gate
from budget_cpython.run.left import Left
from budget_cpython.run.report import Report
from budget_cpython.run.status_line import StatusLine
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


class Run:
    """A command with its budget: the `layers` that its calls draw on, and `seconds` for it all.

    `routes` says where its calls go in the end. After SIGTERM its processes have `grace` seconds.
    With `shows` the last row of a terminal says what is left. `notices` and `strict` are those of
    the proxy.
    """

    def __init__(
        self,
        layers: Sequence[Layer],
        seconds: float | None,
        routes: Routes,
        *,
        grace: float = 10.0,
        shows: bool = True,
        notices: bool = False,
        strict: bool = False,
    ) -> None:
        self._layers = layers
        self._seconds = seconds
        self._routes = routes
        self._grace = grace
        self._shows = shows
        self._proxy = Proxy(routes.upstreams, layers, notices=notices, strict=strict)
        self._gate = Gate(self._proxy.app, grace)

    def run(self, command: Sequence[str], environment: Mapping[str, str]) -> Report:
        """Run a command to its end; raises `NotStartedError`, and the proxy's `OSError`."""
        with running(self._gate, ADDRESS) as url:
            begun = time.monotonic()
            if self._seconds is not None:
                self._gate.deadline = Deadline.from_now(self._seconds)
            ending = self._run(command, self._routes.environment(environment, url))
            took = time.monotonic() - begun
        rows: list[Balance] = []
        for layer in self._layers:
            with suppress(BudgetError):  # a ledger that is out of reach now
                rows += layer.balance()
        gate = self._gate
        return Report(command, ending, gate.refused, gate.reason, took, self._proxy.usage, rows)

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> Ending:
        deadline = self._gate.deadline
        with self._line() as line:
            one = Command(command, environment, deadline=deadline, grace=self._grace, line=line)
            try:
                return one.run()
            except OSError as error:
                raise NotStartedError(command[0], error) from error

    @contextmanager
    def _line(self) -> Iterator[StatusLine | None]:
        """Yield the line for a terminal, if standard error is one; give its row back at the end."""
        plain = os.environ.get("TERM", "dumb") == "dumb"
        if plain or not self._shows or not sys.stderr.isatty():
            yield None
            return
        left = Left(self._layers, self._gate.deadline)
        line = StatusLine(sys.stderr.fileno(), left.text)
        try:
            yield line
        finally:
            line.hide()
            left.close()
