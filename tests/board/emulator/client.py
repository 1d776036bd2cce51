"""What opens the unix board's port: mpremote as a process, or a terminal."""

import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE = 120.0
RAW_PROMPT = b"raw REPL; CTRL-B to exit\r\n>"


def mpremote(port: str, *words: str | Path, code: int = 0) -> str:
    """Run mpremote on a port; return what it printed, errors too, with plain line ends."""
    command = [sys.executable, "-m", "mpremote", "connect", port, *map(str, words)]
    limit = time.monotonic() + PATIENCE
    while True:
        run = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
        said = (run.stdout + run.stderr).decode().replace("\r\n", "\n")
        if "it may be in use" not in said or time.monotonic() > limit:
            assert run.returncode == code, said
            return said


class Terminal:
    """A terminal program: opens a port, types, and shows what comes back."""

    def __init__(self, port: str) -> None:
        self._port = os.open(port, os.O_RDWR | os.O_NOCTTY)
        self._seen = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._port)

    def type(self, keys: bytes) -> None:
        """Type keys. Raises `EOFError` once the port is gone."""
        try:
            os.write(self._port, keys)
        except OSError:
            raise EOFError(self._seen) from None

    def read_until(self, end: bytes) -> bytes:
        """Return what is shown up to and with `end`. Raises `EOFError` once the port is gone."""
        limit = time.monotonic() + PATIENCE
        while end not in self._seen:
            left = max(0, limit - time.monotonic())
            assert select.select([self._port], [], [], left)[0], self._seen
            try:
                found = os.read(self._port, 4096)
            except OSError:
                found = b""
            if not found:
                raise EOFError(self._seen)
            self._seen += found
        shown, end, self._seen = self._seen.partition(end)
        return shown + end

    def answer(self, keys: bytes, end: bytes = b">>> ") -> bytes:
        self.type(keys)
        return self.read_until(end)

    def run(self, program: str) -> str:
        """Run a program in the raw REPL; return what it printed. Fails where it raises."""
        self.answer(b"\x03\x01", RAW_PROMPT)
        self.answer(program.encode() + b"\x04", b"OK")
        printed, error = (self.read_until(b"\x04")[:-1].decode() for _ in range(2))
        assert not error, error
        self.answer(b"\x02")
        return printed
