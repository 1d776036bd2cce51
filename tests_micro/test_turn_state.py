"""All that a turn gathers, and who may still write to it."""

from budget_core import CitationAccumulator, ToolTraceEntry, TurnBudget, TurnRuntimeState
from budget_core.allowance import MAX_REPAIR_ATTEMPTS
from tests_micro.support import RecordingLock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

COUNTS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens")
NO_COUNTS: "tuple[Any, ...]" = (
    -5,
    -1,
    float("nan"),
    float("inf"),
    1.5,
    12.0,
    True,
    False,
    "12",
    b"12",
    [12],
    {},
    2**63,
)


def new_state(lock: "Any" = None) -> TurnRuntimeState:
    return TurnRuntimeState(session_id="sess_abc123", budget=TurnBudget.create(), lock=lock)


def running(*trace_ids: str) -> TurnRuntimeState:
    """Return a state in which these calls of one tool run."""
    state = new_state()
    for trace_id in trace_ids:
        assert state.set_trace_running(trace_id, "search")
    return state


def status(state: TurnRuntimeState, trace_id: str = "t1") -> str:
    return state.tool_trace[trace_id].status


def fields(entry: ToolTraceEntry) -> "tuple[str, str, str, int, bool]":
    return entry.tool_name, entry.status, entry.trace_id, entry.latency_ms, entry.retryable


def tokens_of(state: TurnRuntimeState) -> "list[int]":
    return [getattr(state, name) for name in COUNTS]


def test_a_new_state_is_empty() -> None:
    budget = TurnBudget.create()
    state = TurnRuntimeState("sess_abc123", budget)
    assert state.session_id == "sess_abc123"
    assert state.budget is budget
    assert tokens_of(state) == [0, 0, 0, 0]
    assert (state.missing_counts, state.invalid_counts) == (0, 0)
    assert state.tool_trace == {}
    assert state.tool_results == []
    assert state.blocked_tool_names == set()
    assert state.validation_repair_counts == {}
    assert state.late_receipts == []
    assert (state.final_text, state.prompt_render_hash) == ("", "")
    assert (state.timed_out, state.context_was_compacted) == (False, False)
    assert state.is_accepting_writes()
    assert type(state.citations) is CitationAccumulator
    assert state.citations is state.citations


def test_a_session_id_is_a_text() -> None:
    budget = TurnBudget.create()
    for value in ("", None, 5, b"sess", ["sess"], True):
        text = str(raises(ValueError, TurnRuntimeState, value, budget))
        assert text == "session_id must be a string that is not empty, not " + repr(value)


def test_two_states_share_nothing() -> None:
    first, second = new_state(), new_state()
    first.tool_results.append({"tool": "search"})
    first.blocked_tool_names.add("search")
    first.citations.local.add("notes/paris.md")
    first.citations.web.append({"url": "u"})
    first.citations.rendered_paths.append("p")
    first.claim_repair("c1")
    first.set_trace_running("t1", "search")
    first.complete_trace("t1")
    first.add_tokens(1)
    first.close_writes()
    assert second.tool_results == []
    assert second.blocked_tool_names == set()
    assert second.citations.local == set()
    assert second.citations.web == []
    assert second.citations.rendered_paths == []
    assert second.validation_repair_counts == {}
    assert second.tool_trace == {}
    assert second.input_tokens == 0
    assert second.is_accepting_writes()


def test_the_outcome_can_be_written_down() -> None:
    state = new_state()
    state.final_text, state.prompt_render_hash = "Paris", "5d41"
    state.timed_out = state.context_was_compacted = True
    state.blocked_tool_names.add("search")
    state.tool_results.append({"tool": "search"})
    assert (state.final_text, state.prompt_render_hash) == ("Paris", "5d41")
    assert (state.timed_out, state.context_was_compacted) == (True, True)
    assert state.blocked_tool_names == {"search"}
    assert state.tool_results == [{"tool": "search"}]


