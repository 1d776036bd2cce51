"""Fixtures of the executor's tests."""

import threading
from concurrent import futures
from typing import Any

import pytest

from .support import PATIENCE_S


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what a tool sets once it has begun: no call in a thread is given up before."""
    event = threading.Event()

    def wait(waited_for: Any, within_s: float | None = None) -> Any:
        assert event.wait(PATIENCE_S), "the tool never began"
        return futures.wait(waited_for, within_s)

    monkeypatch.setattr("budget_cpython.executor.slots.wait", wait)
    return event
