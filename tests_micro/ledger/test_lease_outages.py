"""Blocks of a budget while the ledger they are drawn from is out of reach."""

import asyncio

from budget_core.ledger.backoff import LedgerWithBackoff
from budget_core.ledger.errors import BudgetExceededError, LedgerError, LedgerUnavailableError
from budget_core.ledger.hold import Hold
from tests_micro.ledger.faults import PATH, World, use
from tests_micro.support import raises, raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tests_micro.ledger.faults import Faulty


async def test_claims_go_on_within_a_block_and_not_beyond() -> None:
    world = World()
    leased = world.leased()
    await use(leased)
    world.faulty.down = "before"
    for _ in range(9):
        await use(leased)
    await raises_async(LedgerUnavailableError, use, leased)
    world.faulty.down = ""
    world.advance(1)
    await use(leased)
    await leased.close()
    assert world.stands() == (11, 0)


async def test_a_block_that_cannot_be_extended_is_used_at_once_in_between() -> None:
    world = World()
    leased = world.leased()
    await use(leased)
    world.faulty.down = "before"
    for seconds in (50, 1, 1):
        world.advance(seconds)
        assert leased.claim(PATH, {"calls": 1}) is None
        await use(leased)
        assert leased.claim(PATH, {"calls": 1}) is not None


async def test_nothing_is_admitted_past_the_end_of_a_block_or_of_its_window() -> None:
    for window, seconds in (("run", 100), ("hour", 50)):
        world = World(window=window)
        leased = world.leased(idle=1000)
        world.advance(3550)
        await use(leased)
        world.faulty.down = "before"
        world.advance(seconds - 1)
        await use(leased)
        world.advance(1)
        await raises_async(LedgerUnavailableError, use, leased)
        world.faulty.down = ""
        world.advance(60)
        await use(leased)
        await leased.close()
        spent = sum([one.spent for one in world.ledger.history("org") if one.axis == "calls"])
        assert spent + world.stands()[0] == 3
        assert world.stands()[1] == 0


async def test_blocks_drawn_one_after_the_other_end_with_the_first() -> None:
    world = World()
    leased = world.leased(idle=1000)
    hold = await leased.reserve(PATH, {"calls": 8}, ttl=1000)
    world.advance(40)
    await use(leased, 3)
    world.faulty.down = "before"
    world.advance(59)
    await use(leased)
    world.advance(1)
    await raises_async(LedgerUnavailableError, use, leased)
    world.faulty.down = ""
    await leased.commit(hold)
    await leased.close()
    assert world.stands() == (12, 0)


async def test_settlements_are_passed_up_when_the_ledger_is_back() -> None:
    world = World()
    leased = world.leased()
    hold = await leased.reserve(PATH, {"calls": 5})
    world.faulty.down = "before"
    await leased.commit(hold, {"calls": 25})
    await leased.charge(PATH, {"calls": 2})
    await leased.charge(PATH, {"calls": 3}, "k")
    await leased.charge(PATH, {"calls": 4})
    assert (len(leased.upstream.outbox.entries), world.stands()) == (3, (0, 10))
    world.faulty.down = ""
    world.advance(2)
    await leased.expire()
    assert (len(leased.upstream.outbox.entries), world.stands()) == (0, (34, 0))


async def test_a_right_that_is_taken_away_and_given_back_loses_nothing() -> None:
    world = World()
    leased = world.leased()
    hold = await leased.reserve(PATH, {"calls": 5})
    world.faulty.down = "refused"
    await leased.commit(hold, {"calls": 25})
    await raises_async(LedgerError, use, leased)
    await raises_async(LedgerError, leased.charge, PATH, {"calls": 2})
    await raises_async(LedgerError, leased.close)
    world.faulty.down = ""
    await leased.close()
    assert world.stands() == (25, 0)


async def test_a_draw_in_doubt_is_undone_also_if_no_other_follows() -> None:
    world = World()
    leased = world.leased()
    await use(leased)
    world.faulty.down = "after"
    await raises_async(LedgerUnavailableError, use, leased, 20)
    world.faulty.down = ""
    world.advance(2)
    await use(leased)
    assert world.stands() == (0, 10)


