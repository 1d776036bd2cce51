"""How agents use agents, and how whoever began a run steers it."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.operative import Operative
from tests_micro.script import (
    QUESTION,
    SHOUT,
    TOOLS,
    Script,
    calls,
    check_conversation,
    play,
    prepare,
    says,
)
from tests_micro.support import raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELP = calls(("helper", {"task": "Look it up."}))


def helper(*answers: "Any", budget: "Budget | None" = None, **limits: "Any") -> "Any":
    """Return a tool that is an agent with those answers, and its script."""
    script = Script(*answers)
    agent = Operative(script, TOOLS, budget)
    return agent.as_tool("helper", "Helps.", **limits), script


async def test_an_agent_is_a_tool_that_draws_on_the_run_that_calls_it() -> None:
    tool, script = helper(SHOUT, says("42."))
    played = await play(HELP, says("It is 42."), tools=[tool], budget=Budget(max_turns=9))
    assert script.sent[0] == [{"role": "user", "content": "Look it up."}]
    assert (played.told, played.result.text) == (["42."], "It is 42.")
    usage = played.result.usage
    assert (usage["turns"], usage["tokens"], usage["tool_calls"]) == (4, 400, 2)
    assert played.result.turns == 2


async def test_an_agents_own_limits_and_those_of_the_tool_hold_and_it_says_what_it_used() -> None:
    for budget, limits, turns in (
        (Budget(max_turns=2), {}, 2),
        (Budget(max_turns=9), {"max_turns": 2}, 2),
        (None, {"max_turns": 1}, 1),
    ):
        tool, script = helper(SHOUT, budget=budget, **limits)
        played = await play(HELP, says("Done."), tools=[tool])
        assert len(script.sent) == turns
        told = f"[Stopped: turn limit: {turns} of {turns} turns (helper)]\n"
        assert played.told == [told + "What the tools returned:\n- shout: HI"]
        assert (played.result.completed, played.statuses) == (True, ["completed"])


async def test_each_call_has_the_limits_anew_within_what_the_parent_has() -> None:
    tool, script = helper(SHOUT, max_turns=2, last_call=None)
    played = await play(HELP, HELP, says("Done."), tools=[tool], budget=Budget(max_turns=6))
    assert "2 of 2 turns (helper)" in played.told[0]
    assert "5 of 5 turns, and one reserved for the answer" in played.told[1]
    assert (len(script.sent), played.result.usage["turns"]) == (3, 6)
    assert (played.reason.kind, played.result.text) == ("turn_limit", "Done.")


async def test_a_child_leaves_its_parent_the_last_call() -> None:
    tool, script = helper(SHOUT)
    played = await play(HELP, says("So far."), tools=[tool], budget=Budget(max_tokens=1_000))
    assert played.result.usage["tokens"] == 1_000
    assert len(script.sent) == 8
    assert (played.result.text, played.script.offered[-1]) == ("So far.", None)


async def test_a_child_that_is_cut_off_with_its_parents_time_hands_back_its_work() -> None:
    async def hang(asked: "Any") -> None:
        await asyncio.sleep(0)
        fake.advance(20)
        await asyncio.Event().wait()

    fake, clock = stopped_clock()
    tool, _ = helper(calls(("shout", {"text": "hi"}), text="Half of it."), hang)
    budget = Budget(timeout=0.1, last_call=0.8)
    played = await play(HELP, says("Sorry."), tools=[tool], budget=budget, clock=clock)
    assert played.reason.kind == "timeout"
    assert played.told[0].startswith("[Stopped: timeout: ")
    assert played.told[0].endswith("]\nHalf of it.")
    assert played.result.text == "Sorry."


async def test_a_child_ends_with_a_parent_that_is_cancelled() -> None:
    async def cancel(asked: "Any") -> None:
        played.run.cancel("Enough.")
        await asyncio.Event().wait()

    tool, _ = helper(calls(("shout", {}), text="Half of it."), cancel)
    played = prepare(HELP, says("No."), tools=[tool])
    await played.run.finish()
    assert (played.reason.kind, played.reason.reason) == ("cancelled", "Enough.")
    assert played.told == ["[Stopped: cancelled: Enough.]\nHalf of it."]
    check_conversation(played.result.messages)


async def test_an_agent_with_an_envelope_cannot_be_a_tool() -> None:
    agent = Operative(Script(says("Hi.")), (), Envelope.open(Budget()))
    assert "Envelope" in str(raises(ValueError, agent.as_tool, "helper", "Helps."))


async def test_concurrent_children_cannot_overspend_their_parent() -> None:
    parent = Envelope.open(Budget(max_turns=10, last_call=None))
    runs = [
        Operative(Script(SHOUT), TOOLS).begin("?", parent.child(max_turns=5, last_call=None))
        for _ in range(3)
    ]
    results = await asyncio.gather(*[run.finish() for run in runs])
    assert sum([result.turns for result in results]) == parent.turns.used == 10


async def test_concurrent_children_wait_for_tokens_that_others_hold() -> None:
    async def slow(asked: "Any") -> "Any":
        held.append(parent.tokens.held)
        await asyncio.sleep(0)
        return says("Done.")

    held: list[int] = []
    parent = Envelope.open(Budget(max_tokens=250, last_call=0))
    runs = [Operative(Script(slow)).begin("?", parent.child()) for _ in range(4)]
    results = await asyncio.gather(*[run.finish() for run in runs])
    assert held == [250, 150, 50]
    assert parent.tokens.used == 300
    assert [result.reason is None for result in results] == [True, True, True, False]


async def test_a_child_that_waits_for_tokens_can_be_cancelled_and_runs_out_of_time() -> None:
    async def hang(asked: "Any") -> None:
        waiting.set()
        await asyncio.Event().wait()

    waiting = asyncio.Event()
    parent = Envelope.open(Budget(max_tokens=250))
    runs = [Operative(Script(hang)).begin("?", parent.child()) for _ in range(2)]
    tasks = [asyncio.create_task(run.finish()) for run in runs]
    await waiting.wait()
    for _ in range(5):
        await asyncio.sleep(0)
    late = parent.child(timeout=0.02, last_call=None)
    waited = await Operative(Script(hang)).run("?", late)
    assert waited.reason is not None
    assert (waited.reason.kind, waited.turns) == ("timeout", 0)
    runs[1].cancel("Enough.")
    second = await tasks[1]
    runs[0].cancel()
    first = await tasks[0]
    assert (first.turns, second.turns) == (1, 0)
    assert second.reason is not None
    assert second.reason.reason == "Enough."


async def test_a_child_can_be_watched_and_given_more() -> None:
    def watch(kind: str, **fields: "Any") -> None:
        if kind == "turn_started":
            seen.append(fields["remaining"]["turns"])
            if fields["remaining"]["turns"] == 1 and len(seen) < 5:
                child.extend(max_turns=2)

    seen: list[int] = []
    parent = Envelope.open(Budget(max_turns=5, last_call=None))
    child = parent.child(max_turns=2, last_call=None)
    agent = Operative(Script(SHOUT), TOOLS, on_event=watch)
    result = await agent.run("?", child)
    assert seen == [2, 1, 2, 1, 1]
    assert result.reason is not None
    assert (result.reason.kind, result.turns, parent.turns.used) == ("turn_limit", 5, 5)
    assert (result.reason.used, result.reason.limit, result.reason.scope) == (5, 5, "run")


async def test_a_child_can_be_aborted_and_its_work_is_there() -> None:
    async def hang(asked: "Any") -> None:
        waiting.set()
        await asyncio.Event().wait()

    waiting = asyncio.Event()
    parent = Envelope.open(Budget(max_turns=9))
    run = Operative(Script(SHOUT, hang), TOOLS).begin("?", parent.child(name="search"))
    task = asyncio.create_task(run.finish())
    await waiting.wait()
    assert run.budget.remaining()["turns"] == 6
    run.cancel("Too slow.")
    result = await task
    assert result is run.result
    assert (str(result.reason), parent.stopped) == ("cancelled (search): Too slow.", None)
    assert result.text == "What the tools returned:\n- shout: HI"
    assert (result.usage["turns"], parent.turns.used) == (2, 2)


async def test_a_run_can_be_continued_with_what_is_left() -> None:
    budget = Budget(max_turns=4, last_call=None)
    agent = Operative(Script(SHOUT, says("Half."), SHOUT, says("All.")), TOOLS, budget)
    run = agent.begin("?")
    first = await run.finish()
    rest = run.budget.continuation()
    assert rest.remaining()["turns"] == 2
    second = await agent.run(first.messages + [QUESTION], rest)
    assert (first.text, second.text, run.budget.turns.used) == ("Half.", "All.", 4)
    check_conversation(second.messages)


async def test_an_aborted_run_can_be_continued() -> None:
    async def cancel(asked: "Any") -> None:
        run.cancel("Wait.")
        await asyncio.Event().wait()

    agent = Operative(Script(SHOUT, cancel, says("All.")), TOOLS, Budget(max_turns=9))
    run = agent.begin("?")
    first = await run.finish()
    assert first.reason is not None
    second = await agent.run(first.messages + [QUESTION], run.budget.continuation("again"))
    assert (first.reason.kind, second.text) == ("cancelled", "All.")


async def test_children_that_wait_for_each_other_are_served_in_turn() -> None:
    parent = Envelope.open(Budget(max_tokens=500, last_call=None))
    agent = Operative(Script(SHOUT), TOOLS, count_tokens=lambda messages, tools: 10)
    runs = [agent.begin("?", parent.child()) for _ in range(2)]
    first, second = [asyncio.create_task(run.finish()) for run in runs]
    turns = [(await first).turns, (await second).turns]
    assert sum(turns) == 5
    assert min(turns) == 2
    assert parent.queue == []


async def test_a_child_that_stops_waiting_leaves_the_queue() -> None:
    waiting = asyncio.Event()

    async def hang(asked: "Any") -> None:
        waiting.set()
        await asyncio.Event().wait()

    parent = Envelope.open(Budget(max_tokens=500))
    runs = [Operative(Script(hang)).begin("?", parent.child()) for _ in range(3)]
    tasks = [asyncio.create_task(run.finish()) for run in runs]
    await waiting.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(parent.queue) == 2
    waiting.clear()
    tasks[1].cancel()
    runs[0].cancel()
    await tasks[0]
    await waiting.wait()
    runs[2].cancel()
    assert ((await tasks[2]).turns, parent.queue) == (1, [])


async def test_a_child_waits_only_for_those_who_want_the_same() -> None:
    async def hang(asked: "Any") -> None:
        waiting.set()
        await asyncio.Event().wait()

    waiting = asyncio.Event()
    root = Envelope.open(Budget(max_tokens=9_000))
    small, large = root.child(max_tokens=100), root.child(max_tokens=1_000)
    runs = [Operative(Script(hang)).begin("?", small.child()) for _ in range(2)]
    tasks = [asyncio.create_task(run.finish()) for run in runs]
    await waiting.wait()
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(root.queue) == 1
    assert (await Operative(Script(says("Hi."))).run("?", large.child())).completed
    for number in range(2):
        runs[number].cancel()
        await tasks[number]
    assert root.queue == []
