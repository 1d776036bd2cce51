"""What the budgets take of a chip's heap, precompiled, on the 64-bit unix port of MicroPython.

Measured in a fresh interpreter: what is in use after garbage collection, before and after importing
the trackers, wrapper, policy, configurations and memory store by their public names and making one
of each; and the same for what bounds a turn in time, from a plain folder and from ROMFS.

MicroPython keeps names in pools of 20, 40, 80, 160, …, so a set whose names fill a pool to the brim
takes a whole new one for the next: 1.8 KB for the 141st.
"""

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agent import measure_agent
from benchmarks.figures import Figure, ratio
from benchmarks.mpy import ROOT, find_micropython, run_micropython
from budget_cpython.board.build import compile_package
from budget_cpython.board.image import image_of

MAX_HEAP = 20 * 1024
MAX_MPY = 12 * 1024
MAX_TURN_HEAP = 12 * 1024
OURS = "budget_core"
PEER = "exoclaw_turn_budget"
TYPES_ONLY = "budget_core.shapes"
TURN = "deadline, turn budget and turn state"

_PROGRAM = """
import gc, sys
{before}
gc.collect()
start = gc.mem_alloc()
{measured}
gc.collect()
print(gc.mem_alloc() - start, *sys.modules)
"""
_PROVIDER = """
class Provider:
    def get_default_model(self):
        return "m"
"""
_ONE_OF_EACH = """
from {package} import BudgetWrapper, DailyBudgetConfig, DailyBudgetTracker, InMemoryBudgetStore
from {package} import TurnBudgetConfig, TurnBudgetPolicy, TurnBudgetTracker
store = InMemoryBudgetStore()
turn = TurnBudgetTracker(TurnBudgetConfig())
day = DailyBudgetTracker(DailyBudgetConfig(fallback_model="f"){store})
wrapper = BudgetWrapper(Provider(), turn)
policy = TurnBudgetPolicy(turn)
"""
_TURN = """
from budget_core import Deadline, TurnBudget, TurnRuntimeState
deadline = Deadline.from_now(60)
budget = TurnBudget.create()
state = TurnRuntimeState("one session", budget)
"""
_FROM_ROMFS = """
import vfs
vfs.mount(vfs.VfsRom(open("image.romfs", "rb").read()), "/rom")
sys.path[:] = ["/rom"]
"""
_EXOCLAWS_OWN = """
sys.path.append("lib/_mp_lib")
"""
# What the peer's annotations and clock ask for and MicroPython lacks; exoclaw ships the rest.
_SHIMS = {
    "__future__": "annotations = None",
    "datetime": "class datetime:\n    pass\nclass timezone:\n    utc = None",
}


def measure(quick: bool = False) -> list[Figure]:
    """Return the heap and `.mpy` figures; there is no quicker way.

    Raises `RuntimeError` where MicroPython or the peer is missing.
    """
    micropython = find_micropython()
    if micropython is None:
        raise RuntimeError("the heap needs MicroPython: set MICROPYTHON to its path")
    with TemporaryDirectory() as folder:
        ours, bare = _ours(micropython, Path(folder, "ours"))
        agent = measure_agent(micropython, Path(folder, "agent"))
        return ours + agent + _peer(micropython, Path(folder, "peer"), bare)


def _ours(micropython: str, folder: Path) -> tuple[list[Figure], int]:
    sizes = compile_package(ROOT / OURS, folder / "lib")
    sizes.pop(TYPES_ONLY, None)
    bare, loaded = _heap(micropython, folder, _one_of_each(OURS), _PROVIDER)
    stored, _ = _heap(micropython, folder, _one_of_each(OURS, ", store=store"), _PROVIDER)
    everything, _ = _heap(micropython, folder, "".join(f"import {name}\n" for name in sizes))
    turn, turn_loaded = _heap(micropython, folder, _TURN)
    (folder / "image.romfs").write_bytes(image_of(folder / "lib"))
    in_place, _ = _heap(micropython, folder, _TURN, _FROM_ROMFS)
    figures = [
        Figure("heap: one of each", bare, "B", MAX_HEAP),
        Figure("heap: one of each, the store in use", stored, "B", MAX_HEAP),
        Figure("heap: every module of the core imported", everything, "B"),
        Figure(".mpy: modules of that set", _bytes(sizes, loaded), "B", MAX_MPY),
        Figure(".mpy: every module of the core", sum(sizes.values()), "B"),
        Figure(f"heap: {TURN}", turn, "B", MAX_TURN_HEAP),
        Figure(f"heap: {TURN}, from ROMFS", in_place, "B", MAX_TURN_HEAP),
        Figure(f".mpy: {TURN}", _bytes(sizes, turn_loaded), "B"),
    ]
    return figures, bare


def _peer(micropython: str, folder: Path, ours: int) -> list[Figure]:
    library = folder / "lib"
    for package in (_package("exoclaw"), _package(PEER), _package("exoclaw") / "_mp_lib"):
        compile_package(package, library)
    for name, text in _SHIMS.items():
        (library / f"{name}.py").write_text(text)
    before = _PROVIDER + _EXOCLAWS_OWN
    everything, loaded = _heap(micropython, folder, _one_of_each(PEER), before)
    others = "".join(f"import {name}\n" for name in loaded if not name.startswith(PEER))
    own, _ = _heap(micropython, folder, _one_of_each(PEER), before + others)
    return [
        Figure("heap: exoclaw-turn-budget, with what it imports", everything, "B"),
        Figure("heap: exoclaw-turn-budget, its own part", own, "B"),
        ratio("heap: ours to theirs, with what each imports", ours, everything),
        ratio("heap: ours to theirs, own part", ours, own),
    ]


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"the heap needs {name}, to compare with: see requirements-dev.txt")
    return Path(spec.origin).parent


def _bytes(sizes: dict[str, int], loaded: list[str]) -> int:
    return sum(sizes[name] for name in loaded if name in sizes)


def _one_of_each(package: str, store: str = "") -> str:
    return _ONE_OF_EACH.format(package=package, store=store)


def _heap(micropython: str, folder: Path, measured: str, before: str = "") -> tuple[int, list[str]]:
    """Return the bytes that the program `measured` keeps, and the modules it has loaded."""
    program = _PROGRAM.format(before=before, measured=measured)
    used, *loaded = run_micropython(micropython, program, folder, "lib").split()
    return int(used), sorted(loaded)