def test_citations_are_what_they_are_given() -> None:
    cited = CitationAccumulator({"a.md"}, [{"url": "u"}], ["page.html"])
    assert cited.local == {"a.md"}
    assert cited.web == [{"url": "u"}]
    assert cited.rendered_paths == ["page.html"]
    named = CitationAccumulator(web=[{"url": "u"}])
    assert (named.local, named.rendered_paths) == (set(), [])


def test_citations_of_nothing_are_empty_and_apart() -> None:
    first, second = CitationAccumulator(), CitationAccumulator()
    first.local.add("a.md")
    first.web.append({})
    first.rendered_paths.append("p")
    assert (second.local, second.web, second.rendered_paths) == (set(), [], [])


def test_tokens_add_up_over_all_calls() -> None:
    state = new_state()
    state.add_tokens(input_tokens=10, output_tokens=20)
    state.add_tokens(cache_read_tokens=3, cache_creation_tokens=4)
    state.add_tokens(1, 2, 3, 4)
    state.add_tokens()
    assert tokens_of(state) == [11, 22, 6, 8]
    assert (state.missing_counts, state.invalid_counts) == (0, 0)


def test_what_is_no_count_adds_nothing_and_is_seen() -> None:
    for name in COUNTS:
        for value in NO_COUNTS:
            state = new_state()
            state.add_tokens(7, 7, 7, 7)
            state.add_tokens(**{name: value})
            assert tokens_of(state) == [7, 7, 7, 7], (name, value)
            assert (state.missing_counts, state.invalid_counts) == (0, 1), (name, value)


def test_what_is_missing_adds_nothing_and_is_seen_as_missing() -> None:
    for name in COUNTS:
        state = new_state()
        state.add_tokens(**{name: None})
        assert tokens_of(state) == [0, 0, 0, 0]
        assert (state.missing_counts, state.invalid_counts) == (1, 0), name


def test_one_bad_count_does_not_spoil_the_others() -> None:
    state = new_state()
    state.add_tokens(5, None, -5, 9)
    assert tokens_of(state) == [5, 0, 0, 9]
    assert (state.missing_counts, state.invalid_counts) == (1, 1)
    state.add_tokens(None, "12", None, 2**63)  # type: ignore[arg-type]
    assert (state.missing_counts, state.invalid_counts) == (3, 3)
    assert tokens_of(state) == [5, 0, 0, 9]


def test_tokens_are_counted_also_after_writes_are_closed() -> None:
    state = new_state()
    state.close_writes()
    state.add_tokens(5, 6)
    assert (state.input_tokens, state.output_tokens) == (5, 6)


def test_a_call_is_repaired_as_often_as_the_rule_says() -> None:
    state = new_state()
    assert MAX_REPAIR_ATTEMPTS == 2
    for attempt in range(MAX_REPAIR_ATTEMPTS):
        assert state.claim_repair("c1")
        assert state.validation_repair_counts == {"c1": attempt + 1}
    for _ in range(3):
        assert state.claim_repair("c1") is False
    assert state.validation_repair_counts == {"c1": MAX_REPAIR_ATTEMPTS}


def test_repairs_are_counted_for_each_call() -> None:
    state = new_state()
    while state.claim_repair("c1"):
        pass
    assert state.claim_repair("c2")
    assert state.validation_repair_counts == {"c1": MAX_REPAIR_ATTEMPTS, "c2": 1}


def test_repairs_counted_by_somebody_else_count() -> None:
    state = new_state()
    state.validation_repair_counts["c1"] = MAX_REPAIR_ATTEMPTS
    assert not state.claim_repair("c1")


def test_a_trace_begins_running() -> None:
    state = running("t1")
    assert fields(state.tool_trace["t1"]) == ("search", "running", "t1", 0, False)


def test_a_tool_that_ends_in_time_is_completed_and_may_write() -> None:
    state = running("t1")
    assert state.complete_trace("t1", latency_ms=1234, retryable=True) is True
    assert fields(state.tool_trace["t1"]) == ("search", "completed", "t1", 1234, True)
    assert state.late_receipts == []


