"""A board on the host: its flash, its clock, its port, and the processes that are its chip."""

import re
import struct
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from budget_cpython.board.emulator import firmware
from budget_cpython.board.emulator.process import CLOCKS, POWER_CUT, BoardProcesses
from budget_cpython.board.emulator.serial_line import SerialLine

FILESYSTEMS = ("littlefs", "fat")
_HEAP = re.compile(r"[1-9][0-9]*w?[km]?", re.IGNORECASE)
_KEPT = struct.Struct("<qqq")


class UnixBoard:
    """MicroPython's unix port as a device.

    `flash` is its image, made blank with `flash_size` bytes where there is none; so is `romfs`
    with `romfs_size`. `heap` is as MicroPython's `-X heapsize=` takes it. `cut_power_after` is the
    number of block operations after which the first power-up ends; `power_on` names the next.
    `clock` is `None` for the host's, else `unset` (2021 at power-up, as on an rp2), `2000` (the
    host's time, counted from 2000), or `unset-2000` (2000 at power-up, as on an ESP32). Raises
    `ValueError` for anything else, `FileNotFoundError` where there is no MicroPython.
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
        if not _HEAP.fullmatch(heap):
            raise ValueError(f"a heap is a size as in 96k, not {heap!r}")
        self.flash = flash.resolve()
        self.romfs = None if romfs is None else romfs.resolve()
        self._sizes = (flash_size, romfs_size)
        self._first_limit = _checked(cut_power_after)
        self._processes = BoardProcesses(
            self.flash, self.romfs, heap, filesystem, clock, micropython
        )
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._temporary = tempfile.TemporaryDirectory(prefix="microbudget-board-")
        self._kept = Path(self._temporary.name, "kept")
        self._firmware = Path(self._temporary.name, "firmware.romfs")
        self._firmware.write_bytes(firmware.image())
        for path, size in zip((self.flash, self.romfs), self._sizes, strict=True):
            if path is not None and not path.exists():
                path.write_bytes(b"\xff" * size)
        self.power_on(self._first_limit)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.power_off()
        self._temporary.cleanup()

    @property
    def port(self) -> str:
        """The path of its serial port, another one each time it is turned on.

        Raises `RuntimeError` while it is off.
        """
        if self._thread is None or self._ended.is_set():
            raise RuntimeError("the board is off")
        return self._line.name

    @property
    def operations(self) -> int:
        """The flash blocks written or erased since it was last turned on."""
        done: int = _KEPT.unpack(self._kept.read_bytes())[1]
        return done

    def power_on(self, cut_power_after: int | None = None) -> None:
        """Turn it on, off and on if it is on, with a limit of block operations or none."""
        limit = _checked(cut_power_after)
        self.power_off()
        offset = self._processes.clock_offset(time.time_ns())
        self._kept.write_bytes(_KEPT.pack(limit or 0, 0, offset))
        self._line = SerialLine()
        self._ended.clear()
        self._thread = threading.Thread(target=self._work, name="unix board")
        self._thread.start()

    def power_off(self) -> None:
        """Turn it off, whatever it does; nothing if it is off."""
        if self._thread is not None:
            self._line.stop()
            self._thread.join()
            self._line.close()
            self._thread = None

    def wait_for_power_cut(self, timeout: float | None = None) -> bool:
        """Wait until the limit of block operations is reached; return whether it was.

        Raises `RuntimeError` where the board does not run for another reason.
        """
        if not self._ended.wait(timeout):
            return False
        if self._status != POWER_CUT:
            raise RuntimeError(f"the board is off: its last process ended with {self._status}")
        return True

    def _work(self) -> None:
        try:
            self._status = self._processes.run(self._line, self._firmware, self._kept)
        finally:
            self._line.hang_up()
            self._ended.set()


def _checked(limit: int | None) -> int | None:
    if limit is not None and limit < 1:
        raise ValueError(f"power is cut after at least one block operation, not {limit}")
    return limit
