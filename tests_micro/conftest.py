"""Let pytest run the tests of this folder just as `runner.py` does on MicroPython."""

import asyncio
import inspect

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Refuse what the runner would not run, run an async test, leave any other to pytest."""
    if pyfuncitem.cls or inspect.signature(pyfuncitem.obj).parameters:
        pytest.fail("MicroPython runs plain functions without arguments only", pytrace=False)
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj())
    return True
