"""A `tmp_path` in memory, where that is a folder, for the tests of folders that import it.

To sync a file takes some milliseconds on a disk. None of these tests cuts the power.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - a folder of its own


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """Return a folder of the test's own, gone at its end."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)
