"""The beds of a garden as tools of a model: read the soil, and water within a day's limits."""

import asyncio

from budget_core import Tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from budget_core import DailyAllowance

_HOUR = 3600
_DAY = 86_400
_AFTER = 300  # a clock in a deep sleep may gain so many seconds


class Bed:
    """A bed: `valve` has `on()` and `off()`, `sensor` has `read_u16()`.

    `dry` and `wet` are the sensor's readings in dry soil and in water.
    """

    def __init__(self, valve: "Any", sensor: "Any", dry: int, wet: int) -> None:
        self.valve = valve
        self.sensor = sensor
        self.dry = dry
        self.wet = wet

    def moisture(self) -> int:
        """Return how moist the soil is, from 0 (dry) to 100 (wet)."""
        reading: int = self.sensor.read_u16()
        share = (self.dry - reading) * 100 // (self.dry - self.wet)
        return min(100, max(0, share))


class Garden:
    """Beds by name, and the water of a day: an allowance of `calls` and `seconds`.

    `most` is how many seconds of water one call may ask for.
    """

    def __init__(
        self,
        beds: "dict[str, Bed]",
        a_day: "DailyAllowance",
        most: int,
        sleep: "Callable[[int], Awaitable[object]]" = asyncio.sleep,
    ) -> None:
        self.beds = beds
        self.a_day = a_day
        self.most = most
        self.sleep = sleep

    async def water(self, bed: str, seconds: int) -> str:
        """Open a valve for so long. The whole time counts before the valve opens."""
        self.a_day.claim(calls=1, seconds=seconds)
        valve = self.beds[bed].valve
        try:
            valve.on()
            await self.sleep(seconds)
        finally:
            valve.off()
        return f"watered {bed} for {seconds} s; {self.left()}"

    def read_moisture(self, bed: str) -> str:
        """Return the moisture of one bed, for the model."""
        return f"{bed}: {self.beds[bed].moisture()} % moist; {self.left()}"

    def left(self) -> str:
        """Return what is left of the day's water, in words."""
        left = self.a_day.left()
        return f"{left['calls']} calls and {left['seconds']} s of water left today"

    def tools(self) -> "list[Tool]":
        """Return the tools for the model."""
        bed = {"type": "string", "enum": sorted(self.beds)}
        seconds = {"type": "integer", "minimum": 1, "maximum": self.most}
        reads = {"type": "object", "properties": {"bed": bed}, "required": ["bed"]}
        waters = {
            "type": "object",
            "properties": {"bed": bed, "seconds": seconds},
            "required": ["bed", "seconds"],
        }
        return [
            Tool("read_moisture", "Read how moist a bed is.", self.read_moisture, reads),
            Tool("water", "Water a bed for some seconds.", self.water, waters),
        ]


def seconds_until(hours: "tuple[int, ...]", now: int) -> int:
    """Return the seconds from a Unix time to the next of these hours of the day, in UTC."""
    second = now % _DAY
    return min([(hour * _HOUR - second - 1) % _DAY + 1 for hour in hours])


def is_due(hours: "tuple[int, ...]", now: int) -> bool:
    """Tell whether a Unix time lies in one of these hours of the day, in UTC."""
    return now % _DAY // _HOUR in hours


def seconds_asleep(now: int) -> int:
    """Return the seconds of a sleep that ends just after a full hour; `now` is 0 if not known.

    A sleep lasts half an hour or more. So a board that wakes a little early is not awake twice
    within an hour.
    """
    wait = _HOUR - (now - _AFTER) % _HOUR
    if not now:
        return _HOUR
    return wait if wait >= _HOUR // 2 else wait + _HOUR
