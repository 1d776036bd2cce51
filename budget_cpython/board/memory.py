"""The memory of a connected board: its heap, C stack and file system."""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

from budget_cpython.board.device import Device
from budget_cpython.board.errors import DeviceError
from budget_cpython.board.programs import imports_at_the_top, parsed, programs_of
from budget_cpython.board.reach import loaded_at_start

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
    """Return how much heap is left once a board has imported what its programs import.

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