async def test_an_answer_that_is_lost_counts_nothing_twice() -> None:
    for only in ("balance", "reserve", "extend", "commit", "charge"):
        world = World()
        world.faulty.only = only
        leased = world.leased()
        used = 0
        for step in range(40):
            world.faulty.down = "after" if step % 3 == 1 else ""
            try:
                hold = await leased.reserve(PATH, {"calls": 3})
                await leased.commit(hold, {"calls": 2 + step % 4})
                used += 2 + step % 4
                await leased.charge(PATH, {"calls": 1})
                used += 1
            except LedgerUnavailableError:
                pass
            world.advance(20)
        world.faulty.down = ""
        await leased.close()
        assert world.stands() == (used, 0)
        assert leased.upstream.outbox.dropped == 0


async def test_a_draw_whose_answer_was_lost_is_undone_before_the_next() -> None:
    world = World(calls=10)
    world.faulty.down, world.faulty.only = "after", "reserve"
    leased = world.leased()
    await raises_async(LedgerUnavailableError, use, leased)
    assert world.stands() == (0, 10)
    world.faulty.down = ""
    world.advance(1)
    await use(leased, 10)
    await leased.close()
    assert world.stands() == (10, 0)


async def test_a_draw_that_was_cancelled_holds_nothing() -> None:
    for pauses in range(1, 6):
        world = World(slow=True)
        leased = world.leased()
        task = asyncio.create_task(leased.reserve(PATH, {"calls": 3}))
        for _ in range(pauses):
            await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass
        await leased.close()
        assert world.stands()[1] == 0
        assert world.stands()[0] in (0, 3)


async def test_close_says_that_nothing_was_given_back_and_may_be_repeated() -> None:
    world = World()
    leased = world.leased()
    await use(leased, 3)
    for down in ("before", "after"):
        world.faulty.down = down
        await raises_async(LedgerUnavailableError, leased.close)
    world.faulty.down = ""
    await leased.close()
    assert world.stands() == (3, 0)


async def test_a_ledger_out_of_reach_is_asked_again_after_longer_and_longer() -> None:
    world = World()
    world.faulty.down = "before"
    upstream = LedgerWithBackoff(world.faulty, world.monotonic)
    asked = []
    for second in range(2400):
        count = len(world.faulty.asked)
        await raises_async(LedgerUnavailableError, upstream.ask, "balance", "org")
        if len(world.faulty.asked) > count:
            asked.append(second / 10)
        world.ticks.advance(100)
    assert asked == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5, 61.5, 91.5, 121.5, 151.5, 181.5, 211.5]
    world.faulty.down = ""
    world.advance(30)
    await upstream.ask("balance", "org")
    world.faulty.down = "before"
    await raises_async(LedgerUnavailableError, upstream.ask, "balance", "org")
    world.advance(0.5)
    world.faulty.down = ""
    await upstream.ask("balance", "org")


async def test_several_failures_at_once_are_one() -> None:
    world = World(slow=True)
    world.faulty.down = "before"
    upstream = LedgerWithBackoff(world.faulty, world.monotonic)
    await asyncio.gather(
        *[raises_async(LedgerUnavailableError, upstream.ask, "balance", "org") for _ in range(9)]
    )
    world.faulty.down = ""
    world.advance(0.5)
    await upstream.ask("balance", "org")


async def test_what_may_be_known_already_is_not_added_to() -> None:
    world = World()
    upstream = LedgerWithBackoff(world.faulty, world.monotonic)
    for down in ("after", ""):
        world.faulty.down = down
        upstream.outbox.charge(PATH, {"calls": 2})
        upstream.outbox.charge(PATH, {"calls": 3})
        upstream.retry_now()
        if down:
            await raises_async(LedgerUnavailableError, upstream.deliver)
    await upstream.deliver()
    assert world.stands() == (10, 0)
    assert world.faulty.asked == ["charge"] * 3


