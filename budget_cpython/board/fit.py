"""Whether a chat fits a board: its heap, its C stack and its file system.

Tests and benchmarks measure the figures.
"""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

from budget_cpython.board.build import Form
from budget_cpython.board.device import Device, Identity
from budget_cpython.board.errors import DeviceError
from budget_cpython.board.programs import imports_at_the_top, parsed, programs_of
from budget_cpython.board.reach import loaded_at_start, reach_of

KIB = 1024
# KiB of the heap of a 32-bit chip; 64 bits take twice as much. A turn is one of six calls with two
# tools, another in which the day nears its end, and one that is refused.
TURN_KIB = {Form.SOURCE: 172, Form.MPY: 136, Form.ROMFS: 84, Form.FROZEN: 84}
STREAM_KIB = {Form.SOURCE: 10, Form.MPY: 9, Form.ROMFS: 7, Form.FROZEN: 7}
LEDGER_KIB = {Form.SOURCE: 72, Form.MPY: 80, Form.ROMFS: 46, Form.FROZEN: 46}
TLS_KIB = 40  # while a request is open
# Bytes of the C stack of a chip. The frames of 64 bits are larger, and so is their stack by far.
STACK_BYTES = 5_376
LEDGER_STACK_BYTES = 6_400
_OWN_TLS = ("linux", "darwin", "win32")  # there TLS takes no memory of the heap
_CHAT = "board/console.py"
_FLEET = "board/fleet.py"
# Wi-Fi takes its memory of the heap's on some chips, once it is on.
_MEMORY = """
import gc, json, micropython, os
was_on = True
try:
    import network
    wlan = network.WLAN(network.STA_IF)
    was_on = wlan.active()
    wlan.active(True)
except Exception:
    pass
gc.collect()
micropython.mem_info()
flash = os.statvfs("/")
print(json.dumps([gc.mem_free(), gc.mem_alloc(), flash[0], flash[0] * flash[3]]))
if not was_on:
    wlan.active(False)
"""
_STACK = re.compile(r"stack: (\d+) out of (\d+)")


@dataclass(frozen=True)
class Memory:
    """Bytes of a board: its heap, its C stack (0 if it does not say), and its file system."""

    heap_free: int
    heap: int
    stack: int
    block: int
    flash_free: int

    @property
    def heap_used(self) -> int:
        """Bytes of heap in use."""
        return self.heap - self.heap_free

    def __str__(self) -> str:
        stack = f", C stack {self.stack:,}" if self.stack else ""
        heap = f"heap {self.heap_free:,} of {self.heap:,} bytes free"
        return f"{heap}{stack}, file system {self.flash_free:,} free"


def measure(device: Device) -> Memory:
    """Return the memory of a board that runs no program; its Wi-Fi is on meanwhile."""
    said = device.connection.run(_MEMORY)
    stack = _STACK.search(said)
    free, used, block, flash = json.loads(said.strip().splitlines()[-1])
    return Memory(free, free + used, int(stack[2]) if stack else 0, block, flash)


def heap_at_start(device: Device, board: Path) -> str:
    """Return the heap left once a board has imported the modules of its programs.

    The programs do not run, and the modules stay in memory until the board restarts.
    """
    trees = map(parsed, programs_of(board))
    lines = [ast.unparse(node) for tree in trees for node in imports_at_the_top(tree)]
    lines += [f"import {name}" for name in loaded_at_start(board)]
    try:
        device.connection.run("\n".join(["import gc", "gc.threshold(4096)", *lines]))
        return f"with the program's imports done: {measure(device)}"
    except DeviceError as error:
        return f"warning: importing what the program imports failed: {error}"


def heap_needed(board: Path, form: Form, on_tls: bool, found: Identity) -> dict[str, int]:
    """Return the bytes of heap that a board's chat needs, by what for.

    Empty if its program is not the chat: then the need is not known.
    """
    reach = reach_of(board)
    if _CHAT not in reach.modules:
        return {}
    words = 2 if found.has_64_bits else 1
    needed = {"a turn of the chat": _usable(TURN_KIB[form], words)}
    if _streams(board):
        needed["streaming"] = _usable(STREAM_KIB[form], words)
    if _FLEET in reach.modules:
        needed["the ledger"] = _usable(LEDGER_KIB[form], words)
    if on_tls and found.platform not in _OWN_TLS:
        needed["TLS"] = TLS_KIB * KIB
    return needed


def parts(needed: dict[str, int]) -> str:
    """Return needs in words: the sum, and the purposes."""
    each = ", ".join(f"{what} {size:,}" for what, size in needed.items())
    return f"a heap of {sum(needed.values()):,} bytes ({each})"


def unfit(needed: dict[str, int], has: Memory, form: Form) -> list[str]:
    """Return why a board's heap is too small, with the fix; nothing where it fits."""
    if sum(needed.values()) < has.heap + KIB:  # the figures are whole KiB
        return []
    fixes = [*form.smaller]
    if "TLS" in needed:
        fixes.append("an http URL of a gateway on your network")
    fixes.append("a board with more memory, such as PSRAM")
    return [
        f"the heap has {has.heap:,} bytes, but {sum(needed.values()):,} are needed: "
        f"use {', or '.join(fixes)}"
    ]


def stack_needed(board: Path, found: Identity) -> int:
    """Return the bytes of C stack that a board's chat needs: 0 where the need is not known.

    It is known for the 32 bits of a chip.
    """
    reach = reach_of(board)
    if _CHAT not in reach.modules or found.has_64_bits:
        return 0
    return LEDGER_STACK_BYTES if _FLEET in reach.modules else STACK_BYTES


def unfit_stack(needed: int, has: Memory) -> list[str]:
    """Return why the C stack is too small, with the fix; nothing where it fits or is not known."""
    if not has.stack or needed <= has.stack:
        return []
    return [
        f"the C stack has {has.stack:,} bytes, but {needed:,} are needed: use a firmware with a "
        "larger stack, such as the board's standard one"
    ]


def unfit_flash(needed: int, has: Memory, form: Form) -> list[str]:
    """Return why the file system is too small for `needed` bytes more, with the fix."""
    if needed <= has.flash_free:
        return []
    has_less = f"the file system has {has.flash_free:,} bytes free, but {needed:,} more are needed"
    return [", or use ".join([f"{has_less}: remove files of your own", *form.smaller])]


def _usable(kib: int, words: int) -> int:
    """Return the bytes for objects in a heap of so many KiB of a chip: the rest is its tables."""
    return kib * KIB * words * (128 * words) // (128 * words + 3)


def _streams(board: Path) -> bool:
    """Return whether a program asks for streams."""
    nodes = [node for path in programs_of(board) for node in ast.walk(parsed(path))]
    return any(isinstance(node, ast.keyword) and node.arg == "stream" for node in nodes)
