"""Check that a package asks for nothing that MicroPython lacks, by asking MicroPython itself.

    python scripts/check_core.py budget_core --micropython micropython --stubs .local/stubs/unix

Stubs cannot say it: they describe CPython's classes and functions where MicroPython's have less.
Reported are

- a file that MicroPython does not compile;
- a module, a module's name, a builtin, an attribute, or a keyword of a builtin or method that the
  binary does not have. Receivers are not typed: an attribute counts as there if any of
  MicroPython's values has it, the package defines it, or a stub of a module that is not in this
  build;
- a name of `os` or `sys` that MicroPython does not document: the unix port has more than a chip;
- a name that is only bound under `if TYPE_CHECKING:`;
- an import of a `--types-only` module elsewhere; such a module itself is not looked into.

What a program hands to the package is described by the `--also` files: their names count as there.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uses import Uses, bound_names, module_names

PROBE = Path(__file__).with_name("probe_micropython.py")
KINDS = ("module", "name", "builtin", "attribute", "keyword")
ON_EVERY_PORT = ("os", "sys")


def check(
    package: Path, micropython: str, stubs: Path, types_only: str, also: Sequence[Path] = ()
) -> list[str]:
    """Return a line for each thing in the package that not every MicroPython has."""
    trees = {path: ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}
    types = [trees.pop(path) for path in list(trees) if path.stem == types_only]
    handed = [ast.parse(path.read_text()) for path in also]
    own = {name for tree in [*trees.values(), *handed] for name in bound_names(tree)}
    known = {name for tree in types for name in module_names(tree)}
    uses = {path: Uses(tree, known) for path, tree in trees.items()}
    lacking = ask(micropython, question(uses, package.name, own))
    elsewhere = names_in_stubs(stubs, lacking["module"])
    lacking["attribute"] = [name for name in lacking["attribute"] if name not in elsewhere]
    described = {
        name: documented(stubs / "stdlib" / name / "__init__.pyi") for name in ON_EVERY_PORT
    }
    lines: list[str] = []
    for path, module in uses.items():
        if why := lacking["file"][str(path)]:
            lines.append(f"{path}: MicroPython does not compile it: {why}")
        for kind, name, line in sorted(module.found, key=lambda use: use[2]):
            owner, _, last = name.rpartition(".")
            if kind == "typing-only" or name.endswith(f".{types_only}"):
                lines.append(f"{path}:{line}: {name} is there under TYPE_CHECKING only")
            elif name in lacking[kind]:
                lines.append(f"{path}:{line}: MicroPython has no {kind} {name}")
            elif kind == "name" and last not in described.get(owner, {last}):
                lines.append(f"{path}:{line}: {name} is not on every port")
    return lines


def question(uses: dict[Path, Uses], package: str, own: set[str]) -> dict[str, list[str]]:
    """Return what to ask for: the files, and all they use that is not the package's own."""
    asked: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for kind, name, _ in [use for module in uses.values() for use in module.found]:
        mine = kind in ("attribute", "keyword") and name.lstrip(".").split("(")[0] in own
        if kind in asked and not mine and name.split(".")[0] != package:
            asked[kind].add(name)
    imported = {name for module in uses.values() for name in module.imported}
    asked["module"] |= {name for name in imported if name.split(".")[0] != package}
    return {"file": [str(path) for path in uses], **{kind: sorted(asked[kind]) for kind in KINDS}}


def ask(micropython: str, asked: dict[str, list[str]]) -> dict[str, Any]:
    """Return what MicroPython lacks: for each kind the names, for each file the reason."""
    answer = subprocess.run(  # noqa: S603 - the caller's MicroPython
        [micropython, PROBE],
        env={**os.environ, "MICROPYPATH": ".frozen"},  # nothing that was installed beside it
        input=json.dumps(asked),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    lacking: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return lacking


def names_in_stubs(stubs: Path, modules: list[str]) -> set[str]:
    """Return the names in the stubs of modules that other builds have, such as `ssl`."""
    paths = [place / f"{module}.pyi" for module in modules for place in (stubs, stubs / "stdlib")]
    trees = [ast.parse(path.read_text()) for path in paths if path.exists()]
    return {name for tree in trees for name in bound_names(tree)}


def documented(stub: Path) -> set[str]:
    """Return the names that a stub describes; what it took over from CPython has no docstring."""
    body = ast.parse(stub.read_text()).body
    names: set[str] = set()
    for node, following in zip(body, [*body[1:], None], strict=True):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name)) if isinstance(following, ast.Expr):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) if ast.get_docstring(node):
                names.add(name)
    return names


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", type=Path)
    parser.add_argument("--micropython", default="micropython", help="the program to ask")
    parser.add_argument("--stubs", type=Path, required=True, help="the stubs of a port")
    parser.add_argument("--types-only", default="", help="the module that no program loads")
    parser.add_argument("--also", type=Path, nargs="*", default=[], help="settings and stubs")
    options = parser.parse_args()
    lines = check(
        options.package, options.micropython, options.stubs, options.types_only, options.also
    )
    for line in lines:
        print(line)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
