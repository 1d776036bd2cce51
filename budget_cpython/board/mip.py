"""Write the `package.json` files that `mpremote mip install` reads.

In a checkout: `python -m budget_cpython.board.mip`. The file at the top lists all modules, that of
`budget_core` the modules at its root (trackers, deadlines), that of each room its modules.
"""

import json
from pathlib import Path

from budget_cpython.board.build import CORE, ROOMS, modules_of
from budget_cpython.version import version


def package_files() -> dict[Path, str]:
    """Return the text of each `package.json`, by its path."""
    folders = {CORE.parent: modules_of(CORE), CORE: modules_of(CORE, ROOMS)}
    folders |= {CORE / room: modules_of(CORE / room) for room in ROOMS}
    return {folder / "package.json": _listing(folder, paths) for folder, paths in folders.items()}


def _listing(folder: Path, paths: list[Path]) -> str:
    pairs = [
        [path.relative_to(CORE.parent).as_posix(), path.relative_to(folder).as_posix()]
        for path in paths
    ]
    urls = ",\n".join(f"    {json.dumps(pair)}" for pair in pairs)
    head = f'{{\n  "version": {json.dumps(version())},\n  "deps": [],\n'
    return f'{head}  "urls": [\n{urls}\n  ]\n}}\n'


if __name__ == "__main__":
    for path, text in package_files().items():
        path.write_text(text)
