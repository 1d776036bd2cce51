"""The garden: an agent waters within the limits of a day, also if the power is cut meanwhile."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall
from tests.paths import ROOT

HERE = ROOT / "examples/garden"
SECONDS_A_DAY = 120
OPEN = re.compile(r"valve at pin (\d+) open for (\d+) s")
HANGS = """

async def sleep(seconds):
    import asyncio
    for number in _open:
        print(f"valve at pin {number} open for {seconds} s")
    await asyncio.sleep(3600)
"""
HOURS = """
import asyncio
import json
from garden import seconds_until

day = 20_000 * 86_400
for hours, second in (((5, 18), 0), ((5, 18), 5 * 3600), ((5, 18), 18 * 3600 + 1), ((0,), 86_399)):
    print(json.dumps(seconds_until(hours, day + second)))

waits = []
really_wait_for = asyncio.wait_for

async def wait_for(line, seconds):
    asyncio.wait_for = really_wait_for
    line.close()
    waits.append(seconds)
    raise asyncio.TimeoutError

asyncio.wait_for = wait_for
import main
print(json.dumps(waits))
"""

HANGS_UP = """
import asyncio
import json
import settings
import simulated
from garden import is_due, seconds_asleep
from watchdog import Watchdog

fed = []

class WDT:
    def __init__(self, timeout):
        fed.append(timeout)

    def feed(self):
        fed.append(0)

class Timer(simulated.Timer):
    def init(self, mode, period, callback):
        for _ in range(60 + settings.WATCHDOG_S + 1):
            callback(self)

def ticks(dog, seconds):
    before = len(fed)
    for _ in range(seconds):
        dog.tick()
    return len(fed) - before

async def idle(dog):
    steps = asyncio.create_task(dog.wait())
    await asyncio.sleep(0)
    steps.cancel()

dog = Watchdog(lambda: WDT(8000), 20, grace_s=10)
said = [ticks(dog, 10), ticks(dog, 1), ticks(dog, 20), ticks(dog, 5)]
dog.step()
said += [ticks(dog, 7)]
asyncio.run(idle(dog))
said += [ticks(dog, 30)]
print(json.dumps(said))
day = 20_000 * 86_400
print(json.dumps([seconds_asleep(n) for n in (0, day + 300, day + 120, day + 3500, day + 1900)]))
print(json.dumps([is_due((5, 18), day + s) for s in (0, 5 * 3600, 6 * 3600 - 1, 6 * 3600)]))
simulated.WDT, simulated.Timer, settings.WATCHDOG_S = WDT, Timer, 400
fed.clear()
import main
print(json.dumps(fed[0]), len(fed))
settings.WATCHDOG_S = 390
try:
    main.start_watchdog()
except ValueError as error:
    print(error)
"""


def as_much_as_is_left(asked: Asked) -> Reply:
    """Ask for 50 seconds again and again, and once refused for what is said to be left."""
    told = [str(m["content"]) for m in asked.messages if m["role"] == "tool"]
    left = re.findall(r"refused, (\d+) of 120 are left today, until 00:00 UTC", "".join(told))
    if left and (left[-1] == "0" or len(left) > 1):
        return Reply("All is watered.")
    seconds = int(left[-1]) if left else 50
    arguments = json.dumps({"bed": "beans", "seconds": seconds})
    return (
        Reply(calls=(ScriptedToolCall("water", arguments),))
        if asked.tools
        else Reply("No tools left.")
    )


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint(scripts={"thirsty": as_much_as_is_left}) as serving:
        yield serving


@pytest.fixture(params=["micropython", "cpython"])
def runtime(request: pytest.FixtureRequest) -> str:
    return os.environ["MICROPYTHON"] if request.param == "micropython" else sys.executable


def garden(folder: Path, endpoint: ScriptedEndpoint) -> Path:
    """Copy the garden's programs; it keeps its state beside them."""
    place = folder / "garden"
    shutil.copytree(HERE, place, ignore=shutil.ignore_patterns("__pycache__"))
    changed = {
        "STATE": str(folder / "budget"),
        "WATER_STATE": str(folder / "water"),
        "BASE_URL": endpoint.base_url,
        "MODEL": "thirsty",
        "ECHO": False,
    }
    with (place / "settings.py").open("a") as file:
        file.writelines(f"{name} = {value!r}\n" for name, value in changed.items())
    return place


