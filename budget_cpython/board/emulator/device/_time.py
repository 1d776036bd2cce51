"""A board's `time`: whole seconds since its own epoch, of a clock that may be unset."""
# mypy: ignore-errors

from time import *  # noqa: F403 - it takes that module's place
from time import gmtime as _gmtime
from time import mktime as _mktime
from time import time_ns as _time_ns

_state = [None, 0]


def start(cells, epoch):
    """Run `cells.clock_ns` ahead of the host's clock, counted from an epoch in Unix seconds."""
    _state[:] = cells, epoch


def adjust(seconds):
    """Set the clock."""
    cells, epoch = _state
    cells.clock_ns = (seconds + epoch) * 1_000_000_000 - _time_ns()


def advance(ms):
    """Let time pass at once: nothing runs in a deep sleep."""
    _state[0].clock_ns += ms * 1_000_000


def time_ns():
    cells, epoch = _state
    return _time_ns() + cells.clock_ns - epoch * 1_000_000_000


def time():
    return time_ns() // 1_000_000_000


def gmtime(seconds=None):
    return _gmtime((time() if seconds is None else seconds) + _state[1])


localtime = gmtime


def mktime(fields):
    return int(_mktime(fields)) - _state[1]
