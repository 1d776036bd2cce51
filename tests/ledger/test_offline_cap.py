"""A ledger that goes on within a cap while the one upstream is out of reach."""

import asyncio
from pathlib import Path

import pytest

from budget_core.ledger.errors import (
    BudgetExceededError,
    KeyReusedError,
    LedgerFullError,
    LedgerUnavailableError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_core.ledger.outbox import new_key
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.offline_cap import AsyncOfflineCapLedger, OfflineCapLedger
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.racing import in_threads
from tests_micro.ledger.faults import Faulty, World

PATH = "org/agent"
CAP = {"calls": 10}


def allowing(world: World, **options: int) -> OfflineCapLedger:
    return OfflineCapLedger(world.faulty, CAP, world.clock, world.monotonic, **options)


def back(world: World) -> None:
    world.faulty.down = ""
    world.advance(60)


def test_while_the_ledger_is_in_reach_everything_is_its_own() -> None:
    world = World(calls=5)
    ledger = allowing(world)
    hold = ledger.reserve(PATH, {"calls": 5}, "k")
    with pytest.raises(BudgetExceededError):
        ledger.reserve(PATH, {"calls": 1})
    with pytest.raises(KeyReusedError):
        ledger.charge(PATH, {"calls": 1}, "k")
    ledger.extend(hold)
    ledger.commit(hold, {"calls": 3})
    ledger.release(ledger.reserve(PATH, {"calls": 2}))
    ledger.charge(PATH, {"calls": 1})
    assert (world.stands(), ledger.unsettled) == ((4, 0), 0)
    assert ledger.hold(PATH, "k").state == Hold.COMMITTED
    assert [one.spent for one in ledger.balance(PATH)] == [4, 0]
    assert (ledger.accounts(), ledger.history(PATH)) == (["org"], [])
    ledger.set_limits("org", [Limit("calls", 1)])
    assert ledger.limits("org") == [Limit("calls", 1)]


@pytest.mark.parametrize("down", ["before", "after"])
def test_the_cap_is_granted_to_all_paths_together_and_settled_once(down: str) -> None:
    world = World()
    ledger = allowing(world)
    world.faulty.down = down
    holds = [ledger.reserve(path, {"calls": 5}) for path in (PATH, "org")]
    with pytest.raises(LedgerUnavailableError, match="of the cap, 0 calls are left, not 1"):
        ledger.reserve(PATH, {"calls": 1})
    ledger.commit(holds[0], {"calls": 4})
    ledger.commit(holds[0], {"calls": 9})
    ledger.release(holds[1])
    assert ledger.reserve(PATH, {"calls": 6}, "k").id == "k"
    assert ledger.reserve(PATH, {"calls": 6}, "k").id == "k"
    back(world)
    ledger.commit(Hold(PATH, "k"), {"calls": 7})
    ledger.expire()
    assert (world.stands(), ledger.unsettled) == ((11, 0), 0)


def test_a_key_stands_for_one_grant_also_once_it_is_committed() -> None:
    world = World()
    ledger = allowing(world)
    world.faulty.down = "before"
    ledger.commit(ledger.reserve(PATH, {"calls": 4}, "k"), {"calls": 3})
    assert ledger.reserve(PATH, {"calls": 4}, "k").state == Hold.COMMITTED
    with pytest.raises(KeyReusedError):
        ledger.reserve(PATH, {"calls": 5}, "k")
    back(world)
    ledger.expire()
    assert (world.stands(), ledger.unsettled) == ((3, 0), 0)
    assert ledger.reserve(PATH, {"calls": 4}, "k").state == Hold.COMMITTED
    assert ledger.hold(PATH, "k").actual == {"calls": 3}
    hold = ledger.reserve(PATH, {"calls": 1})
    assert ledger.extend(hold).id == hold.id


def test_the_cap_is_whole_again_once_all_is_settled() -> None:
    world = World()
    ledger = allowing(world)
    for _ in range(3):
        world.faulty.down = "before"
        hold = ledger.reserve(PATH, {"calls": 10})
        with pytest.raises(LedgerUnavailableError):
            ledger.reserve(PATH, {"calls": 1})
        back(world)
        ledger.expire()
        world.faulty.down = "before"
        with pytest.raises(LedgerUnavailableError):
            ledger.reserve(PATH, {"calls": 1})
        ledger.commit(hold)
        back(world)
        ledger.expire()
    assert world.stands() == (30, 0)


def test_what_was_granted_is_recorded_also_past_the_limit() -> None:
    world = World(calls=3)
    ledger = allowing(world)
    world.faulty.down = "before"
    hold = ledger.reserve(PATH, {"calls": 5})
    ledger.commit(hold, {"calls": 5, "tokens": 70})
    back(world)
    with pytest.raises(BudgetExceededError):
        ledger.reserve(PATH, {"calls": 1})
    assert (world.stands(), world.stands("tokens")) == ((5, 0), (70, 0))


@pytest.mark.parametrize("down", ["before", "after"])
def test_holds_taken_before_are_settled_later_in_order_and_once(down: str) -> None:
    world = World()
    ledger = allowing(world)
    first, second, third = [ledger.reserve(PATH, {"calls": 5}, ttl=500) for _ in range(3)]
    world.faulty.down = down
    done = ledger.commit(first, {"calls": 3, "tokens": 9})
    assert (done.state, done.actual) == (Hold.COMMITTED, {"calls": 3, "tokens": 9})
    assert ledger.release(second).state == Hold.RELEASED
    assert ledger.extend(third).expires_at == third.expires_at
    ledger.charge(PATH, {"calls": 7}, "k")
    ledger.charge(PATH, {"calls": 1})
    assert ledger.unsettled == 4
    world.faulty.asked.clear()
    back(world)
    ledger.expire()
    assert world.faulty.asked == ["commit", "release", "charge", "charge", "expire"]
    assert (world.stands(), ledger.unsettled) == ((11, 5), 0)


def test_a_grant_that_expired_counts_in_full_and_more_if_it_used_more() -> None:
    for used in (1, 4, 9):
        world = World()
        ledger = allowing(world)
        world.faulty.down = "before"
        hold = ledger.reserve(PATH, {"calls": 4}, ttl=5)
        back(world)
        ledger.expire()
        assert world.stands() == (4, 0)
        ledger.commit(hold, {"calls": used})
        ledger.expire()
        assert world.stands() == (max(4, used), 0)


@pytest.mark.parametrize("refused", [False, True])
def test_a_reserve_whose_answer_was_lost_holds_nothing_in_the_end(refused: bool) -> None:
    world = World()
    ledger = allowing(world)
    world.faulty.down = "after"
    if refused:
        with pytest.raises(LedgerUnavailableError):
            ledger.reserve(PATH, {"calls": 11})
        assert world.stands() == (0, 11)
    else:
        ledger.release(ledger.reserve(PATH, {"calls": 4}))
        assert world.stands() == (0, 4)
    back(world)
    ledger.expire()
    assert world.stands() == (0, 0)


@pytest.mark.parametrize(("down", "applied"), [("before", False), ("after", None)])
def test_a_refusal_says_whether_the_ledger_may_hold_what_was_asked(
    down: str, applied: bool | None
) -> None:
    world = World()
    ledger = allowing(world)
    world.faulty.down = down
    with pytest.raises(LedgerUnavailableError) as caught:
        ledger.reserve(PATH, {"calls": 11}, "k")
    assert caught.value.applied is applied


def test_one_key_below_two_roots_stands_for_a_grant_of_each() -> None:
    world = World()
    world.ledger.set_limits("lab", [Limit("calls", None)])
    ledger = allowing(world)
    world.faulty.down = "before"
    first, second = [ledger.reserve(path, {"calls": 4}, "k") for path in (PATH, "lab")]
    assert ledger.unsettled == 2
    ledger.commit(first, {"calls": 3})
    ledger.commit(second, {"calls": 1})
    back(world)
    ledger.expire()
    assert (world.stands(), ledger.unsettled) == ((3, 0), 0)
    (found,) = ledger.balance("lab")
    assert (found.spent, found.held) == (1, 0)


def test_a_full_disk_is_trouble_too() -> None:
    world = World()
    world.faulty.ledger = Ledger(world.clock, max_holds=1)
    world.faulty.ledger.set_limits("org", [Limit("calls", 100)])
    ledger = allowing(world)
    first = ledger.reserve(PATH, {"calls": 1}, "full")
    granted = ledger.reserve(PATH, {"calls": 2})
    ledger.commit(granted)
    assert ledger.unsettled == 1
    ledger.commit(first)
    ledger.expire()
    ledger.expire()
    (found,) = world.faulty.ledger.balance("org")
    assert (found.spent, found.held) == (3, 0)


def test_what_waits_is_bounded() -> None:
    world = World()
    ledger = allowing(world, most=3)
    world.faulty.down = "before"
    for _ in range(3):
        ledger.commit(ledger.reserve(PATH, {"calls": 1}))
    with pytest.raises(LedgerUnavailableError):
        ledger.reserve(PATH, {"calls": 1})
    with pytest.raises(LedgerFullError):
        ledger.charge(PATH, {"calls": 1})
    back(world)
    ledger.charge(PATH, {"calls": 1})
    assert world.stands() == (4, 0)


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("expires", [False, True])
def test_a_grant_keeps_no_full_outbox_from_being_delivered(expires: bool, closes: bool) -> None:
    world = World()
    ledger = allowing(world, most=3)
    world.faulty.down = "before"
    ledger.reserve(PATH, {"calls": 4}, ttl=30 if expires else 3600)
    for _ in range(3):
        ledger.charge(PATH, {"calls": 1}, new_key())
    back(world)
    if closes:
        ledger.close()
        assert (world.stands(), ledger.unsettled) == ((7, 0), 0)
        return
    ledger.expire()
    assert (world.stands(), ledger.unsettled) == ((3, 0), 1)
    ledger.expire()
    assert (world.stands(), ledger.unsettled) == (((7, 0), 0) if expires else ((3, 0), 1))


def test_close_settles_what_it_can_or_says_so() -> None:
    world = World()
    ledger = allowing(world)
    world.faulty.down = "before"
    ledger.reserve(PATH, {"calls": 4})
    with pytest.raises(LedgerUnavailableError):
        ledger.close()
    world.faulty.down = ""
    ledger.close()
    assert world.stands() == (4, 0)


@pytest.mark.parametrize("cap", [{}, {"calls": -1}, {"calls": 1.5}])
def test_a_cap_is_amounts_of_at_least_one_axis(cap: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"cap|calls"):
        OfflineCapLedger(Ledger(), cap)


def test_a_malformed_axis_is_refused_at_once_in_an_outage_too() -> None:
    world = World()
    ledger = allowing(world)
    hold = ledger.reserve(PATH, {"calls": 1})
    world.faulty.down = "before"
    with pytest.raises(ValueError, match="axis"):
        ledger.commit(hold, {"no axis!": 1})
    with pytest.raises(ValueError, match="axis"):
        ledger.charge(PATH, {"no axis!": 1})
    assert ledger.unsettled == 0


def test_a_grant_may_have_used_more_axes_than_one_operation_takes() -> None:
    world = World()
    ledger = allowing(world)
    asked = {f"axis{number}": 1 for number in range(16)}
    world.faulty.down = "before"
    ledger.commit(ledger.reserve(PATH, asked), {"calls": 2, "tokens": 7})
    del asked["axis0"]
    ledger.commit(ledger.reserve(PATH, dict(asked, calls=3)), {"other": 1, "another": 1})
    back(world)
    ledger.expire()
    assert (world.stands(), world.stands("tokens")) == ((5, 0), (7, 0))


def test_a_late_commit_may_add_more_axes_than_one_operation_takes() -> None:
    world = World()
    ledger = allowing(world)
    asked = {f"axis{number}": 1 for number in range(16)}
    world.faulty.down = "before"
    late = ledger.reserve(PATH, asked)
    ledger.release(late)
    ledger.commit(late, {"calls": 1})
    back(world)
    ledger.close()
    assert world.stands() == (1, 0)


def test_tasks_share_a_cap() -> None:
    async def check() -> None:
        world = World(slow=True)
        ledger = AsyncOfflineCapLedger(world.faulty, CAP, world.clock, world.monotonic)
        world.faulty.down = "after"
        found = await asyncio.gather(
            *[ledger.reserve(PATH, {"calls": 1}) for _ in range(20)], return_exceptions=True
        )
        holds = [one for one in found if isinstance(one, Hold)]
        assert len(holds) == 10
        await asyncio.gather(*[ledger.commit(hold) for hold in holds])
        back(world)
        await asyncio.gather(*[ledger.expire() for _ in range(5)])
        assert (world.stands(), ledger.unsettled) == ((10, 0), 0)

    asyncio.run(check())


def test_threads_are_granted_the_cap_and_no_more_and_all_of_it_is_settled() -> None:
    world = World(calls=10**6)
    faulty = Faulty(Ledger(world.clock))
    ledger = OfflineCapLedger(faulty, {"calls": 50}, world.clock, world.monotonic)
    ledger.set_limits("org", [Limit("calls", 1000)])
    faulty.down = "before"
    granted: list[Hold] = []

    def claim() -> None:
        for _ in range(20):
            try:
                hold = ledger.reserve(PATH, {"calls": 1})
            except LedgerUnavailableError:
                continue
            granted.append(ledger.commit(hold))

    in_threads(claim, 8)
    assert len(granted) == 50
    faulty.down = ""
    world.advance(60)
    ledger.close()
    (found,) = faulty.ledger.balance("org")
    assert (found.spent, found.held) == (50, 0)


def test_a_damaged_ledger_grants_nothing(tmp_path: Path) -> None:
    world, path = World(), tmp_path / "ledger.db"
    beneath = SqliteLedger(path)
    ledger = OfflineCapLedger(beneath, CAP, world.clock, world.monotonic)
    ledger.set_limits("org", [Limit("calls", 100)])
    hold = ledger.reserve(PATH, {"calls": 2})
    beneath.close()
    whole = path.read_bytes()
    path.write_bytes(b"")
    for _ in range(2):
        with pytest.raises(LedgerUnavailableError, match="was removed"):
            ledger.reserve(PATH, {"calls": 1})
    ledger.commit(hold, {"calls": 1})  # for later
    path.write_bytes(whole)
    world.advance(60)
    assert [(one.spent, one.held) for one in ledger.balance("org")] == [(1, 0)]
    ledger.close()
