"""Fixtures of the emulator's tests."""

import pytest


@pytest.fixture(autouse=True)
def patience() -> None:
    """Wait no longer than a user of the emulator does."""
