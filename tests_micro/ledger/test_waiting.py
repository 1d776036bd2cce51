"""Calls that wait for what others hold are admitted in the order in which they came."""

import asyncio

from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.hold import TTL, wake
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.ledger.waiting import reserve_waiting
from tests_micro.support import FakeClock, raises, raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOON = 20_514 * 86_400 + 43_200
PATIENCE = 120  # seconds, where only hanging is to be seen


def opened(cap: int = 100) -> Ledger:
    """Return a ledger whose account `org` may use so many tokens."""
    ledger = Ledger(FakeClock(NOON))
    ledger.set_limits("org", [Limit("tokens", cap)])
    return ledger


class Own:
    """A ledger of a user's, which says itself what was settled."""

    def __init__(self, ledger: Ledger) -> None:
        self.reserve = ledger.reserve
        self._ledger = ledger

    def commit(self, hold: "Any", actual: "Any" = None) -> "Any":
        found = self._ledger.commit(hold, actual)
        wake(self, hold)
        return found


class Callers:
    """Tasks that wait for holds; `served` has the names of those that got one, in order."""

    def __init__(self, ledger: "Any") -> None:
        self.ledger = ledger
        self.served: list[str] = []
        self.holds: dict[str, Any] = {}
        self.errors: dict[str, BudgetExceededError] = {}
        self.tasks: dict[str, Any] = {}

    async def come(
        self,
        name: str,
        tokens: int,
        path: str = "org",
        wait: float = PATIENCE,
        axis: str = "tokens",
    ) -> None:
        """Have a call come, and return once it has a hold or waits."""

        async def ask() -> None:
            try:
                hold = await reserve_waiting(self.ledger, path, {axis: tokens}, wait=wait)
                self.holds[name] = hold
                self.served.append(name)
            except BudgetExceededError as error:
                self.errors[name] = error

        self.tasks[name] = asyncio.create_task(ask())
        await rest()

    async def leave(self, name: str) -> None:
        """Cancel a call that waits."""
        self.tasks[name].cancel()
        await rest()

    async def settle(self, name: str, tokens: int) -> None:
        """Commit what a call used."""
        self.ledger.commit(self.holds[name], {"tokens": tokens})
        await rest()


