"""Keep the files of these tests in memory, and install SDKs in JavaScript."""

import shutil
import subprocess

import pytest

from tests.in_memory import tmp_path as tmp_path
from tests.paths import ROOT


@pytest.fixture(scope="session")
def node_path() -> str:
    """Return where the SDKs in JavaScript are; without Node.js or npm the test is skipped."""
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("there is no node, or no npm")
    done = subprocess.run(
        [ROOT / "scripts/node.sh"], capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        pytest.skip(f"the SDKs in JavaScript could not be installed: {done.stderr[-500:]}")
    return done.stdout.strip()
