"""Run `tests_micro` on an emulated Cortex-M3, then the tests of its agent: `make chip`.

    python -m tests.chip [FOLDER, MODULE or TEST of tests_micro...]

Exits with 1 if a test fails, with 0 where the emulator cannot be had on this machine, and says so.
"""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.emulated_chip import KIB, EmulatedChip
from budget_cpython.board.build import Form, build_core, romfs_image
from tests.paths import ROOT
from tests_micro.runner import module_names

HEAP = 6000 * KIB  # for all modules of a part, and flash in memory
PARTS = 6
NO_PACKAGES = 3
_RUN = """
import os
os.mkdir("/work")
os.chdir("/work")
from tests_micro.runner import main
main({names!r})
"""


def main(names: list[str]) -> int:
    """Run the tests named, or all and those of this folder; return the exit code."""
    build = [str(ROOT / "scripts/chip.sh"), sys.executable]
    done = subprocess.run(build, stdout=subprocess.PIPE)
    if done.returncode == NO_PACKAGES:
        print("skipped: the emulated chip cannot be had on this machine (see above)")
        return 0
    if done.returncode:
        return 1
    with TemporaryDirectory() as folder:
        image = test_image(Path(folder))
    modules = module_names(str(ROOT / "tests_micro"))
    print("tests, MicroPython on an emulated Cortex-M3", flush=True)
    parts = [names] if names else [modules[part::PARTS] for part in range(PARTS)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = [show(said) for said in pool.map(lambda part: run(image, part), parts)]
    passed, failed, skipped = (
        sum(count[outcome] for count in counts) for outcome in ("passed", "failed", "skipped")
    )
    runtime = f"MicroPython {counts[0]['version']}, Cortex-M3"
    print(f"{runtime}: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    code = 0 if names else subprocess.call([sys.executable, "-m", "pytest", "-q", "tests/chip"])
    return 1 if failed or not passed or code else 0


def test_image(folder: Path) -> bytes:
    """Return a ROMFS image of the core, precompiled, and of its tests."""
    build_core(Form.ROMFS, folder)
    left_out = shutil.ignore_patterns("__pycache__", "conftest.py")
    shutil.copytree(ROOT / "tests_micro", folder / "tests_micro", ignore=left_out)
    return romfs_image(folder)


def run(image: bytes, names: list[str]) -> str:
    """Run tests on a chip of their own; return what it prints."""
    with EmulatedChip(HEAP, romfs=image) as chip:
        return chip.run(_RUN.format(names=names))


def show(said: str) -> dict[str, Any]:
    """Print what a run said, and return the counts of its last line."""
    text, _, last = said.strip().rpartition("\n")
    print(text, flush=True)
    counts: dict[str, Any] = json.loads(last)
    return counts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
