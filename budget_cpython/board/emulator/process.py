"""The processes of a board: one from each reset to the next."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from budget_cpython.board.emulator import firmware
from budget_cpython.board.emulator.images import BLOCK_SIZES
from budget_cpython.board.emulator.serial_line import SerialLine

SOFT_RESET, SOFT_RESET_RAW, HARD_RESET, POWER_CUT, NOT_MOUNTED = range(10, 15)
SETTINGS = "MICROBUDGET_BOARD"
_MODES = {SOFT_RESET: "soft", SOFT_RESET_RAW: "raw", HARD_RESET: "power"}
_EPOCH_2000 = 946_684_800
CLOCKS = {
    "unset": (datetime(2021, 1, 1, tzinfo=UTC), 0),
    "2000": (None, _EPOCH_2000),
    "unset-2000": (datetime(2000, 1, 1, tzinfo=UTC), _EPOCH_2000),
}
_HOST_CLOCK = (None, 0)


class BoardProcesses:
    """Starts MicroPython on a serial line, again after each reset."""

    def __init__(
        self,
        flash: Path,
        romfs: Path | None,
        heap: str,
        filesystem: str,
        clock: str | None,
        micropython: str,
    ) -> None:
        self._unset, epoch = CLOCKS.get(clock or "", _HOST_CLOCK)
        self._command = [micropython, "-X", f"heapsize={heap}", "-c"]
        self._settings = {
            "flash": str(flash),
            "filesystem": filesystem,
            "block_size": BLOCK_SIZES[filesystem],
            "romfs": str(romfs or ""),
            "epoch": epoch,
            "identity": hashlib.sha256(bytes(flash)).hexdigest()[:8],
        }

    def clock_offset(self, now_ns: int) -> int:
        """Return how many nanoseconds the clock is ahead of the host's at power-up."""
        return 0 if self._unset is None else int(self._unset.timestamp()) * 10**9 - now_ns

    def run(
        self, line: SerialLine, image: Path, kept: Path, booted: Callable[[], None]
    ) -> int | None:
        """Run until the power is cut or the line is stopped; return the last process's status.

        `kept` is a file that lasts over resets: the limit and the count of block operations, and
        the difference of the board's clock to the host's. `booted` is called before each `boot.py`;
        a process that ends earlier is the last. After a crash the board is at its prompt, without
        `main.py`; a second crash ends it.
        """
        mode = "power"
        while True:
            line.reset()
            settings = dict(self._settings, kept=str(kept), mode=mode)
            has_booted, status = self._run_once(line, image, settings, booted)
            if not has_booted or status is None or status == POWER_CUT:
                return status
            if status not in _MODES:
                line.show(b"\r\nthe board crashed with status %d\r\n" % status)
                if mode == "crash":
                    return status
            mode = _MODES.get(status, "crash")

    def _run_once(
        self,
        line: SerialLine,
        image: Path,
        settings: dict[str, object],
        booted: Callable[[], None],
    ) -> tuple[bool, int | None]:
        """Run one process; return whether it booted, and its status, `None` if it was stopped."""
        boots, booting = os.pipe()
        with os.fdopen(boots, "rb", 0) as says, os.fdopen(booting, "wb", 0) as to_say:
            process = self._start(line, image, dict(settings, booting=booting), booting)
            to_say.close()
            with process:
                ended = os.pidfd_open(process.pid)
                has_booted = boots in line.pump((boots, ended)) and says.read(1) != b""
                if has_booted:
                    booted()
                line.pump((ended,), partial(_rests, process.pid) if has_booted else None)
                status = process.poll()
                process.kill()
            os.close(ended)
        line.drain()
        return has_booted, status

    def _start(
        self, line: SerialLine, image: Path, settings: dict[str, object], booting: int
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603 - the user's own MicroPython
            [*self._command, firmware.program(image)],
            stdin=line.terminal,
            stdout=line.terminal,
            stderr=line.terminal,
            env={**os.environ, "TZ": "UTC", SETTINGS: json.dumps(settings)},
            start_new_session=True,
            pass_fds=(booting,),
        )


def _rests(process: int) -> bool:
    """Return whether a process waits in a system call."""
    status = Path(f"/proc/{process}/stat").read_bytes()
    return status.rpartition(b")")[2].split()[0] == b"S"
