"""The layout of the packages: rooms, imports without a circle, names used once, shared state."""

import ast
from collections.abc import Iterable, Iterator, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from public_names import core_homes

import budget_cpython
from tests.paths import ROOT

ROOMS = {"", "agent", "board", "chat", "ledger"}
PACKAGES = ("budget_core", "budget_cpython")
EMPTY = {"dict", "list", "set", "deque", "defaultdict"}


def modules(package: str) -> dict[str, Path]:
    """Return the modules of a package by their dotted names."""
    files = sorted((ROOT / package).rglob("*.py"))
    dotted = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in files}
    return {name.removesuffix(".__init__"): path for path, name in dotted.items()}


def imported(path: Path) -> Iterator[str]:
    """Yield all that a file imports, wherever in it: below `TYPE_CHECKING` or in a function too."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=source, names=names, level=level):
                assert not level, f"{path}:{node.lineno}: an import is absolute here"
                yield from (f"{source}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Name("__import__" | "lazy_call"), args=[ast.Constant(value=str(name)), *_]
            ):
                yield name


def graph(package: str) -> dict[str, set[str]]:
    """Return which modules of a package each of them imports, the package itself left out."""
    known = modules(package)
    found = {name: set(map(str, imported(path))) for name, path in known.items()}
    return {
        name: {full if full in known else full.rpartition(".")[0] for full in names}
        & set(known) - {name, package}
        for name, names in found.items()
    }


def circle(imports: dict[str, set[str]]) -> list[str]:
    """Return modules that import one another, if there are any."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_imports_go_in_a_circle(package: str) -> None:
    assert circle(graph(package)) == []


def test_a_circle_of_imports_is_found() -> None:
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}})) == {"a", "b", "c"}


def test_the_core_imports_nothing_of_the_package_for_cpython() -> None:
    found = {full for path in modules("budget_core").values() for full in imported(path)}
    assert not {full for full in found if full.startswith("budget_cpython")}


def test_vendors_import_the_core_alone() -> None:
    found = {
        full
        for name, path in modules("budget_cpython").items()
        if name.startswith("budget_cpython.vendors")
        for full in imported(path)
        if full.startswith("budget_cpython")
    }
    assert found
    assert not {full for full in found if not full.startswith("budget_cpython.vendors")}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_imports_the_scripted_model_which_no_release_has(package: str) -> None:
    found = {full for path in modules(package).values() for full in imported(path)}
    assert not {full for full in found if full.partition(".")[0] == "scripted_model"}


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_imports_a_name_from_its_packages_root(package: str) -> None:
    known = modules(package)
    loose = {
        f"{name} imports {full}"
        for name, path in known.items()
        for full in imported(path)
        if full.rpartition(".")[0] == package and full not in known
    }
    assert not loose


def test_the_protocols_that_all_rooms_share_import_nothing_of_ours() -> None:
    found = imported(ROOT / "budget_core/_types.py")
    assert not [name for name in found if name.startswith("budget_")]


def test_every_module_of_the_core_lies_in_a_known_room() -> None:
    core = ROOT / "budget_core"
    folders = {path.parent.relative_to(core).as_posix() for path in core.rglob("*.py")}
    assert {folder.replace(".", "", 1) for folder in folders} == ROOMS


def used_twice(classes: Iterable[tuple[str, str]], twins: Set[str]) -> set[str]:
    """Return names used twice among classes, `(package, name)`; a twin is once in each package."""
    packages: dict[str, list[str]] = {}
    for package, name in classes:
        packages.setdefault(name, []).append(package)
    twice = {name for name, used in packages.items() if len(used) > 1}
    return twice - {name for name in twins if sorted(packages.get(name, ())) == list(PACKAGES)}


def test_a_class_name_is_used_once_but_for_public_classes_and_their_twins() -> None:
    classes = [
        (package, node.name)
        for package in PACKAGES
        for path in modules(package).values()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]
    cpython: Any = budget_cpython
    assert not used_twice(classes, {name for name in core_homes() if cpython._HOMES.get(name)})


def test_class_names_that_are_used_twice_are_found() -> None:
    here, there = PACKAGES
    classes = [(here, "Call"), (there, "Call"), (there, "Gate"), (there, "Gate"), (there, "Once")]
    twins = [(here, "Ledger"), (there, "Ledger")]
    assert used_twice(classes + twins, {"Ledger", "Gate"}) == {"Call", "Gate"}


def shared_state(tree: ast.Module) -> Iterator[str]:
    """Yield what a module keeps for a whole process: containers to fill, locks, globals, hooks."""
    makes = {*EMPTY, "Lock", "RLock", "WeakSet", "WeakKeyDictionary", "WeakValueDictionary"}
    for node in ast.walk(tree):
        match node:
            case ast.Global(names=names):
                yield from names
            case ast.Attribute(ast.Name("atexit" | "os"), "register" | "register_at_fork" as name):
                yield name
            case ast.Assign(targets=[ast.Attribute(ast.Name(kind), name)]) if kind[:2].istitle():
                yield f"{kind}.{name}"
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(name)], value=made)
                | ast.AnnAssign(target=ast.Name(name), value=made)
            ):
                match made:
                    case ast.Dict(keys=[]) | ast.List(elts=[]):
                        yield name
                    case ast.Call(ast.Name(kind) | ast.Attribute(attr=kind), args=given):
                        if kind in makes and not (given and kind in EMPTY):
                            yield name


def test_what_a_process_shares_is_in_one_module() -> None:
    found = {
        f"{name}.{state}"
        for name, path in modules("budget_cpython").items()
        if "emulator.device" not in name and name != "budget_cpython.context.process_state"
        for state in shared_state(ast.parse(path.read_text()))
    }
    assert found == {"budget_cpython.serve.operations.SERVED"}  # which is filled on import


def test_what_a_process_shares_is_found() -> None:
    text = """
_known: dict[str, int] = {}
_lock = threading.RLock()
_open = WeakSet()
_table = {"a": 1}
_copy = dict(_table)
Thread.start = print
def on() -> None:
    global _is_on
    atexit.register(print)
"""
    found = {"_known", "_lock", "_open", "Thread.start", "_is_on", "register"}
    assert set(shared_state(ast.parse(text))) == found
