"""What every engine tells operators: the same as the ledger in memory."""

import random
from json import loads
from typing import Any

import pytest

from budget_core.ledger.errors import BudgetExceededError, UnknownAccountError
from budget_core.ledger.limit import Limit
from budget_core.wall_clock import DAY
from budget_cpython.ledger import remote, remote_journal
from budget_cpython.ledger.journal import (
    KEEP_EVENTS_S,
    KEEP_USAGE_S,
    HourOfUsage,
    LedgerEvent,
    OpenHold,
)
from budget_cpython.ledger.redis import journal as redis_journal
from tests.ledger.engines import (
    AWAITED,
    ENGINES,
    SPREAD,
    Engine,
    Postgres,
    Redis,
    of,
)
from tests_micro.support import FakeClock

NOON = 20_000 * DAY + DAY // 2
ALL = (*ENGINES, *AWAITED, *SPREAD)
WINDOWS = ("run", "hour", "day", "rolling 7200/4", "rolling 86400/24", "month")
PATHS = ("org", "org/a", "org/a/b", "org/c", "org-2", "org2", "org2/a")
ONE = {"tokens": 1}


@pytest.fixture(autouse=True)
def _no_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "SWEEP_EVERY", 10**9)


def deep_list() -> list[Any]:
    found: list[Any] = []
    for _ in range(10_000):
        found = [found]
    return found


def below(path: str, selected: str) -> bool:
    return selected in ("", path) or path.startswith(selected + "/")


def as_rows(balances: Any) -> list[tuple[Any, ...]]:
    return [tuple(getattr(one, name) for name in one.__slots__) for one in balances]


def one_by_one(ledger: Any, path: str) -> list[tuple[Any, ...]]:
    """Return what `balance` says of the own limits of each account."""
    return [
        row
        for account in ledger.accounts()
        if below(account, path)
        for row in as_rows(one for one in ledger.balance(account) if one.account == account)
    ]


def do_something(ledger: Any, chance: random.Random) -> None:
    """Set limits, or hold, settle or charge an amount, within its limits or not."""
    path, which = chance.choice(PATHS), chance.randrange(8)
    if which == 0:
        chosen = chance.sample(WINDOWS, chance.randrange(4))
        caps = [chance.choice((None, 20, 2**53 - 1)) for _ in chosen]
        given = [Limit("tokens", *one) for one in zip(caps, chosen, strict=True)]
        ledger.set_limits(path, given)
        return
    try:
        if which < 3:
            ledger.charge(path, {"tokens": chance.choice((1, 2**53 - 1))})
            return
        hold = ledger.reserve(path, {"tokens": chance.randrange(6)}, ttl=chance.choice((60, 9000)))
        if which > 5:
            ledger.commit(hold, ONE)
    except (BudgetExceededError, UnknownAccountError):
        pass


@of(*ALL)
@pytest.mark.parametrize("seed", range(4))
def test_balances_are_those_of_each_account(
    seed: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_journal, "STEP", 2)
    chance = random.Random(seed)  # noqa: S311 - what happens, no secrets
    clock = FakeClock(NOON)
    ledger = engine.make(clock)
    for path in PATHS[:4]:
        ledger.set_limits(path, [Limit("tokens", 100, "hour"), Limit("calls", None)])
    for _ in range(25):
        for _ in range(4):
            do_something(ledger, chance)
        clock.advance(chance.choice((0, 61, 1800, 3600, 7200, DAY, 31 * DAY)))
        path = chance.choice(("", "org", "org/a", "org2", "nobody"))
        found = as_rows(ledger.balances(path))  # first: `balance` may count what is over
        assert found == one_by_one(ledger, path)
        assert found == as_rows(ledger.balances(path))


@of(*ALL)
def test_balances_before_the_clock_is_set_are_those_of_each_account(engine: Engine) -> None:
    clock = FakeClock(0)
    ledger = engine.make(clock)
    ledger.set_limits("org", [Limit("tokens", 100, "hour"), Limit("tokens", 900, "day")])
    ledger.charge("org", ONE)
    for now in (0, NOON, NOON + 3600, NOON - DAY, 0, NOON):
        clock.now = now
        assert as_rows(ledger.balances()) == one_by_one(ledger, "")
        ledger.charge("org", ONE)


@of(*ALL)
def test_balances_of_a_window_that_comes_again_are_those_of_each_account(engine: Engine) -> None:
    clock = FakeClock(NOON)
    ledger = engine.make(clock)
    limits = [Limit("tokens", 100, "hour"), Limit("tokens", 900, "rolling 14400/4")]
    ledger.set_limits("org", limits)
    for hour, counted in ((0, [1, 1]), (3, [1, 2]), (0, [2, 2]), (2, [1, 3]), (3, [2, 5])):
        clock.now = NOON + 3600 * hour
        if hour == 0:
            ledger.set_limits("org", limits)  # which goes back with the clock
        found = as_rows(ledger.balances())
        assert found == one_by_one(ledger, "")
        ledger.charge("org", ONE)
        assert [one.spent for one in ledger.balances()] == counted


