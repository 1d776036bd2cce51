"""Every schedule of four clock steps: no refill that no real day gives, and nobody locked out.

After each step somebody uses all that is left of the day. `granted` counts how often there was a
whole day's budget to use; `days` how many real days there were to use one in.
"""

from budget_core import DailyBudgetConfig, DailyBudgetTracker, InMemoryBudgetStore
from budget_core.wall_clock import BUILT, DAY, WallClock
from tests_micro.support import SLOW, FakeClock, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CAP = 1
CONFIG = DailyBudgetConfig(daily_budget=CAP)
ONE_TOKEN = {"prompt_tokens": 1, "completion_tokens": 0, "total_tokens": 1}
START = BUILT // DAY * DAY + 10 * DAY + 13 * 3600
Y1970, Y2000, Y2021, THIRTY_YEARS = 86_400, 946_684_800, 1_609_459_200, 30 * 365 * DAY
SYNC = "sync"
SET = {"0": 0, "1970": Y1970, "2000": Y2000, "2021": Y2021}
MOVE = {"+1 s": 1, "-1 s": -1, "+1 day": DAY, "-1 day": -DAY, "+30 years": THIRTY_YEARS}
STEPS = sorted(SET) + sorted(MOVE) + [SYNC]


class World:
    """A board or a server, the true time, and somebody who uses up whatever there is."""

    def __init__(self, needs_sync: bool, wall: float, restarts: bool) -> None:
        self.needs_sync = needs_sync
        self.restarts = restarts
        self.true = START
        self.wall = FakeClock(wall)
        self.store = InMemoryBudgetStore()
        self.used = 0
        self.start()

    def start(self) -> None:
        """Begin anew: the monotonic clock from anywhere, the count from its store."""
        self.ticks, monotonic = stopped_clock()
        self.clock = WallClock(self.wall, monotonic, self.needs_sync)
        self.tracker = DailyBudgetTracker(CONFIG, self.clock, self.store)

    def step(self, name: str, pause: int) -> None:
        """Let time pass, set the clock, and use what there is."""
        self.sleep(pause)
        if self.restarts:
            self.start()
        if name in SET:
            self.wall.now = SET[name]
        elif name in MOVE:
            self.wall.now = max(0, self.wall.now + MOVE[name])
        else:
            self.sync()
        self.use()

    def sync(self) -> None:
        self.wall.now = self.true
        self.clock.mark_synced()

    def sleep(self, seconds: int) -> None:
        self.true += seconds
        self.wall.advance(seconds)
        self.ticks.advance(seconds * 1000)

    def use(self) -> None:
        """Use what the tracker lets us use."""
        self.tracker.maybe_auto_reset()
        if not self.tracker.is_at_limit():
            self.tracker.record(ONE_TOKEN)
            self.used += 1

    @property
    def granted(self) -> float:
        return self.used / CAP

    @property
    def days(self) -> int:
        return self.true // DAY - START // DAY + 1


def every_schedule(check: "Callable[[World, tuple[str, ...]], None]", **options: "Any") -> None:
    """Run each schedule of four steps in a world of its own; steps are 0 or 7 hours apart."""
    for first in STEPS[::5] if SLOW else STEPS:
        for second in STEPS[::2] if SLOW else STEPS:
            for third in STEPS:
                for fourth in STEPS[::2] if SLOW else STEPS:
                    steps = (first, second, third, fourth)
                    world = World(**options)
                    world.use()
                    for number, step in enumerate(steps):
                        world.step(step, 7 * 3600 if number % 2 else 0)
                    check(world, steps)


def check_exact(world: World, steps: "tuple[str, ...]") -> None:
    """A day's budget for a real day, and the next real day at its very beginning."""
    assert world.granted <= world.days, (steps, world.granted)
    if world.restarts:
        world.start()
    world.sync()
    world.use()
    assert world.granted <= world.days, (steps, "synced", world.granted)
    before = world.used
    world.sleep(DAY - world.true % DAY)
    world.use()
    assert world.used == before + CAP, (steps, "locked out")
    assert world.granted <= world.days, (steps, "the next day", world.granted)


def check_bounded(world: World, steps: "tuple[str, ...]") -> None:
    """At most a day's budget too early, and a new one after the next real day at the latest."""
    assert world.granted <= world.days + 1, (steps, world.granted)
    world.wall.now = world.true
    world.use()
    before = world.used
    for _ in range(2):
        world.sleep(DAY - world.true % DAY)
        world.use()
    assert world.used > before, (steps, "locked out")
    assert world.granted <= world.days + 1, (steps, "afterwards", world.granted)


def test_a_board_that_runs_on_gives_a_days_budget_for_each_real_day() -> None:
    every_schedule(check_exact, needs_sync=True, wall=0, restarts=False)


def test_a_board_that_restarts_at_each_step_gives_a_days_budget_for_each_real_day() -> None:
    every_schedule(check_exact, needs_sync=True, wall=Y2021, restarts=True)


def test_a_server_that_runs_on_gives_a_days_budget_for_each_real_day() -> None:
    every_schedule(check_exact, needs_sync=False, wall=START, restarts=False)


def test_a_server_whose_clock_was_unset_gives_no_more_than_one_day_too_early() -> None:
    every_schedule(check_bounded, needs_sync=False, wall=Y2000, restarts=False)


def test_a_server_that_restarts_gives_nothing_twice_and_takes_back_what_came_too_early() -> None:
    # Nothing but its wall clock tells a server that has just begun how late it is.
    def check(world: World, steps: "tuple[str, ...]") -> None:
        early = sum([step in ("+1 day", "+30 years") for step in steps])
        assert world.granted <= world.days + early, (steps, world.granted)
        world.wall.now = world.true
        world.start()
        world.use()
        before = world.used
        for _ in range(2 + early):
            world.sleep(DAY - world.true % DAY)
            world.use()
        assert world.used > before, (steps, "locked out")
        assert world.granted <= world.days + early, (steps, "afterwards", world.granted)

    every_schedule(check, needs_sync=False, wall=START, restarts=True)
