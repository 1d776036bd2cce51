"""SIGKILLs in the midst of writes: nothing acknowledged is lost, and nothing is broken."""

import re
import subprocess
import sys

import pytest

from tests.paths import ROOT

KILLS = ("-m", "tests.file_store_kills")
WITH_A_BROKEN_STORE = """\
import os, sys
from budget_core import file_store
from tests import file_store_kills as kills

class Broken(kills.STORES["server"]):
{body}

kills.STORES["server"] = Broken
sys.argv = ["kills.py", "--store", "server", "--kills", "1000"]
sys.exit(kills.main())
"""
BROKEN = {
    "acknowledged [0-9]+, stored [0-9]+": """
    last = None
    def save(self, state):
        if self.last: super().save(self.last)
        self.last = state
""",
    "'.*': stored state is damaged": """
    def save(self, state):
        from budget_core.checksum import encode
        data = encode({"microbudget": 1, **state}, 4096)
        with open(self.path, "wb", buffering=0) as file:
            for place in range(len(data)): file.write(data[place:place + 1])
""",
    "files left behind: ": """
    def save(self, state):
        with open(f"{self.path}.{os.getpid()}", "wb"): super().save(state)
""",
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize(
    ("store", "kills"),
    [
        ("server", 100),
        ("core", 50),
        pytest.param("server", 1000, marks=pytest.mark.slow),
        pytest.param("core", 250, marks=pytest.mark.slow),
    ],
)
def test_kills_in_the_midst_of_writes_lose_and_break_nothing(store: str, kills: int) -> None:
    done = run(*KILLS, "--store", store, "--kills", str(kills))
    assert done.returncode == 0, done.stdout + done.stderr
    report = re.search(
        rf"^{store}: {kills} kills in .*, (\d+) saves acknowledged, (\d+) temporary files left, "
        r".* 0 broken$",
        done.stdout,
        re.MULTILINE,
    )
    assert report
    assert int(report[1]) > kills / 2, "too few saves for a kill to hit one"
    if store == "server":  # the core's has a temporary name for its first two saves only
        assert int(report[2]) > kills / 100, "too few kills hit a save"


@pytest.mark.parametrize("found", BROKEN)
def test_a_broken_store_is_found_out(found: str) -> None:
    program = WITH_A_BROKEN_STORE.format(body=BROKEN[found])
    done = run("-c", program)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(f"FAILED at kill [0-9]+ with --seed 0: {found}", done.stdout)


def test_the_command_explains_itself() -> None:
    done = run(*KILLS, "--help")
    assert done.returncode == 0
    assert "--seed" in done.stdout