async def test_what_is_owed_is_delivered_in_order_without_what_is_refused_for_good() -> None:
    world = World()
    upstream = LedgerWithBackoff(world.faulty, world.monotonic)
    first = world.ledger.reserve(PATH, {"calls": 5}, "one")
    upstream.outbox.commit(first, {"calls": 1})
    upstream.outbox.charge("nobody", {"calls": 1})
    upstream.outbox.charge(PATH, {"calls": 1}, "one")
    upstream.outbox.release(world.ledger.reserve(PATH, {"calls": 5}, "two"))
    upstream.outbox.charge(PATH, {"calls": 7})
    await upstream.deliver()
    assert world.stands() == (8, 0)
    assert (upstream.outbox.dropped, len(upstream.outbox.entries)) == (2, 0)
    assert world.faulty.asked == ["commit", "charge", "charge", "release", "charge"]


async def test_what_the_key_has_no_right_to_keeps_nothing_else_back() -> None:
    world = World()
    upstream = LedgerWithBackoff(world.faulty, world.monotonic)
    hold = world.ledger.reserve(PATH, {"calls": 2})
    upstream.outbox.charge(PATH, {"calls": 3})
    upstream.outbox.commit(hold, {"calls": 1})
    world.faulty.down, world.faulty.only = "refused", "charge"
    for _ in range(2):
        await raises_async(LedgerError, upstream.deliver)
        assert (len(upstream.outbox.entries), world.stands()) == (1, (1, 0))
    world.faulty.down = ""
    await upstream.deliver()
    assert (len(upstream.outbox.entries), upstream.outbox.dropped, world.stands()) == (0, 0, (4, 0))


async def test_what_no_ledger_would_take_is_refused_at_once_in_an_outage_too() -> None:
    world = World()
    leased = world.leased()
    hold = await leased.reserve(PATH, {"calls": 1})
    world.faulty.down = "before"
    for path, axis in (("../x", "calls"), (PATH, "no axis!")):
        await raises_async(ValueError, leased.charge, path, {axis: 1})
    await raises_async(ValueError, leased.commit, hold, {"no axis!": 1})
    raises(ValueError, leased.upstream.outbox.commit, hold, {"no axis!": 1})
    assert (hold.state, len(leased.upstream.outbox.entries)) == (Hold.HELD, 0)


async def test_a_hold_that_is_redeemed_counts_once_whatever_is_lost() -> None:
    for held in (False, True):
        for left in (3, 100):
            for lost in range(3):
                world = World(left)
                if held and left == 100:
                    world.ledger.reserve(PATH, {"calls": 5}, "k", 9)
                upstream = LedgerWithBackoff(world.faulty, world.monotonic)
                upstream.outbox.redeem(Hold(PATH, "k", {"calls": 5}), 9, {"calls": 4})
                await _settle(upstream, world.faulty, lost)
                assert world.stands() == (4, 0)


async def test_a_key_that_stands_for_something_else_loses_nothing() -> None:
    world = World()
    world.ledger.charge(PATH, {"calls": 1}, "k")
    upstream = LedgerWithBackoff(world.faulty, world.monotonic)
    upstream.outbox.redeem(Hold(PATH, "k", {"calls": 5}), 9, {"calls": 4})
    await upstream.deliver()
    assert world.stands() == (5, 0)


async def test_refusals_of_the_ledger_do_not_end_a_block() -> None:
    world = World(calls=10)
    leased = world.leased()
    for _ in range(10):
        await use(leased)
    for _ in range(3):
        await raises_async(BudgetExceededError, use, leased)
    assert world.faulty.asked.count("balance") == 1
    await leased.close()
    assert world.stands() == (10, 0)


async def _settle(upstream: LedgerWithBackoff, faulty: "Faulty", lost: int) -> None:
    for _ in range(lost):
        faulty.down = "after"
        upstream.retry_now()
        await raises_async(LedgerUnavailableError, upstream.deliver)
    faulty.down = ""
    upstream.retry_now()
    await upstream.deliver()
