"""The programs in a board's folder: their files, their syntax, and what they import."""

import ast
import warnings
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

from budget_cpython.board.errors import UsageError
from budget_cpython.board.known_boards import board_files

# Paths on a board.
PROGRAMS = ("/boot.py", "/main.py")
SETTINGS = "/settings.py"
SECRETS = "/secret.py"
DEPLOYED = "/deployed.py"


def programs_of(board: Path) -> list[Path]:
    """Return the files of a board's programs."""
    files = board_files(board)
    return [files[path[1:]] for path in PROGRAMS]


def own_files(board: Path) -> dict[str, Path]:
    """Return the programs and settings of a board, and what they import from its folder.

    They are by their path on the board, sorted. The secrets are not among them.
    """
    files = board_files(board)
    found = {path: files[path[1:]] for path in (*PROGRAMS, SETTINGS)}
    waiting = [*found.values()]
    while waiting:
        for name in {name.partition(".")[0] for name in imported_names(parsed(waiting.pop()))}:
            inner = {f"/{path.relative_to(board)}": path for path in (board / name).rglob("*.py")}
            if f"{name}.py" in files and f"/{name}.py" not in (SECRETS, DEPLOYED):
                inner[f"/{name}.py"] = files[f"{name}.py"]
            waiting += [path for place, path in inner.items() if place not in found]
            found |= inner
    return dict(sorted(found.items()))


def parsed(source: Path, secret: bool = False) -> ast.Module:
    """Return a file's syntax; an error of a secret file shows only the line number."""
    data = source.read_bytes()
    if data.startswith(BOM_UTF8):
        raise UsageError(f"{source} begins with a byte order mark: save it as UTF-8 without one")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data, str(source))
            compile(tree, str(source), "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        place = f"{source}, line {line}" if line else str(source)
        what = "" if secret else f": {getattr(error, 'msg', error)}"
        raise UsageError(f"{place}: this is not Python{what}") from None
    return tree


def imports_at_the_top(tree: ast.Module) -> list[ast.stmt]:
    """Return the imports that run as soon as a file does."""
    return [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield what a file imports anywhere: modules, and `module.name` of what comes from one.

    What a relative import names is left out.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_call":
            yield from (str(one.value) for one in node.args[:1] if isinstance(one, ast.Constant))