@of(*ALL)
def test_balances_of_a_path_that_is_malformed_are_refused(engine: Engine) -> None:
    ledger = engine.make()
    assert ledger.balances() == ledger.open_holds() == []
    for ask in (ledger.balances, ledger.open_holds, ledger.events, ledger.usage):
        with pytest.raises(ValueError, match="path"):
            ask("org/")


@of(*ALL)
def test_open_holds_are_told_with_their_age_and_the_oldest_first(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_journal, "STEP", 2)
    clock = FakeClock(NOON)
    ledger = engine.make(clock)
    for path in ("org", "org2"):
        ledger.set_limits(path, [Limit("tokens", None), Limit("calls", None)])
    gone = ledger.reserve("org", ONE, "gone")
    first = ledger.reserve("org/a", {"tokens": 2**53 - 1, "calls": 1}, "first:{}")
    clock.advance(0.5)
    second = ledger.reserve("org", ONE, "second", ttl=60.5)
    clock.advance(5)
    third = ledger.renew(gone, None, ONE, "third")
    other = ledger.reserve("org2", ONE, "other", ttl=10)
    ledger.charge("org", ONE)
    ledger.release(ledger.reserve("org", ONE))
    ledger.extend(second, 100)
    assert ledger.open_holds("org") == [
        OpenHold("org/a", first.id, {"tokens": 2**53 - 1, "calls": 1}, NOON, NOON + 300),
        OpenHold("org", second.id, ONE, NOON, NOON + 106),
        OpenHold("org", third.id, ONE, NOON + 5, NOON + 306),
    ]
    assert [one.id for one in ledger.open_holds()] == [
        one.id for one in (first, second, third, other)
    ]
    assert [one.id for one in ledger.open_holds("org/a")] == [first.id]
    assert [one.id for one in ledger.open_holds(most=2)] == [first.id, second.id]
    assert ledger.open_holds(most=0) == ledger.open_holds("org/b") == []
    clock.advance(10)
    assert ledger.open_holds("org2") == []
    ledger.commit(other)


@of(*ALL)
def test_events_have_numbers_and_names_that_are_known_once(engine: Engine) -> None:
    clock = FakeClock(NOON)
    ledger = engine.make(clock)
    details = {"percent": 80, "text": "\x1b[31m<b>\0 é \ud83d", "of": [None, 1.5, {"a": True}]}
    once = LedgerEvent("threshold", "org", details, "threshold/<b>é\n'\"{}")
    plain = LedgerEvent("limits", "", {})
    assert ledger.note([]) == []
    assert ledger.note([once, once, plain, plain]) == [1, 0, 2, 3]
    clock.advance(5)
    assert ledger.note([once]) == [0]
    assert ledger.note([plain, once, LedgerEvent("a", "org/a", {}, "other")]) == [4, 0, 5]
    shown = {**details, "text": "\x1b[31m<b>\0 é ?"}  # half a character is none
    assert ledger.events()[:2] == [
        once._replace(details=shown, at=NOON, number=1),
        plain._replace(at=NOON, number=2),
    ]
    assert [one.number for one in ledger.events()] == [1, 2, 3, 4, 5]
    assert ledger.events()[-1] == LedgerEvent("a", "org/a", {}, "other", NOON + 5, 5)


@of(*ALL)
@pytest.mark.parametrize(
    "wrong",
    [
        LedgerEvent("", "", {}),
        LedgerEvent("a", "org/", {}),
        LedgerEvent("a", "", {"a": object()}),
        LedgerEvent("a", "", {"a": float("nan")}),
        LedgerEvent("a", "", {"a": loads("[" * 20 + "]" * 20)}),
        LedgerEvent("a", "", {"a": deep_list()}),
    ],
)
def test_a_malformed_event_is_refused_with_all_beside_it(
    wrong: LedgerEvent, engine: Engine
) -> None:
    ledger = engine.make()
    with pytest.raises(ValueError, match=r"must|kind"):
        ledger.note([LedgerEvent("a", "org", {}), wrong])
    assert ledger.events() == []


@of(*ALL)
def test_events_are_chosen_by_path_kind_and_number(engine: Engine) -> None:
    ledger = engine.make()
    for kind, account in (("a", "org"), ("b", "org/x"), ("a", "org2"), ("a", ""), ("b", "org-2")):
        ledger.note([LedgerEvent(kind, account, {})])

    def numbers(*given: Any, **chosen: Any) -> list[int]:
        return [one.number for one in ledger.events(*given, **chosen)]

    assert numbers("org") == [1, 2]
    assert numbers(kinds=["a"]) == [1, 3, 4]
    assert numbers(kinds=("a", "b", "c")) == [1, 2, 3, 4, 5]
    assert numbers(kinds=["c"]) == numbers("nobody") == numbers(most=0) == []
    assert numbers(most=2) == [4, 5]
    assert numbers(kinds=["a"], most=2) == [3, 4]
    assert numbers(after=1, most=2) == [2, 3]
    assert numbers(after=0) == [1, 2, 3, 4, 5]
    assert numbers("org", ["b"], 1) == [2]
    assert numbers(after=5) == numbers(after=10**14) == []