async def rest() -> None:
    """Let all tasks go on as far as they can without time."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_call_waits_for_what_is_held_and_gets_it() -> None:
    callers = Callers(opened())
    await callers.come("first", 80)
    await callers.come("second", 30)
    assert callers.served == ["first"]
    await callers.settle("first", 70)
    assert callers.served == ["first", "second"]
    [row] = callers.ledger.balance("org")
    assert (row.spent, row.held) == (70, 30)


async def test_a_users_ledger_is_left_as_it_is_and_may_tell_of_settlements() -> None:
    callers = Callers(Own(opened()))
    before = sorted(callers.ledger.__dict__)
    await callers.come("first", 80)
    await callers.come("second", 30)
    await callers.settle("first", 70)
    assert callers.served == ["first", "second"]
    assert sorted(callers.ledger.__dict__) == before


async def test_what_is_spent_is_refused_at_once() -> None:
    callers = Callers(opened())
    await callers.come("first", 80)
    await callers.settle("first", 80)
    await callers.come("second", 30)
    assert callers.errors["second"].waited_ms == 0
    assert "waited" not in str(callers.errors["second"])


async def test_a_call_that_spending_makes_impossible_waits_no_longer() -> None:
    callers = Callers(opened())
    await callers.come("first", 80)
    await callers.come("second", 30)
    await callers.settle("first", 75)
    assert callers.served == ["first"]
    assert callers.errors["second"].left == 25


async def test_calls_are_served_in_the_order_in_which_they_came() -> None:
    callers = Callers(opened())
    await callers.come("0", 100)
    for name in ("1", "2", "3", "4"):
        await callers.come(name, 60)
    for name in ("0", "1", "2", "3", "4"):
        await callers.settle(name, 1)
    assert callers.served == ["0", "1", "2", "3", "4"]


async def test_a_small_call_does_not_overtake_a_big_one() -> None:
    callers = Callers(opened())
    await callers.come("held", 60)
    await callers.come("big", 90)
    await callers.come("small", 10)
    assert callers.served == ["held"]
    await callers.settle("held", 0)
    assert callers.served == ["held", "big", "small"]


async def test_a_call_is_behind_those_alone_that_wait_for_a_limit_of_its_own() -> None:
    ledger = opened(1000)
    ledger.set_limits("org/a", [Limit("tokens", 10)])
    callers = Callers(ledger)
    await callers.come("held", 10, "org/a")
    await callers.come("waits", 10, "org/a")
    await callers.come("sibling", 10, "org/b")
    await callers.come("other axis", 10, "org/a", axis="calls")
    await callers.come("behind", 1, "org/a/x")
    assert callers.served == ["held", "sibling", "other axis"]
    await callers.settle("held", 0)
    assert callers.served == ["held", "sibling", "other axis", "waits"]


async def test_a_call_behind_others_that_is_spent_is_refused() -> None:
    callers = Callers(opened())
    await callers.come("spent", 50)
    await callers.settle("spent", 50)
    await callers.come("held", 40)
    await callers.come("waits", 20)
    await callers.come("too big", 60)
    error = callers.errors["too big"]
    assert (error.asked, error.spent, error.left) == (60, 50, 0)


async def test_a_call_behind_others_that_spending_makes_impossible_waits_no_longer() -> None:
    callers = Callers(opened())
    for name, tokens in (("first", 40), ("second", 30), ("waits", 50), ("hopeless", 70)):
        await callers.come(name, tokens)
    assert callers.errors == {}
    await callers.settle("first", 40)
    assert list(callers.errors) == ["hopeless"]
    assert callers.served == ["first", "second"]


async def test_a_call_that_waited_in_vain_says_how_long() -> None:
    callers = Callers(opened())
    await callers.come("held", 60)
    error = await raises_async(
        BudgetExceededError, reserve_waiting, callers.ledger, "org", {"tokens": 50}, None, TTL, 0.06
    )
    assert error.waited_ms == 60
    assert str(error).endswith("0 spent, 60 held; waited 0.1 s")
    await callers.settle("held", 60)
    callers.ledger.reserve("org", {"tokens": 40})  # nothing is left behind


async def test_for_a_call_behind_another_what_that_waits_for_counts_as_held() -> None:
    callers = Callers(opened())
    await callers.come("held", 60)
    await callers.come("big", 90)
    error = await raises_async(
        BudgetExceededError, reserve_waiting, callers.ledger, "org", {"tokens": 10}, None, TTL, 0.01
    )
    assert (error.asked, error.held, error.left) == (10, 100, 0)
    await callers.leave("big")


async def test_a_call_that_is_cancelled_leaves_nothing_and_lets_the_next_one_ask() -> None:
    callers = Callers(opened())
    await callers.come("held", 60)
    await callers.come("big", 90)
    await callers.come("small", 40)
    assert callers.served == ["held"]
    await callers.leave("big")
    assert callers.served == ["held", "small"]
    [row] = callers.ledger.balance("org")
    assert (row.spent, row.held) == (0, 100)


async def test_a_call_with_a_key_whose_hold_is_known_does_not_wait_behind_others() -> None:
    callers = Callers(opened())
    known = callers.ledger.reserve("org", {"tokens": 60}, "k")
    await callers.come("big", 90)
    again = await reserve_waiting(callers.ledger, "org", {"tokens": 60}, "k", TTL, PATIENCE)
    assert again is known
    await callers.leave("big")


async def test_a_raised_limit_lets_calls_in() -> None:
    callers = Callers(opened())
    await callers.come("held", 100)
    await callers.come("waits", 50)
    callers.ledger.set_limits("org", [Limit("tokens", 150)])
    await rest()
    assert callers.served == ["held", "waits"]


async def test_a_hold_that_expires_counts_as_spent_for_who_waits() -> None:
    clock = FakeClock(NOON)
    ledger = Ledger(clock)
    ledger.set_limits("org", [Limit("tokens", 100)])
    callers = Callers(ledger)
    ledger.reserve("org", {"tokens": 60}, None, 5)
    await callers.come("waits", 50)
    clock.advance(5)
    ledger.expire()
    await rest()
    assert callers.errors["waits"].spent == 60


async def test_a_hold_that_nobody_settles_counts_as_spent_for_who_waits_once_it_expires() -> None:
    clock = FakeClock(NOON)
    ledger = Ledger(clock)
    ledger.set_limits("org", [Limit("tokens", 100)])
    ledger.reserve("org", {"tokens": 60}, None, 5)
    clock.advance(5)
    asked = (ledger, "org", {"tokens": 50}, None, TTL, PATIENCE)
    error = await raises_async(BudgetExceededError, reserve_waiting, *asked)
    assert (error.spent, error.held, error.is_held) == (60, 0, False)


async def test_a_window_that_ends_lets_a_call_in_that_nobody_wakes() -> None:
    clock = FakeClock(NOON)
    ledger = Ledger(clock)
    ledger.set_limits("org", [Limit("tokens", 100, "day")])
    ledger.reserve("org", {"tokens": 60})
    callers = Callers(ledger)
    await callers.come("waits", 50)
    clock.advance(86_400)
    await callers.tasks["waits"]
    assert callers.served == ["waits"]


def test_of_limits_that_refuse_one_that_is_spent_is_named_first() -> None:
    ledger = Ledger(FakeClock(NOON))
    ledger.set_limits("org", [Limit("tokens", 100, "day"), Limit("calls", 1, "hour")])
    ledger.charge("org", {"calls": 1})
    ledger.reserve("org", {"tokens": 60})
    error = raises(BudgetExceededError, ledger.reserve, "org", {"tokens": 60, "calls": 1})
    assert (error.axis, error.is_held) == ("calls", False)


def test_a_blocking_ledger_waits_for_its_time_and_no_longer() -> None:
    ledger = opened()
    ledger.reserve("org", {"tokens": 60})
    error = raises(BudgetExceededError, ledger.reserve, "org", {"tokens": 50}, wait=0.01)
    assert (error.held, error.waited_ms) == (60, 10)


def test_a_malformed_wait_is_refused_by_name() -> None:
    ledger = opened()
    for wait in (-1, float("nan"), "1", True):
        assert "wait must be" in str(raises(ValueError, ledger.reserve, "org", {}, wait=wait))
