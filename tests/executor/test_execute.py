"""One tool call in a thread: what comes of it, and what the turn's state has of it."""

import contextvars
import threading
from typing import Any

import pytest

from budget_core import DeadlineExceeded, Tool
from budget_core import TurnBudget as CoreTurnBudget
from budget_cpython.context.deadline import Deadline, DeadlineToken
from budget_cpython.executor import BoundedToolExecutor, ToolOutcome, tool_options
from budget_cpython.executor.threads import DaemonThreads
from tests.executor.support import PATIENCE_S, eventually, hung, status, stopped_turn, turn

NONE = float("nan")


def read(path: str) -> str:
    return f"text of {path}"


def test_a_completed_tool_has_its_value_and_its_trace() -> None:
    budget, state = turn()
    outcome = BoundedToolExecutor().execute(read, {"path": "a"}, budget, state, trace_id="t")
    assert (outcome.status, outcome.value, outcome.tool_name) == ("completed", "text of a", "read")
    assert (outcome.trace_id, outcome.error, outcome.reason) == ("t", None, "")
    assert not outcome.retryable
    assert not outcome.partial
    assert outcome.latency_ms >= 0
    assert status(state, "t") == "completed"
    assert state.late_receipts == []
    assert budget.snapshot()["tool_calls_used"] == 1


def test_a_tool_runs_in_a_daemon_thread_that_serves_again() -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    threads: list[threading.Thread] = []

    def look() -> None:
        threads.append(threading.current_thread())

    for _ in range(20):
        executor.execute(look, {}, budget, state)
    assert all(thread.daemon for thread in threads)
    assert threading.current_thread() not in threads
    assert len(set(threads)) < 20


def test_a_tool_object_is_called_by_its_name() -> None:
    budget, state = turn()
    tool = Tool("reader", "Reads.", read)
    outcome = BoundedToolExecutor().execute(tool, {"path": "b"}, budget, state)
    assert (outcome.tool_name, outcome.value) == ("reader", "text of b")


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(3)])
def test_what_a_tool_raises_is_in_the_outcome_and_the_trace_is_kept(error: BaseException) -> None:
    budget, state = turn()

    def tool() -> None:
        raise error

    executor = BoundedToolExecutor()
    outcome = executor.execute(tool, {}, budget, state, trace_id="t")
    assert (outcome.status, outcome.error, outcome.value) == ("failed", error, None)
    assert type(error).__name__ in outcome.reason
    assert outcome.retryable
    assert status(state, "t") == "completed"
    assert state.tool_trace["t"].retryable
    assert executor.running == executor.abandoned == 0


def test_wrong_arguments_of_the_model_are_a_failed_call() -> None:
    budget, state = turn()
    outcome = BoundedToolExecutor().execute(read, {"file": "a"}, budget, state)
    assert outcome.status == "failed"
    assert "file" in outcome.reason


def test_a_tool_that_must_not_be_tried_again_says_so() -> None:
    budget, state = turn()

    @tool_options(retryable=False)
    def pay() -> None:
        raise ConnectionError("no answer")

    assert not BoundedToolExecutor().execute(pay, {}, budget, state).retryable


def test_the_callers_arguments_are_not_changed() -> None:
    budget, state = turn()
    given = {"path": "a"}

    @tool_options(cooperative=True)
    def change(token: DeadlineToken, **arguments: Any) -> None:
        arguments.clear()

    BoundedToolExecutor().execute(change, given, budget, state)
    assert given == {"path": "a"}


@pytest.mark.parametrize("bad", [None, [], "x", ("a",)])
def test_arguments_that_are_no_dict_are_refused_by_name(bad: Any) -> None:
    budget, state = turn()
    with pytest.raises(TypeError, match="arguments"):
        BoundedToolExecutor().execute(read, bad, budget, state)
    assert budget.snapshot()["tool_calls_used"] == 0


def test_a_budget_that_threads_may_not_share_is_refused() -> None:
    _, state = turn()
    with pytest.raises(TypeError, match="budget_cpython"):
        BoundedToolExecutor().execute(read, {}, CoreTurnBudget.create(), state)  # type: ignore[arg-type]


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="'read'"):
        BoundedToolExecutor().execute("read", {}, *turn())


def test_an_async_tool_is_refused_with_the_way_out() -> None:
    async def tool() -> None: ...

    with pytest.raises(TypeError, match="execute_async"):
        BoundedToolExecutor().execute(tool, {}, *turn())


def test_a_trace_id_that_is_taken_is_refused_before_anything_is_used() -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    executor.execute(read, {"path": "a"}, budget, state, trace_id="t")
    with pytest.raises(ValueError, match="'t'"):
        executor.execute(read, {"path": "a"}, budget, state, trace_id="t")
    assert budget.snapshot()["tool_calls_used"] == 1
    assert executor.running == 0


