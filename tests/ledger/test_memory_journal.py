"""What the ledger in memory tells operators, beyond what every engine does."""

from typing import Any

import pytest

from budget_core.wall_clock import DAY
from budget_cpython import Ledger, Limit
from budget_cpython.ledger import memory_journal
from budget_cpython.ledger.journal import KEEP_EVENTS_S, HourOfUsage, LedgerEvent, OpenHold

START = 1_800_000_000
HOUR = START - START % 3600


class Clock:
    now = START

    def __call__(self) -> int:
        return self.now


def test_a_ledger_tells_the_own_limits_of_all_accounts_below_a_path() -> None:
    ledger = Ledger(Clock())
    ledger.set_limits("acme", [Limit("calls", 9, "hour"), Limit("tokens", 100)])
    ledger.set_limits("acme/a", [Limit("calls", 5)])
    ledger.set_limits("acme-2", [Limit("calls", None)])
    ledger.charge("acme/a/b", {"calls": 2})
    found = [(one.account, one.axis, one.spent) for one in ledger.balances("acme")]
    assert found == [("acme", "calls", 2), ("acme", "tokens", 0), ("acme/a", "calls", 2)]
    assert [one.account for one in ledger.balances()] == ["acme", "acme", "acme-2", "acme/a"]
    assert ledger.balances("acme/a/b") == []
    with pytest.raises(ValueError, match="path"):
        ledger.balances("acme/")


def test_open_holds_are_told_with_their_age_and_the_oldest_first() -> None:
    clock = Clock()
    ledger = Ledger(clock)
    ledger.set_limits("acme", Limit("calls", 9))  # type: ignore[arg-type]
    gone = ledger.reserve("acme", {"calls": 1}, "gone")
    first = ledger.reserve("acme/a", {"calls": 1}, "first", ttl=60)
    clock.now += 5
    second = ledger.reserve("acme", {"calls": 2}, ttl=60)
    ledger.commit(gone)
    assert ledger.open_holds() == [
        OpenHold("acme/a", first.id, {"calls": 1}, START, START + 60),
        OpenHold("acme", second.id, {"calls": 2}, START + 5, START + 65),
    ]
    assert [one.id for one in ledger.open_holds("acme/a")] == ["first"]
    assert [one.id for one in ledger.open_holds(most=1)] == ["first"]
    clock.now += 57
    assert [one.id for one in ledger.open_holds()] == [second.id]


def test_what_is_known_of_holds_does_not_grow_with_those_that_are_settled() -> None:
    ledger = Ledger(Clock())
    ledger.set_limits("acme", Limit("calls", None))  # type: ignore[arg-type]
    kept = ledger.reserve("acme", {"calls": 1})
    for _ in range(1000):
        ledger.commit(ledger.reserve("acme", {"calls": 1}))
    assert ledger.open_holds()[0].taken_at == START
    assert ledger.open_holds()[0].id == kept.id
    assert len(ledger._taken_ms) < 100


def test_numbers_of_events_go_on_once_old_events_are_gone() -> None:
    clock = Clock()
    ledger = Ledger(clock)
    old = LedgerEvent("threshold", "acme", {"percent": 50}, "once")
    assert ledger.note([old, old, LedgerEvent("limits", "acme/a", {})]) == [1, 0, 2]
    assert ledger.note([old]) == [0]
    clock.now += KEEP_EVENTS_S
    assert ledger.note([LedgerEvent("refused", "acme", {})]) == [3]
    assert ledger.note([old]) == [4]
    assert [one.number for one in ledger.events()] == [3, 4]


def test_the_oldest_events_go_where_there_are_too_many(monkeypatch: Any) -> None:
    monkeypatch.setattr(memory_journal, "MOST_EVENTS", 3)
    ledger = Ledger(Clock())
    for turn in range(5):
        ledger.note([LedgerEvent("refused", "acme", {"turn": turn}, f"turn/{turn}")])
    assert [one.details["turn"] for one in ledger.events()] == [2, 3, 4]
    assert ledger.note([LedgerEvent("refused", "acme", {}, "turn/0")]) == [6]


def test_events_are_chosen_by_path_kind_and_number() -> None:
    ledger = Ledger(Clock())
    for kind, account in [("a", "acme"), ("b", "acme/x"), ("a", "acme-2"), ("a", "")]:
        ledger.note([LedgerEvent(kind, account, {})])
    assert [one.number for one in ledger.events("acme")] == [1, 2]
    assert [one.number for one in ledger.events(kinds=["a"])] == [1, 3, 4]
    assert [one.number for one in ledger.events(most=2)] == [3, 4]
    assert [one.number for one in ledger.events(after=1, most=2)] == [2, 3]
    assert ledger.events()[0] == LedgerEvent("a", "acme", {}, "", START, 1)


@pytest.mark.parametrize(
    "event",
    [
        LedgerEvent("", "acme", {}),
        LedgerEvent("refused", "acme/", {}),
        LedgerEvent("refused", "acme", {"what": object()}),
        LedgerEvent("refused", "acme", {}, "a\0"),
        LedgerEvent("refused", "acme", {}, "\ud800"),
    ],
)
def test_a_malformed_event_is_refused_with_all_beside_it(event: LedgerEvent) -> None:
    ledger = Ledger(Clock())
    with pytest.raises(ValueError, match=r"must|kind"):
        ledger.note([LedgerEvent("limits", "acme", {}), event])
    assert ledger.events() == []


def test_usage_is_added_up_by_hour_path_model_and_tool() -> None:
    ledger = Ledger(Clock())
    row = HourOfUsage(HOUR, "acme/a", "small", "", {"calls": 1, "tokens": 10})
    ledger.add_usage([row, row])
    ledger.add_usage([row._replace(amounts={"nano_usd": 5}), row._replace(hour=HOUR - 3600)])
    ledger.add_usage([row._replace(path="acme-2"), row._replace(model="", tool="search")])
    assert ledger.usage("acme") == [
        row._replace(hour=HOUR - 3600),
        row._replace(model="", tool="search"),
        row._replace(amounts={"calls": 2, "tokens": 20, "nano_usd": 5}),
    ]
    assert len(ledger.usage(since=HOUR)) == 3


def test_usage_is_kept_for_four_hundred_days() -> None:
    clock = Clock()
    clock.now = HOUR + 400 * DAY
    ledger = Ledger(clock)
    row = HourOfUsage(HOUR, "acme", "small", "", {"calls": 1})
    ledger.add_usage([row])
    ledger.add_usage([row._replace(hour=HOUR + 399 * DAY)])
    assert len(ledger.usage()) == 2
    ledger.add_usage([row._replace(hour=HOUR + 400 * DAY)])
    assert [one.hour for one in ledger.usage()] == [HOUR + 399 * DAY, HOUR + 400 * DAY]


@pytest.mark.parametrize("wrong", [{"hour": HOUR + 1}, {"path": ""}, {"model": "\0"}])
def test_a_malformed_row_of_usage_is_refused(wrong: dict[str, Any]) -> None:
    row = HourOfUsage(HOUR, "acme", "small", "", {"calls": 1})
    with pytest.raises(ValueError, match="must"):
        Ledger(Clock()).add_usage([row._replace(**wrong)])
