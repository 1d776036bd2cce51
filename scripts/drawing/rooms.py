"""The rooms of both packages on their floors, from the imports of their modules."""

import ast
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from drawing.svg import Drawing

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PACKAGES: Final = ("budget_core", "budget_cpython")


def loaded(node: ast.AST) -> Iterator[str]:
    """Yield a module's imports at its load, without those in functions and for type checkers."""
    match node:
        case ast.Import(names=names):
            yield from (alias.name for alias in names)
        case ast.ImportFrom(module=source, names=names):
            yield from (f"{source}.{alias.name}" for alias in names)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.If(test=ast.Name("TYPE_CHECKING")):
            return
        case _:
            for child in ast.iter_child_nodes(node):
                yield from loaded(child)


def imports_of_rooms() -> dict[str, Counter[str]]:
    """Return by room how many imports lead to each other one; a room is a package's folder.

    Where two rooms import each other, it is the direction of more imports.
    """
    found: dict[str, Counter[str]] = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            room = _room(path.relative_to(ROOT).parts[:-1])
            counted = found.setdefault(room, Counter())
            if path.parent != ROOT / package or path.stem != "__init__":
                names = loaded(ast.parse(path.read_text()))
                counted.update(other for other in map(_room_of, names) if other not in ("", room))
    return {
        room: Counter(
            {other: n for other, n in counted.items() if found.get(other, Counter())[room] < n}
        )
        for room, counted in found.items()
    }


def _room(folders: tuple[str, ...]) -> str:
    return "/".join(folders[:2])


def _room_of(name: str) -> str:
    """Return the room of an imported name, or nothing if it is not of ours."""
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        return ""
    return _room(tuple(parts)) if (ROOT / _room(tuple(parts))).is_dir() else parts[0]


def floors() -> dict[str, int]:
    """Return the floor of each room: one above the highest of those that it imports."""
    imports = imports_of_rooms()
    found: dict[str, int] = {}
    for room in TopologicalSorter(imports).static_order():
        found[room] = max((found[other] + 1 for other in imports[room]), default=0)
    return found


def arrows() -> set[tuple[str, str]]:
    """Return which room imports which, without what follows from other arrows."""
    imports = imports_of_rooms()

    def below(room: str) -> set[str]:
        return {lower for other in imports[room] for lower in {other, *below(other)}}

    return {
        (room, other)
        for room in imports
        for other in imports[room]
        if not any(other in below(between) for between in imports[room])
    }


_COLUMNS: Final = {  # the middle of each room's box
    "budget_core": 190,
    "budget_core/agent": 255,
    "budget_core/board": 125,
    "budget_core/chat": 125,
    "budget_core/ledger": 190,
    "budget_cpython": 470,
    "budget_cpython/adapters": 815,
    "budget_cpython/agent": 485,
    "budget_cpython/alerts": 470,
    "budget_cpython/board": 380,
    "budget_cpython/cli": 385,
    "budget_cpython/context": 560,
    "budget_cpython/executor": 490,
    "budget_cpython/files": 600,
    "budget_cpython/ledger": 730,
    "budget_cpython/ops": 595,
    "budget_cpython/page": 575,
    "budget_cpython/prices": 830,
    "budget_cpython/proxy": 725,
    "budget_cpython/run": 725,
    "budget_cpython/serve": 680,
    "budget_cpython/telemetry": 805,
    "budget_cpython/vendors": 760,
    "budget_cpython/web": 705,
}
_FLOOR: Final = 64
_WIDTH: Final = 96
_HEIGHT: Final = 34
_TOP: Final = 62


def drawing() -> Drawing:
    """Return the drawing; `ValueError` if there is a room that has no place in it."""
    found = floors()
    if set(found) != set(_COLUMNS):
        raise ValueError(f"rooms are {sorted(found)}, and the drawing has {sorted(_COLUMNS)}")
    highest = max(found.values())
    by_floor = [
        ", ".join(sorted(room for room in found if found[room] == floor))
        for floor in range(highest + 1)
    ]
    picture = Drawing(
        900,
        _TOP + _FLOOR * (highest + 1) + 6,
        "The rooms of the two packages",
        "An arrow leads from a room to one that it imports; what follows from other arrows is left "
        "out. From the lowest floor: " + "; ".join(by_floor) + ".",
    )
    picture.text(24, 34, "A room imports what lies below", "big")

    def y(room: str) -> int:
        return _TOP + _FLOOR * (highest - found[room])

    core = max(floor for room, floor in found.items() if room.startswith("budget_core"))
    top = _TOP + _FLOOR * (highest - core) - 44
    picture.box(24, top, 300, _FLOOR * (core + 1) + 30, "box broken", 8)
    picture.text(40, top + 22, "budget_core, on MicroPython too", "small name")
    picture.text(436, 34, "budget_cpython", "small name")
    for room, other in sorted(arrows()):
        down = f"M{_COLUMNS[room]} {y(room) + _HEIGHT}L{_COLUMNS[other]} {y(other) - 3}"
        picture.line(down, "line", arrow=True)
    for room in sorted(found):
        x, is_core = _COLUMNS[room], room.startswith("budget_core")
        kind = "box to-good" if is_core else "box to-used"
        picture.box(x - _WIDTH / 2, y(room), _WIDTH, _HEIGHT, kind, 6)
        picture.text(x, y(room) + 22, room.partition("/")[2] or "root", "", "middle")
    return picture