@pytest.mark.parametrize("bad", [-1, NONE, "5", True])
@pytest.mark.parametrize("name", ["cap_s", "grace_s", "kill_grace_s"])
def test_a_bad_setting_is_refused_by_name(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=name):
        BoundedToolExecutor(**{name: bad})


@pytest.mark.parametrize("bad", [-1, NONE, "5", 2.5, True])
def test_a_bad_number_of_abandoned_tools_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="max_abandoned"):
        BoundedToolExecutor(max_abandoned=bad)


def test_a_bad_cap_is_refused_where_it_is_given() -> None:
    with pytest.raises(ValueError, match="the cap of read"):
        BoundedToolExecutor(caps={"read": -1})
    with pytest.raises(ValueError, match="cap_s"):
        tool_options(cap_s=-2)
    with pytest.raises(ValueError, match="cap_s"):
        BoundedToolExecutor().execute(read, {}, *turn(), cap_s=-3)


def test_a_tool_that_hangs_is_given_up_and_its_late_result_dropped() -> None:
    budget, state = turn()
    late: list[ToolOutcome] = []
    executor = BoundedToolExecutor(on_late=late.append)
    with hung() as tool:
        outcome = executor.execute(tool, {}, budget, state, 0.02, trace_id="t")
        assert (outcome.status, outcome.value) == ("timed_out", None)
        assert outcome.retryable
        assert "hung" in outcome.reason
        assert "0.020" in outcome.reason
        assert outcome.latency_ms >= 20
        assert status(state, "t") == "timed_out"
        assert (executor.running, executor.abandoned) == (0, 1)
        assert late == []
    eventually(lambda: executor.abandoned == 0)
    assert status(state, "t") == "timed_out_late"
    (receipt,) = state.late_receipts
    assert (receipt.tool_name, receipt.trace_id) == ("hung", "t")
    assert receipt.latency_ms >= outcome.latency_ms
    assert [(one.status, one.value) for one in late] == [("completed", "late")]


def test_a_tool_that_fails_late_leaves_a_receipt_as_well() -> None:
    budget, state = turn()
    late: list[ToolOutcome] = []
    executor = BoundedToolExecutor(on_late=late.append)
    with hung(ValueError("too late")) as tool:
        executor.execute(tool, {}, budget, state, 0.02, trace_id="t")
    eventually(lambda: executor.abandoned == 0)
    assert status(state, "t") == "timed_out_late"
    assert [one.status for one in late] == ["failed"]


def test_the_token_of_a_tool_that_is_given_up_is_cancelled() -> None:
    budget, state = turn()
    told = threading.Event()
    with hung() as tool:

        @tool_options(cooperative=True)
        def run(token: DeadlineToken) -> None:
            token.on_cancel(told.set)
            tool.run()

        BoundedToolExecutor(grace_s=0).execute(run, {}, budget, state, 0.02)
        assert told.wait(PATIENCE_S)


def test_a_cooperative_tool_brings_its_part_in_time() -> None:
    clock, budget, state = stopped_turn()

    @tool_options(cooperative=True)
    def count(token: DeadlineToken) -> int:
        seen = 0
        while not token.is_expired():
            seen += 1
            clock.advance(1_000)
        return seen

    outcome = BoundedToolExecutor(grace_s=30).execute(count, {}, budget, state, 500)
    assert (outcome.status, outcome.partial) == ("completed", True)
    assert outcome.value == 500 - 30


def test_a_cooperative_tool_that_ends_by_itself_is_not_partial() -> None:
    budget, state = turn()
    tool = tool_options(cooperative=True)(lambda token: "all")
    outcome = BoundedToolExecutor().execute(tool, {}, budget, state, 600)
    assert (outcome.value, outcome.partial) == ("all", False)


def test_the_grace_is_a_tenth_of_the_time_at_most() -> None:
    _, budget, state = stopped_turn()
    tool = tool_options(cooperative=True)(lambda token: token.remaining_s())
    left = {
        cap: BoundedToolExecutor(grace_s=20).execute(tool, {}, budget, state, cap).value
        for cap in (100, 500)
    }
    assert left == {100: 90, 500: 480}


def test_a_tool_that_gives_up_at_its_own_deadline_has_timed_out() -> None:
    clock, budget, state = stopped_turn()

    def work() -> None:
        while True:
            Deadline.current().check_or_raise()
            clock.advance(1_000)

    executor = BoundedToolExecutor()
    outcome = executor.execute(tool_options(cooperative=True)(lambda token: work()), {}, budget,
                               state, 500, trace_id="t")  # fmt: skip
    assert outcome.status == "timed_out"
    assert isinstance(outcome.error, DeadlineExceeded)
    assert status(state, "t") == "timed_out"
    assert state.late_receipts == []


def test_another_deadline_that_passes_inside_a_tool_is_a_failure() -> None:
    budget, state = turn()

    def work() -> None:
        Deadline.from_now(-1).check_or_raise()

    outcome = BoundedToolExecutor().execute(work, {}, budget, state, 600)
    assert (outcome.status, type(outcome.error)) == ("failed", DeadlineExceeded)


