"""The modules of the core that a file imports, and the options that it may use."""

import ast
from collections.abc import Iterator
from functools import cache

from budget_core import _names
from budget_cpython.board.build import CORE
from budget_cpython.board.programs import imported_names

_NAMES = "_names"  # the module that finds the public names
LEDGER = "ledger"
ANY = "*"
_MOST_UNNAMED = 5  # arguments of a call: one more may be an option that is not named


def core_imports(tree: ast.Module, is_program: bool = False) -> Iterator[str]:
    """Yield the modules of the core that a file imports, without the core's name.

    A program that imports the core as a whole may use any public name that it mentions.
    """
    names = {name.removeprefix(f"{CORE.name}.") for name in imported_names(tree)}
    names |= {text.removeprefix(f"{CORE.name}.") for text in _texts(tree) if _is_full_name(text)}
    if is_program and CORE.name in names:
        names.add(_NAMES)
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
    return text.startswith(f"{CORE.name}.") and module_path(text.partition(".")[2]) is not None


def words_of(tree: ast.Module) -> set[str]:
    """Return the attributes, keywords and texts of a program, which may be options of the core.

    `ANY` is among them where it may use an option without its word.
    """
    found = set(_texts(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
                found.add(word)
            case ast.keyword(arg=None) | ast.Call(args=[*_, ast.Starred()]):
                found.add(ANY)
            case ast.Call(args=given) if len(given) > _MOST_UNNAMED:
                found.add(ANY)
    if any(name.startswith(f"{LEDGER}.") for name in core_imports(tree, True)):
        found.add(LEDGER)
    return found


@cache
def _homes() -> dict[str, str]:
    """Return the module of each public name."""
    lines = _names.PUBLIC.splitlines()
    return {name: line.split()[0] for line in lines for name in line.split()[1:]}


def module_path(name: str) -> str | None:
    """Return the path of a module in the core, or `None` if there is none of that name."""
    path = name.replace(".", "/") + ".py"
    return path if name and (CORE / path).is_file() else None