def test_an_end_without_particulars_took_no_time_and_is_not_to_be_retried() -> None:
    state = running("t1", "t2")
    state.complete_trace("t1")
    assert fields(state.tool_trace["t1"]) == ("search", "completed", "t1", 0, False)
    assert fields(ToolTraceEntry("search", "running", "t1")) == (
        "search",
        "running",
        "t1",
        0,
        False,
    )


def test_a_tool_that_is_given_up_on_may_not_write() -> None:
    state = running("t1")
    assert state.mark_trace_timed_out("t1") is True
    assert fields(state.tool_trace["t1"]) == ("search", "timed_out", "t1", 0, False)
    assert state.late_receipts == []
    assert state.complete_trace("t1", 21_000, True) is False
    late = ("search", "timed_out_late", "t1", 21_000, True)
    assert fields(state.tool_trace["t1"]) == late
    assert [fields(entry) for entry in state.late_receipts] == [late]


def test_a_tool_completes_only_once() -> None:
    state = running("t1")
    assert state.complete_trace("t1", 5, True)
    for _ in range(2):
        assert state.complete_trace("t1", 9, False) is False
    assert fields(state.tool_trace["t1"]) == ("search", "completed", "t1", 5, True)
    assert state.late_receipts == []


def test_a_late_tool_leaves_one_receipt_however_often_it_ends() -> None:
    state = running("t1")
    state.mark_trace_timed_out("t1")
    for latency in (5, 6, 7):
        assert state.complete_trace("t1", latency) is False
    assert [entry.latency_ms for entry in state.late_receipts] == [5]
    assert state.tool_trace["t1"].latency_ms == 5


def test_nobody_gives_up_on_a_tool_that_has_ended() -> None:
    state = running("t1")
    state.complete_trace("t1", 5)
    assert state.mark_trace_timed_out("t1") is False
    assert status(state) == "completed"


def test_nobody_gives_up_twice() -> None:
    state = running("t1")
    assert state.mark_trace_timed_out("t1") is True
    assert state.mark_trace_timed_out("t1") is False
    state.complete_trace("t1")
    assert state.mark_trace_timed_out("t1") is False
    assert status(state) == "timed_out_late"


def test_an_unknown_trace_neither_completes_nor_times_out() -> None:
    for state in (new_state(), running("t1")):
        before = len(state.tool_trace)
        assert state.complete_trace("t9", 5) is False
        assert state.mark_trace_timed_out("t9") is False
        state.close_writes()
        assert state.complete_trace("t9", 5) is False
        assert len(state.tool_trace) == before
        assert state.late_receipts == []


def test_a_trace_id_is_never_used_again() -> None:
    def nothing(state: TurnRuntimeState) -> None: ...

    def complete(state: TurnRuntimeState) -> None:
        state.complete_trace("t1", 5)

    def time_out(state: TurnRuntimeState) -> None:
        state.mark_trace_timed_out("t1")

    def close(state: TurnRuntimeState) -> None:
        state.close_writes()

    for happens in (nothing, complete, time_out, close):
        state = running("t1")
        happens(state)
        before = fields(state.tool_trace["t1"])
        text = str(raises(ValueError, state.set_trace_running, "t1", "fetch"))
        assert text == "trace id 't1' is taken: each call needs its own"
        assert fields(state.tool_trace["t1"]) == before


def test_traces_go_their_own_ways() -> None:
    state = running("t1", "t2", "t3")
    state.mark_trace_timed_out("t2")
    state.complete_trace("t1")
    assert [status(state, trace_id) for trace_id in ("t1", "t2", "t3")] == [
        "completed",
        "timed_out",
        "running",
    ]


def test_closing_writes_ends_the_turn_for_good() -> None:
    state = new_state()
    assert state.is_accepting_writes() is True
    for _ in range(2):
        state.close_writes()
        assert state.is_accepting_writes() is False


