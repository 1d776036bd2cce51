"""Many threads and loops with one executor, calls that race with their ends, and the sums."""

import asyncio
import random
import threading
import time
from collections import Counter
from typing import Any

import pytest

from budget_cpython.executor import BoundedToolExecutor, ToolOutcome
from budget_cpython.turn import TurnBudget, TurnRuntimeState
from tests.executor.support import PATIENCE_S, eventually, turn
from tests.racing import restless

__all__ = ["restless"]  # switches between threads, wherever they hurt
PLACES = 5
ROUNDS = 300
SHORT_S = (0, 0, 0.0005, 0.001, 0.002, 0.003)
CAPS_S = (0.001, 0.002, 0.003)
ANSWER = {"usage": {"input_tokens": 1, "output_tokens": 0}, "text": "x"}


class World:
    """Tools that count how many of them run, and what they used; and what is known of calls."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.dice = random.Random(1)  # noqa: S311 - no secret
        self.alive = self.most = self.used = 0
        self.told: list[Any] = []
        self.late: list[ToolOutcome] = []
        self.calls: list[tuple[ToolOutcome, TurnRuntimeState]] = []
        self.states: list[TurnRuntimeState] = []
        self.cancelled = 0
        self.timers: list[threading.Timer] = []
        self.executor = BoundedToolExecutor(
            max_abandoned=PLACES, on_usage=self.told.append, on_late=self.late.append
        )

    def turn(self) -> tuple[TurnBudget, TurnRuntimeState]:
        budget, state = turn()
        self.states.append(state)
        return budget, state

    def begin(self) -> None:
        with self.lock:
            self.alive += 1
            self.most = max(self.most, self.alive)

    def end(self) -> None:
        with self.lock:
            self.alive -= 1

    def use(self) -> dict[str, Any]:
        with self.lock:
            self.used += 1
        return ANSWER

    def plain(self, within_s: float) -> dict[str, Any]:
        self.begin()
        try:
            time.sleep(within_s)
            return self.use()
        finally:
            self.end()

    async def polite(self, within_s: float) -> dict[str, Any]:
        self.begin()
        try:
            await asyncio.sleep(within_s)
            return self.use()
        finally:
            self.end()

    async def stubborn(self, within_s: float) -> dict[str, Any]:
        self.begin()
        try:
            end = time.monotonic() + within_s
            while time.monotonic() < end:
                try:
                    await asyncio.sleep(within_s)
                except asyncio.CancelledError:
                    pass
            return self.use()
        finally:
            self.end()

    def in_thread(self) -> None:
        for _ in range(ROUNDS):
            budget, state = self.turn()
            if self.dice.random() < 0.3:
                timer = threading.Timer(self.dice.choice(SHORT_S), state.close_writes)
                self.timers.append(timer)
                timer.start()
            for _ in range(3):
                arguments = {"within_s": self.dice.choice(SHORT_S)}
                cap_s = self.dice.choice(CAPS_S)
                outcome = self.executor.execute(self.plain, arguments, budget, state, cap_s)
                self.calls.append((outcome, state))

    def in_loop(self) -> None:
        async def rounds() -> None:
            for _ in range(ROUNDS):
                await asyncio.gather(*[self.one() for _ in range(4)])

        asyncio.run(rounds())

    async def one(self) -> None:
        loop = asyncio.get_running_loop()
        budget, state = self.turn()
        tool = self.dice.choice([self.plain, self.polite, self.stubborn])
        arguments = {"within_s": self.dice.choice(SHORT_S)}
        if self.dice.random() < 0.3:
            loop.call_later(self.dice.choice(SHORT_S), state.close_writes)
        call = asyncio.create_task(
            self.executor.execute_async(tool, arguments, budget, state, self.dice.choice(CAPS_S))
        )
        if self.dice.random() < 0.3:
            loop.call_later(self.dice.choice(SHORT_S), call.cancel)
        try:
            self.calls.append((await call, state))
        except asyncio.CancelledError:
            with self.lock:
                self.cancelled += 1


EXPECTED = {
    "completed": {"completed"},
    "timed_out": {"timed_out", "timed_out_late"},
    "denied": {"nothing"},
}


def test_whatever_races_the_sums_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("budget_cpython.executor.threads.MAX_IDLE", 2)
    world = World()
    threads = [threading.Thread(target=world.in_thread, daemon=True) for _ in range(6)]
    threads += [threading.Thread(target=world.in_loop, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in [*threads, *world.timers]:
        thread.join(5 * PATIENCE_S)
        assert not thread.is_alive(), "it hangs"
    executor = world.executor
    eventually(lambda: executor.running == executor.abandoned == 0)

    assert world.most <= PLACES
    assert executor.waiting == 0
    assert executor.hook_error is None
    for outcome, state in world.calls:
        entry = state.tool_trace.get(outcome.trace_id)
        found = "nothing" if entry is None else entry.status
        assert found in EXPECTED[outcome.status], outcome
        assert outcome.value == (ANSWER if outcome.status == "completed" else None)
    assert world.used == len(world.told) == sum(state.input_tokens for state in world.states)
    receipts = [one.trace_id for state in world.states for one in state.late_receipts]
    assert Counter(receipts) == Counter(late.trace_id for late in world.late)
    assert not [
        entry
        for state in world.states
        for entry in state.tool_trace.values()
        if entry.status == "running"
    ]
    seen = Counter(outcome.status for outcome, _ in world.calls)
    assert min(seen["completed"], seen["timed_out"], world.cancelled, len(world.late)) > 0
    assert len(world.calls) + world.cancelled == 6 * ROUNDS * 3 + 3 * ROUNDS * 4