def started(runtime: str, program: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [runtime, str(program)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "MICROPYPATH": f"{ROOT}:.frozen", "PYTHONPATH": str(ROOT)},
    )


def said(runtime: str, program: Path, *lines: str) -> str:
    """Run to the end of input and return what was printed."""
    with started(runtime, program) as process:
        out, _ = process.communicate("".join(f"{line}\r" for line in lines), timeout=300)
    assert process.returncode == 0, out
    return out


def water(printed: str) -> list[int]:
    return [int(seconds) for _, seconds in OPEN.findall(printed)]


def test_the_agent_waters_as_much_as_the_day_allows_and_no_more(
    runtime: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    place = garden(tmp_path, endpoint)
    printed = said(runtime, place / "main.py", "/water", "Water the beans.", "/water", "/budget")
    assert water(printed) == [50, 50, 20]
    assert "beans: 20 % moist; 6 calls and 120 s of water left today" in printed
    assert "beans: 100 % moist; 3 calls and 0 s of water left today" in printed
    assert "All is watered." in printed
    assert re.search(r"^> today \d+/50000 tokens", printed, re.MULTILINE)


def test_no_power_cut_while_water_runs_gives_more_of_it(
    runtime: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    place = garden(tmp_path, endpoint)
    with (place / "simulated.py").open("a") as file:
        file.write(HANGS)
    ran: list[int] = []
    for _ in range(6):
        with started(runtime, place / "main.py") as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("Water the beans.\r")
            process.stdin.flush()
            for line in process.stdout:
                if found := water(line):
                    ran += found
                    process.kill()
                if "tokens in" in line:  # the turn is over
                    process.kill()
    assert ran == [50, 50, 20]


def test_rounds_come_at_their_hours(
    runtime: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    place = garden(tmp_path, endpoint)
    (place / "hours.py").write_text(HOURS)
    first, second, third, fourth, *_, waits = said(runtime, place / "hours.py").splitlines()
    hours = [5 * 3600, 13 * 3600, 11 * 3600 - 1, 1]
    assert [int(wait) for wait in (first, second, third, fourth)] == hours
    assert all(0 < wait <= 13 * 3600 for wait in json.loads(waits))
    (question,) = [
        message["content"]
        for message in endpoint.requests[0].body["messages"]
        if message["role"] == "user"
    ]
    assert question.startswith("Read every bed.")


def test_a_watchdog_is_fed_while_the_program_makes_steps(
    runtime: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    place = garden(tmp_path, endpoint)
    (place / "dog.py").write_text(HANGS_UP)
    fed, asleep, due, *_, of_main, refused = said(runtime, place / "dog.py").splitlines()
    begun, while_it_has_patience = 1, 9  # of 20 seconds, the first 11 before it begins
    assert json.loads(fed) == [0, begun, while_it_has_patience, 0, 7, 20]
    assert json.loads(asleep) == [3600, 3600, 3780, 4000, 2000]
    assert json.loads(due) == [False, True, True, False]
    assert of_main == "8000 340"
    assert refused == (
        "WATCHDOG_S = 390 of the settings: a turn may take 390 s, so give more, or 0 for none"
    )


def test_a_bed_and_a_time_that_do_not_exist_open_no_valve(
    runtime: str, tmp_path: Path, endpoint: ScriptedEndpoint
) -> None:
    asked_for = iter([{"bed": "roses", "seconds": 5}, {"bed": "beans", "seconds": 61}])

    def wrong(asked: Asked) -> Reply:
        found = next(asked_for, None)
        return (
            Reply(calls=(ScriptedToolCall("water", json.dumps(found)),))
            if found
            else Reply("Well.")
        )

    endpoint.scripts["thirsty"] = wrong
    printed = said(runtime, garden(tmp_path, endpoint) / "main.py", "Water the roses.", "/water")
    assert water(printed) == []
    assert "6 calls and 120 s of water left today" in printed
