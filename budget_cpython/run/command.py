"""Run a command in this terminal and process group, and end it at a deadline."""

import os
import select
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from budget_cpython.context.deadline import Deadline
from budget_cpython.run.descendants import adopt_orphans, descendants, end, send
from budget_cpython.run.status_line import StatusLine

_FROM_KEYS = (signal.SIGINT, signal.SIGQUIT)
_TO_ALL = (*_FROM_KEYS, signal.SIGHUP)  # as a terminal sends them
_TO_ONE = (signal.SIGUSR1, signal.SIGUSR2)
_SEEN = (*_TO_ALL, *_TO_ONE, signal.SIGTERM, signal.SIGCHLD, signal.SIGWINCH)
_LOOK_S = 0.1  # between looks at processes that are ending
_TICK_S = 1.0
_LONGEST_S = 3600.0
_AFTER_KILL_S = 5.0  # for processes that not even SIGKILL ends, as in a wait for a disk


@dataclass(frozen=True)
class Ending:
    """The end of a command.

    `code` is its exit code, or 128 + N where signal N ended it: `signal` is N then. `late` tells
    whether the deadline ended it, `interrupted` whether the terminal's Ctrl-C was seen. `left` are
    processes that could not be ended.
    """

    code: int
    signal: int | None
    late: bool
    interrupted: bool
    left: tuple[int, ...]


class Command:
    """A command with this process's standard streams, terminal and process group.

    So keys such as Ctrl-C and Ctrl-Z reach it directly, once, and it may read the terminal. Signals
    that are sent to this process are passed on. At the deadline, and when this process is
    terminated, all processes of the command get SIGTERM, and after `grace` seconds SIGKILL.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        *,
        deadline: Deadline | None = None,
        grace: float = 10.0,
        line: StatusLine | None = None,
    ) -> None:
        self._arguments = list(arguments)
        self._environment = environment
        self._deadline = deadline or Deadline.never()
        self._grace = grace
        self._line = line
        self._pid = 0
        self._code: int | None = None  # -N where signal N ended it
        self._kill: Deadline | None = None  # when SIGKILL follows, once the command is to end
        self._late = False
        self._interrupted = False
        self._signals = _Signals(line)

    def run(self) -> Ending:
        """Run the command to its end; raise `OSError` if it cannot be started."""
        adopt_orphans()
        with self._signals as signals:
            self._pid = os.posix_spawnp(
                self._arguments[0],
                self._arguments,
                self._environment,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],  # which Python ignores
            )
            try:
                while not self._is_over():
                    for number in signals.wait(self._patience()):
                        self._pass_on(number)
                    self._end_if_due()
                    if self._line is not None:
                        self._line.update()
            except BaseException:
                send(signal.SIGKILL, descendants())
                raise
        return self._ending()

    def end(self) -> None:
        """End all processes of the command as on SIGTERM; any thread may ask for it, once."""
        self._signals.note(signal.SIGTERM)

    def _ending(self) -> Ending:
        code = -signal.SIGKILL if self._code is None else self._code
        by = -code if code < 0 else None
        left = tuple(descendants()) if self._kill is not None else ()
        return Ending(128 + by if by else code, by, self._late, self._interrupted, left)

    def _patience(self) -> float:
        if self._kill is not None:
            return _LOOK_S
        longest = _LONGEST_S if self._line is None else _TICK_S
        return min(longest, self._deadline.remaining_seconds())

    def _is_over(self) -> bool:
        """Reap what has ended; tell whether nothing more is waited for."""
        with suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == self._pid:
                    self._code = os.waitstatus_to_exitcode(reaped[1])
        if self._kill is None:
            return self._code is not None
        if self._code is not None and not descendants():
            return True
        return self._kill.instant + _AFTER_KILL_S < Deadline.from_now(0).instant

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGTERM:
            self._end()
        elif number in _FROM_KEYS and _is_in_foreground():
            self._interrupted |= number == signal.SIGINT  # the terminal has sent it to both
        elif number in _TO_ALL:
            send(number, descendants())
        elif number in _TO_ONE and self._code is None:
            send(number, [self._pid])

    def _end(self) -> None:
        if self._kill is None:
            self._kill = Deadline.from_now(self._grace)
        end(descendants())

    def _end_if_due(self) -> None:
        if self._kill is None:
            if self._code is None and self._deadline.is_expired():
                self._late = True
                self._end()
        elif self._kill.is_expired():
            send(signal.SIGKILL, descendants())


def _is_in_foreground() -> bool:
    """Tell whether the keys of a terminal send their signals to this process and the command."""
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    finally:
        os.close(terminal)


class _Signals:
    """A `with` in which signals wake `wait`, but for those that this process was told to ignore."""

    def __init__(self, line: StatusLine | None) -> None:
        self._line = line
        self._reader, self._writer = socket.socketpair()

    def __enter__(self) -> "_Signals":
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before: dict[int, Any] = {}
        for number in _SEEN:
            self._handle(number, lambda *_: None)
        if self._line is not None:
            self._handle(signal.SIGTSTP, self._stop)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        self._reader.close()
        self._writer.close()

    def _handle(self, number: int, handler: Any) -> None:
        before = signal.getsignal(number)
        # Where SIGCHLD is ignored the system says nothing of a process that ends.
        if before not in (signal.SIG_IGN, None) or number == signal.SIGCHLD:
            self._before[number] = before
            signal.signal(number, handler)

    def note(self, number: int) -> None:
        """Have `wait` return a signal that did not come."""
        with suppress(OSError):  # closed
            self._writer.send(bytes([number]))

    def wait(self, seconds: float) -> bytes:
        """Return the numbers of signals that came within that time."""
        select.select([self._reader], [], [], seconds)
        try:
            return self._reader.recv(4096)
        except BlockingIOError:
            return b""

    def _stop(self, number: int, frame: object) -> None:
        """Stop as Ctrl-Z does, with the terminal's last row given back."""
        if self._line is not None:
            self._line.hide()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._stop)
