"""The long campaign of power cuts, run short: it counts what it did, and finds a broken store."""

import os
import re
import subprocess
import sys

import pytest

from tests.paths import ROOT

COMMAND = (sys.executable, "-m", "tests.file_store_power_loss")
KINDS = ("littlefs 32", "littlefs 256", "FAT 512", "FAT 4096")
BROKEN = {
    "a store that saves late": """
    last = None
    def save(self, state):
        if self.last: super().save(self.last)
        self.last = state
""",
    "a store of one file": """
    def _write(self, slot, data):
        super()._write(0, data)
    def _slot(self, slot):
        return super()._slot(0)
""",
}
WITH_A_BROKEN_STORE = """\
import sys
sys.path[0] = {root!r}
from tests_micro import power_loss
class Broken(power_loss.FileBudgetStore):
{body}
power_loss.FileBudgetStore = Broken
work = dict(kind="FAT 512", life="used", faults=("torn", "torn"), strides=(1, 9))
sys.exit(power_loss.main(work))
"""


def run(*command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False, input=text
    )


@pytest.mark.parametrize("stride", [9, pytest.param(3, marks=pytest.mark.slow)])
def test_every_file_system_stands_cuts_with_different_faults(stride: int) -> None:
    words = ["--tear", "96", "--fault", "torn", "erased", "--write-ahead", "60"]
    done = run(*COMMAND, *words, "--stride", str(stride))
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    found = re.fullmatch(
        r"32 campaigns: (\d+) single cuts, (\d+) double, over by (\d+) tokens at most, "
        r"\d+ destroyed when new, 0 broken",
        last,
    )
    assert found, last
    single, double, over = map(int, found.groups())
    assert single > 32
    assert double > single
    assert 60 < over <= 120


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_store_is_found_out(name: str) -> None:
    program = WITH_A_BROKEN_STORE.format(root=str(ROOT), body=BROKEN[name])
    done = run(os.environ["MICROPYTHON"], text=program)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "tokens counted, not" in done.stdout


def test_a_campaign_that_fails_ends_the_command_with_1() -> None:
    done = run(*COMMAND, "--kind", "FAT 512", "--write-ahead", "-1")
    assert done.returncode == 1
    assert done.stdout.startswith("FAILED: {")


def test_the_command_explains_itself() -> None:
    done = run(*COMMAND, "--help")
    assert done.returncode == 0
    assert "--write-ahead" in done.stdout
