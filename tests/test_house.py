"""How the packages are laid out: rooms that are known, and imports that never go in a circle."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.paths import ROOT

ROOMS = {"", "agent", "board", "chat", "ledger"}
PACKAGES = ("budget_core", "budget_cpython")


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
                func=ast.Name("__import__" | "briefly"), args=[ast.Constant(value=str(name)), *_]
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
