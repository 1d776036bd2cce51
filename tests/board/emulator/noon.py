"""A board whose day does not end in the midst of a test."""

import time
from typing import Any

from budget_cpython.board.emulator import UnixBoard

AHEAD_S = 43_200 - int(time.time()) % 86_400  # the same for all boards: none goes back in time


class NoonBoard(UnixBoard):
    """A board on which it was noon when the tests began."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._processes.clock_offset = _offset  # type: ignore[method-assign]


def _offset(now_ns: int) -> int:
    return AHEAD_S * 10**9
