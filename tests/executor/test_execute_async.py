"""Tool calls under a running loop: async tools as tasks, others in threads."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from budget_core import DeadlineExceeded
from budget_cpython.context.deadline import Deadline, DeadlineToken
from budget_cpython.executor import BoundedToolExecutor, ToolOutcome, tool_options
from tests.executor.support import PATIENCE_S, hung, status, stopped_turn, turn
from tests.executor.support import eventually as blocking


async def eventually(condition: Callable[[], Any]) -> None:
    while not condition():  # noqa: ASYNC110 - nothing but time can bring it about
        await asyncio.sleep(0.001)


async def forever() -> None:
    await asyncio.Event().wait()


async def test_an_async_tool_runs_in_the_loops_own_thread() -> None:
    budget, state = turn()

    async def read(path: str) -> tuple[str, threading.Thread]:
        await asyncio.sleep(0)
        return path, threading.current_thread()

    executor = BoundedToolExecutor()
    outcome = await executor.execute_async(read, {"path": "a"}, budget, state, trace_id="t")
    assert outcome.status == "completed"
    assert outcome.value == ("a", threading.current_thread())
    assert status(state, "t") == "completed"
    assert budget.snapshot()["tool_calls_used"] == 1
    assert (executor.running, executor.abandoned) == (0, 0)


async def test_an_object_with_an_async_call_is_async() -> None:
    class Reader:
        name = "reader"

        async def __call__(self, path: str) -> str:
            return path

    outcome = await BoundedToolExecutor().execute_async(Reader(), {"path": "a"}, *turn())
    assert (outcome.status, outcome.value, outcome.tool_name) == ("completed", "a", "reader")


async def test_any_other_tool_runs_in_a_thread_while_the_loop_goes_on() -> None:
    gate = threading.Event()
    executor = BoundedToolExecutor()
    call = asyncio.create_task(executor.execute_async(lambda: gate.wait(PATIENCE_S), {}, *turn()))
    await eventually(lambda: executor.running == 1)
    gate.set()
    outcome = await call
    assert (outcome.status, outcome.value) == ("completed", True)


async def test_what_an_async_tool_raises_is_in_the_outcome() -> None:
    budget, state = turn()

    async def tool() -> None:
        raise LookupError("no")

    outcome = await BoundedToolExecutor().execute_async(tool, {}, budget, state, trace_id="t")
    assert (outcome.status, type(outcome.error)) == ("failed", LookupError)
    assert status(state, "t") == "completed"


async def test_a_cancellation_of_the_tools_own_making_is_a_failure() -> None:
    async def tool() -> None:
        raise asyncio.CancelledError("inner")

    outcome = await BoundedToolExecutor().execute_async(tool, {}, *turn())
    assert (outcome.status, type(outcome.error)) == ("failed", asyncio.CancelledError)


async def test_an_async_tool_that_hangs_is_cancelled_and_has_cleaned_up() -> None:
    budget, state = turn()
    ends: list[str] = []

    async def tool() -> None:
        try:
            await forever()
        finally:
            ends.append("cleaned up")

    executor = BoundedToolExecutor()
    outcome = await executor.execute_async(tool, {}, budget, state, 0.02, trace_id="t")
    assert outcome.status == "timed_out"
    assert ends == ["cleaned up"]
    assert status(state, "t") == "timed_out"
    assert state.late_receipts == []
    assert (executor.running, executor.abandoned) == (0, 0)


async def test_an_async_tool_that_resists_is_abandoned_until_it_ends() -> None:
    budget, state = turn()
    gate = asyncio.Event()
    late: list[ToolOutcome] = []

    async def tool() -> str:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                pass
        return "late"

    executor = BoundedToolExecutor(max_abandoned=1, on_late=late.append)
    outcome = await executor.execute_async(tool, {}, budget, state, 0.02, trace_id="t")
    assert outcome.status == "timed_out"
    assert executor.abandoned == 1
    outcome = await executor.execute_async(tool, {}, budget, state, 0.02)
    assert (outcome.status, outcome.retryable) == ("denied", True)
    gate.set()
    await eventually(lambda: executor.abandoned == 0)
    assert status(state, "t") == "timed_out_late"
    assert [one.value for one in late] == ["late"]


async def test_a_thread_that_hangs_is_abandoned_under_a_loop_as_well() -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    with hung() as tool:
        outcome = await executor.execute_async(tool, {}, budget, state, 0.02, trace_id="t")
        assert (outcome.status, executor.abandoned) == ("timed_out", 1)
    await eventually(lambda: executor.abandoned == 0)
    assert status(state, "t") == "timed_out_late"


@pytest.mark.parametrize("kind", ["task", "thread"])
async def test_who_is_cancelled_cancels_the_tool(kind: str) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    tokens: list[DeadlineToken] = []

    @tool_options(cooperative=True)
    async def task(token: DeadlineToken) -> None:
        tokens.append(token)
        await forever()

    with hung() as slow:

        @tool_options(cooperative=True)
        def thread(token: DeadlineToken) -> None:
            tokens.append(token)
            slow.run()

        tool = task if kind == "task" else thread
        call = asyncio.create_task(executor.execute_async(tool, {}, budget, state, trace_id="t"))
        await eventually(lambda: tokens)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(tokens[0].is_expired)  # a thread of its own tells it
        assert status(state, "t") == "timed_out"
        assert executor.abandoned == (kind == "thread")
    await eventually(lambda: executor.abandoned == 0)


@pytest.mark.parametrize("steps", range(6))
async def test_what_a_tool_returns_as_its_caller_is_cancelled_is_told(steps: int) -> None:
    budget, state = turn()
    ends: list[ToolOutcome] = []
    returned = []

    async def tool() -> str:
        try:
            await asyncio.sleep(0)
            await forever()
        except asyncio.CancelledError:
            returned.append("part")
        return "part"

    executor = BoundedToolExecutor()
    call = asyncio.create_task(
        executor.execute_async(tool, {}, budget, state, trace_id="t", on_end=ends.append)
    )
    for _ in range(steps):
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert [(one.status, one.value) for one in ends] == [("completed", p) for p in returned]
    if steps:
        assert status(state, "t") == ("completed" if ends else "timed_out")
    assert bool(returned) == (steps > 0)
    assert (executor.running, executor.abandoned) == (0, 0)


async def test_an_end_is_told_once_and_a_late_one_is_not() -> None:
    ends: list[ToolOutcome] = []
    late: list[ToolOutcome] = []
    executor = BoundedToolExecutor(on_late=late.append)

    async def tool() -> str:
        return "found"

    def fail() -> None:
        raise LookupError("no")

    for one in (tool, fail):
        await executor.execute_async(one, {}, *turn(), on_end=ends.append)
    with hung() as slow:
        await executor.execute_async(slow, {}, *turn(), 0.02, on_end=ends.append)
    await eventually(lambda: late)
    assert [one.status for one in ends] == ["completed", "failed", "timed_out"]


async def test_a_hook_that_is_false_until_it_is_called_is_called() -> None:
    class Heard(list[ToolOutcome]):
        def __call__(self, outcome: ToolOutcome) -> None:
            self.append(outcome)

    late, given_up = Heard(), Heard()
    with hung() as slow:
        executor = BoundedToolExecutor(on_late=late)
        await executor.execute_async(slow, {}, *turn(), 0.02, on_end=given_up)
        assert [one.status for one in given_up] == ["timed_out"]
    await eventually(lambda: late)


async def test_who_is_cancelled_twice_leaves_nothing_behind() -> None:
    budget, state = turn()
    gate = asyncio.Event()
    resists = asyncio.Event()

    async def tool() -> str:
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                resists.set()
        return "late"

    ends: list[ToolOutcome] = []
    executor = BoundedToolExecutor()
    call = asyncio.create_task(
        executor.execute_async(tool, {}, budget, state, trace_id="t", on_end=ends.append)
    )
    await eventually(lambda: executor.running)
    await asyncio.sleep(0)
    call.cancel()
    await resists.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (status(state, "t"), executor.abandoned) == ("timed_out", 1)
    gate.set()
    await eventually(lambda: executor.abandoned == 0)
    assert (status(state, "t"), ends) == ("timed_out_late", [])


async def test_who_is_cancelled_while_waiting_for_a_place_takes_none() -> None:
    executor = BoundedToolExecutor(max_abandoned=1)
    gate = asyncio.Event()

    async def tool() -> str:
        await gate.wait()
        return "done"

    first = asyncio.create_task(executor.execute_async(tool, {}, *turn()))
    await eventually(lambda: executor.running == 1)
    budget, state = turn()
    second = asyncio.create_task(executor.execute_async(tool, {}, budget, state))
    await eventually(lambda: executor.waiting)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.set()
    assert (await first).value == "done"
    assert executor.running == 0
    assert budget.snapshot()["tool_calls_used"] == 0


async def test_calls_wait_for_places_and_all_get_theirs() -> None:
    executor = BoundedToolExecutor(max_abandoned=2)
    most = 0

    async def tool() -> None:
        nonlocal most
        most = max(most, executor.running)
        await asyncio.sleep(0)

    budget, state = turn()
    calls = [executor.execute_async(tool, {}, budget, state) for _ in range(40)]
    outcomes = await asyncio.gather(*calls)
    assert {outcome.status for outcome in outcomes} == {"completed"}
    assert most == 2


async def test_a_call_that_waits_in_vain_is_denied() -> None:
    executor = BoundedToolExecutor(max_abandoned=1)
    with hung() as tool:
        first = asyncio.create_task(executor.execute_async(tool, {}, *turn()))
        await eventually(lambda: executor.running == 1)
        outcome = await executor.execute_async(forever, {}, *turn(), cap_s=0.02)
        assert outcome.status == "denied"
        assert "no slot became free" in outcome.reason
        tool.gate.set()
        await first


async def test_an_async_tool_has_its_deadline_and_the_callers_context() -> None:
    variable = contextvars.ContextVar("variable", default="none")
    variable.set("mine")

    async def look() -> tuple[str, float]:
        return variable.get(), Deadline.current().remaining_seconds()

    outcome = await BoundedToolExecutor().execute_async(look, {}, *turn(), cap_s=200)
    text, left = outcome.value
    assert text == "mine"
    assert 100 < left <= 200
    assert Deadline.current().is_never()


async def test_an_async_tool_that_gives_up_at_its_own_deadline_has_timed_out() -> None:
    clock, budget, state = stopped_turn()

    @tool_options(cooperative=True)
    async def work(token: DeadlineToken) -> None:
        while True:
            await Deadline.current().async_check_or_raise()
            clock.advance(1_000)

    executor = BoundedToolExecutor()
    outcome = await executor.execute_async(work, {}, budget, state, 500, trace_id="t")
    assert (outcome.status, type(outcome.error)) == ("timed_out", DeadlineExceeded)
    assert status(state, "t") == "timed_out"


async def test_usage_of_async_tools_is_settled() -> None:
    budget, state = turn()

    async def ask() -> dict[str, Any]:
        return {"usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5}}

    await BoundedToolExecutor().execute_async(ask, {}, budget, state)
    assert (state.input_tokens, state.output_tokens) == (4, 1)


def test_a_thread_that_ends_after_its_loop_is_no_matter() -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    with hung() as tool:
        asyncio.run(executor.execute_async(tool, {}, budget, state, 0.02, trace_id="t"))
    blocking(lambda: executor.abandoned == 0)
    assert status(state, "t") == "timed_out_late"
