"""A ledger with a tree of accounts, for the tests of operators' commands; its windows never end."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

from budget_cpython import SqliteLedger, parse_limits
from budget_cpython.cli import main
from tests.paths import ROOT

_RICH = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"}  # what it also reads
PATIENCE = 120  # seconds, where only hanging is to be seen
LIMITS = {
    "acme": "$100",
    "acme/research": "$20 + 300 calls",
    "acme/research/ann": "$2",
    "acme/support": "500 calls + 20 tool:search",
    "trial": "1000 tokens",
}


def make_ledger(folder: Path) -> str:
    """Make a ledger of which `acme/research/ann` is over, and return its URL."""
    path = folder / "ledger.db"
    with SqliteLedger(path) as ledger:
        for account, text in LIMITS.items():
            ledger.set_limits(account, parse_limits(text))
        ledger.charge("acme/research/ann", {"usd": "2.50", "calls": 3})
        ledger.charge("acme/support", {"calls": 420})
        ledger.reserve("acme/research", {"usd": "0.12", "calls": 1}, key="job-1/step-2", ttl=3600)
    return f"sqlite:{path}"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run a command and return what it printed; its error where it fails."""
    assert main(list(arguments)) == code
    said = capsys.readouterr()
    return said.err if code in (1, 2) else said.out


def printed_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run a command with `--json` and return what it printed."""
    return json.loads(printed(capsys, *arguments, "--json"))


class OpsTerminal:
    """A terminal of 80 columns, and a command on it.

    `said` is what it has printed, `before` are the settings of the terminal at first.
    """

    def __init__(self, *arguments: str, **environment: str) -> None:
        plain = {name: value for name, value in os.environ.items() if name not in _RICH}
        self._keys, self.terminal = pty.openpty()
        fcntl.ioctl(self._keys, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.terminal)
        self.said = ""
        self.command = subprocess.Popen(
            [sys.executable, "-m", "budget_cpython.cli", *arguments],
            stdin=self.terminal,
            stdout=self.terminal,
            stderr=self.terminal,
            cwd=ROOT,
            env={**plain, "TERM": "xterm-256color", **environment},
        )

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._keys, keys.encode())

    def until(self, text: str) -> None:
        """Wait until the command has printed a text."""
        end = time.monotonic() + PATIENCE
        while text not in self.said:
            assert time.monotonic() < end, self.said
            self._read(1)

    def end(self) -> int:
        """Wait for the end of the command; return its exit code."""
        end = time.monotonic() + PATIENCE
        while self.command.poll() is None:
            assert time.monotonic() < end, self.said
            self._read(0.1)
        while self._read(0):
            pass
        return self.command.returncode

    def _read(self, wait_s: float) -> bool:
        if not select.select([self._keys], [], [], wait_s)[0]:
            return False
        self.said += os.read(self._keys, 65_536).decode("utf-8", "replace")
        return True

    def __enter__(self) -> "OpsTerminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.command.kill()
        self.command.wait(PATIENCE)
        os.close(self._keys)
        os.close(self.terminal)
