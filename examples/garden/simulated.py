"""Simulate pins and soil on this machine; a board takes the real ones from `machine`."""

import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_WETTER = 400  # what a second of water changes in a sensor's reading
_soil = {sensor: settings.DRY - 6_000 for _, _, sensor in settings.BEDS}
_sensor_of = {valve: sensor for _, valve, sensor in settings.BEDS}
_open: "list[int]" = []


class Pin:
    """A `machine.Pin`: an output that opens a valve."""

    OUT = 1

    def __init__(self, number: int, mode: int = OUT, value: int = 0) -> None:
        self.number = number

    def on(self) -> None:
        """Open the valve."""
        _open.append(self.number)

    def off(self) -> None:
        """Close the valve."""
        if self.number in _open:
            _open.remove(self.number)


class ADC:
    """A `machine.ADC`: a sensor, whose reading falls as the soil gets wet."""

    def __init__(self, pin: Pin) -> None:
        self._sensor = pin.number

    def read_u16(self) -> int:
        """Return the reading."""
        return _soil[self._sensor]


async def sleep(seconds: int) -> None:
    """Let the water run, without waiting for it."""
    for number in _open:
        print(f"  valve at pin {number} open for {seconds} s")
        sensor = _sensor_of[number]
        _soil[sensor] = max(settings.WET, _soil[sensor] - _WETTER * seconds)


class WDT:
    """A `machine.WDT`, which resets nothing."""

    def __init__(self, timeout: int) -> None:
        pass

    def feed(self) -> None:
        """Do nothing."""


class Timer:
    """A `machine.Timer` that never ticks."""

    PERIODIC = 1

    def __init__(self, number: int) -> None:
        pass

    def init(self, mode: int, period: int, callback: "Callable[[Any], None]") -> None:
        """Do nothing."""


def deepsleep(ms: int) -> None:
    """End the program: a board would start it anew."""
    raise SystemExit
