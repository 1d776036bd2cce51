"""The modules of the core that a board's programs can load; a deploy leaves out the others.

Modules load each other by name as well, so a text that is a module's full name counts as an import
of it. What a function imports for an option only runs for a program that uses that option: then the
program, or a module of its folder, has the option's word.
"""

import ast
import sys
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from budget_cpython.board.build import CORE, ROOMS, for_a_board, modules_of
from budget_cpython.board.check import settings_of
from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import board_files
from budget_cpython.board.mentions import ANY, LEDGER, core_imports, module_path, words_of
from budget_cpython.board.programs import (
    SETTINGS,
    imported_names,
    imports_at_the_top,
    own_files,
    parsed,
)

# What the commands of `microbudget board` import on a board.
_COMMANDS = ("board.status", "file_store")
_OF_THE_BOARD = {"settings", "secret", "deployed", "__main__"}
_OF_FIRMWARE = """
_onewire _rp2 _thread aioble binascii bluetooth btree cryptolib deflate dht ds18x20 esp esp32 espnow
framebuf lwip machine micropython mip neopixel network ntptime onewire openamp pyb requests rp2 tls
uasyncio ubinascii uctypes uos urequests ustruct utime vfs webrepl
"""
_BY_NAME = {"__import__", "import_module", "exec", "eval", "execfile"}
_FLEET = "board.fleet"
# What the core loads for an option or a method, and the words of a program that uses it.
_OPTIONS = {
    _FLEET: {"LEDGER"},
    "agent.pause": {"paused"},
    "agent.sub_agent": {"as_tool"},
    "chat.stream": {"stream", "on_delta"},
    "deadline_token": {"cooperative"},
    "ledger.limit": {"limits", "set_limits"},
    "ledger.waiting": {"wait", "reserve"},
    "prices": {"prices"},
    "turn_state": {"session_id"},
    "usage_stream": {"stream", "on_delta"},
}
_FLEET_PATH = "board/fleet.py"


@dataclass
class Reach:
    """The modules that a board's programs can load, by path in the core, with who imports each.

    `unknown` is why that cannot be told, or empty; then they can load every module.
    """

    modules: dict[str, Path]
    unknown: str


def reach_of(board: Path, more: Collection[str] = ()) -> Reach:
    """Return the reach of a board's programs; `more` names rooms and modules to add."""
    own = {source: parsed(source) for source in own_files(board).values()}
    settings, source = settings_of(board), board_files(board)[SETTINGS[1:]]
    named = [name for word in more for name in _room_or_module(word)]
    waiting = [(board, name) for name in (*_COMMANDS, *named)]
    waiting += [(source, _FLEET)] * bool((settings or {}).get("LEDGER"))
    waiting += [(source, name) for source, tree in own.items() for name in core_imports(tree, True)]
    modules = _reached(waiting, set().union(*map(words_of, own.values())))
    if settings is None:
        return Reach(modules, f"{source} can only be run on a board")
    return Reach(modules, _why_unknown(board, own))


def _reached(waiting: list[tuple[Path, str]], words: set[str]) -> dict[str, Path]:
    """Return the modules that these files and names load, by path, and which file loads each.

    `words` are those of the programs.
    """
    found: dict[str, Path] = {}
    while waiting:
        source, name = waiting.pop()
        path = module_path(name)
        if path is None or path in found:
            continue
        found[path] = source
        at_the_top, anywhere = _imports((CORE / path).read_text("utf-8"))
        for inner in anywhere:
            wanted = _words_for(inner, path)
            if not wanted or inner in at_the_top or not words.isdisjoint({*wanted, ANY}):
                waiting.append((CORE / path, inner))
    return found


def _words_for(name: str, importer: str) -> set[str]:
    """Return words: a program with any of them has this module of the core import that one."""
    if name in _OPTIONS:
        return _OPTIONS[name]
    within = importer.startswith(f"{LEDGER}/") or importer == _FLEET_PATH
    return {LEDGER} if name.startswith(f"{LEDGER}.") and not within else set()


def left_out(board: Path, more: Collection[str] = (), without: Collection[str] = ()) -> set[str]:
    """Return the modules that a board goes without, by their path in the core.

    Those are the modules out of its programs' reach, and the rooms in `without`. Raises
    `UsageError` for an unknown name, and for a room that the programs import.
    """
    reach = reach_of(board, more)
    for room in without:
        if room not in ROOMS:
            raise UsageError(f"--without {room}: the rooms are {', '.join(ROOMS)}")
        for path, source in reach.modules.items():
            if path.startswith(f"{room}/") and source != board:
                raise UsageError(f"--without {room}: {source} imports {_full_name(path)}")
    everything = {path.relative_to(CORE).as_posix() for path in modules_of(CORE)}
    if reach.unknown:
        return {path for path in everything if path.partition("/")[0] in without}
    packages = {f"{path.rpartition('/')[0]}/__init__.py".lstrip("/") for path in reach.modules}
    return everything - set(reach.modules) - packages - {"__init__.py"}


def loaded_at_start(board: Path) -> list[str]:
    """Return the modules that a board's programs load before the first turn, by their full name.

    The room `board` has the steps of a start: what its functions import is loaded then.
    """
    own = own_files(board).values()
    waiting = [name for source in own for name in core_imports(parsed(source), True)]
    reached = reach_of(board).modules
    found: set[str] = set()
    while waiting:
        path = module_path(waiting.pop())
        if path in reached and path not in found:
            found.add(path)
            if path.startswith("board/"):
                waiting += _imports((CORE / path).read_text("utf-8"))[1]
    return sorted(map(_full_name, found))


def _why_unknown(board: Path, own: dict[Path, ast.Module]) -> str:
    """Return what may load modules that the programs do not name, or an empty text."""
    known = {CORE.name, *_OF_THE_BOARD, *_OF_FIRMWARE.split(), *sys.stdlib_module_names}
    known |= {path.stem for path in board.glob("*.py")}
    known |= {path.relative_to(board).parts[0] for path in board.glob("*/**/*.py")}
    for source, tree in own.items():
        tops = {name.partition(".")[0] for name in imported_names(tree)}
        if unknown := tops - known:
            return f"{source} imports {min(unknown)}, which may import more"
        if by_name := _BY_NAME & {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}:
            return f"{source} uses {min(by_name)}"
    return ""


def _room_or_module(word: str) -> Iterable[str]:
    if word in ROOMS:
        return [_name(path) for path in modules_of(CORE / word)]
    name = word.removeprefix(f"{CORE.name}.")
    if module_path(name) is None:
        raise UsageError(f"--with {word}: the rooms are {', '.join(ROOMS)}; or name a module")
    return [name]


def _name(path: Path) -> str:
    return ".".join(path.relative_to(CORE).with_suffix("").parts)


def _full_name(path: str) -> str:
    return f"{CORE.name}.{path.removesuffix('.py').replace('/', '.')}"


@cache
def _imports(source: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the modules of the core that one of them imports at its top, and anywhere.

    A deploy asks for its board's reach several times, and each visits a third of the core.
    """
    tree = ast.parse(for_a_board(source))
    at_the_top = core_imports(ast.Module(imports_at_the_top(tree), []))
    return frozenset(at_the_top), tuple(core_imports(tree))
