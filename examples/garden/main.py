"""Water a garden: an agent reads the soil at its hours, and answers questions in between."""

import asyncio
import gc

import settings
from garden import Bed, Garden, seconds_until

from budget_core import WALL, DailyAllowance, FileBudgetStore
from budget_core.board.console import Console
from budget_core.board.device import optional, refresh_network
from budget_core.board.line_input import Keyboard
from budget_core.board.make_agent import make_client, make_daily, make_fleet, make_operative

try:
    from asyncio import sleep

    from machine import ADC, Pin
except ImportError:
    from simulated import ADC, Pin, sleep  # type: ignore[assignment, no-redef]


def sensor_at(pin: int) -> ADC:
    """Return the sensor at a pin; an ESP32 measures the whole 3.3 V only if it is told to."""
    range_of = getattr(ADC, "ATTN_11DB", None)
    return ADC(Pin(pin)) if range_of is None else ADC(Pin(pin), atten=range_of)


def make_garden() -> Garden:
    """Return the garden that the settings describe, all valves closed."""
    beds = {
        name: Bed(Pin(valve, Pin.OUT, value=0), sensor_at(sensor), settings.DRY, settings.WET)
        for name, valve, sensor in settings.BEDS
    }
    caps = {"calls": settings.WATER_CALLS_A_DAY, "seconds": settings.WATER_SECONDS_A_DAY}
    store = FileBudgetStore(settings.WATER_STATE)
    a_day = DailyAllowance("water", caps, store, settings.RESET_HOUR_UTC)
    return Garden(beds, a_day, settings.WATER_SECONDS_A_CALL, sleep)


async def next_line(keyboard: Keyboard) -> "str | None":
    """Return the next line that is typed, or at one of the hours the round's question."""
    now = int(WALL())
    try:
        wait_s = seconds_until(settings.HOURS_UTC, now) if now else 600
        return await asyncio.wait_for(keyboard.line("> "), wait_s)
    except asyncio.TimeoutError:  # noqa: UP041 - MicroPython has no other
        print("")
        return settings.ROUND if now else ""


def main() -> None:
    """Serve the console and the hours until the end of input, `/quit`, or Ctrl-C."""
    garden = make_garden()
    daily = make_daily(settings)
    secret = optional("secret")
    fleet = make_fleet(settings, secret, daily)
    agent = make_operative(settings, make_client(settings, secret), daily, garden.tools(), fleet)
    console = Console(settings, agent, daily, Keyboard(settings.ECHO), fleet=fleet)
    print(f"{garden.left()}; rounds at {settings.HOURS_UTC} o'clock UTC; /water says more")
    try:
        while True:
            gc.collect()
            line = asyncio.run(next_line(console.keyboard))
            if line is None or line.strip() == "/quit":
                break
            if not WALL():
                refresh_network()
            if line.strip() == "/water":
                for bed in sorted(garden.beds):
                    print(garden.read_moisture(bed))
            else:
                console.obey(line.strip())
    except KeyboardInterrupt:
        print("")
    finally:
        daily.flush()


main()
