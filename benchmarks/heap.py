"""What the budgets take of a chip's heap, precompiled, on the unix port of MicroPython.

Measured in a fresh interpreter: what is in use after garbage collection, before and after importing
a set of public names and making one of each, from a plain folder and from ROMFS: the trackers,
wrapper, policy and configurations, without a store and with the chip's; a daily tracker on a chip's
store alone; what bounds a turn in time; every module. Where this machine can run the 32-bit port,
whose pointers are as long as a chip's, it is measured as well.

MicroPython keeps names in pools of 20, 40, 80, 160, …, so a set whose names fill a pool to the brim
takes a whole new one for the next: 1.8 KB for the 141st.
"""

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agent import measure_agent
from benchmarks.figures import Figure, ratio
from benchmarks.mpy import ROOT, find_micropython, find_micropython32, run_micropython
from budget_cpython.board.build import compile_package
from budget_cpython.board.image import image_of

KIB = 1024
MAX_HEAP = 20 * KIB
MAX_STORED = 24 * KIB
MAX_DAILY = 14 * KIB
MAX_ALL = 64 * KIB
MAX_TURN_HEAP = 12 * KIB
MAX_MPY = 12 * KIB
MAX_ALL_MPY = 40 * KIB
FROM_ROMFS = 0.7
OURS = "budget_core"
PEER = "exoclaw_turn_budget"
TYPES_ONLY = "_types.py"
DAILY = "daily tracker and chip's store"
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
from {package} import BudgetWrapper, DailyBudgetConfig, DailyBudgetTracker, {store}
from {package} import TurnBudgetConfig, TurnBudgetPolicy, TurnBudgetTracker
store = {store}({path})
turn = TurnBudgetTracker(TurnBudgetConfig())
day = DailyBudgetTracker(DailyBudgetConfig(fallback_model="f"){given})
wrapper = BudgetWrapper(Provider(), turn)
policy = TurnBudgetPolicy(turn)
"""
_DAILY = """
from budget_core import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore
day = DailyBudgetTracker(DailyBudgetConfig(), store=FileBudgetStore("budget"))
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
sys.path[:] = ["/rom", ".frozen"]
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
    micropython32 = find_micropython32()
    with TemporaryDirectory() as folder:
        built = Path(folder, "ours")
        sizes = compile_package(ROOT / OURS, built / "lib", left_out={TYPES_ONLY})
        (built / "image.romfs").write_bytes(image_of(built / "lib"))
        figures, bare = _ours(micropython, built, sizes)
        if micropython32 is not None:
            figures += _sets(micropython32, built, sizes, ", 32-bit")
        figures += measure_agent(micropython, Path(folder, "agent"))
        return figures + _peer(micropython, Path(folder, "peer"), bare)


def _ours(micropython: str, folder: Path, sizes: dict[str, int]) -> tuple[list[Figure], int]:
    bare, loaded = _heap(micropython, folder, _one_of_each(OURS), _PROVIDER)
    _, turn = _heap(micropython, folder, _TURN)
    _, daily = _heap(micropython, folder, _DAILY)
    figures = [
        Figure("heap: one of each", bare, "B", MAX_HEAP),
        Figure(".mpy: modules of that set", _bytes(sizes, loaded), "B", MAX_MPY),
        Figure(f".mpy: {TURN}", _bytes(sizes, turn), "B"),
        Figure(f".mpy: {DAILY}", _bytes(sizes, daily), "B"),
        Figure(".mpy: every module of the core", sum(sizes.values()), "B", MAX_ALL_MPY),
        *_sets(micropython, folder, sizes, ""),
    ]
    return figures, bare


def _sets(micropython: str, folder: Path, sizes: dict[str, int], where: str) -> list[Figure]:
    """Return what each set of names takes, from a folder and from ROMFS."""
    stored = _one_of_each(OURS, "FileBudgetStore", '"budget"')
    everything = "".join(f"import {name}\n" for name in sizes)
    figures = []
    for name, program, provider, most in (
        ("one of each, on the chip's store", stored, _PROVIDER, MAX_STORED),
        (DAILY, _DAILY, "", MAX_DAILY),
        (TURN, _TURN, "", MAX_TURN_HEAP),
        ("every module of the core imported", everything, "", MAX_ALL),
    ):
        plain, _ = _heap(micropython, folder, program, provider)
        in_place, _ = _heap(micropython, folder, program, provider + _FROM_ROMFS)
        figures += [
            Figure(f"heap: {name}{where}", plain, "B", most),
            Figure(f"heap: {name}, from ROMFS{where}", in_place, "B", most),
            ratio(f"heap: {name}, ROMFS to folder{where}", in_place, plain, FROM_ROMFS),
        ]
    return figures


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


def _one_of_each(package: str, store: str = "InMemoryBudgetStore", path: str = "") -> str:
    given = ", store=store" if path else ""
    return _ONE_OF_EACH.format(package=package, store=store, path=path, given=given)


def _heap(micropython: str, folder: Path, measured: str, before: str = "") -> tuple[int, list[str]]:
    """Return the bytes that the program `measured` keeps, and the modules it has loaded."""
    program = _PROGRAM.format(before=before, measured=measured)
    used, *loaded = run_micropython(micropython, program, folder, "lib").split()
    return int(used), sorted(loaded)
