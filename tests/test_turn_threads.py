"""Turn budgets and turn states shared by 64 threads that switch every microsecond."""

from collections import Counter
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, fields
from typing import Any

import pytest

from budget_cpython import (
    CitationAccumulator,
    ToolTraceEntry,
    TurnBudget,
    TurnRuntimeState,
)
from tests.racing import THREADS, in_threads, restless, unsettle

__all__ = ["restless"]


def new_budget(**limits: Any) -> Any:
    return unsettle(TurnBudget.create(**{"timeout_s": None, **limits}))


def new_state() -> Any:
    return unsettle(TurnRuntimeState("session", TurnBudget.create()))


def claims(claim: Callable[[], bool], times: int) -> Callable[[], int]:
    return lambda: sum(claim() for _ in range(times))


@pytest.mark.parametrize("what", ["step", "tool_call", "reflection"])
def test_threads_are_granted_exactly_the_cap(what: str) -> None:
    cap = THREADS * 5
    budget = new_budget(max_steps=cap, max_tool_calls=cap, max_reflections=cap)
    granted = in_threads(claims(getattr(budget, f"claim_{what}"), 10))
    assert sum(granted) == cap
    seen = budget.snapshot()
    assert seen[f"{what}s_used"] == cap
    assert sum(seen[f"{one}s_used"] for one in ("step", "tool_call", "reflection")) == cap


def test_no_claim_is_lost_without_a_cap() -> None:
    budget = new_budget(max_steps=None)
    assert sum(in_threads(claims(budget.claim_step, 10))) == THREADS * 10
    assert budget.snapshot()["steps_used"] == THREADS * 10


def test_a_snapshot_is_of_one_instant() -> None:
    budget = new_budget(max_steps=None, max_tool_calls=None, max_reflections=None)
    taken: list[Any] = []

    def work() -> None:
        for _ in range(5):
            budget.claim_step()
            budget.claim_tool_call()
            taken.append(budget.snapshot())

    in_threads(work)
    for seen in taken:
        assert 0 <= seen["steps_used"] - seen["tool_calls_used"] <= THREADS


def test_tokens_add_up() -> None:
    state = new_state()

    def work() -> None:
        for _ in range(10):
            state.add_tokens(1, 2, 3, None)

    in_threads(work)
    count = THREADS * 10
    assert (state.input_tokens, state.output_tokens) == (count, 2 * count)
    assert (state.cache_read_tokens, state.missing_counts) == (3 * count, count)


def test_a_trace_completes_or_times_out_and_never_both() -> None:
    seen: Counter[str] = Counter()
    for round_ in range(30):
        state = new_state()
        state.set_trace_running("t", "tool")
        turns = iter(range(round_, round_ + 1 + THREADS))

        def work(state: Any = state, turns: Any = turns) -> tuple[str, bool]:
            if next(turns) % 2:
                return "timed_out", state.mark_trace_timed_out("t")
            return "completed", state.complete_trace("t", 5)

        done = [work()] if round_ < 2 else []  # each of them is the first once
        won = [status for status, first in done + in_threads(work) if first]
        assert len(won) == 1, round_
        seen[won[0]] += 1
        entry = state.tool_trace["t"]
        if won == ["completed"]:
            assert entry.status == "completed"
            assert state.late_receipts == []
        else:
            assert entry.status == "timed_out_late"
            assert state.late_receipts == [entry]
    assert set(seen) == {"completed", "timed_out"}


def test_what_is_let_through_was_completed_before_the_turn_was_closed() -> None:
    for _ in range(20):
        state = new_state()
        ids = [f"t{number}" for number in range(THREADS)]
        for trace_id in ids:
            state.set_trace_running(trace_id, "tool")
        names = iter(ids)

        def work(state: Any = state, names: Any = names) -> tuple[str, bool]:
            trace_id = next(names)
            if trace_id == "t20":
                state.close_writes()
            return trace_id, state.complete_trace(trace_id)

        for trace_id, through in in_threads(work):
            expected = "completed" if through else "timed_out_late"
            assert state.tool_trace[trace_id].status == expected
        assert not any(entry.status == "running" for entry in state.tool_trace.values())


def test_one_thread_gets_a_trace_id() -> None:
    for _ in range(10):
        state = new_state()

        def work(state: Any = state) -> bool:
            try:
                return bool(state.set_trace_running("t", "tool"))
            except ValueError:
                return False

        assert sum(in_threads(work)) == 1


def test_repairs_are_granted_exactly_up_to_the_limit() -> None:
    state = new_state()
    assert sum(in_threads(lambda: state.claim_repair("call"))) == 2


def test_the_trace_can_be_read_while_it_grows() -> None:
    state = new_state()
    numbers = iter(range(10**9))

    def work() -> None:
        for _ in range(10):
            state.set_trace_running(str(next(numbers)), "tool")
            for entry in state.tool_trace.values():
                assert entry.status == "running"

    in_threads(work)
    assert len(state.tool_trace) == THREADS * 10


def test_a_trace_entry_is_a_frozen_dataclass() -> None:
    state = TurnRuntimeState("session", TurnBudget.create())
    state.set_trace_running("t", "tool")
    entry = state.tool_trace["t"]
    assert isinstance(entry, ToolTraceEntry)
    assert asdict(entry) == {
        "tool_name": "tool",
        "status": "running",
        "trace_id": "t",
        "latency_ms": 0,
        "retryable": False,
    }
    with pytest.raises(FrozenInstanceError):
        entry.status = "completed"
    state.complete_trace("t", 12, True)
    assert entry.status == "running"
    assert state.tool_trace["t"] == ToolTraceEntry("tool", "completed", "t", 12, True)


def test_citations_are_a_dataclass_with_its_own_containers() -> None:
    citations = CitationAccumulator()
    assert [field.name for field in fields(citations)] == ["local", "web", "rendered_paths"]
    assert (citations.local, citations.web, citations.rendered_paths) == (set(), [], [])
    citations.local.add("notes/paris.md")
    assert CitationAccumulator().local == set()
    assert citations == CitationAccumulator({"notes/paris.md"})
    assert isinstance(TurnRuntimeState("s", TurnBudget.create()).citations, CitationAccumulator)


def test_a_snapshot_is_a_copy() -> None:
    budget = TurnBudget.create(timeout_s=None)
    seen = budget.snapshot()
    seen["steps_used"] = 9
    assert budget.snapshot()["steps_used"] == 0
