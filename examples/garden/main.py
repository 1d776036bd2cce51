"""Water a garden: an agent reads the soil at its hours, and answers questions in between."""

import asyncio
import gc
import sys

import settings
from garden import Bed, Garden, is_due, seconds_asleep, seconds_until
from watchdog import Watchdog

from budget_core import WALL, DailyAllowance, DailyBudgetTracker, FileBudgetStore
from budget_core.board.console import Console
from budget_core.board.device import optional, refresh_network
from budget_core.board.line_input import Keyboard
from budget_core.board.make_agent import make_client, make_daily, make_fleet, make_operative

try:
    from asyncio import sleep

    from machine import ADC, Pin
except ImportError:
    from simulated import ADC, Pin, sleep  # type: ignore[assignment, no-redef]
try:
    from machine import WDT, Timer
except ImportError:
    from simulated import WDT, Timer  # type: ignore[assignment]
try:
    from machine import deepsleep
except ImportError:
    from simulated import deepsleep  # type: ignore[no-redef]

SLEEP = "/sleep"
CHIP_MS = 8_000  # an rp2 has no longer one


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


def start_watchdog() -> Watchdog:
    """Return a watchdog; one without patience never starts.

    Raises `ValueError` for less patience than a turn and its network may take.
    """
    patience = settings.WATCHDOG_S
    dog = Watchdog(lambda: WDT(timeout=CHIP_MS), patience)
    if patience:
        least = settings.TIMEOUT_S + settings.CALL_TIMEOUT_S + 2 * settings.WIFI_TIMEOUT_S
        if patience <= least:
            text = f"a turn may take {least} s, so give more, or 0 for none"
            raise ValueError(f"WATCHDOG_S = {patience} of the settings: {text}")
        timer = Timer(-1 if sys.platform == "rp2" else 0)
        timer.init(mode=Timer.PERIODIC, period=1000, callback=dog.tick)
    return dog


async def next_line(keyboard: Keyboard, dog: Watchdog) -> "str | None":
    """Return the next line that is typed; without one, the round's question at its hours.

    A garden that sleeps waits for a line for a moment only.
    """
    now = int(WALL())
    steps = asyncio.create_task(dog.wait())
    try:
        wait_s = seconds_until(settings.HOURS_UTC, now) if now else 600
        if settings.SLEEPS:
            wait_s = settings.AWAKE_S
        return await asyncio.wait_for(keyboard.line("> "), wait_s)
    except asyncio.TimeoutError:  # noqa: UP041 - MicroPython has no other
        print("")
        return SLEEP if settings.SLEEPS else settings.ROUND if now else ""
    finally:
        steps.cancel()


def first_line() -> str:
    """Return the round's question in one of its hours, for a garden that has just woken up."""
    now = int(WALL())
    return settings.ROUND if settings.SLEEPS and now and is_due(settings.HOURS_UTC, now) else ""


def fall_asleep(daily: DailyBudgetTracker) -> None:
    """Sleep, with the exact count stored; all of RAM is lost, and the board starts anew."""
    daily.flush()
    seconds = seconds_asleep(int(WALL()))
    print(f"asleep for {seconds} s")
    deepsleep(seconds * 1000)


def serve(line: str, garden: Garden, console: Console) -> None:
    """Do what a line asks for."""
    if not WALL():
        refresh_network()
    if line == "/water":
        for bed in sorted(garden.beds):
            print(garden.read_moisture(bed))
    elif line == SLEEP:
        fall_asleep(console.daily)
    else:
        console.obey(line)


def main() -> None:
    """Serve the console and the hours until the end of input, `/quit`, or Ctrl-C."""
    garden = make_garden()
    daily = make_daily(settings)
    secret = optional("secret")
    fleet = make_fleet(settings, secret, daily)
    agent = make_operative(settings, make_client(settings, secret), daily, garden.tools(), fleet)
    console = Console(settings, agent, daily, Keyboard(settings.ECHO), fleet=fleet)
    print(f"{garden.left()}; rounds at {settings.HOURS_UTC} o'clock UTC; /water says more")
    dog = start_watchdog()
    try:
        line = first_line() or asyncio.run(next_line(console.keyboard, dog))
        while line is not None and line.strip() != "/quit":
            dog.step()
            serve(line.strip(), garden, console)
            gc.collect()
            line = asyncio.run(next_line(console.keyboard, dog))
    except KeyboardInterrupt:
        print("")
    finally:
        daily.flush()


main()
