"""The modules of the core that a board's programs can load; a deploy leaves out the others.

Modules load each other by name as well, so a text that is a module's full name counts as an import
of it. Imports of the ledger inside functions of other rooms only run for a program that uses it, or
with a LEDGER in the settings.
"""

import ast
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from budget_core import _names
from budget_cpython.board.build import CORE, ROOMS, for_a_board, modules_of
from budget_cpython.board.check import settings_of
from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import board_files
from budget_cpython.board.programs import (
    SETTINGS,
    imported_names,
    imports_at_the_top,
    own_files,
    parsed,
)

# What the commands of `microbudget board` import on a board, and what finds the public names.
_COMMANDS = ("board.status", "file_store", "_names")
_OF_THE_BOARD = {"settings", "secret", "deployed", "__main__"}
_OF_FIRMWARE = """
_onewire _rp2 _thread aioble binascii bluetooth btree cryptolib deflate dht ds18x20 esp esp32 espnow
framebuf lwip machine micropython mip neopixel network ntptime onewire openamp pyb requests rp2 tls
uasyncio ubinascii uctypes uos urequests ustruct utime vfs webrepl
"""
_BY_NAME = {"__import__", "import_module", "exec", "eval", "execfile"}
_LEDGER = "ledger"
_FLEET = "board.fleet"


@dataclass
class Reach:
    """What a board's programs can load: `modules` by their path in the core, and who imports each.

    `unknown` is why that cannot be told, or empty; then they can load every module.
    """

    modules: dict[str, Path]
    unknown: str


def reach_of(board: Path, more: Collection[str] = ()) -> Reach:
    """Return what a board's programs can load; `more` names rooms and modules to add."""
    own = {source: parsed(source) for source in own_files(board).values()}
    settings, source = settings_of(board), board_files(board)[SETTINGS[1:]]
    has_ledger = bool((settings or {}).get("LEDGER"))
    named = [name for word in more for name in _room_or_module(word)]
    waiting = [(board, name) for name in (*_COMMANDS, *named)]
    waiting += [(source, _FLEET)] * has_ledger
    waiting += [(source, name) for source, tree in own.items() for name in _imported(tree, True)]
    modules = _reached(waiting, has_ledger or any(map(_uses_ledger, own.values())))
    if settings is None:
        return Reach(modules, f"{source} can only be run on a board")
    return Reach(modules, _why_unknown(board, own))


def _reached(waiting: list[tuple[Path, str]], uses_ledger: bool) -> dict[str, Path]:
    """Return the modules that these files and names load, by path, and which file loads each."""
    found: dict[str, Path] = {}
    while waiting:
        source, name = waiting.pop()
        path = _module(name)
        if path is None or path in found:
            continue
        found[path] = source
        tree = _parse(CORE / path)
        at_the_top = set(_imported(ast.Module(imports_at_the_top(tree), [])))
        for inner in _imported(tree):
            optional = inner == _FLEET or inner.startswith(f"{_LEDGER}.")
            optional = optional and not path.startswith(f"{_LEDGER}/")
            if uses_ledger or not optional or inner in at_the_top:
                waiting.append((CORE / path, inner))
    return found


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
    waiting = [name for source in own for name in _imported(parsed(source), True)]
    reached = reach_of(board).modules
    found: set[str] = set()
    while waiting:
        path = _module(waiting.pop())
        if path in reached and path not in found:
            found.add(path)
            if path.startswith("board/"):
                waiting += _imported(_parse(CORE / path))
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


def _imported(tree: ast.Module, is_program: bool = False) -> Iterator[str]:
    """Yield the modules of the core that a file imports, without the core's name.

    A program that imports the core as a whole may use any public name that it mentions.
    """
    names = {name.removeprefix(f"{CORE.name}.") for name in imported_names(tree)}
    names |= {text.removeprefix(f"{CORE.name}.") for text in _texts(tree) if _is_full_name(text)}
    if is_program and CORE.name in names:
        names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= set(_texts(tree))
    homes = _homes()
    yield from sorted(homes.get(name, name) for name in names)


def _texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _is_full_name(text: str) -> bool:
    return text.startswith(f"{CORE.name}.") and _module(text.partition(".")[2]) is not None


def _uses_ledger(tree: ast.Module) -> bool:
    """Return whether a program imports a ledger, or gives an object one."""
    by_keyword = any(isinstance(n, ast.keyword) and n.arg == _LEDGER for n in ast.walk(tree))
    return by_keyword or any(name.startswith(f"{_LEDGER}.") for name in _imported(tree, True))


def _room_or_module(word: str) -> Iterable[str]:
    if word in ROOMS:
        return [_name(path) for path in modules_of(CORE / word)]
    name = word.removeprefix(f"{CORE.name}.")
    if _module(name) is None:
        raise UsageError(f"--with {word}: the rooms are {', '.join(ROOMS)}; or name a module")
    return [name]


def _homes() -> dict[str, str]:
    """Return the module of each public name."""
    lines = _names.PUBLIC.splitlines()
    return {name: line.split()[0] for line in lines for name in line.split()[1:]}


def _module(name: str) -> str | None:
    """Return the path of a module in the core, or `None` if there is none of that name."""
    path = name.replace(".", "/") + ".py"
    return path if name and (CORE / path).is_file() else None


def _name(path: Path) -> str:
    return ".".join(path.relative_to(CORE).with_suffix("").parts)


def _full_name(path: str) -> str:
    return f"{CORE.name}.{path.removesuffix('.py').replace('/', '.')}"


def _parse(source: Path) -> ast.Module:
    return ast.parse(for_a_board(source.read_text("utf-8")))
