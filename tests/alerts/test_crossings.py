"""Crossings are noted once, also late and when limits change."""

import pytest

from budget_core.ledger.limit import Limit
from budget_core.wall_clock import DAY
from budget_cpython.alerts.channels import AlertChannel
from budget_cpython.alerts.crossings import CrossingWatch
from tests.alerts.support import NOON, calls, channel
from tests.ledger.engines import ENGINES, Engine, of
from tests_micro.support import FakeClock

pytestmark = of(*ENGINES)
URL = "http://127.0.0.1:1"


class World:
    """A ledger, a watch over it, and what was noted."""

    def __init__(self, engine: Engine, *channels: AlertChannel) -> None:
        self.clock = FakeClock(NOON)
        self.ledger = engine.make(self.clock)
        self.channels = channels or (channel(URL),)
        self.watch = self.other()

    def other(self) -> CrossingWatch:
        """Return the watch of another process."""
        return CrossingWatch(self.ledger, self.channels, self.clock)

    def noted(self, kind: str = "threshold") -> list[tuple[str, int, int, int]]:
        """Return the account, percent, spent and limit of each crossing."""
        keys = ("percent", "spent", "cap")
        events = self.ledger.events(kinds=[kind])
        return [(one.account, *(one.details.get(key, 0) for key in keys)) for one in events]


def test_each_share_is_noted_once_however_many_look(engine: Engine) -> None:
    world = World(engine)
    calls(world.ledger, "org", 10, 4)
    assert world.watch.note_crossings() == 0
    world.ledger.charge("org", {"calls": 1})
    assert world.watch.note_crossings() == 1
    world.ledger.charge("org", {"calls": 5})
    assert [world.other().note_crossings(), world.watch.note_crossings()] == [2, 0]
    assert world.noted() == [("org", 50, 5, 10), ("org", 80, 10, 10), ("org", 100, 10, 10)]
    (first, *_) = world.ledger.events(kinds=["threshold"])
    assert first.name == f"threshold/org/calls/day/{NOON - DAY // 2}/50/10"
    assert first.details["resets_at"] == NOON + DAY // 2


def test_a_share_is_noted_again_in_the_next_window(engine: Engine) -> None:
    world = World(engine)
    calls(world.ledger, "org", 10, 5)
    world.watch.note_crossings()
    world.clock.advance(DAY)
    assert world.watch.note_crossings() == 0
    world.ledger.charge("org", {"calls": 6})
    assert world.watch.note_crossings() == 1
    assert world.noted() == [("org", 50, 5, 10), ("org", 50, 6, 10)]


def test_what_was_crossed_in_windows_that_have_ended_is_noted_late(engine: Engine) -> None:
    world = World(engine)
    calls(world.ledger, "org", 10, 0, "hour")
    world.watch.note_crossings()
    for spent in (8, 0, 5, 4):
        world.ledger.charge("org", {"calls": spent})
        world.clock.advance(3600)
    assert world.watch.note_crossings() == 3
    assert sorted(world.noted()) == [("org", 50, 5, 10), ("org", 50, 8, 10), ("org", 80, 8, 10)]
    assert world.other().note_crossings() == 0


def test_a_first_look_goes_back_a_day(engine: Engine) -> None:
    world = World(engine)
    calls(world.ledger, "org", 10, 5, "hour")
    world.clock.advance(DAY - 3600)
    world.ledger.charge("org", {"calls": 6})
    world.clock.advance(2 * 3600)
    assert world.watch.note_crossings() == 1
    assert world.noted() == [("org", 50, 6, 10)]


def test_a_changed_limit_has_crossings_of_its_own(engine: Engine) -> None:
    world = World(engine)
    calls(world.ledger, "org", 10, 10)
    assert world.watch.note_crossings() == 3
    world.ledger.set_limits("org", [Limit("calls", 30, "day")])
    assert world.watch.note_crossings() == 0
    world.ledger.charge("org", {"calls": 5})
    assert world.watch.note_crossings() == 1
    world.ledger.set_limits("org", [Limit("calls", 12, "day")])
    assert world.watch.note_crossings() == 3
    world.ledger.set_limits("org", [Limit("calls", 10, "day")])
    assert world.watch.note_crossings() == 0


def test_a_rolling_window_has_one_crossing_in_each_of_its_lengths(engine: Engine) -> None:
    world = World(engine)
    calls(world.ledger, "org", 10, 6, "rolling 3600/6")
    assert world.watch.note_crossings() == 1
    for _ in range(11):
        world.clock.advance(300)
        world.ledger.charge("org", {"calls": 1})
        world.watch.note_crossings()
    assert [percent for _, percent, *_ in world.noted()] == [50, 80, 100]
    world.clock.advance(600)
    assert world.watch.note_crossings() == 3


@pytest.mark.parametrize(("cap", "spent", "noted"), [(None, 9, 0), (0, 0, 0), (0, 1, 3), (1, 1, 3)])
def test_limits_of_nothing_and_of_everything(
    cap: int | None, spent: int, noted: int, engine: Engine
) -> None:
    world = World(engine)
    calls(world.ledger, "org", cap, spent, "run")
    assert world.watch.note_crossings() == noted


def test_only_what_some_channel_wants_is_noted(engine: Engine) -> None:
    world = World(
        engine,
        channel(URL, at=(10,), accounts=("org/a",)),
        channel(URL, "b", at=(20,), accounts=("org",)),
    )
    for path in ("org", "org/a", "org/b"):
        world.ledger.set_limits(path, [Limit("calls", 10, "day")])
    for path in ("org/a", "org/b"):
        world.ledger.charge(path, {"calls": 9})
    world.watch.note_crossings()
    assert world.noted() == [("org", 20, 18, 10), ("org/a", 10, 9, 10)]


def test_a_forecast_is_noted_once_in_a_window(engine: Engine) -> None:
    world = World(engine, channel(URL, at=(), forecast=True))
    calls(world.ledger, "org", 100, 40)
    assert world.watch.note_crossings() == 0  # at noon 40 of 100 last until midnight
    world.ledger.charge("org", {"calls": 20})
    assert world.watch.note_crossings() == 1
    world.clock.advance(600)
    world.ledger.charge("org", {"calls": 10})
    assert world.watch.note_crossings() == 0
    (event,) = world.ledger.events(kinds=["forecast"])
    assert event.details["empty_at"] == NOON + 8 * 3600
    assert event.name == f"forecast/org/calls/day/{NOON - DAY // 2}/100"


def test_accounts_with_long_paths_have_names_too(engine: Engine) -> None:
    world = World(engine)
    path = "/".join(str(number) * 64 for number in range(8))
    calls(world.ledger, path, 10, 10)
    assert world.watch.note_crossings() == 3
    assert world.other().note_crossings() == 0
    assert {account for account, *_ in world.noted()} == {path}
