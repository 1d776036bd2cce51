"""Blocks of a budget that a process draws, goes on within, and gives back."""

import asyncio

from budget_core.ledger.errors import (
    BudgetExceededError,
    KeyReusedError,
    LedgerFullError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from tests_micro.ledger.faults import DAY, PATH, World, use
from tests_micro.support import raises, raises_async


async def test_a_block_is_drawn_once_and_then_claims_are_local() -> None:
    world = World()
    leased = world.leased()
    for _ in range(10):
        await use(leased)
    assert world.faulty.asked == ["balance", "reserve"]
    assert world.stands() == (0, 10)
    await use(leased)
    assert world.faulty.asked == ["balance", "reserve", "reserve", "commit"]


async def test_at_most_a_block_of_each_axis_is_out_of_sight_however_unevenly_used() -> None:
    world = World()
    leased = world.leased()
    for count in range(200):
        await use(leased, 1, count % 7)
        spent, held = world.stands()
        assert 0 <= spent + held - (count + 1) <= 10
        spent, held = world.stands("tokens")
        used = sum([one % 7 for one in range(count + 1)])
        assert 0 <= spent + held - used <= 1000
    await leased.close()
    assert world.stands() == (200, 0)


async def test_what_is_unused_is_given_back_on_close() -> None:
    world = World()
    leased = world.leased()
    await use(leased, 3, 70)
    await leased.close()
    assert world.stands() == (3, 0)
    assert world.stands("tokens") == (70, 0)


async def test_a_malformed_path_leaves_nothing_that_keeps_others_from_settling() -> None:
    world = World()
    leased = world.leased()
    hold = await leased.reserve(PATH, {"calls": 1})
    for path in ("", "org//agent"):
        error = await raises_async(ValueError, leased.reserve, path, {"calls": 1})
        assert "path must be" in str(error)
    await leased.commit(hold, {"calls": 3})
    await leased.close()
    assert world.stands() == (3, 0)


async def test_a_claim_larger_than_a_block_is_drawn_whole() -> None:
    world = World()
    leased = world.leased()
    await use(leased, 2)
    await use(leased, 37)
    await leased.close()
    assert world.stands() == (39, 0)


async def test_an_axis_without_a_block_is_drawn_as_it_is_asked_for() -> None:
    world = World()
    world.ledger.set_limits("org", [Limit("calls", 5), Limit("tokens", None)])
    leased = world.leased(block={"tokens": 10})
    for _ in range(5):
        await use(leased)
    await raises_async(BudgetExceededError, use, leased)
    await leased.close()
    assert world.stands() == (5, 0)


async def test_an_axis_of_which_nothing_is_leased_is_asked_for_upstream() -> None:
    for first in ({}, {"tokens": 1}):
        world = World(calls=5)
        leased = world.leased(block={"tokens": 10})
        await leased.reserve(PATH, first)
        for count in range(5):
            assert world.stands() == (0, count)
            await leased.reserve(PATH, {"calls": 1})
        await raises_async(BudgetExceededError, leased.reserve, PATH, {"calls": 1})
        await leased.close()
        assert world.stands() == (5, 0)


async def test_nothing_of_an_axis_is_admitted_though_nothing_of_it_is_left() -> None:
    for axis in ("calls", "tokens", "nano_usd"):
        world = World(calls=0)
        leased = world.leased(block={"tokens": 10})
        for _ in range(3):
            await leased.reserve(PATH, {axis: 0})
        assert world.faulty.asked.count("reserve") == 1


async def test_more_axes_are_leased_and_passed_up_than_one_operation_takes() -> None:
    axes = [f"axis{number}" for number in range(16)]
    world = World(axes=axes + ["calls", "tokens"])
    leased = world.leased(block=dict.fromkeys(axes, 10))
    many = await leased.reserve(PATH, dict.fromkeys(axes, 10))
    one = await leased.reserve(PATH, {"calls": 1})
    assert await leased.release(await leased.reserve(PATH, {"calls": 1}))
    leased.record(many, dict.fromkeys(axes, 15))
    leased.record(one, {"calls": 20})
    await leased.close()
    assert (world.stands(), leased.upstream.outbox.dropped) == ((20, 0), 0)


async def test_processes_use_the_budget_up_to_the_last_bit_and_no_further() -> None:
    world = World(calls=57)
    fleet = [world.leased() for _ in range(3)]
    granted = 0
    for _ in range(57):
        for leased in fleet:
            try:
                await use(leased)
            except BudgetExceededError:
                continue
            granted += 1
    assert granted == 57
    for leased in fleet:
        await leased.close()
    assert world.stands() == (57, 0)


async def test_a_refusal_says_what_was_asked_and_what_was_left_with_the_block() -> None:
    world = World(calls=12)
    leased = world.leased()
    await use(leased, 3)
    error = await raises_async(BudgetExceededError, use, leased, 10)
    assert (error.scope, error.axis, error.asked, error.left) == ("org", "calls", 10, 9)
    await use(leased, 9)


async def test_an_unknown_path_is_refused_by_the_ledger_upstream() -> None:
    leased = World().leased()
    for asked in ({"calls": 1}, {"calls": 0}, {}):
        await raises_async(UnknownAccountError, leased.reserve, "other", asked)
    await raises_async(ValueError, leased.reserve, "or g", {"calls": 1})
    await raises_async(ValueError, leased.reserve, PATH, {"calls": -1})


async def test_a_key_stands_for_one_hold_in_this_process() -> None:
    world = World()
    leased = world.leased()
    hold = await leased.reserve(PATH, {"calls": 4}, "k")
    assert (await leased.reserve(PATH, {"calls": 4}, "k")).id == hold.id
    await raises_async(KeyReusedError, leased.reserve, PATH, {"calls": 5}, "k")
    await leased.commit(Hold(PATH, "k"), {"calls": 2})
    await leased.commit(hold, {"calls": 9})
    assert (await leased.hold(PATH, "k")).actual == {"calls": 2}
    await leased.close()
    assert world.stands() == (2, 0)


async def test_a_release_gives_back_to_the_block() -> None:
    world = World(calls=10)
    leased = world.leased()
    hold = await leased.reserve(PATH, {"calls": 10})
    assert (await leased.release(hold)).state == Hold.RELEASED
    await use(leased, 10)
    await leased.close()
    assert world.stands() == (10, 0)


async def test_a_hold_taken_elsewhere_is_unknown() -> None:
    leased = World().leased()
    await raises_async(UnknownHoldError, leased.commit, Hold(PATH, "k"))
    await raises_async(UnknownHoldError, leased.extend, Hold(PATH, "k"))
    await use(leased)
    await raises_async(UnknownHoldError, leased.release, Hold(PATH, "k"))


async def test_what_is_used_past_the_block_is_charged_at_once() -> None:
    world = World(calls=12)
    leased = world.leased()
    hold = await leased.reserve(PATH, {"calls": 1})
    await leased.commit(hold, {"calls": 15, "tokens": 2000, "other": 5})
    assert world.stands() == (15, 0)
    assert world.stands("tokens") == (2000, 0)
    await raises_async(BudgetExceededError, use, leased)
    await leased.close()
    assert world.stands() == (15, 0)


async def test_more_than_is_covered_is_charged_although_the_axis_is_leased() -> None:
    world = World()
    leased = world.leased()
    first = await leased.reserve(PATH, {"calls": 1})
    await leased.reserve(PATH, {"calls": 1})
    await leased.commit(first, {"calls": 14})
    assert world.stands() == (14, 0)
    await use(leased)
    assert world.stands() == (14, 11)


async def test_near_the_end_of_a_budget_half_of_what_is_left_is_drawn() -> None:
    world = World(calls=25)
    held = []
    for _ in range(6):
        await use(world.leased())
        held.append(world.stands()[1])
    assert held == [10, 20, 22, 23, 24, 25]


async def test_an_idle_block_is_given_back_at_the_next_call() -> None:
    world = World()
    leased = world.leased(idle=30)
    await use(leased)
    world.advance(29)
    await leased.expire()
    assert world.stands() == (0, 10)
    world.advance(1)
    await leased.expire()
    assert world.stands() == (1, 0)
    await use(leased)
    assert world.stands() == (1, 10)


async def test_a_block_is_kept_while_a_call_is_in_flight() -> None:
    world = World()
    leased = world.leased(idle=30)
    hold = await leased.reserve(PATH, {"calls": 1}, ttl=500)
    for _ in range(10):
        world.advance(40)
        await leased.expire()
        assert world.stands() == (0, 10)
    await leased.commit(hold)
    world.advance(30)
    await leased.expire()
    assert world.stands() == (1, 0)


async def test_a_block_in_use_is_extended_at_half_of_its_ttl() -> None:
    world = World()
    leased = world.leased()
    for _ in range(8):
        await use(leased)
        world.advance(25)
    assert world.faulty.asked.count("reserve") == 1
    assert world.faulty.asked.count("extend") == 3
    assert world.stands() == (0, 10)


async def test_a_block_that_expired_upstream_is_not_used_further_and_is_corrected() -> None:
    world = World()
    leased = world.leased(idle=1000)
    await use(leased, 2)
    world.advance(100)
    assert world.stands() == (10, 0)
    await use(leased)
    assert world.stands() == (2, 10)


async def test_a_claim_counts_in_the_window_it_was_made_in() -> None:
    world = World(calls=20, window="day")
    leased = world.leased(idle=1000)
    world.clock.now = DAY + 86_400 - 30
    await use(leased, 4)
    hold = await leased.reserve(PATH, {"calls": 3})
    world.advance(30)
    await use(leased, 5)
    await leased.commit(hold, {"calls": 6})
    await leased.close()
    (over,) = [one for one in world.ledger.history("org") if one.axis == "calls"]
    assert (over.spent, over.held) == (10, 0)
    assert world.stands() == (5, 0)


async def test_a_window_that_is_shorter_than_the_way_to_the_ledger_admits_all_the_same() -> None:
    world = World(window="rolling 1/1")
    leased = world.leased()
    for _ in range(3):
        await use(leased)
        world.advance(1)
    await leased.close()
    assert world.faulty.asked.count("reserve") == 3


async def test_a_window_that_is_added_is_noticed_at_the_next_extension() -> None:
    world = World(calls=5000)
    leased = world.leased(block={"calls": 1000, "tokens": 10**6})
    await use(leased)
    world.ledger.set_limits("org", [Limit("calls", 5000, "hour"), Limit("tokens", None)])
    for _ in range(89):
        world.advance(40)
        await use(leased)
    assert world.faulty.asked.count("reserve") == 1
    world.advance(40)
    await use(leased)
    assert world.faulty.asked.count("reserve") == 2


async def test_what_has_no_bound_costs_one_question_a_block() -> None:
    world = World()
    leased = world.leased()
    for _ in range(3):
        hold = await leased.reserve(PATH, {"calls": 1, "nano_usd": None})
        assert hold.amounts == {"calls": 1}
        await leased.commit(hold)
    assert world.faulty.asked == ["balance", "reserve"]
    world.faulty.down = "before"
    await leased.commit(await leased.reserve(PATH, {"calls": 1, "nano_usd": None}))


async def test_a_cap_on_what_has_no_bound_is_noticed_at_the_next_extension() -> None:
    world = World()
    leased = world.leased(idle=1000)
    asked = {"calls": 1, "nano_usd": None}
    await leased.commit(await leased.reserve(PATH, asked))
    world.ledger.set_limits("org/agent", [Limit("usd", 5)])
    await leased.commit(await leased.reserve(PATH, asked))
    world.advance(50)
    error = await raises_async(BudgetExceededError, leased.reserve, PATH, asked)
    assert error.scope == "org/agent"
    assert error.asked is None
    await use(leased)


async def test_a_window_is_noticed_once_the_ledger_knows_the_date() -> None:
    world = World(window="day")
    world.clock.now = 0
    world.ledger.set_limits("org", [Limit("calls", 50, "day"), Limit("tokens", None)])
    leased = world.leased(idle=1000)
    await use(leased, 2)
    world.ticks.advance(50_000)
    await use(leased, 2)
    world.clock.now = DAY + 86_400 - 60
    world.advance(50)
    await use(leased, 2)
    world.advance(10)
    await use(leased, 3)
    await leased.close()
    assert world.stands() == (3, 0)
    assert world.ledger.history("org")[0].spent == 6


async def test_an_expired_hold_counts_in_full_until_its_commit_says_otherwise() -> None:
    for used in (0, 3, 8):
        world = World()
        leased = world.leased()
        hold = await leased.reserve(PATH, {"calls": 3}, ttl=5)
        world.advance(5)
        assert await leased.expire() == 1
        await leased.commit(hold, {"calls": used})
        await leased.close()
        assert world.stands() == (used, 0)


async def test_a_commit_that_comes_after_the_window_or_the_block_loses_no_use_before_it() -> None:
    for window, ttl in (("hour", 10_000), ("run", 600)):
        world = World(window=window)
        leased = world.leased(block={"calls": 40}, ttl=ttl, idle=10_000)
        first = await leased.reserve(PATH, {"calls": 20})
        second = await leased.reserve(PATH, {"calls": 20}, ttl=9000)
        world.faulty.down = "before"
        await leased.commit(first, {"calls": 45})
        world.faulty.down = ""
        world.advance(3600)
        await leased.commit(second)
        await leased.close()
        spent = sum([one.spent for one in world.ledger.history("org") if one.axis == "calls"])
        assert (spent + world.stands()[0], world.stands()[1]) == (65, 0)


async def test_a_commit_after_the_block_was_given_back_adds_what_is_more() -> None:
    for state in (Hold.EXPIRED, Hold.RELEASED):
        for axis, used in (("calls", 2), ("calls", 7), ("other", 7)):
            world = World()
            leased = world.leased(idle=20)
            hold = await leased.reserve(PATH, {"calls": 3}, ttl=5)
            if state == Hold.RELEASED:
                await leased.release(hold)
            for _ in range(3):
                world.advance(30)
                await leased.expire()
            stood = 3 if state == Hold.EXPIRED else 0
            assert (hold.state, world.stands()) == (state, (stood, 0))
            await leased.commit(hold, {axis: used})
            more = used if axis == "calls" else 3
            assert world.stands() == (max(stood, more), 0)


async def test_calls_in_flight_count_in_full_on_close_and_never_for_less_than_they_used() -> None:
    for used, stands in ((1, 5), (5, 5), (8, 8)):
        world = World()
        leased = world.leased()
        hold = await leased.reserve(PATH, {"calls": 5})
        await leased.close()
        await leased.expire()
        assert world.stands() == (5, 0)
        await leased.commit(hold, {"calls": used})
        assert world.stands() == (stands, 0)


async def test_tasks_that_lack_something_at_once_draw_one_block() -> None:
    world = World(slow=True)
    leased = world.leased()
    await asyncio.gather(*[use(leased) for _ in range(10)])
    assert world.faulty.asked == ["balance", "reserve"]
    await asyncio.gather(*[use(leased) for _ in range(30)])
    await leased.close()
    assert world.stands() == (40, 0)


async def test_a_charge_is_recorded_upstream_with_its_key() -> None:
    world = World(calls=3)
    leased = world.leased()
    for _ in range(2):
        charged = await leased.charge(PATH, {"calls": 5}, "k")
        assert (charged.id, charged.state) == ("k", Hold.COMMITTED)
    await leased.charge(PATH, {"calls": 1})
    assert world.stands() == (6, 0)
    assert [one.spent for one in await leased.balance(PATH)] == [6, 0]


async def test_paths_are_bounded_and_those_that_lease_nothing_make_room() -> None:
    world = World()
    leased = world.leased(max_paths=2)
    await leased.reserve("org/a", {"calls": 1})
    await leased.reserve("org/b", {"calls": 1}, ttl=5)
    await raises_async(LedgerFullError, leased.reserve, "org/c", {"calls": 1})
    world.advance(70)
    await leased.expire()
    world.advance(70)
    await leased.expire()
    await leased.reserve("org/c", {"calls": 1})


def test_a_block_names_at_least_one_axis() -> None:
    raises(ValueError, World().leased, block={})
    raises(ValueError, World().leased, block={"calls": -1})


async def test_more_than_the_largest_amount_is_owed_in_parts_and_nothing_is_lost() -> None:
    largest = (1 << 53) - 1
    world = World()
    leased = world.leased()
    await use(leased)
    holds = []
    for _ in range(3):
        holds.append(await leased.reserve(PATH, {"tokens": 1}))
    world.faulty.down = "before"
    for hold in holds:
        await leased.commit(hold, {"tokens": largest})
    world.faulty.down = ""
    world.advance(5)
    await leased.close()
    spent, held = world.stands("tokens")
    assert (spent - 3 * largest, held) == (50, 0)
