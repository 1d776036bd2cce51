"""Tools, results, hooks and callbacks that misbehave: the outcome is kept, the place given back."""

import asyncio
import inspect
import threading
from concurrent import futures
from math import inf
from typing import Any

import pytest

from budget_core import Tool
from budget_cpython.context.deadline import Deadline, DeadlineToken
from budget_cpython.executor import BoundedToolExecutor, ToolOutcome, tool_options
from budget_cpython.turn import TurnBudget, TurnRuntimeState
from tests.executor import tools
from tests.executor.support import PATIENCE_S, eventually, hung, status, stopped_turn, turn
from tests.racing import in_threads
from tests_micro.support import stopped_clock

USAGE = {"input_tokens": 3, "output_tokens": 1}


def say_usage() -> dict[str, Any]:
    return {"usage": USAGE}


async def say_usage_async() -> dict[str, Any]:
    return {"usage": USAGE}


async def fail_without_words() -> None:
    raise tools.WordlessError


async def hide_usage() -> tools.ExitWhenAsked:
    return tools.ExitWhenAsked()


def exits(*_: object) -> None:
    raise SystemExit(3)


def call(executor: BoundedToolExecutor, tool: Any, *given: Any, **options: Any) -> ToolOutcome:
    """Call a tool in the way that its kind needs."""
    if inspect.iscoroutinefunction(tool):
        return asyncio.run(executor.execute_async(tool, *given, **options))
    return executor.execute(tool, *given, **options)


@pytest.mark.parametrize(
    "tool",
    [
        tools.in_thread(tools.fail_without_words),
        tools.fail_without_words,
        fail_without_words,
    ],
    ids=["thread", "process", "task"],
)
def test_an_error_without_words_is_a_failure_by_its_type(tool: Any) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    outcome = call(executor, tool, {}, budget, state, trace_id="t")
    assert (outcome.status, type(outcome.error)) == ("failed", tools.WordlessError)
    assert outcome.reason == "WordlessError"
    assert status(state, "t") == "completed"
    assert executor.running == executor.abandoned == 0


@pytest.mark.parametrize(
    "tool",
    [tools.in_thread(tools.hide_usage), tools.hide_usage, hide_usage],
    ids=["thread", "process", "task"],
)
def test_a_result_that_exits_when_asked_for_usage_is_a_result(tool: Any) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    outcome = call(executor, tool, {}, budget, state, trace_id="t")
    assert (outcome.status, type(outcome.value)) == ("completed", tools.ExitWhenAsked)
    assert status(state, "t") == "completed"
    assert executor.running == executor.abandoned == 0


@pytest.mark.parametrize(
    "tool",
    [say_usage, tools.say_usage, say_usage_async],
    ids=["thread", "process", "task"],
)
def test_a_usage_hook_that_exits_takes_no_outcome_with_it(tool: Any) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor(on_usage=exits)
    outcome = call(executor, tool, {}, budget, state, trace_id="t")
    assert (outcome.status, outcome.value) == ("completed", {"usage": USAGE})
    assert isinstance(executor.hook_error, SystemExit)
    assert status(state, "t") == "completed"
    assert state.input_tokens == 3
    assert executor.running == executor.abandoned == 0


def test_a_late_hook_that_exits_frees_the_place() -> None:
    budget, state = turn()
    executor = BoundedToolExecutor(on_late=exits, on_usage=exits)
    with hung({"usage": USAGE}) as tool:
        assert executor.execute(tool, {}, budget, state, 0.02).status == "timed_out"
    eventually(lambda: executor.abandoned == 0)
    assert isinstance(executor.hook_error, SystemExit)
    assert state.input_tokens == 3
    assert len(state.late_receipts) == 1


def test_a_late_hook_that_exits_frees_a_tasks_place() -> None:
    executor = BoundedToolExecutor(on_late=exits)

    async def main() -> None:
        async def stubborn() -> str:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return "late"
            return "never"

        outcome = await executor.execute_async(stubborn, {}, *turn(), cap_s=0.02)
        assert outcome.status == "timed_out"

    asyncio.run(main())
    assert isinstance(executor.hook_error, SystemExit)
    assert executor.running == executor.abandoned == 0


