"""Time what takes turns, so that all have the machine's noise."""

import time
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any


def medians(functions: Sequence[Callable[[], object]], calls: int) -> list[float]:
    """Return the microseconds that a call of each takes."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(calls):
        for function, taken in zip(functions, times, strict=True):
            began = time.perf_counter()
            function()
            taken.append(time.perf_counter() - began)
    return _microseconds(times)


async def medians_awaited(
    functions: Sequence[Callable[[], Awaitable[Any]]], calls: int
) -> list[float]:
    """Return the microseconds that each takes to be awaited."""
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(calls):
        for function, taken in zip(functions, times, strict=True):
            began = time.perf_counter()
            await function()
            taken.append(time.perf_counter() - began)
    return _microseconds(times)


def _microseconds(times: Sequence[Sequence[float]]) -> list[float]:
    return [median(one) * 1e6 for one in times]
