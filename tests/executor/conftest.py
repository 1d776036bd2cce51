"""Fixtures of the executor's tests."""

import threading

import pytest

from budget_cpython.executor.threads import Job

from .support import PATIENCE_S


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what a tool sets once it has begun: no call in a thread is given up before."""
    event = threading.Event()
    real = Job.is_done

    def is_done(self: Job, within_s: float) -> bool:
        assert event.wait(PATIENCE_S), "the tool never began"
        return real(self, within_s)

    monkeypatch.setattr(Job, "is_done", is_done)
    return event
