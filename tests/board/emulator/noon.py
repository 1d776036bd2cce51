"""A board whose day does not end during a test."""

import time

from budget_cpython.board.emulator import UnixBoard

AHEAD_S = 43_200 - int(time.time()) % 86_400  # the same for all boards: none goes back in time


class NoonBoard(UnixBoard):
    """A board on which it was noon when the tests began."""

    def _clock_offset(self) -> int:
        return AHEAD_S * 10**9
