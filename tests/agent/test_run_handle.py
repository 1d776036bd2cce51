"""A run that is awaited, iterated over, called without a loop, or cancelled."""

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import pytest

from budget_core.agent.budget import Budget as CoreBudget
from budget_core.agent.envelope import Envelope as CoreEnvelope
from budget_cpython import Budget, ChatClient, Deadline, Envelope, Operative, StopReason, Tool
from budget_cpython.agent.parallel import Event
from scripted_model import ScriptedEndpoint
from tests_micro.script import Script

from .support import QUESTION, calls, says


def shout(text: str) -> str:
    return text.upper()


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
SHOUT = Tool("shout", "Shouts.", shout, TEXT)


def test_a_run_is_called_without_a_loop() -> None:
    script = Script(calls(("shout", {"text": "hi"})), says("Done."))
    result = Operative(script, [SHOUT], Budget(max_turns=5)).run_sync(QUESTION)
    assert (result.text, result.completed, result.turns) == ("Done.", True, 2)
    assert [entry["content"] for entry in result.tool_results] == ["HI"]


def test_a_coroutine_like_any_other_is_what_run_returns() -> None:
    operative = Operative(Script(says("Done.")), budget=Budget(max_turns=5))
    assert asyncio.run(operative.run(QUESTION)).text == "Done."


async def awaited(operative: Operative) -> str:
    return (await operative.run(QUESTION)).text


def test_a_run_is_awaited_in_a_loop_and_in_a_task() -> None:
    operative = Operative(Script(says("Done.")), budget=Budget(max_turns=5))

    async def both() -> list[str]:
        result = await asyncio.create_task(operative.run(QUESTION))
        return [await awaited(operative), result.text]

    assert asyncio.run(both()) == ["Done.", "Done."]


def test_run_sync_says_what_to_do_under_a_running_loop() -> None:
    operative = Operative(Script(says("Done.")), budget=Budget(max_turns=5))

    async def within() -> None:
        operative.run_sync(QUESTION)

    with pytest.raises(RuntimeError, match=r"await operative\.run"):
        asyncio.run(within())


def test_the_events_of_a_run_come_in_their_order_and_the_result_with_the_last() -> None:
    script = Script(calls(("shout", {"text": "hi"})), says("Done."))
    told: list[str] = []
    operative = Operative(
        script, [SHOUT], Budget(max_turns=9), on_event=lambda kind, **_: told.append(kind)
    )

    async def watched() -> list[Event]:
        return [event async for event in operative.run(QUESTION)]

    events = asyncio.run(watched())
    kinds = [event.kind for event in events]
    assert kinds == told
    assert kinds == [
        "started",
        *("turn_started", "response", "tool_started", "tool_finished", "turn_completed"),
        *("turn_started", "response", "turn_completed"),
        "completed",
    ]
    assert events[-1].result.text == "Done."
    assert events[1].remaining["turns"] == 8


def test_an_event_says_which_field_it_does_not_have() -> None:
    with pytest.raises(AttributeError, match="no such_field"):
        _ = Event("started", {}).such_field


def test_a_loop_over_events_that_is_left_early_cancels_the_run() -> None:
    hung = asyncio.Event

    async def left() -> Any:
        script = Script(calls(("shout", {"text": "hi"})), lambda request: hung().wait())
        running = Operative(script, [SHOUT], Budget(max_turns=9)).run(QUESTION)
        async with aclosing(running.__aiter__()) as events:
            async for event in events:
                if event.kind == "turn_started" and event.turn == 2:
                    break
        assert len(asyncio.all_tasks()) == 1
        return running.result

    result = asyncio.run(left())
    assert result.reason.kind == StopReason.CANCELLED
    assert [entry["content"] for entry in result.tool_results] == ["HI"]


def test_cancelling_the_handle_ends_the_iteration_with_the_partial_result() -> None:
    async def watched() -> list[Event]:
        script = Script(calls(("shout", {"text": "hi"})), lambda request: asyncio.Event().wait())
        running = Operative(script, [SHOUT], Budget(max_turns=9)).run(QUESTION)
        seen = []
        async for event in running:
            seen.append(event)
            if event.kind == "turn_started" and event.turn == 2:
                running.cancel("the user went away")
        return seen

    last = asyncio.run(watched())[-1]
    assert last.kind == "stopped"
    assert (last.reason.kind, last.reason.reason) == (StopReason.CANCELLED, "the user went away")
    assert "HI" in last.result.text


