"""Write what type checkers and editors read of the packages' public names.

    python scripts/public_names.py

The names are listed in `budget_core/__init__.py`, `budget_core/_names.py` and
`budget_cpython/__init__.py`; at run time each is loaded when it is first asked for. This writes
the same names, as imports, to the `__init__.pyi` beside them.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import budget_core  # noqa: E402 - its folder has to be on the path first
import budget_cpython  # noqa: E402
from budget_core import _names  # noqa: E402

DOC = '"""The public names, for type checkers; made by scripts/public_names.py."""\n\n'


def core_stub() -> str:
    """Return the text of `budget_core/__init__.pyi`."""
    lines = (budget_core.PUBLIC + "\n" + _names.PUBLIC).splitlines()
    homes = {name: line.split()[0] for line in lines for name in line.split()[1:]}
    return DOC + imports("budget_core", homes) + "\nPUBLIC: str\n"


def cpython_stub() -> str:
    """Return the text of `budget_cpython/__init__.pyi`: the core's names, and its own."""
    lines = (budget_core.PUBLIC + "\n" + _names.PUBLIC).splitlines()
    core = {name: line.split()[0] for line in lines for name in line.split()[1:]}
    own: dict[str, str] = vars(budget_cpython)["_OWN"]
    shared = {name: home for name, home in core.items() if name not in own}
    listed = imports("budget_core", shared) + imports("budget_cpython", own)
    return f"{DOC}{listed}\n__all__: list[str]\n"


def imports(package: str, homes: dict[str, str]) -> str:
    """Return an import for each name, sorted by module and name."""
    pairs = sorted((home, name) for name, home in homes.items())
    return "".join(f"from {package}.{home} import {name} as {name}\n" for home, name in pairs)


def main() -> int:
    """Write both files; return the exit code."""
    (ROOT / "budget_core/__init__.pyi").write_text(core_stub())
    (ROOT / "budget_cpython/__init__.pyi").write_text(cpython_stub())
    return 0


if __name__ == "__main__":
    sys.exit(main())