def test_a_token_callback_that_exits_is_a_hooks_error(begun: threading.Event) -> None:
    executor = BoundedToolExecutor(grace_s=0)
    with hung() as slow:

        @tool_options(cooperative=True)
        def tool(token: DeadlineToken) -> None:
            token.on_cancel(exits)
            begun.set()
            slow.run()

        outcome = executor.execute(tool, {}, *turn(), cap_s=0.05)
        assert outcome.status == "timed_out"
        eventually(lambda: executor.hook_error)
        assert isinstance(executor.hook_error, SystemExit)
    eventually(lambda: executor.abandoned == 0)


def test_a_tasks_token_callback_that_exits_is_a_hooks_error() -> None:
    executor = BoundedToolExecutor(grace_s=0)

    @tool_options(cooperative=True)
    async def tool(token: DeadlineToken) -> None:
        token.on_cancel(exits)
        await asyncio.Event().wait()

    outcome = asyncio.run(executor.execute_async(tool, {}, *turn(), cap_s=0.02))
    assert outcome.status == "timed_out"
    eventually(lambda: executor.hook_error)
    assert isinstance(executor.hook_error, SystemExit)
    assert executor.running == executor.abandoned == 0


class Blocked:
    """A callback that does not return until the test has seen that nobody waits for it."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.gate = threading.Event()
        self.ended = threading.Event()

    def __call__(self) -> None:
        self.began.set()
        assert self.gate.wait(PATIENCE_S)
        self.ended.set()


def test_nobody_waits_for_a_slow_token_callback(begun: threading.Event) -> None:
    callback = Blocked()
    with hung() as slow:

        @tool_options(cooperative=True)
        def tool(token: DeadlineToken) -> None:
            token.on_cancel(callback)
            begun.set()
            slow.run()

        outcome = BoundedToolExecutor(grace_s=0).execute(tool, {}, *turn(), cap_s=0.05)
        assert outcome.status == "timed_out"
        assert callback.began.wait(PATIENCE_S)
        assert not callback.ended.is_set()
        callback.gate.set()
        assert callback.ended.wait(PATIENCE_S)


def test_a_slow_token_callback_does_not_stop_the_loop() -> None:
    callback = Blocked()

    @tool_options(cooperative=True)
    async def tool(token: DeadlineToken) -> None:
        token.on_cancel(callback)
        await asyncio.Event().wait()

    outcome = asyncio.run(BoundedToolExecutor().execute_async(tool, {}, *turn(), cap_s=0.05))
    assert outcome.status == "timed_out"
    assert callback.began.wait(PATIENCE_S)
    assert not callback.ended.is_set()
    callback.gate.set()
    assert callback.ended.wait(PATIENCE_S)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_in_a_task_goes_on_to_the_loop_and_an_exit_does_not(
    kind: type[BaseException],
) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    outcomes: list[ToolOutcome] = []

    async def tool() -> None:
        raise kind

    async def main() -> None:
        outcomes.append(await executor.execute_async(tool, {}, budget, state, trace_id="t"))

    if kind is KeyboardInterrupt:
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
    else:
        asyncio.run(main())
        assert (outcomes[0].status, type(outcomes[0].error)) == ("failed", SystemExit)
    assert status(state, "t") == "completed"
    assert executor.running == executor.abandoned == 0


class Ending(TurnRuntimeState):
    """A state whose tools are completed a while before their threads have their outcome."""

    def __init__(self, session_id: str, budget: TurnBudget) -> None:
        super().__init__(session_id, budget)
        self.ended, self.gate = threading.Event(), threading.Event()

    def complete_trace(self, trace_id: str, latency_ms: int = 0, retryable: bool = False) -> bool:
        written = super().complete_trace(trace_id, latency_ms, retryable)
        self.ended.set()
        assert self.gate.wait(PATIENCE_S)
        return written


def test_a_tool_that_ends_as_its_time_does_has_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    budget, _ = turn()
    state = Ending("session", budget)

    def ends_within(future: futures.Future[Any], seconds: float) -> bool:
        if seconds < inf:
            assert state.ended.wait(PATIENCE_S)
            return False
        state.gate.set()
        return not futures.wait((future,), PATIENCE_S).not_done

    monkeypatch.setattr("budget_cpython.executor.call.ends_within", ends_within)
    outcome = BoundedToolExecutor().execute(lambda: "just in time", {}, budget, state)
    assert state.gate.is_set()
    assert (outcome.status, outcome.value) == ("completed", "just in time"), outcome.reason


def test_a_thread_that_ends_as_its_time_does_has_its_outcome_under_a_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    budget, _ = turn()
    state = Ending("session", budget)

    async def happens(done: asyncio.Event, within_s: float) -> bool:
        while not state.ended.is_set():  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.001)
        asyncio.get_running_loop().call_soon(state.gate.set)
        return False

    monkeypatch.setattr("budget_cpython.executor.call.happens", happens)
    executor = BoundedToolExecutor()
    outcome = asyncio.run(executor.execute_async(lambda: "just in time", {}, budget, state))
    assert (outcome.status, outcome.value) == ("completed", "just in time"), outcome.reason


def test_a_tool_that_hangs_in_a_closed_turn_is_given_up_when_its_time_is_over(
    begun: threading.Event,
) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    outcomes: list[ToolOutcome] = []
    with hung() as slow:

        def tool() -> None:
            state.close_writes()
            begun.set()
            slow.run()

        thread = threading.Thread(
            target=lambda: outcomes.append(executor.execute(tool, {}, budget, state, 0.05)),
            daemon=True,
        )
        thread.start()
        thread.join(PATIENCE_S)
        assert outcomes, "it hangs"
        assert outcomes[0].status == "timed_out"
        assert "did not end within" in outcomes[0].reason
        assert executor.abandoned == 1


def test_what_must_not_be_tried_again_says_so_when_it_times_out() -> None:
    with hung() as slow:
        pay = tool_options(retryable=False)(lambda: slow.run())
        outcome = BoundedToolExecutor().execute(pay, {}, *turn(), cap_s=0.02)
    assert (outcome.status, outcome.retryable) == ("timed_out", False)


def test_the_time_that_a_call_waits_for_its_place_is_part_of_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0]
    asked: list[int] = []

    def clock() -> int:
        read = now[0]
        if threading.current_thread() is thread:
            asked.append(read)
        return read

    monkeypatch.setattr("budget_cpython.executor.call.monotonic_ns", clock)
    executor = BoundedToolExecutor(max_abandoned=1)
    outcomes: list[ToolOutcome] = []
    with hung() as tool:
        slots = executor._slots
        slots.take("first", lambda: 0)
        thread = threading.Thread(
            target=lambda: outcomes.append(executor.execute(tool, {}, *turn(), cap_s=400)),
            daemon=True,
        )
        thread.start()
        eventually(lambda: len(asked) == 2)  # as it was made, and how long it may wait
        assert executor.waiting == 1
        now[0] = 500 * 10**9
        slots.free("first")
        thread.join(PATIENCE_S)
        assert outcomes, "it hangs"
        assert outcomes[0].status == "timed_out"


def test_only_a_cooperative_tool_is_partial(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(future: futures.Future[Any], seconds: float) -> bool:
        return not futures.wait((future,), PATIENCE_S).not_done

    monkeypatch.setattr("budget_cpython.executor.call.ends_within", ends)
    now = [0]
    monkeypatch.setattr("budget_cpython.executor.call.monotonic_ns", lambda: now[0])
    fake, budget, state = stopped_turn()

    def work() -> str:
        fake.advance(2000)
        now[0] += 2 * 10**9
        assert Deadline.current().is_expired()
        return "all"

    outcome = BoundedToolExecutor().execute(work, {}, budget, state, cap_s=1)
    assert (outcome.status, outcome.value, outcome.partial) == ("completed", "all", False)


class Closing(TurnRuntimeState):
    """A state that somebody closes right before a tool would start."""

    def set_trace_running(self, *given: Any) -> bool:
        self.close_writes()
        return super().set_trace_running(*given)


def forbidden() -> None:
    raise AssertionError("it was called")


async def forbidden_async() -> None:
    forbidden()


@pytest.mark.parametrize("tool", [forbidden, forbidden_async])
def test_a_turn_that_ends_as_a_tool_would_start_keeps_its_tool_call(tool: Any) -> None:
    budget, _ = turn()
    executor = BoundedToolExecutor()
    outcome = call(executor, tool, {}, budget, Closing("session", budget))
    assert (outcome.status, outcome.reason) == (
        "denied",
        "the turn is over: it accepts no more writes",
    )
    assert budget.snapshot()["tool_calls_used"] == 0
    assert executor.running == 0


def test_of_calls_with_one_trace_id_one_uses_a_tool_call() -> None:
    executor = BoundedToolExecutor()
    for _ in range(20):
        budget, state = turn()

        def one(budget: TurnBudget = budget, state: TurnRuntimeState = state) -> str:
            try:
                return executor.execute(lambda: 1, {}, budget, state, trace_id="t").status
            except ValueError:
                return "taken"

        assert sorted(in_threads(one, 8)) == ["completed"] + ["taken"] * 7
        assert budget.snapshot()["tool_calls_used"] == 1
    assert executor.running == 0


@pytest.mark.parametrize("way", ["thread", "loop"])
def test_a_tool_that_is_blocked_while_its_call_waits_is_denied(way: str) -> None:
    executor = BoundedToolExecutor(max_abandoned=1)
    budget, state = turn()
    outcomes: list[ToolOutcome] = []
    with hung() as first:
        threads = [
            threading.Thread(target=work, daemon=True)
            for work in (
                lambda: executor.execute(first, {}, *turn()),
                lambda: outcomes.append(
                    call(
                        executor,
                        forbidden if way == "thread" else forbidden_async,
                        {},
                        budget,
                        state,
                    )
                ),
            )
        ]
        threads[0].start()
        assert first.started.acquire(timeout=PATIENCE_S)
        threads[1].start()
        eventually(lambda: executor.waiting)
        state.blocked_tool_names |= {"forbidden", "forbidden_async"}
        first.gate.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert "is blocked" in outcomes[0].reason
    assert budget.snapshot()["tool_calls_used"] == 0


def test_a_deadline_around_a_call_bounds_it() -> None:
    _, clock = stopped_clock()  # nothing has passed when the call begins
    with hung() as tool:
        with Deadline.from_now(0.05, clock).as_current():
            outcome = BoundedToolExecutor().execute(tool, {}, *turn(clock=clock), cap_s=3600)
        assert outcome.status == "timed_out"
        with Deadline.from_now(0).as_current():
            outcome = BoundedToolExecutor().execute(tool, {}, *turn(), cap_s=3600)
        assert (outcome.status, outcome.reason) == ("denied", "hung may take 0 s")


async def test_a_deadline_around_an_async_call_bounds_it() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    _, clock = stopped_clock()
    with Deadline.from_now(0.05, clock).as_current():
        given = turn(clock=clock)
        call = BoundedToolExecutor().execute_async(forever, {}, *given, cap_s=3600)
        assert (await asyncio.wait_for(call, PATIENCE_S)).status == "timed_out"


def test_an_endless_grace_without_a_limit_is_no_matter() -> None:
    budget, state = turn(timeout_s=None)
    tool = tool_options(cooperative=True)(lambda token: token.remaining_s())
    executor = BoundedToolExecutor(grace_s=float("inf"))
    assert executor.execute(tool, {}, budget, state).value == float("inf")
    assert 400 < executor.execute(tool, {}, budget, state, 500).value <= 450


def test_a_token_of_the_models_is_replaced() -> None:
    tool = tool_options(cooperative=True)(lambda token: type(token))
    outcome = BoundedToolExecutor().execute(tool, {"token": "forged"}, *turn())
    assert outcome.value is DeadlineToken


class Later:
    """Something to await that no coroutine function made."""

    def __await__(self) -> Any:
        yield


@pytest.mark.parametrize("way", ["execute", "execute_async"])
def test_a_tool_that_returns_something_to_await_has_failed(way: str) -> None:
    budget, state = turn()
    executor = BoundedToolExecutor()
    tool = Tool("reader", "Reads.", lambda: Later())
    if way == "execute":
        outcome = executor.execute(tool, {}, budget, state, trace_id="t")
    else:
        outcome = asyncio.run(executor.execute_async(tool, {}, budget, state, trace_id="t"))
    assert (outcome.status, type(outcome.error)) == ("failed", TypeError)
    assert "reader returned something to await" in outcome.reason
    assert status(state, "t") == "completed"
