"""An engine of this machine, for all tests of a module that ask for one, and files in memory."""

import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.in_memory import MEMORY
from tests.in_memory import tmp_path as tmp_path
from tests.ledger.engines import Engine


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """Return an engine of the kind that the test is marked with: see `engines.of`."""
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        closing(request.param(Path(folder))) as one,
    ):
        yield one
