"""The gate for late writes under any order of events, against a model in a few words."""

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from budget_core import ToolTraceEntry, TurnBudget, TurnRuntimeState
from tests.properties import examples

trace_ids = st.sampled_from(["t1", "t2", "t3", "t4"])
latencies = st.integers(0, 60_000)


def seen(entry: ToolTraceEntry) -> tuple[str, str, int, bool]:
    return entry.tool_name, entry.status, entry.latency_ms, entry.retryable


class TraceMachine(RuleBasedStateMachine):
    """A turn whose tools start, end and are given up on, known or not, before and after its end."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}
        self.given_up: set[str] = set()
        self.ends: dict[str, tuple[int, bool]] = {}
        self.late: list[str] = []
        self.closed = False
        self.granted: list[str] = []
        self.kept: list[tuple[ToolTraceEntry, tuple[str, str, int, bool]]] = []

    @initialize()
    def begin(self) -> None:
        self.state = TurnRuntimeState("session", TurnBudget.create())

    def runs(self, trace_id: str) -> bool:
        return trace_id in self.names and trace_id not in self.given_up | set(self.ends)

    def expected(self, trace_id: str) -> tuple[str, str, int, bool]:
        status = "timed_out" if trace_id in self.given_up else "running"
        if trace_id in self.ends:
            status = "timed_out_late" if trace_id in self.given_up else "completed"
        return self.names[trace_id], status, *self.ends.get(trace_id, (0, False))

    @rule(
        trace_id=trace_ids,
        tool=st.sampled_from(["search", "fetch"]),
        granted=st.sampled_from([None, True, False]),
    )
    def start(self, trace_id: str, tool: str, granted: bool | None) -> None:
        asked: list[str] = []

        def ask() -> bool:
            asked.append(trace_id)
            return bool(granted)

        claim = None if granted is None else ask
        if trace_id in self.names:
            with pytest.raises(ValueError, match=trace_id):
                self.state.set_trace_running(trace_id, tool, claim)
            assert not asked
            return
        started = not self.closed and granted is not False
        assert self.state.set_trace_running(trace_id, tool, claim) is started
        assert bool(asked) is (claim is not None and not self.closed)
        if started:
            self.names[trace_id] = tool

    @rule(trace_id=trace_ids)
    def give_up(self, trace_id: str) -> None:
        assert self.state.mark_trace_timed_out(trace_id) is self.runs(trace_id)
        if self.runs(trace_id):
            self.given_up.add(trace_id)

    @rule(trace_id=trace_ids, latency=latencies, retryable=st.booleans())
    def end(self, trace_id: str, latency: int, retryable: bool) -> None:
        in_time = self.runs(trace_id)
        granted = self.state.complete_trace(trace_id, latency_ms=latency, retryable=retryable)
        assert granted is in_time
        if granted:
            self.granted.append(trace_id)
        elif trace_id in self.given_up and trace_id not in self.ends:
            self.late.append(trace_id)
        if trace_id in self.names and trace_id not in self.ends:
            self.ends[trace_id] = latency, retryable

    @rule()
    @precondition(lambda self: self.names)
    def close(self) -> None:
        self.state.close_writes()
        self.given_up |= {trace_id for trace_id in self.names if self.runs(trace_id)}
        self.closed = True

    @rule()
    def keep_what_is_seen(self) -> None:
        self.kept += [(entry, seen(entry)) for entry in self.state.tool_trace.values()]

    @invariant()
    def the_trace_agrees(self) -> None:
        trace = self.state.tool_trace
        assert set(trace) == set(self.names)
        for trace_id, entry in trace.items():
            assert entry.trace_id == trace_id
            assert seen(entry) == self.expected(trace_id)

    @invariant()
    def the_receipts_agree(self) -> None:
        receipts = self.state.late_receipts
        assert [entry.trace_id for entry in receipts] == self.late
        assert [seen(entry) for entry in receipts] == [self.expected(one) for one in self.late]

    @invariant()
    def a_trace_may_write_at_most_once_and_never_after_it_was_given_up_on(self) -> None:
        assert len(self.granted) == len(set(self.granted))
        assert not self.given_up & set(self.granted)

    @invariant()
    def the_gate_agrees(self) -> None:
        assert self.state.is_accepting_writes() is not self.closed
        statuses = {entry.status for entry in self.state.tool_trace.values()}
        assert not (self.closed and "running" in statuses)

    @invariant()
    def what_was_seen_stays_as_it_was(self) -> None:
        assert all(seen(entry) == then for entry, then in self.kept)


TestTrace: Any = TraceMachine.TestCase
TestTrace.settings = examples(300, stateful_step_count=40)
