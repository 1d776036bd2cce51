"""The proxy's memory does not grow with its requests."""

from pathlib import Path

import pytest

from tests.proxy.memory import MOST_KB, measure


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="it reads /proc")
def test_memory_stays_flat_over_many_requests() -> None:
    found = measure(5_000)
    assert found[-1] - found[0] < MOST_KB, found
