"""Runs that are cancelled, wherever they are: what had ended by then is in the result."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from budget_core.agent.middleware import Middleware
from budget_cpython import Budget, Envelope, Operative, OperativeResult, StopReason, Tool
from tests.executor.support import PATIENCE_S
from tests_micro.script import Script

from .support import QUESTION, calls, says

STEPS = 90
ENOUGH = 200
ENDLESS = [("cancelled", "Error: cancelled"), ("denied", "Error: not called, the run has stopped")]
TRACES = {"completed": "completed", "failed": "completed", "cancelled": "timed_out"}


async def forever(*_: Any, **__: Any) -> Any:
    await asyncio.Event().wait()


class Answers(Middleware):
    """Answers the calls of `asked` itself, and lets the loop go on at every hook."""

    async def before_tool(self, call: Any, budget: Any) -> str | None:
        await asyncio.sleep(0)
        return "by heart" if call.name == "asked" else None

    async def after_tool(self, call: Any, result: str, budget: Any) -> None:
        await asyncio.sleep(0)


class World:
    """A run that never ends by itself, of calls that end one by one, as `ended` has them."""

    def __init__(self) -> None:
        self.ended: dict[str, tuple[str, str]] = {}
        self.heard = False
        asked = calls(
            *(("first", {}), ("fails", {}), ("asked", {}), ("second", {})),
            ("helper", {"task": "x"}),
        )
        tools = [
            Tool("first", "Ends.", self.first),
            Tool("fails", "Fails.", self.fails),
            Tool("asked", "Is never called.", forever),
            Tool("second", "Ends.", self.second),
            Operative(Script(self.child_says, forever)).as_tool("helper", "Helps."),
        ]
        operative = Operative(Script(asked), tools, middleware=[Answers()], on_event=self.on_event)
        self.run = operative.begin(QUESTION, Envelope.open(Budget(max_turns=20)))

    def on_event(self, kind: str, **fields: Any) -> None:
        if kind == "tool_started" and fields["call"].name == "second":
            self.ended["asked"] = ("answered", "by heart")

    async def first(self) -> str:
        return await self.find("first", 12)

    async def second(self) -> str:
        return await self.find("second", 7)

    async def find(self, name: str, steps: int) -> str:
        for _ in range(steps):
            await asyncio.sleep(0)
        self.ended[name] = ("completed", f"what {name} found")
        return f"what {name} found"

    async def fails(self) -> str:
        await asyncio.sleep(0)
        self.ended["fails"] = ("failed", "Error: ValueError: a precise error")
        raise ValueError("a precise error")

    async def child_says(self, request: Any) -> Any:
        await asyncio.sleep(0)
        self.heard = True
        answer = calls(("none", {}))
        answer.content = "the child said"
        return answer

    def check(self, result: OperativeResult) -> None:
        """Check that the result has all that had ended, as the trace has it."""
        found = {one["name"]: (one["status"], one["content"]) for one in result.tool_results}
        trace = {entry.tool_name: entry.status for entry in result.state.tool_trace.values()}
        for name, end in found.items():
            status, content = end
            if name == "helper" and status == "completed":
                assert content.startswith("[Stopped: cancelled")
                assert not self.heard or "the child said" in content
            elif name in self.ended:
                assert end == self.ended[name]
            else:
                assert end in ENDLESS
                assert name != "helper" or not self.heard
            if name in trace:
                assert trace[name] == TRACES[status], name
            else:
                assert status in ("answered", "cancelled", "denied"), name
        assert set(self.ended) <= set(found)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what is cancelled have its time to end, on however slow a machine."""
    monkeypatch.setattr("budget_cpython.executor.call.CLEAN_UP_S", PATIENCE_S)
    monkeypatch.setattr("budget_core.agent.cancellation._CLEAN_UP_S", PATIENCE_S)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", ["task", "run"])
