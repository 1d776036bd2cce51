"""A board's `machine`: its clock and its resets."""
# mypy: ignore-errors

import _flash
import _time
from machine import *  # noqa: F403 - it takes that module's place
from micropython import const

_HARD_RESET = const(12)


class RTC:
    """The real-time clock."""

    def __init__(self, id=0):
        pass

    def datetime(self, fields=None):
        if fields is None:
            year, month, day, hour, minute, second, weekday = _time.gmtime()[:7]
            microsecond = _time.time_ns() // 1000 % 1_000_000
            return year, month, day, weekday, hour, minute, second, microsecond
        year, month, day, _, hour, minute, second = fields[:7]
        _time.adjust(_time.mktime((year, month, day, hour, minute, second, 0, 0)))
        return None


def reset():
    _flash.EXIT(_HARD_RESET)


def deepsleep(ms=0):
    _time.advance(ms)
    reset()


def soft_reset():
    raise SystemExit
