"""Hostile clients beside good ones: everything good is answered, and counted once."""

import sys

import pytest

from tests.serve.hostile import ENGINES, run


@pytest.mark.skipif(sys.platform != "linux", reason="other addresses of this machine")
@pytest.mark.parametrize("engine", ENGINES)
def test_nothing_is_counted_twice_beside_hostile_clients(engine: str) -> None:
    found = run(engine, 4)
    assert found.wrong == []
    assert found.alone
    assert found.beside
    assert len(found.tries) == 12  # each kind was there
