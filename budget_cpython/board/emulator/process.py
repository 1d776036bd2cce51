"""The processes that are a board's chip: one from each reset to the next."""

import hashlib
import json
import os
import shutil
import subprocess
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from budget_cpython.board.emulator import firmware
from budget_cpython.board.emulator.serial_line import SerialLine

SOFT_RESET, SOFT_RESET_RAW, HARD_RESET, POWER_CUT = 10, 11, 12, 13
SETTINGS = "MICROBUDGET_BOARD"
_MODES = {SOFT_RESET: "soft", SOFT_RESET_RAW: "raw", HARD_RESET: "power"}
_ERASE_BLOCK = 4096
_SECTOR = 512
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
        micropython: str | None,
    ) -> None:
        self._unset, epoch = CLOCKS.get(clock or "", _HOST_CLOCK)
        self._command = [micropython or _find_micropython(), "-X", f"heapsize={heap}", "-c"]
        self._settings = {
            "flash": str(flash),
            "filesystem": filesystem,
            "block_size": _SECTOR if filesystem == "fat" else _ERASE_BLOCK,
            "romfs": str(romfs or ""),
            "epoch": epoch,
            "identity": hashlib.sha256(bytes(flash)).hexdigest()[:8],
        }

    def clock_offset(self, now_ns: int) -> int:
        """Return by how many nanoseconds the clock is ahead of the host's at power-up."""
        return 0 if self._unset is None else int(self._unset.timestamp()) * 10**9 - now_ns

    def run(self, line: SerialLine, image: Path, kept: Path) -> int | None:
        """Run until the power is cut or the line is stopped; return the last process's status.

        `kept` is the file that outlives resets: the limit and the count of block operations, and
        by how much the board's clock is ahead of the host's.
        After a crash the board is at its prompt, without `main.py`; a second one ends it.
        """
        mode = "power"
        while True:
            line.reset()
            status = self._run_once(line, image, dict(self._settings, kept=str(kept), mode=mode))
            if status is None or status == POWER_CUT:
                return status
            if status not in _MODES:
                line.show(b"\r\nthe board crashed with status %d\r\n" % status)
                if mode == "crash":
                    return status
            mode = _MODES.get(status, "crash")

    def _run_once(self, line: SerialLine, image: Path, settings: dict[str, object]) -> int | None:
        """Run one process; return its status, or `None` where the line was stopped."""
        booted, booting = os.pipe()
        environment = {"TZ": "UTC", SETTINGS: json.dumps(dict(settings, booting=booting))}
        process = subprocess.Popen(  # noqa: S603 - the user's own MicroPython
            [*self._command, firmware.program(image)],
            stdin=line.terminal,
            stdout=line.terminal,
            stderr=line.terminal,
            env={**os.environ, **environment},
            start_new_session=True,
            pass_fds=(booting,),
        )
        os.close(booting)
        with process:
            ended = os.pidfd_open(process.pid)
            line.pump(booted, ended, partial(_rests, process.pid))
            status = process.poll()
            process.kill()
        os.close(booted)
        os.close(ended)
        line.drain()
        return status


def _rests(process: int) -> bool:
    """Return whether a process waits in a system call."""
    status = Path(f"/proc/{process}/stat").read_bytes()
    return status.rpartition(b")")[2].split()[0] == b"S"


def _find_micropython() -> str:
    found = os.environ.get("MICROPYTHON") or shutil.which("micropython")
    if found is None:
        raise FileNotFoundError("no MicroPython: neither $MICROPYTHON nor one on the PATH")
    return found