def test_a_run_is_cancelled_from_another_thread() -> None:
    async def run() -> Any:
        begun = threading.Event()

        async def hang(request: object) -> None:
            begun.set()
            await asyncio.Event().wait()

        running = Operative(Script(hang), budget=Budget(max_turns=9)).run(QUESTION)

        def cancel() -> None:
            begun.wait()
            running.cancel("enough")

        thread = threading.Thread(target=cancel)
        thread.start()
        result = await running
        thread.join()
        return result

    assert asyncio.run(run()).reason.reason == "enough"


def test_a_task_that_is_cancelled_stays_cancelled_and_its_tools_end() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def hang() -> str:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("tool")
        return ""

    async def run() -> Any:
        script = Script(calls(("shout", {"text": "hi"}), ("hang", {})))
        operative = Operative(script, [SHOUT, Tool("hang", "Hangs.", hang)], Budget(max_turns=9))
        running = operative.run(QUESTION)
        task = asyncio.create_task(running)
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1
        return running.result

    result = asyncio.run(run())
    assert ended == ["tool"]
    assert result.reason.kind == StopReason.CANCELLED
    assert [m["role"] for m in result.messages] == ["user", "assistant", "tool", "tool"]
    assert not result.state.is_accepting_writes()


def test_a_budget_of_the_core_is_taken_and_its_envelope_is_not() -> None:
    operative = Operative(Script(says("Done.")))
    assert operative.run_sync(QUESTION, CoreBudget(max_turns=5)).text == "Done."
    with pytest.raises(TypeError, match="must be budget_cpython's"):
        operative.run_sync(QUESTION, CoreEnvelope.open(CoreBudget(max_turns=5)))


def test_what_is_no_budget_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="budget must be a Budget, not 5"):
        Operative(Script(says("Done."))).run_sync(QUESTION, 5)  # type: ignore[arg-type]


def test_an_operative_runs_against_an_endpoint() -> None:
    with ScriptedEndpoint() as endpoint:
        client = ChatClient(endpoint.base_url, "scripted")
        tools = [Tool("list_files", "Lists.", lambda: "a.txt\nb.txt")]
        envelope = Envelope.open(Budget(max_turns=3))
        result = Operative(client, tools).run_sync("What is there?", envelope)
    assert envelope.turns.used == result.usage["turns"] <= 3
    assert result.text


def test_a_run_can_be_awaited_again_and_its_events_go_to_one_loop() -> None:
    async def twice() -> None:
        operative = Operative(Script(says("Done.")), budget=Budget(max_turns=5))
        running = operative.run(QUESTION)
        assert (await running) is (await running)
        with pytest.raises(RuntimeError, match="one loop over them, once"):
            running.__aiter__()
        running = operative.run(QUESTION)
        events = [event async for event in running]
        assert (await running) is events[-1].result

    asyncio.run(twice())


def test_a_run_that_was_left_early_can_still_be_awaited() -> None:
    async def left() -> Any:
        script = Script(calls(("shout", {"text": "hi"})), lambda request: asyncio.Event().wait())
        running = Operative(script, [SHOUT], Budget(max_turns=9)).run(QUESTION)
        async for event in running:
            if event.kind == "tool_finished":
                break
        return await running

    assert asyncio.run(left()).reason.kind == StopReason.CANCELLED


def test_the_deadline_around_a_run_bounds_its_calls() -> None:
    operative = Operative(Script(lambda request: asyncio.Event().wait()), budget=Budget(timeout=60))

    async def within() -> Any:
        with Deadline.from_now(0.05).as_current():
            return await operative.run(QUESTION)

    result = asyncio.run(within())
    assert result.reason.kind == StopReason.TIMEOUT
    assert result.reason.limit <= 50


def test_two_tasks_may_await_one_run() -> None:
    async def both() -> None:
        operative = Operative(Script(says("Done.")), budget=Budget(max_turns=5))
        running = operative.run(QUESTION)

        async def wait() -> Any:
            return await running

        first, second = await asyncio.gather(wait(), wait())
        assert first is second

    asyncio.run(both())
