"""An emulated board: its flash, clock, port, and a process from each reset to the next."""

import json
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from budget_cpython.board.emulator import firmware
from budget_cpython.board.emulator.images import BLOCK_SIZES, locked, prepare_flash, prepare_romfs
from budget_cpython.board.emulator.serial_line import SerialLine

_SOFT_RESET, _SOFT_RESET_RAW, _HARD_RESET, _POWER_CUT, _NOT_MOUNTED = range(10, 15)
_EPOCH_2000 = 946_684_800
# Of each clock: the time at power-up, `None` for the host's, and the epoch in Unix seconds.
_CLOCKS = {
    None: (None, 0),
    "unset": (datetime(2021, 1, 1, tzinfo=UTC), 0),
    "2000": (None, _EPOCH_2000),
    "unset-2000": (datetime(2000, 1, 1, tzinfo=UTC), _EPOCH_2000),
}
# What lasts over resets: the limit and the count of block operations, and the nanoseconds that the
# board's clock is ahead of the host's.
_KEPT = struct.Struct("<qqq")
_IN_CHECKOUT = Path(__file__).resolve().parents[3] / ".local/micropython/micropython"
_HOW_TO_GET_IT = """\
there is no MicroPython: install it and have it on the PATH, or name it with MICROPYTHON=/path/to/it
  Debian 13, Ubuntu 26.04 and later:  apt install micropython
  Homebrew:                           brew install micropython
  in a checkout of microbudget:       make micropython"""


