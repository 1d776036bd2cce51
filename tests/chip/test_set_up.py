"""Where the emulated chip cannot be had, `make chip` says so and fails nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT


def test_a_machine_without_the_packages_skips_the_chip_and_says_why(tmp_path: Path) -> None:
    for name in ("bash", "cat", "dirname", "env"):
        program = shutil.which(name)
        assert program is not None
        (tmp_path / name).symlink_to(program)
    done = subprocess.run(
        [sys.executable, "-m", "tests.chip"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "needs apt-get" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("skipped: ")


def test_the_set_up_explains_itself_and_refuses_other_arguments() -> None:
    script = str(ROOT / "scripts/chip.sh")
    helped = subprocess.run([script, "--help"], capture_output=True, text=True)
    assert helped.stdout.startswith("usage: scripts/chip.sh PYTHON")
    assert helped.returncode == 0
    assert subprocess.run([script], capture_output=True).returncode == 2