def test_tools_that_still_run_when_writes_close_have_timed_out() -> None:
    state = running("t1", "t2", "t3", "t4")
    state.complete_trace("t2", 5)
    state.mark_trace_timed_out("t3")
    state.complete_trace("t3", 6)
    state.close_writes()
    assert [status(state, trace_id) for trace_id in ("t1", "t2", "t3", "t4")] == [
        "timed_out",
        "completed",
        "timed_out_late",
        "timed_out",
    ]


def test_a_tool_that_ends_after_writes_closed_leaves_a_receipt() -> None:
    state = running("t1", "t2")
    state.close_writes()
    assert state.complete_trace("t2", 30, True) is False
    assert state.complete_trace("t1", 40) is False
    assert [fields(entry) for entry in state.late_receipts] == [
        ("search", "timed_out_late", "t2", 30, True),
        ("search", "timed_out_late", "t1", 40, False),
    ]


def test_receipts_are_in_the_order_of_their_ends() -> None:
    state = running("t1", "t2", "t3")
    for trace_id in ("t1", "t2", "t3"):
        state.mark_trace_timed_out(trace_id)
    for trace_id in ("t3", "t1", "t2"):
        state.complete_trace(trace_id)
    assert [entry.trace_id for entry in state.late_receipts] == ["t3", "t1", "t2"]


def test_no_tool_starts_after_writes_are_closed() -> None:
    state = new_state()
    assert state.set_trace_running("t1", "search") is True
    state.close_writes()
    assert state.set_trace_running("t2", "search") is False
    assert sorted(state.tool_trace) == ["t1"]
    assert state.complete_trace("t2", 5) is False
    assert state.late_receipts == []


def test_a_tool_starts_only_where_its_claim_is_granted() -> None:
    state = TurnRuntimeState("session", TurnBudget.create(max_tool_calls=2))
    claim = state.budget.claim_tool_call
    started = [state.set_trace_running(trace_id, "search", claim) for trace_id in ("a", "b", "c")]
    assert started == [True, True, False]
    assert sorted(state.tool_trace) == ["a", "b"]
    assert state.complete_trace("c", 5) is False
    assert state.late_receipts == []
    assert state.set_trace_running("c", "search"), "what was refused leaves its trace id free"


def test_nothing_is_claimed_where_a_tool_may_not_start() -> None:
    state = running("t1")
    asked: list[int] = []

    def claim() -> bool:
        asked.append(1)
        return True

    raises(ValueError, state.set_trace_running, "t1", "search", claim)
    assert asked == []
    assert state.set_trace_running("t2", "search", claim) is True
    assert asked == [1]
    state.close_writes()
    assert state.set_trace_running("t3", "search", claim) is False
    assert asked == [1]


def test_the_trace_that_is_read_is_a_copy() -> None:
    state = running("t1")
    seen = state.tool_trace
    state.complete_trace("t1", 5)
    assert seen["t1"].status == "running", "an entry is of one instant"
    seen.clear()
    assert status(state) == "completed"
    raises(AttributeError, setattr, state, "tool_trace", {})


def test_every_writing_takes_the_lock_once_and_leaves_it() -> None:
    lock = RecordingLock()
    state = new_state(lock)
    calls: list[Callable[[], object]] = [
        lambda: state.set_trace_running("t1", "search"),
        lambda: state.set_trace_running("t2", "search"),
        lambda: raises(ValueError, state.set_trace_running, "t1", "search"),
        lambda: state.mark_trace_timed_out("t1"),
        lambda: state.complete_trace("t1"),
        lambda: state.complete_trace("t2"),
        lambda: state.add_tokens(1, None, -1),
        lambda: state.claim_repair("c1"),
        lambda: state.tool_trace,
        lambda: state.citations,
        lambda: state.citations,
        state.close_writes,
    ]
    for count, call in enumerate(calls):
        call()
        assert (lock.taken, lock.held) == (count + 1, False), count
