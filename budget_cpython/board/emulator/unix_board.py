"""An emulated board: its flash, its clock, its port, and its processes."""

import struct
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from budget_cpython.board.emulator import firmware
from budget_cpython.board.emulator.images import LockedFile, check_size
from budget_cpython.board.emulator.micropython import check_heap, find_micropython
from budget_cpython.board.emulator.process import CLOCKS, NOT_MOUNTED, POWER_CUT, BoardProcesses
from budget_cpython.board.emulator.serial_line import SerialLine

FILESYSTEMS = ("littlefs", "fat")
_KEPT = struct.Struct("<qqq")


class UnixBoard:
    """MicroPython's unix port as a device.

    `flash` is its image; a new one gets `flash_size` bytes and is formatted, as is an empty one or
    one that is all 0xFF. A new `romfs` is blank, with `romfs_size` bytes. `heap` is a size for
    MicroPython's `-X heapsize=`. `cut_power_after` is the number of block operations after which
    the first power-up ends; `power_on` sets the next. `clock` is `None` for the host's, else
    `unset` (2021 at power-up, as on an rp2), `2000` (the host's time, counted from 2000), or
    `unset-2000` (2000 at power-up, as on an ESP32). Raises `ValueError` for anything else,
    `FileNotFoundError` if there is no MicroPython. Turning it on raises `ValueError` if the file
    has another file system, `RuntimeError` if another board uses it or MicroPython ends early.
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
    ) -> None:
        if filesystem not in FILESYSTEMS:
            raise ValueError(f"the file system is one of {FILESYSTEMS}, not {filesystem!r}")
        if clock is not None and clock not in CLOCKS:
            raise ValueError(f"the clock is one of {tuple(CLOCKS)}, not {clock!r}")
        check_heap(heap)
        check_size(flash_size, filesystem, "it")
        self.flash = flash.resolve()
        self.romfs = None if romfs is None else romfs.resolve()
        self._sizes = (flash_size, romfs_size)
        self._filesystem = filesystem
        self._micropython = micropython or find_micropython()
        self._first_limit = _checked(cut_power_after)
        self._processes = BoardProcesses(
            self.flash, self.romfs, heap, filesystem, clock, self._micropython
        )
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        flash_size, romfs_size = self._sizes
        with ExitStack() as stack:
            stack.enter_context(LockedFile(self.flash)).prepare_flash(
                flash_size, self._filesystem, self._micropython
            )
            if self.romfs is not None:
                stack.enter_context(LockedFile(self.romfs)).prepare_romfs(romfs_size)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="microbudget-board-"))
            self._kept = Path(folder, "kept")
            self._firmware = Path(folder, "firmware.romfs")
            self._firmware.write_bytes(firmware.image())
            stack.callback(self.power_off)
            self.power_on(self._first_limit)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        offset = self._processes.clock_offset(time.time_ns())
        self._kept.write_bytes(_KEPT.pack(limit or 0, 0, offset))
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
        if self._status != POWER_CUT:
            raise RuntimeError(f"the board is off: its last process ended with {self._status}")
        return True

    def _work(self) -> None:
        self._status, self._failure = None, None
        try:
            self._status = self._processes.run(
                self._line, self._firmware, self._kept, self._note_boot
            )
        except OSError as error:
            self._failure = error
        finally:
            self._line.hang_up()
            self._ended.set()
            self._started.set()

    def _note_boot(self) -> None:
        self._booted = True
        self._started.set()

    def _complain(self) -> None:
        """Raise the reason why the first process ended before the board was on."""
        if self._failure is not None:
            raise self._failure
        if self._status == NOT_MOUNTED:
            raise ValueError(
                f"{self.flash} has no {self._filesystem} that can be mounted, and it is not empty, "
                "so it is not formatted: name its file system, or another file, or a new one"
            )
        said = self._line.said.decode(errors="replace").strip()
        raise RuntimeError(
            f"{self._micropython} ended with {self._status} before it was a board: "
            f"{said or 'it printed nothing'}"
        )


def _checked(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise ValueError(f"power is cut after at least one block operation, not {limit}")
    return limit
