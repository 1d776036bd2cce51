"""Make `package.json`, by which `mpremote mip install` finds the core's modules.

In a checkout: `python -m budget_cpython.board.mip > package.json`.
"""

import json

from budget_cpython.board.build import CORE, TYPES_ONLY
from budget_cpython.cli.version import version


def package_json() -> str:
    """Return the text: every module of the core that a board can load, beside the file."""
    modules = [path for path in CORE.rglob("*.py") if path.name != TYPES_ONLY]
    paths = sorted(path.relative_to(CORE.parent).as_posix() for path in modules)
    urls = ",\n".join(f"    {json.dumps([path, path])}" for path in paths)
    return (
        f'{{\n  "version": {json.dumps(version())},\n  "deps": [],\n  "urls": [\n{urls}\n  ]\n}}\n'
    )


if __name__ == "__main__":
    print(package_json(), end="")
