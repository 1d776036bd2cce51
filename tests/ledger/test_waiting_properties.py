"""Whatever comes, waits, is settled and is cancelled: never over, nobody lost, the first first."""

import asyncio
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from budget_core.ledger.hold import TTL
from budget_core.ledger.waiting import reserve_waiting, room_of
from budget_cpython import BudgetExceededError, Ledger, Limit
from tests.ledger.patience import NO_HURRY
from tests.properties import examples

NOON = 20_000 * 86_400 + 43_200
CAPS = {"org": 20, "org/a": 8}
PATHS = ("org", "org/a", "org/a/x", "org/b")


class Waiter:
    """A call that came, and what became of it: a hold, a refusal, or neither yet."""

    def __init__(self, path: str, asked: int) -> None:
        self.path = path
        self.asked = asked
        self.task: Any = None
        self.hold: Any = None


class Waiting(RuleBasedStateMachine):
    """Calls on a small tree of accounts, in one event loop that time never moves."""

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.ledger = Ledger(lambda: NOON)
        for path, cap in CAPS.items():
            self.ledger.set_limits(path, [Limit("tokens", cap)])
        self.waiting: list[Waiter] = []  # in the order in which they came
        self.held: list[Waiter] = []

    def rest(self) -> None:
        """Let all tasks go on as far as they can without time."""

        async def turns() -> None:
            for _ in range(30):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    @rule(path=st.sampled_from(PATHS), asked=st.integers(1, 20))
    def come(self, path: str, asked: int) -> None:
        waiter = Waiter(path, asked)

        async def ask() -> None:
            try:
                amounts = {"tokens": asked}
                waiter.hold = await reserve_waiting(self.ledger, path, amounts, None, TTL, NO_HURRY)
                self.serve(waiter)
            except BudgetExceededError as error:
                self.refuse(waiter, error)

        self.waiting.append(waiter)
        waiter.task = self.loop.create_task(ask())
        self.rest()

    def serve(self, waiter: Waiter) -> None:
        before = self.waiting[: self.waiting.index(waiter)]
        assert waiter.path not in [one.path for one in before], "it overtook one of its path"
        self.waiting.remove(waiter)
        self.held.append(waiter)

    def refuse(self, waiter: Waiter, error: BudgetExceededError) -> None:
        assert error.spent + waiter.asked > error.limit, "it was only held"
        self.waiting.remove(waiter)

    @rule(data=st.data())
    def settle(self, data: Any) -> None:
        if self.held:
            one = self.held.pop(data.draw(st.integers(0, len(self.held) - 1)))
            used = data.draw(st.integers(0, one.asked))
            if used:
                self.ledger.commit(one.hold, {"tokens": used})
            else:
                self.ledger.release(one.hold)
            self.rest()

    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        if self.waiting:
            one = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
            one.task.cancel()
            self.rest()

    @rule(path=st.sampled_from(tuple(CAPS)), cap=st.integers(1, 40))
    def set_limits(self, path: str, cap: int) -> None:
        self.ledger.set_limits(path, [Limit("tokens", cap)])
        self.rest()

    @invariant()
    def nothing_is_left_behind(self) -> None:
        if hasattr(self, "ledger"):
            held = dict.fromkeys(CAPS, 0)
            for one in self.held:
                for path in CAPS:
                    if (one.path + "/").startswith(path + "/"):
                        held[path] += one.asked
            rows = self.ledger.balance("org/a")
            assert {row.account: row.held for row in rows} == held
            assert room_of(self.ledger).waiting == len(self.waiting)

    @invariant()
    def the_first_has_a_reason_to_wait(self) -> None:
        if not getattr(self, "waiting", None):
            return
        first = self.waiting[0]
        rows = self.ledger.balance(first.path)
        assert any(first.asked > (row.left or 0) for row in rows), "it is not asked for"
        assert all(row.spent + first.asked <= (row.limit or 0) for row in rows), "it is spent"

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            while self.held:
                self.ledger.release(self.held.pop().hold)
                self.rest()
            assert not self.waiting
        finally:
            for one in self.waiting:
                one.task.cancel()
            self.rest()
            self.loop.close()


def test_calls_that_wait_are_served_in_order_and_none_is_lost() -> None:
    run_state_machine_as_test(Waiting, settings=examples(200))
