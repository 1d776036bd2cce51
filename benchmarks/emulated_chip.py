"""An emulated Cortex-M3 with MicroPython, as `scripts/chip.sh` builds it.

It has a serial port, littlefs in memory that starts empty, ROMFS, a clock and floats of 32 bits,
and no network. Heap and stack are as large as asked for. Run one program on it:

    python -m benchmarks.emulated_chip --heap 64 --stack 7680 --romfs FOLDER PROGRAM
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from mpremote.transport import TransportError  # type: ignore[import-untyped]
from mpremote.transport_serial import SerialTransport  # type: ignore[import-untyped]

from benchmarks.mpy import ROOT
from budget_cpython.board.build import romfs_image

CHIP = ROOT / ".local/chip/chip"
KIB = 1024
STACK = 32 * KIB
ANSWER_S = 60.0
SILENCE_S = 900.0  # of a program at work, on a machine that has much else to do
_ROMFS_AT = 0x200000
_FILES_AT = 0x20200000
_OPTIONS_AT = 0x21FFF000
_COPY = """
import os, uctypes, vfs
vfs.mount(vfs.VfsRom(uctypes.bytearray_at({at}, {size})), "/files")
def copy(folder):
    for name, kind, *_ in os.ilistdir("/files" + folder):
        path = folder + "/" + name
        if kind & 0x4000:
            os.mkdir(path)
            copy(path)
        else:
            with open("/files" + path, "rb") as old, open(path, "wb") as new:
                new.write(old.read())
copy("")
vfs.umount("/files")
"""
_BEFORE = "import chip\nchip.stack_paint()\n"
_AFTER = "import chip, gc\nused = chip.stack_used()\ngc.collect()\nprint(gc.mem_alloc(), used)\n"


class EmulatedChip:
    """The chip, switched on within its `with` block; `port` is its serial port.

    `heap` and `stack` are in bytes: all of the heap, its tables included, and where MicroPython
    stops a program that nests too deep. `romfs` is an image, or a folder to make one of. `files` is
    a folder that its file system starts with. A program hangs that prints nothing for `patience_s`.
    """

    def __init__(
        self,
        heap: int = 192 * KIB,
        stack: int = STACK,
        romfs: bytes | Path | None = None,
        files: Path | None = None,
        patience_s: float = SILENCE_S,
    ) -> None:
        self._patience_s = patience_s
        self._words = (heap, stack)
        self._images = {}
        if romfs is not None:
            self._images[_ROMFS_AT] = romfs_image(romfs) if isinstance(romfs, Path) else romfs
        if files is not None:
            self._images[_FILES_AT] = romfs_image(files)

    def __enter__(self) -> Self:
        self._open = ExitStack()
        with self._open:
            folder = self._open.enter_context(TemporaryDirectory())
            process = self._open.enter_context(self._start(Path(folder)))
            self._open.callback(process.kill)
            self.port = _find_port(process)
            if _FILES_AT in self._images:
                self.run(_COPY.format(at=_FILES_AT, size=len(self._images[_FILES_AT])))
                self._transport.enter_raw_repl(soft_reset=True)
            self._open = self._open.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    @cached_property
    def _transport(self) -> "SerialTransport":
        """The connection, opened when a program is first run; until then the port is free."""
        transport = SerialTransport(self.port, timeout=min(1.0, self._patience_s))
        self._open.callback(transport.serial.close)
        transport.enter_raw_repl(soft_reset=False, timeout_overall=ANSWER_S)
        return transport

    def run(self, program: str, say: Callable[[str], object] | None = None) -> str:
        """Run a program's text and return its output; `say` gets it as it comes.

        Raises `RuntimeError` with its traceback where it fails, or where it hangs.
        """
        parts: list[str] = []

        def take(data: bytes) -> None:
            parts.append(_text(data))
            if say is not None:
                say(parts[-1])

        try:
            _, error = self._transport.exec_raw(program, self._patience_s, take)
        except TransportError as problem:
            raise RuntimeError(f"the chip hangs: {problem}; it said {''.join(parts)}") from None
        said = "".join(parts)
        if error:
            raise RuntimeError(f"MicroPython on the chip failed: {said}{_text(error)}".strip())
        return said

    def measured(
        self, program: str, say: Callable[[str], object] | None = None
    ) -> tuple[int, int, str]:
        """Run a program; return the bytes of heap it keeps, the most of the stack, its output."""
        before = int(self.run(_AFTER).split()[0])
        said = self.run(_BEFORE + program, say)
        heap, stack = (int(word) for word in self.run(_AFTER).split())
        return heap - before, stack, said

    def _start(self, folder: Path) -> "subprocess.Popen[str]":
        options = []
        for number, word in enumerate(self._words):
            value = f"addr={_OPTIONS_AT + 4 * number},data={word},data-len=4"
            options += ["-device", f"loader,{value}"]
        for place, image in self._images.items():
            path = folder / f"{place:x}"
            path.write_bytes(image)
            options += ["-device", f"loader,file={path},addr={place},force-raw=on"]
        return subprocess.Popen(  # noqa: S603 - ours
            [CHIP, "-serial", "pty", *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def _find_port(process: "subprocess.Popen[str]") -> str:
    said = ""
    for line in process.stdout or ():
        said += line
        if found := re.search(r"redirected to (\S+)", line):
            return found[1]
    raise RuntimeError(f"the emulator ended: {said.strip()}")


def _text(data: bytes) -> str:
    return data.translate(None, b"\x04\r").decode("utf-8", "replace")


def main(arguments: list[str] | None = None) -> int:
    """Run a program on the chip, and print what it takes; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--heap", type=int, default=192, metavar="KIB", help="default: 192")
    parser.add_argument("--stack", type=int, default=STACK, metavar="B", help=f"default: {STACK}")
    parser.add_argument("--romfs", type=Path, metavar="FOLDER", help="its ROMFS, imported from")
    parser.add_argument("--files", type=Path, metavar="FOLDER", help="copied to its file system")
    parser.add_argument("program", type=Path)
    options = parser.parse_args(arguments)
    with EmulatedChip(options.heap * KIB, options.stack, options.romfs, options.files) as chip:
        try:
            heap, stack, _ = chip.measured(options.program.read_text(), _show)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    print(f"heap kept: {heap:,} B; stack used: {stack:,} B")
    return 0


def _show(text: str) -> None:
    print(text, end="", flush=True)


if __name__ == "__main__":
    sys.exit(main())
