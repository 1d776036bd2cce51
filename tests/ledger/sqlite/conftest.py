"""A ledger's file, and what ledgers do to theirs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.sqlite.watch import Watch, watched


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def watch() -> Iterator[Watch]:
    with watched() as watch:
        yield watch
