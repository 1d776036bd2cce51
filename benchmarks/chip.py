"""What the budgets take on a chip: heap and C stack, on an emulated Cortex-M3.

Its floats have 32 bits, its pointers too, and bytecode in ROMFS runs where it is. The sets of names
are those of the group `heap`. The agent makes five LLM calls with two tools, within a day whose
store is on littlefs; a scripted model gives the answers, because the chip has no network. The turn
of a board is that of `microbudget board doctor`: the console, its agent and the settings of a chip.
Its chat is `boards/unix/main.py` in the file system, precompiled, with its network made there.

A stack is the least limit, in steps of 32 bytes, within which MicroPython does not refuse to nest
deeper. The limit is 7,936 bytes on an RP2040, the smallest of the boards'.
"""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import heap
from benchmarks.chip_chat import chat, largest_block
from benchmarks.emulated_chip import CHIP, KIB, STACK, EmulatedChip
from benchmarks.figures import Figure
from benchmarks.mpy import ROOT
from budget_cpython.board.build import Form, build_core, compile_package, romfs_image
from budget_cpython.board.doctor.finding import program_text
from budget_cpython.board.fit import LEDGER_STACK_BYTES, STACK_BYTES

STEPS = 5
MAX_AGENT_KIB = 64
MAX_TRACKERS = {"folder": 21 * KIB, "ROMFS": 12 * KIB}
MAX_BOARD_STACK = 6500
MAX_DEEP_STACK = 7500
RP2_STACK = 7936
GC_THRESHOLD = 4096  # of the boards' settings
STEP = 32
DEEP = "import outer"
AGENT = "import agent\nagent.main()"
_PROGRAMS = {
    "outer": "import inner",
    "inner": "import agent\nagent.main()",
    "agent": """
import asyncio, gc, json
gc.threshold(2000)  # collected often, the heap keeps in one piece
from budget_core import Budget, BudgetWrapper, DailyBudgetConfig, DailyBudgetTracker
from budget_core import Enforcement, FileBudgetStore, Operative, Tool, WindDown
from budget_core.chat.completion import parse_answer

seen = {"peak": 0, "called": []}
notes = {"todo.txt": "Water the tomatoes.", "done.txt": "Sow the beans."}

def list_files():
    seen["called"].append("list_files")
    return "\\n".join(sorted(notes))

def read_file(path):
    seen["called"].append("read_file")
    return notes[path]

path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
tools = [
    Tool("list_files", "List the notes.", list_files),
    Tool("read_file", "Read a note.", read_file, path),
]

class Model:
    calls = 0

    def get_default_model(self):
        return "scripted"

    async def chat(self, messages, **options):
        name, arguments = (
            ("list_files", {}), ("read_file", {"path": "done.txt"}),
            ("read_file", {"path": "todo.txt"}), ("list_files", {}), (None, None),
        )[self.calls]
        self.calls += 1
        message = {"role": "assistant", "content": "The tomatoes want water."}
        if name:
            call = {"name": name, "arguments": json.dumps(arguments)}
            message["tool_calls"] = [
                {"id": "call_%d" % self.calls, "type": "function", "function": call}
            ]
        usage = {"prompt_tokens": 80, "completion_tokens": 20, "total_tokens": 100}
        gc.collect()
        seen["peak"] = max(seen["peak"], gc.mem_alloc())
        return parse_answer(json.dumps({"choices": [{"message": message}], "usage": usage}))

def main():
    model = Model()
    config = DailyBudgetConfig(10_000, enforcement=Enforcement.CUTOFF)
    day = DailyBudgetTracker(config, clock=lambda: 1_800_000_000, store=FileBudgetStore("/budget"))
    operative = Operative(
        BudgetWrapper(model, day, estimates=True),
        tools,
        Budget(max_turns=6, max_tokens=20_000, timeout=60, max_tool_calls=8),
        "You look after a garden.",
        wind_down=WindDown((0.8,)),
    )
    result = asyncio.run(operative.run("What is left to do?"))
    if result.reason is not None or result.hook_error is not None or day.store_error is not None:
        raise RuntimeError(repr((result.reason, result.hook_error, day.store_error)))
    seen.update(steps=model.calls, text=result.text, tokens=day.total_tokens)
    print(json.dumps(seen))
""",
}


