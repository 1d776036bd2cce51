"""Fixtures of the executor's tests, and a loop for those that are async."""

import asyncio
import inspect
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from budget_cpython.executor.threads import ends_within

from .support import PATIENCE_S


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test, for a bounded time, and leave any other to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    test = pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    asyncio.run(asyncio.wait_for(test, 2 * PATIENCE_S))
    return True


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what a tool sets once it has begun: no call in a thread is given up before."""
    event = threading.Event()

    def wait(future: Future[Any], seconds: float) -> bool:
        assert event.wait(PATIENCE_S), "the tool never began"
        return ends_within(future, seconds)

    monkeypatch.setattr("budget_cpython.executor.call.ends_within", wait)
    return event