class UnixBoard:
    """MicroPython's unix port as a device.

    `flash` is its image; a new one gets `flash_size` bytes and is formatted, as is an empty one or
    one that is all 0xFF. A new `romfs` is blank, with `romfs_size` bytes. `heap` is a size for
    MicroPython's `-X heapsize=`. `cut_power_after` is the number of block operations after which
    the first power-up ends; `power_on` sets the next. `clock` is `None` for the host's, else
    `unset` (2021 at power-up, as on an rp2), `2000` (the host's time, counted from 2000), or
    `unset-2000` (2000 at power-up, as on an ESP32). `poses_as` is the `sys.platform` and the
    `sys.implementation._machine` that it shows instead of its own. Raises `FileNotFoundError` if
    there is no MicroPython. Turning it on raises `ValueError` if the file has another file system,
    `RuntimeError` if another board uses it or MicroPython ends early.
    """

    def __init__(
        self,
        flash: Path,
        heap: str = "96k",
        filesystem: Literal["littlefs", "fat"] = "littlefs",
        cut_power_after: int | None = None,
        clock: str | None = None,
        romfs: Path | None = None,
        flash_size: int = 1 << 20,
        romfs_size: int = 1 << 19,
        micropython: str | None = None,
        poses_as: tuple[str, str] | None = None,
    ) -> None:
        self.flash = flash.resolve()
        self.romfs = None if romfs is None else romfs.resolve()
        self._sizes = (flash_size, romfs_size)
        self._filesystem = filesystem
        self._heap = heap
        self._micropython = micropython or _find_micropython()
        self._poses_as = poses_as
        self._first_limit = _checked(cut_power_after)
        self._starts_at, self._epoch = _CLOCKS[clock]
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        flash_size, romfs_size = self._sizes
        with ExitStack() as stack:
            stack.enter_context(locked(self.flash))
            prepare_flash(self.flash, flash_size, self._filesystem, self._micropython)
            if self.romfs is not None:
                stack.enter_context(locked(self.romfs))
                prepare_romfs(self.romfs, romfs_size)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="microbudget-board-"))
            self._kept = Path(folder, "kept")
            self._firmware = Path(folder, "firmware.romfs")
            self._firmware.write_bytes(firmware.image())
            stack.callback(self.power_off)
            self.power_on(self._first_limit)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    @property
    def port(self) -> str:
        """The path of its serial port, a new one each time it is turned on.

        Raises `RuntimeError` while it is off.
        """
        if self._thread is None or self._ended.is_set():
            raise RuntimeError("the board is off")
        return self._line.name

    @property
    def operations(self) -> int:
        """How many flash blocks were written or erased since it was turned on."""
        done: int = _KEPT.unpack(self._kept.read_bytes())[1]
        return done

    def power_on(self, cut_power_after: int | None = None) -> None:
        """Turn it on, or off and on, with a limit of block operations or none."""
        limit = _checked(cut_power_after)
        self.power_off()
        self._kept.write_bytes(_KEPT.pack(limit or 0, 0, self._clock_offset()))
        self._line = SerialLine()
        self._booted = False
        self._started.clear()
        self._ended.clear()
        self._thread = threading.Thread(target=self._work, name="unix board")
        self._thread.start()
        self._started.wait()
        if not self._booted:
            self.power_off()
            self._complain()

    def power_off(self) -> None:
        """Turn it off, if it is on."""
        if self._thread is not None:
            self._line.stop()
            self._thread.join()
            self._line.close()
            self._thread = None

    def wait_for_power_cut(self, timeout: float | None = None) -> bool:
        """Wait until the limit of block operations is reached; return whether it was.

        Raises `RuntimeError` if the board ended for another reason.
        """
        if not self._ended.wait(timeout):
            return False
        if self._status != _POWER_CUT:
            raise RuntimeError(f"the board is off: its last process ended with {self._status}")
        return True

    def _clock_offset(self) -> int:
        if self._starts_at is None:
            return 0
        return int(self._starts_at.timestamp()) * 10**9 - time.time_ns()

    def _work(self) -> None:
        """Run a process from each reset to the next, until one ends otherwise or is stopped."""
        self._status: int | None = _HARD_RESET
        self._failure: OSError | None = None
        try:
            while self._status in (_SOFT_RESET, _SOFT_RESET_RAW, _HARD_RESET):
                self._run_process(raw=self._status == _SOFT_RESET_RAW)
        except OSError as error:
            self._failure = error
        finally:
            self._line.hang_up()
            self._ended.set()
            self._started.set()

    def _run_process(self, raw: bool) -> None:
        """Run one process; its status is `None` if it was stopped."""
        self._line.reset()
        boots, booting = os.pipe()
        with os.fdopen(boots, "rb", 0) as says, os.fdopen(booting, "wb", 0) as to_say:
            process = self._start_process(raw, booting)
            to_say.close()
            with process:
                ended = os.pidfd_open(process.pid)
                booted = boots in self._line.pump((boots, ended)) and says.read(1) != b""
                if booted:
                    self._booted = True
                    self._started.set()
                self._line.pump((ended,), process.pid if booted else None)
                self._status = process.poll()
                process.kill()
            os.close(ended)
        self._line.drain()

    def _start_process(self, raw: bool, booting: int) -> "subprocess.Popen[bytes]":
        settings = {
            "flash": str(self.flash),
            "filesystem": self._filesystem,
            "block_size": BLOCK_SIZES[self._filesystem],
            "romfs": str(self.romfs or ""),
            "epoch": self._epoch,
            "poses_as": self._poses_as,
            "kept": str(self._kept),
            "raw": raw,
            "booting": booting,
        }
        command = [self._micropython, "-X", f"heapsize={self._heap}"]
        return subprocess.Popen(  # noqa: S603 - the user's own MicroPython
            [*command, "-c", firmware.program(self._firmware)],
            stdin=self._line.terminal,
            stdout=self._line.terminal,
            stderr=self._line.terminal,
            env={**os.environ, "TZ": "UTC", "MICROBUDGET_BOARD": json.dumps(settings)},
            start_new_session=True,
            pass_fds=(booting,),
        )

    def _complain(self) -> None:
        """Raise the reason why the first process ended before the board was on."""
        if self._failure is not None:
            raise self._failure
        if self._status == _NOT_MOUNTED:
            raise ValueError(
                f"{self.flash} has no {self._filesystem} that can be mounted, and it is not empty, "
                "so it is not formatted: name its file system, or another file, or a new one"
            )
        said = self._line.said.decode(errors="replace").strip()
        raise RuntimeError(
            f"{self._micropython} ended with {self._status} before it was a board: "
            f"{said or 'it printed nothing'}"
        )


def _find_micropython() -> str:
    """Return `$MICROPYTHON`, else one on the PATH, else the one below this checkout."""
    named = os.environ.get("MICROPYTHON")
    found = shutil.which(named or "micropython") or (None if named else shutil.which(_IN_CHECKOUT))
    if found is None:
        raise FileNotFoundError(_HOW_TO_GET_IT)
    return found


def _checked(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise ValueError(f"power is cut after at least one block operation, not {limit}")
    return limit
