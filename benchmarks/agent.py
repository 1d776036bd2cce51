"""How small a heap a whole agent runs in, on MicroPython, with every module precompiled.

The agent is a chat client and an operative with two tools. It makes five LLM calls to the embedded
endpoint, which runs here and is reached over a socket. Its modules lie in a plain folder, so that
all of them are copied to the heap, or in ROMFS outside it, where bytecode runs in place as it does
in a chip's flash.

Heaps are in KiB of a 32-bit chip, as MicroPython's own `-X heapsize=96wk` counts them: on a 64-bit
port, where a pointer takes twice the room, that is twice as many bytes.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.mpy import run_micropython
from budget_cpython.board.build import CORE, TYPES_ONLY, compile_package, romfs_image
from scripted_model import ScriptedEndpoint

STEPS = 5
TOOLS = ("list_files", "read_file")
CHIP_KIB = 96
_MOST_KIB = 512
_SOURCE = """
import asyncio, gc, json
gc.threshold(2000)  # collected often, the heap keeps in one piece
from budget_core import Budget, ChatClient, Operative, Tool, WindDown

gc.collect()
seen = {"imported": gc.mem_alloc(), "peak": 0, "steps": 0, "called": []}
notes = {"todo.txt": "Water the tomatoes.", "done.txt": "Sow the beans."}

def list_files():
    return "\\n".join(sorted(notes))

def read_file(path):
    return notes[path]

path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools = [
    Tool("list_files", "List the notes.", list_files),
    Tool("read_file", "Read a note.", read_file, path),
]

def sample(kind, **fields):
    if kind == "response":
        seen["steps"] += 1
    elif kind == "tool_finished" and fields["status"] == "completed":
        seen["called"].append(fields["call"].name)
    fields = None
    gc.collect()
    seen["peak"] = max(seen["peak"], gc.mem_alloc())

def lease(service):
    from budget_core.ledger.http_client import HttpLedger
    from budget_core.ledger.lease import LeasedLedger

    return LeasedLedger(HttpLedger(service), {"tokens": 20_000, "calls": 20})

def main(base_url, streamed, service=None):
    ledger = lease(service) if service else None
    operative = Operative(
        ChatClient(base_url, "scripted"),
        tools,
        Budget(max_turns=6, max_tokens=20_000, timeout=60, max_tool_calls=8),
        "You look after a garden.",
        on_event=sample,
        stream=streamed,
        wind_down=WindDown((0.8,)),
        ledger=ledger,
        account="boards/pico" if service else None,
    )
    result = asyncio.run(operative.run("What is left to do?"))
    if service:
        asyncio.run(ledger.close())
    if result.reason is not None or result.hook_error is not None:
        raise RuntimeError(str(result.reason or result.hook_error))
    seen["text"] = result.text
    print(json.dumps(seen))
"""
_RUN = """
import sys
{before}
import agent
agent.main({url!r}, {streamed}, {service!r})
"""
# Mapped into memory, not read: the image is no part of the heap.
FROM_FLASH = """
import ffi, os, uctypes, vfs
size = os.stat("image.romfs")[6]
file = ffi.open(None).func("i", "open", "si")("image.romfs", 0)
start = ffi.open(None).func("p", "mmap", "pLiiil")(None, size, 1, 2, file, 0)
vfs.mount(vfs.VfsRom(uctypes.bytearray_at(start, size)), "/rom")
sys.path[:] = ["/rom", ".frozen"]
"""


def build(folder: Path) -> None:
    """Precompile the core and the agent into a folder, and make a ROMFS image of the same."""
    library = folder / "lib"
    compile_package(CORE, library, left_out={TYPES_ONLY})
    source = folder / "source"
    source.mkdir()
    (source / "agent.py").write_text(_SOURCE)
    compile_package(source, folder)
    (source / "agent.mpy").rename(library / "agent.mpy")
    (folder / "image.romfs").write_bytes(romfs_image(library))


def run(
    micropython: str,
    folder: Path,
    base_url: str,
    streamed: bool = False,
    in_flash: bool = True,
    heap: int = _MOST_KIB,
    service: str | None = None,
) -> dict[str, Any]:
    """Return what the agent says of its run in a heap of so many KiB of a chip.

    Its calls draw on the account `boards/pico` of a `service`, if there is one.

    `imported` and `peak` are the bytes in use after the imports and at the worst of all events,
    `steps` the LLM calls, `called` the tools. Raises `RuntimeError` where it fails.
    """
    before = FROM_FLASH if in_flash else ""
    program = _RUN.format(before=before, url=base_url, streamed=streamed, service=service)
    said = run_micropython(micropython, program, folder, "lib", heap=f"{heap}wk")
    found: dict[str, Any] = json.loads(said)
    return found


def smallest(micropython: str, folder: Path, base_url: str, streamed: bool, in_flash: bool) -> int:
    """Return the least KiB of a chip in which the agent still does its work, by bisection.

    It is known to do it in a large heap.
    """
    too_small, enough = 0, _MOST_KIB
    while enough - too_small > 1:
        middle = (too_small + enough) // 2
        try:
            run(micropython, folder, base_url, streamed, in_flash, middle)
            enough = middle
        except RuntimeError as error:
            if "MemoryError" not in str(error):
                raise
            too_small = middle
    return enough


def measure_agent(micropython: str, folder: Path, bits: str) -> list[Figure]:
    """Return what the agent takes of a heap, from a folder and from ROMFS."""
    folder.mkdir()
    build(folder)
    figures = []
    with ScriptedEndpoint() as endpoint:
        for in_flash, home in ((False, "folder"), (True, "ROMFS")):
            runs = [
                run(micropython, folder, endpoint.base_url, streamed, in_flash)
                for streamed in (False, True)
            ]
            least = [
                smallest(micropython, folder, endpoint.base_url, streamed, in_flash)
                for streamed in (False, True)
            ]
            where = f"{home}, {bits}"
            target = CHIP_KIB if in_flash else None
            figures += [
                Figure(f"heap: agent imported, {where}", runs[0]["imported"], "B"),
                Figure(f"heap: agent at work, {where}", runs[0]["peak"], "B"),
                Figure(f"heap: agent at work, streaming, {where}", runs[1]["peak"], "B"),
                Figure(f"least heap for the agent, {where}", max(least), "KiB of a chip", target),
            ]
    return figures
