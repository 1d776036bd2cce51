"""Write what type checkers and editors read of the packages' public names.

    python scripts/public_names.py

The names are listed in `budget_core/_names.py` and `budget_cpython/__init__.py`; at run time each
is loaded when it is first asked for. This writes the same names, as imports, to the `__init__.pyi`
beside them.
"""

import sys
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOC = '"""The public names, for type checkers; made by scripts/public_names.py."""\n\n'


def core_homes() -> dict[str, str]:
    """Return the module of each public name of the core."""
    names: Any = import_module("budget_core._names")
    lines = names.PUBLIC.splitlines()
    return {name: line.split()[0] for line in lines for name in line.split()[1:]}


def core_stub() -> str:
    """Return the text of `budget_core/__init__.pyi`."""
    return f"{DOC}{imports('budget_core', core_homes())}"


def cpython_stub() -> str:
    """Return the text of `budget_cpython/__init__.pyi`: the core's names, and its own."""
    ours: Any = import_module("budget_cpython")
    core: Any = import_module("budget_core")
    homes = core_homes()
    # A dataclass that is made of a core class at run time has that class's signature and docstring.
    made = [
        name
        for name in homes
        if is_dataclass(getattr(ours, name)) and getattr(ours, name).__base__ is getattr(core, name)
    ]
    own = {name: home for name, home in ours._HOMES.items() if home and name not in made}
    shared = {name: homes[name] for name in ours._HOMES if name not in own}
    listed = imports("budget_core", shared) + imports("budget_cpython", own)
    return f"{DOC}{listed}\n__all__: list[str]\n__version__: str\n"


def imports(package: str, homes: dict[str, str]) -> str:
    """Return an import for each name, sorted by module and name."""
    pairs = sorted((home, name) for name, home in homes.items())
    return "".join(f"from {package}.{home} import {name} as {name}\n" for home, name in pairs)


def main() -> int:
    """Write both files; return the exit code."""
    sys.path.insert(0, str(ROOT))
    (ROOT / "budget_core/__init__.pyi").write_text(core_stub())
    (ROOT / "budget_cpython/__init__.pyi").write_text(cpython_stub())
    return 0


if __name__ == "__main__":
    sys.exit(main())
