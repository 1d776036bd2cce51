"""What the budgets take of a chip's heap, precompiled, on the unix port of MicroPython.

Measured in a fresh interpreter: the bytes in use after garbage collection, before and after it
imports a set of public names and makes one of each. Each set is measured from a plain folder, where
its bytecode is copied to the heap, and from ROMFS, where it is not. The 32-bit port has pointers as
long as a chip's; it is measured where this machine can run it.

MicroPython keeps names in pools of 20, 40, 80, 160, …, so one name more can cost a whole new pool:
1.8 KB for the 141st.
"""

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.agent import measure_agent
from benchmarks.chip_ledger import measure_ledger
from benchmarks.figures import Figure, ratio
from benchmarks.mpy import ROOT, find_micropython, find_micropython32, run_micropython
from budget_cpython.board.build import compile_package, romfs_image

MAX_TRACKERS = {"folder": 31_296, "ROMFS": 21_184}
MAX_AGENT = 100_000
MAX_TURN_IN_FLASH = 15 * 1024
_MPY_NOTE = (
    "The targets of the `.mpy` files, 12,500 B for the trackers and 118,000 B for every module, "
    "are retired: a program deploys what it imports, and what bounds it on a chip is its heap."
)
OURS = "budget_core"
PEER = "exoclaw_turn_budget"
TYPES_ONLY = "_types.py"
TRACKERS = "trackers"
STORED = "trackers on the chip's store"
DAILY = "daily tracker on the chip's store"
TURN = "deadline, turn budget and turn state"
AGENT = "operative and chat client, beside the trackers"
ALL = "every module"

PROGRAM = """
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
    async def chat(self, messages, **options):
        pass
"""
_TRACKERS = """
from {package} import BudgetWrapper, DailyBudgetConfig, DailyBudgetTracker, Enforcement
from {package} import {store}, TurnBudgetConfig, TurnBudgetPolicy, TurnBudgetTracker
store = {store}({path})
turn = TurnBudgetTracker(TurnBudgetConfig())
day = DailyBudgetTracker(DailyBudgetConfig(fallback_model="f"), store=store)
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
_AGENT = """
from budget_core import ChatClient, Operative
operative = Operative(ChatClient("http://127.0.0.1:8080/v1", "m"))
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
    """Return the heap and `.mpy` figures; `quick` changes nothing.

    Raises `RuntimeError` where MicroPython or the peer is missing.
    """
    micropython = find_micropython()
    if micropython is None:
        raise RuntimeError("the heap needs MicroPython: set MICROPYTHON to its path")
    micropython32 = find_micropython32()
    with TemporaryDirectory() as folder:
        built = Path(folder, "ours")
        sizes = compile_package(ROOT / OURS, built / "lib", left_out={TYPES_ONLY})
        (built / "image.romfs").write_bytes(romfs_image(built / "lib"))
        figures = _bytecode(micropython, built, sizes)
        figures += _sets(micropython, built, sizes, "64-bit")
        figures += measure_agent(micropython, Path(folder, "agent"), "64-bit")
        figures += measure_ledger(micropython, Path(folder, "agent"), "64-bit")
        if micropython32 is not None:
            figures += _sets(micropython32, built, sizes, "32-bit")
            figures += measure_agent(micropython32, Path(folder, "agent32"), "32-bit")
            figures += measure_ledger(micropython32, Path(folder, "agent32"), "32-bit")
        ours, _ = _heap(micropython, built, _trackers(OURS), _PROVIDER)
        return figures + _peer(micropython, Path(folder, "peer"), ours)


def _bytecode(micropython: str, folder: Path, sizes: dict[str, int]) -> list[Figure]:
    figures = []
    for name, program, _ in sets():
        _, loaded = _heap(micropython, folder, program, _PROVIDER)
        size = sum(sizes.get(module, 0) for module in loaded)
        figures.append(Figure(f".mpy: {name}", size, "B"))
    return [*figures, Figure(f".mpy: {ALL}", sum(sizes.values()), "B", note=_MPY_NOTE)]


def _sets(micropython: str, folder: Path, sizes: dict[str, int], bits: str) -> list[Figure]:
    """Return the heap that each set of names takes, from a folder and from ROMFS."""
    beside = _PROVIDER + _trackers(OURS)
    everything = "".join(f"import {name}\n" for name in sizes)
    targets = {
        f"{TRACKERS}, folder, 64-bit": MAX_TRACKERS["folder"],
        f"{TRACKERS}, ROMFS, 64-bit": MAX_TRACKERS["ROMFS"],
        f"{AGENT}, folder, 64-bit": MAX_AGENT,
        f"{TURN}, ROMFS, 64-bit": MAX_TURN_IN_FLASH,
    }
    figures = []
    for name, program, before in (*sets(), (AGENT, _AGENT, beside), (ALL, everything, "")):
        for home, path in (("folder", ""), ("ROMFS", _FROM_ROMFS)):
            used, _ = _heap(micropython, folder, program, path + before)
            full = f"{name}, {home}, {bits}"
            figures.append(Figure(f"heap: {full}", used, "B", targets.get(full)))
    return figures


def sets() -> list[tuple[str, str, str]]:
    """Return each set's name, the program that makes it, and what runs before that."""
    return [
        (TRACKERS, _trackers(OURS), _PROVIDER),
        (STORED, _stored(), _PROVIDER),
        (DAILY, _DAILY, ""),
        (TURN, _TURN, ""),
    ]


def _peer(micropython: str, folder: Path, ours: int) -> list[Figure]:
    library = folder / "lib"
    for package in (_package("exoclaw"), _package(PEER), _package("exoclaw") / "_mp_lib"):
        compile_package(package, library)
    for name, text in _SHIMS.items():
        (library / f"{name}.py").write_text(text)
    before = _PROVIDER + _EXOCLAWS_OWN
    everything, loaded = _heap(micropython, folder, _trackers(PEER), before)
    others = "".join(f"import {name}\n" for name in loaded if not name.startswith(PEER))
    own, _ = _heap(micropython, folder, _trackers(PEER), before + others)
    return [
        Figure("heap: exoclaw-turn-budget, with what it imports, folder, 64-bit", everything, "B"),
        Figure("heap: exoclaw-turn-budget, its own part, folder, 64-bit", own, "B"),
        ratio("heap: trackers to exoclaw-turn-budget, with what each imports", ours, everything),
        ratio("heap: trackers to exoclaw-turn-budget, own part", ours, own),
    ]


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise RuntimeError(f"the heap is compared with {name}, which is not installed")
    return Path(spec.origin).parent


def _trackers(package: str) -> str:
    return _TRACKERS.format(package=package, store="InMemoryBudgetStore", path="")


def _stored() -> str:
    return _TRACKERS.format(package=OURS, store="FileBudgetStore", path='"budget"')


def _heap(micropython: str, folder: Path, measured: str, before: str = "") -> tuple[int, list[str]]:
    """Return the bytes that the program `measured` keeps, and the modules it has loaded."""
    program = PROGRAM.format(before=before, measured=measured)
    used, *loaded = run_micropython(micropython, program, folder, "lib").split()
    return int(used), sorted(loaded)