def test_what_had_ended_is_in_the_result_wherever_a_run_is_cancelled(how: str) -> None:
    async def cancelled_after(steps: int) -> World:
        world = World()
        task = asyncio.create_task(world.run.finish())
        for _ in range(steps):
            await asyncio.sleep(0)
        if how == "task":
            task.cancel()
        else:
            world.run.cancel("enough")
        for _ in range(ENOUGH):  # turns of the loop: a machine that stands still takes none
            await asyncio.sleep(0)
        assert task.done(), "it goes on"
        assert len(asyncio.all_tasks()) == 1
        if world.run.result is not None:
            reason = world.run.result.reason
            assert reason is not None
            assert reason.kind == StopReason.CANCELLED
            world.check(world.run.result)
        return world

    for steps in range(STEPS):
        last = asyncio.run(cancelled_after(steps))
    assert set(last.ended) == {"first", "fails", "asked", "second"}
    assert last.heard


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("how", ["task", "run"])
def test_what_a_thread_has_returned_is_not_lost(how: str) -> None:
    async def main() -> None:
        script = Script(calls(("slow", {}), ("quick", {})))
        tools = [Tool("slow", "Hangs.", forever), Tool("quick", "Ends.", lambda: "found")]
        run = Operative(script, tools).begin(QUESTION, Budget(max_turns=5))
        task = asyncio.create_task(run.finish())
        while "completed" not in {one.status for one in run.state.tool_trace.values()}:  # noqa: ASYNC110
            await asyncio.sleep(0)
        if how == "task":
            task.cancel()
        else:
            run.cancel()
        await asyncio.wait({task})
        assert run.result is not None
        ends = [(one["status"], one["content"]) for one in run.result.tool_results]
        assert ends == [("cancelled", "Error: cancelled"), ("completed", "found")]

    for _ in range(20):
        asyncio.run(main())


def test_a_thread_that_hangs_holds_no_cancelled_run_up() -> None:
    gate, ended = threading.Event(), threading.Event()

    async def main() -> OperativeResult:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hang() -> str:
            loop.call_soon_threadsafe(begun.set)
            gate.wait(2 * PATIENCE_S)
            ended.set()
            return "late"

        run = Operative(Script(calls(("hang", {}))), [Tool("hang", "Hangs.", hang)]).run(QUESTION)
        task = asyncio.create_task(run)
        await begun.wait()
        run.cancel()
        result: OperativeResult = await task
        assert not ended.is_set()
        return result

    try:
        result = asyncio.run(main())
    finally:
        gate.set()
    assert [one["status"] for one in result.tool_results] == ["cancelled"]


class Textless:
    def __str__(self) -> str:
        raise ValueError("it has no text")


def of_before(hooks: Any) -> None:
    hooks.before_tool = lambda *_: Textless()


def of_after(hooks: Any) -> None:
    hooks.after_tool = lambda *_: Textless()


@pytest.mark.parametrize("put", [of_before, of_after])
def test_an_error_of_middlewares_text_is_the_reason_itself(put: Callable[[Any], None]) -> None:
    hooks = Middleware()
    put(hooks)
    script = Script(calls(("quick", {})), says("Done."))
    operative = Operative(
        script, [Tool("quick", "Ends.", lambda: "found")], Budget(max_turns=5), middleware=[hooks]
    )
    reason = operative.run_sync(QUESTION).reason
    assert reason is not None
    assert (reason.kind, type(reason.error)) == (StopReason.FAILED, ValueError)
    assert reason.reason == "ValueError: it has no text"


def test_what_has_no_text_is_a_failed_call() -> None:
    script = Script(calls(("quick", {})), says("Done."))
    operative = Operative(script, [Tool("quick", "Ends.", Textless)], Budget(max_turns=5))
    result = operative.run_sync(QUESTION)
    ends = [(one["status"], one["content"]) for one in result.tool_results]
    assert (result.text, ends) == ("Done.", [("failed", "Error: ValueError: it has no text")])


def test_what_a_thread_has_returned_becomes_a_text_once_in_that_thread() -> None:
    made_by: list[threading.Thread] = []

    class Large:
        def __str__(self) -> str:
            made_by.append(threading.current_thread())
            return "found"

    script = Script(calls(("quick", {})), says("Done."))
    operative = Operative(script, [Tool("quick", "Ends.", Large)], Budget(max_turns=5))
    assert operative.run_sync(QUESTION).tool_results[0]["content"] == "found"
    assert [thread.name for thread in made_by] == ["microbudget-tool"]


def test_what_a_tool_draws_on_is_stopped_with_its_call() -> None:
    handed: list[Any] = []

    async def draw(budget: Any) -> str:
        handed.append(budget)
        assert budget.why_stopped() is None
        return "found"

    tool = Tool("draw", "Draws.", draw, draws=True)
    script = Script(calls(("draw", {})), says("Done."))
    result = Operative(script, [tool], Budget(max_turns=5)).run_sync(QUESTION)
    assert [one["status"] for one in result.tool_results] == ["completed"]
    assert handed[0].why_stopped() is not None