@of(*ALL)
def test_old_events_go_and_numbers_go_on(engine: Engine) -> None:
    clock = FakeClock(NOON)
    ledger = engine.make(clock)
    old = LedgerEvent("a", "org", {}, "once")
    assert ledger.note([old, LedgerEvent("a", "", {})]) == [1, 2]
    clock.advance(KEEP_EVENTS_S - 1)
    assert ledger.note([LedgerEvent("a", "", {}), old]) == [3, 0]
    clock.advance(1)
    assert ledger.note([LedgerEvent("a", "", {})]) == [4]
    assert [one.number for one in ledger.events()] == [3, 4]
    assert ledger.note([old]) == [5]


@of(Redis, Postgres)
def test_the_oldest_events_go_where_there_are_too_many(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_journal, "MOST_EVENTS", 3)
    ledger = engine.make()
    ledger.note([LedgerEvent("a", "", {"turn": turn}, f"turn/{turn}") for turn in range(150)])
    ledger.note([LedgerEvent("a", "", {"turn": turn}, f"turn/{turn}") for turn in (150, 149, 1)])
    assert [one.details["turn"] for one in ledger.events()] == [149, 150, 1]
    assert ledger.note([LedgerEvent("a", "", {}, "turn/150")]) == [0]


@of(Redis, Postgres)
def test_events_are_found_among_many_others(engine: Engine) -> None:
    ledger = engine.make()
    ledger.note([LedgerEvent("b" if turn % 900 == 5 else "a", "", {}) for turn in range(2500)])
    assert [one.number for one in ledger.events(kinds=["b"])] == [6, 906, 1806]
    assert [one.number for one in ledger.events(kinds=["b"], after=6)] == [906, 1806]
    assert [one.number for one in ledger.events(kinds=["b"], most=1)] == [1806]
    assert [one.number for one in ledger.events(most=1200)] == list(range(1301, 2501))


@of(*ALL)
def test_usage_is_added_up_by_hour_path_model_and_tool(engine: Engine) -> None:
    ledger = engine.make()
    most = 2**53 - 1
    row = HourOfUsage(NOON, "org/a", "small", "", {"calls": 1, "tokens": most})
    ledger.add_usage([])
    ledger.add_usage([row, row._replace(amounts={"calls": 1})])
    ledger.add_usage([row._replace(amounts={"tokens": most})])
    ledger.add_usage([row._replace(amounts={"nano_usd": 5}), row._replace(hour=NOON - 3600)])
    ledger.add_usage([row._replace(path="org2"), row._replace(model="", tool="<b>\x1b \n'\"é")])
    assert ledger.usage("org") == [
        row._replace(hour=NOON - 3600),
        row._replace(model="", tool="<b>\x1b \n'\"é"),
        row._replace(amounts={"calls": 2, "tokens": 2 * most, "nano_usd": 5}),
    ]
    assert len(ledger.usage(since=NOON)) == 3
    assert len(ledger.usage("org", NOON - 3599)) == 2
    assert ledger.usage("org/b") == []
    for wrong in ({"hour": NOON + 1}, {"amounts": {"<b>": 1}}, {"amounts": {"": 1}}):
        with pytest.raises(ValueError, match="must"):
            ledger.add_usage([row._replace(**wrong)])


@of(*ALL)
def test_usage_is_kept_for_four_hundred_days(engine: Engine) -> None:
    ledger = engine.make(FakeClock(NOON + KEEP_USAGE_S))
    row = HourOfUsage(NOON, "org", "small", "", {"calls": 1})
    ledger.add_usage([row])
    ledger.add_usage([row._replace(hour=NOON + KEEP_USAGE_S - 3600)])
    assert len(ledger.usage()) == 2
    ledger.add_usage([row._replace(hour=NOON + KEEP_USAGE_S)])
    assert [one.hour - NOON for one in ledger.usage()] == [KEEP_USAGE_S - 3600, KEEP_USAGE_S]


@of(*ALL)
def test_usage_of_a_clock_that_is_ahead_makes_no_other_hours_old(engine: Engine) -> None:
    ledger = engine.make(FakeClock(NOON + 3600))
    row = HourOfUsage(NOON, "org", "small", "", {"calls": 1})
    ahead = row._replace(hour=NOON + 2 * KEEP_USAGE_S, path="org2")
    ledger.add_usage([row])
    ledger.add_usage([ahead])
    ledger.add_usage([row._replace(hour=NOON + 3600)])
    assert [one.hour - NOON for one in ledger.usage()] == [0, 3600, 2 * KEEP_USAGE_S]
    with pytest.raises(ValueError, match="hour must"):
        ledger.add_usage([row._replace(hour=3600 << 60)])


@of(Redis)
def test_a_sum_of_usage_that_is_too_large_keeps_no_other_from_being_added(engine: Engine) -> None:
    ledger = engine.make()
    row = HourOfUsage(NOON, "org", "small", "", {"calls": 2**53 - 1})
    ledger.add_usage([row] * 1000)
    ledger.add_usage([*[row] * 26, row._replace(path="org2")])
    assert [one.amounts["calls"] for one in ledger.usage()] == [1000 * (2**53 - 1), 2**53 - 1]