def test_a_tool_has_the_callers_context_and_its_own_deadline() -> None:
    budget, state = turn()
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")

    def look() -> tuple[str, float]:
        return variable.get(), Deadline.current().remaining_seconds()

    text, left = BoundedToolExecutor().execute(look, {}, budget, state, 200).value
    assert text == "mine"
    assert 100 < left <= 200
    with Deadline.from_now(70).as_current():
        _, left = BoundedToolExecutor().execute(look, {}, budget, state, 200).value
    assert left <= 70
    assert Deadline.current().is_never()


@pytest.mark.parametrize(
    ("explicit", "table", "own", "default", "cap"),
    [
        (100, 200, 300, 400, 100),
        (None, 200, 300, 400, 200),
        (None, ..., 300, 400, 300),
        (None, ..., None, 400, 400),
        (None, None, 300, 400, 600),
        (None, ..., None, None, 600),
        (9_000, ..., None, None, 600),
    ],
)
def test_the_nearest_cap_holds_and_never_outlives_the_turn(
    explicit: Any, table: Any, own: Any, default: Any, cap: float
) -> None:
    _, budget, state = stopped_turn()

    @tool_options(cap_s=own)
    def look() -> float:
        return Deadline.current().remaining_seconds()

    caps = {} if table is ... else {"look": table}
    executor = BoundedToolExecutor(cap_s=default, caps=caps)
    left = executor.execute(look, {}, budget, state, explicit).value
    assert left == cap


def test_the_table_of_caps_is_looked_into_at_each_call() -> None:
    _, budget, state = stopped_turn()
    caps: dict[str, float | None] = {}
    executor = BoundedToolExecutor(caps=caps)
    caps["look"] = 50

    def look() -> float:
        return Deadline.current().remaining_seconds()

    assert executor.execute(look, {}, budget, state).value == 50


def test_late_and_timely_usage_is_settled_once_each() -> None:
    budget, state = turn()
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    told: list[Any] = []
    executor = BoundedToolExecutor(on_usage=told.append)

    class Answer:
        def __init__(self) -> None:
            self.usage = usage

    executor.execute(lambda: {"text": "hi", "usage": usage}, {}, budget, state)
    executor.execute(Answer, {}, budget, state)
    executor.execute(lambda: "no usage", {}, budget, state)
    with hung(Answer()) as tool:
        executor.execute(tool, {}, budget, state, 0.02)
        assert state.input_tokens == 14
        state.close_writes()
    eventually(lambda: executor.abandoned == 0)
    assert (state.input_tokens, state.output_tokens) == (21, 9)
    assert told == [usage] * 3


def test_a_failed_tools_error_may_carry_usage() -> None:
    budget, state = turn()

    class SpentError(Exception):
        usage = {"input_tokens": 5, "output_tokens": 2}

    def tool() -> None:
        raise SpentError

    BoundedToolExecutor().execute(tool, {}, budget, state)
    assert (state.input_tokens, state.output_tokens) == (5, 2)


def test_a_foreign_result_that_raises_when_asked_for_usage_is_no_matter() -> None:
    class Foreign:
        @property
        def usage(self) -> None:
            raise RuntimeError("not for you")

    outcome = BoundedToolExecutor().execute(Foreign, {}, *turn())
    assert outcome.status == "completed"


def test_a_hook_that_raises_breaks_nothing_and_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    budget, state = turn()

    def broken(usage: object) -> None:
        raise ValueError("broken hook")

    executor = BoundedToolExecutor(on_usage=broken)
    for _ in range(2):
        outcome = executor.execute(lambda: {"usage": {"total_tokens": 1}}, {}, budget, state)
        assert outcome.status == "completed"
    assert str(executor.hook_error) == "broken hook"
    assert [line.message.count("raised ValueError") for line in caplog.records] == [1]


def test_the_turn_that_ends_first_drops_what_still_runs() -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    outcomes: list[ToolOutcome] = []
    with hung() as tool:
        thread = threading.Thread(
            target=lambda: outcomes.append(executor.execute(tool, {}, budget, state, trace_id="t"))
        )
        thread.start()
        assert tool.started.acquire(timeout=PATIENCE_S)
        state.close_writes()
    thread.join(PATIENCE_S)
    (outcome,) = outcomes
    assert (outcome.status, outcome.value) == ("timed_out", None)
    assert "turn ended" in outcome.reason
    assert status(state, "t") == "timed_out_late"


def test_a_thread_that_cannot_be_started_is_a_failed_call(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()

    class NoThread(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr("budget_cpython.executor.slots.THREADS", DaemonThreads())
    monkeypatch.setattr("budget_cpython.executor.threads.Thread", NoThread)
    outcome = executor.execute(read, {"path": "a"}, budget, state, trace_id="t")
    assert (outcome.status, executor.running) == ("failed", 0)
    assert "can't start new thread" in outcome.reason
    assert status(state, "t") == "completed"