def build(folder: Path) -> bytes:
    """Return a ROMFS image of the core, the agent and a board's settings, made in a folder."""
    library, source = folder / "library", folder / "source"
    build_core(Form.ROMFS, library)
    source.mkdir()
    for name, program in _PROGRAMS.items():
        (source / f"{name}.py").write_text(program)
    (source / "settings.py").write_bytes((ROOT / "boards/shared/settings.py").read_bytes())
    compile_package(source, folder / "compiled")
    for module in (folder / "compiled/source").iterdir():
        module.rename(library / module.name)
    return romfs_image(library)


def run(image: bytes, program: str, kib: int = 192, stack: int = STACK) -> dict[str, Any]:
    """Return the JSON that a program prints in a heap of so many KiB; raise as the chip does."""
    with EmulatedChip(kib * KIB, stack, image) as chip:
        said = chip.run(program)
    found: dict[str, Any] = json.loads(said.splitlines()[-1]) if said else {}
    return found


def board_turn(image: bytes, stack: int = STACK) -> dict[str, Any]:
    """Return what a board's turn says; raise where it did not make its calls."""
    program = f"exec({program_text('turn')!r})"
    seen = run(image, program, stack=stack)
    if seen.get("calls") != STEPS:
        raise RuntimeError(f"the turn of a board ended early: {seen}")
    return seen


def least(fits: Callable[[int], object], too_small: int, enough: int, step: int) -> int:
    """Return the least size, in steps, in which a program runs; it is known to run in `enough`."""
    while enough - too_small > step:
        middle = (too_small + enough) // (2 * step) * step
        try:
            fits(middle)
            enough = middle
        except RuntimeError as error:
            if not any(word in str(error) for word in ("MemoryError", "recursion", "ended early")):
                raise
            too_small = middle
    return enough


def measure(quick: bool = False) -> list[Figure]:
    """Return the heap and stack figures; `quick` changes nothing.

    Raises `RuntimeError` where the emulated chip is not built.
    """
    if not CHIP.exists():
        raise RuntimeError("the emulated chip is not built: make chip builds it")
    with TemporaryDirectory() as folder:
        image = build(Path(folder))
        figures = _sets(image, Path(folder, "library")) + _agent(image)
    return figures + _blocks() + _stacks(image)


def _sets(image: bytes, library: Path) -> list[Figure]:
    figures = []
    for home in ("folder", "ROMFS"):
        for name, program, before in heap.sets():
            text = heap.PROGRAM.format(before=before, measured=program)
            options: dict[str, Any] = {"romfs": image} if home == "ROMFS" else {"files": library}
            with EmulatedChip(**options) as chip:
                used = int(chip.run(text).split()[0])
            most = MAX_TRACKERS[home] if name == heap.TRACKERS else None
            figures.append(Figure(f"heap: {name}, {home}", used, "B", most))
    return figures


def _agent(image: bytes) -> list[Figure]:
    seen = run(image, AGENT)
    kib = least(lambda size: run(image, AGENT, size), 16, 192, 1)
    return [
        Figure("heap: agent at work, ROMFS", seen["peak"], "B"),
        Figure("least heap for the agent, ROMFS", kib, "KiB", MAX_AGENT_KIB),
    ]


def _blocks() -> list[Figure]:
    name = "largest free block of a chat in a heap of 190 KiB"
    return [
        Figure(f"{name}, gc.threshold({GC_THRESHOLD})", largest_block(GC_THRESHOLD), "B"),
        Figure(f"{name}, without", largest_block(-1), "B"),
    ]


def _stacks(image: bytes) -> list[Figure]:
    programs: list[tuple[str, Callable[[int], object], int]] = [
        ("the turn of a board", lambda size: board_turn(image, size), MAX_BOARD_STACK),
        ("the chat of a board", lambda size: chat(Form.MPY, False, size), STACK_BYTES),
        (
            "the chat of a board with a LEDGER",
            lambda size: chat(Form.MPY, True, size),
            LEDGER_STACK_BYTES,
        ),
        (
            "an agent imported two modules deep",
            lambda size: run(image, DEEP, stack=size),
            MAX_DEEP_STACK,
        ),
    ]
    return [
        Figure(f"C stack: {name}", least(fits, 2000, STACK, STEP), "B", most)
        for name, fits, most in programs
    ]
