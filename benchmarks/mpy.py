"""Run MicroPython on what was made for it."""

import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 300.0


def find_micropython() -> str | None:
    """Return MicroPython's executable: `$MICROPYTHON`, else one on the PATH, else `None`."""
    return os.environ.get("MICROPYTHON") or shutil.which("micropython")


def find_micropython32() -> str | None:
    """Return a MicroPython with pointers of 32 bits, or `None` where this machine has none."""
    script = [str(ROOT / "scripts/micropython.sh"), "--32-bit"]
    done = subprocess.run(script, capture_output=True, text=True, check=False)  # noqa: S603 - ours
    return done.stdout.strip() or None


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
