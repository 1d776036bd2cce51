"""Calls that are not started: they use nothing, and say why."""

import threading
from typing import Any

import pytest

from budget_cpython.executor import BoundedToolExecutor, ToolOutcome
from tests.executor.support import PATIENCE_S, Hung, eventually, hung, turn


def forbidden() -> None:
    raise AssertionError("it was called")


def denied(outcome: ToolOutcome, reason: str, retryable: bool = False) -> bool:
    assert outcome.status == "denied"
    assert reason in outcome.reason
    assert outcome.retryable is retryable
    return True


def test_the_cap_on_tool_calls_is_exact() -> None:
    budget, state = turn(max_tool_calls=3)
    executor = BoundedToolExecutor()
    outcomes = [executor.execute(lambda: None, {}, budget, state) for _ in range(5)]
    assert [outcome.status for outcome in outcomes] == ["completed"] * 3 + ["denied"] * 2
    assert denied(outcomes[-1], "all 3 tool calls")
    assert executor.running == 0
    assert len(state.tool_trace) == 3


@pytest.mark.parametrize(
    ("limits", "cap_s", "reason"),
    [
        ({"max_tool_calls": 0}, None, "all 0 tool calls"),
        ({"timeout_s": 0}, None, "time is over"),
        ({"timeout_s": 0, "min_tool_s": 5}, None, "time is over"),
        ({}, 0, "0 s"),
    ],
)
def test_nothing_left_denies(limits: dict[str, Any], cap_s: float | None, reason: str) -> None:
    budget, state = turn(**limits)
    assert denied(BoundedToolExecutor().execute(forbidden, {}, budget, state, cap_s), reason)
    assert state.tool_trace == {}
    assert budget.snapshot()["tool_calls_used"] == 0


def test_a_turn_that_is_over_denies() -> None:
    budget, state = turn()
    state.close_writes()
    assert denied(BoundedToolExecutor().execute(forbidden, {}, budget, state), "no more writes")
    assert budget.snapshot()["tool_calls_used"] == 0


def test_a_blocked_tool_is_denied_and_others_are_not() -> None:
    budget, state = turn()
    state.blocked_tool_names.add("forbidden")
    executor = BoundedToolExecutor()
    assert denied(executor.execute(forbidden, {}, budget, state), "forbidden is blocked")
    assert executor.execute(dict, {"a": 1}, budget, state).value == {"a": 1}


def lose(executor: BoundedToolExecutor, tool: Hung, count: int) -> None:
    """Abandon that many calls of a tool that hangs."""
    for _ in range(count):
        assert executor.execute(tool, {}, *turn(), cap_s=0.01).status == "timed_out"


def test_so_many_abandoned_tools_deny_and_each_that_ends_lets_one_in() -> None:
    executor = BoundedToolExecutor(max_abandoned=3)
    budget, state = turn()
    with hung() as last, hung() as first:
        lose(executor, first, 1)
        lose(executor, last, 2)
        assert executor.abandoned == 3
        outcome = executor.execute(forbidden, {}, budget, state)
        assert denied(outcome, "3 tools have outlived their time", retryable=True)
        assert "max_abandoned=3" in outcome.reason
        assert budget.snapshot()["tool_calls_used"] == 0
        first.gate.set()
        eventually(lambda: executor.abandoned == 2)
        assert executor.execute(lambda: "in", {}, budget, state).value == "in"
        lose(executor, last, 1)
        assert executor.abandoned == 3
    eventually(lambda: executor.abandoned == 0)


def test_none_abandons_without_a_limit_and_zero_lets_none_in() -> None:
    executor = BoundedToolExecutor(max_abandoned=None)
    with hung() as tool:
        lose(executor, tool, 12)
        assert executor.execute(lambda: "in", {}, *turn()).value == "in"
    nothing = BoundedToolExecutor(max_abandoned=0)
    assert denied(nothing.execute(forbidden, {}, *turn()), "max_abandoned=0", retryable=True)


def in_background(executor: BoundedToolExecutor, tool: Any, **options: Any) -> list[ToolOutcome]:
    outcomes: list[ToolOutcome] = []
    budget, state = turn()
    threading.Thread(
        target=lambda: outcomes.append(executor.execute(tool, {}, budget, state, **options)),
        daemon=True,
    ).start()
    return outcomes


def test_a_call_waits_for_a_place_that_another_gives_back() -> None:
    executor = BoundedToolExecutor(max_abandoned=1)
    with hung("first") as tool:
        first = in_background(executor, tool)
        assert tool.started.acquire(timeout=PATIENCE_S)
        second = in_background(executor, lambda: "second")
        eventually(lambda: executor.waiting)
        assert second == []
        tool.gate.set()
        eventually(lambda: first and second)
    assert (first[0].value, second[0].value) == ("first", "second")


def test_a_call_that_waits_in_vain_is_denied_when_its_time_is_over() -> None:
    executor = BoundedToolExecutor(max_abandoned=1)
    with hung() as tool:
        in_background(executor, tool)
        assert tool.started.acquire(timeout=PATIENCE_S)
        outcome = executor.execute(forbidden, {}, *turn(), cap_s=0.02)
        assert denied(outcome, "no slot became free in time", retryable=True)
        assert (executor.running, executor.abandoned) == (1, 0)


def test_a_call_that_waits_is_denied_as_soon_as_the_last_place_is_lost() -> None:
    executor = BoundedToolExecutor(max_abandoned=1)
    with hung() as tool:
        first = in_background(executor, tool, cap_s=0.1)
        assert tool.started.acquire(timeout=PATIENCE_S)
        outcome = executor.execute(forbidden, {}, *turn(), cap_s=600)
        assert denied(outcome, "outlived", retryable=True)
        eventually(lambda: first)


def test_a_turn_that_ends_while_a_call_waits_denies_it_and_keeps_its_tool_call() -> None:
    executor = BoundedToolExecutor(max_abandoned=1)
    with hung() as tool:
        first = in_background(executor, tool)
        assert tool.started.acquire(timeout=PATIENCE_S)
        budget, state = turn()
        outcomes: list[ToolOutcome] = []
        thread = threading.Thread(
            target=lambda: outcomes.append(executor.execute(forbidden, {}, budget, state))
        )
        thread.start()
        eventually(lambda: executor.waiting)
        state.close_writes()
        tool.gate.set()
        thread.join(PATIENCE_S)
        assert denied(outcomes[0], "no more writes")
        assert budget.snapshot()["tool_calls_used"] == 0
        eventually(lambda: first and executor.running == 0)


def test_twenty_calls_at_once_abandon_eight_at_most() -> None:
    executor = BoundedToolExecutor()
    with hung() as tool:
        calls = [in_background(executor, tool, cap_s=0.2) for _ in range(20)]
        eventually(lambda: all(calls))
        statuses = [call[0].status for call in calls]
        assert (statuses.count("timed_out"), statuses.count("denied")) == (8, 12)
        assert executor.abandoned == 8
