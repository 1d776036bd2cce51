"""Whatever models, tools, callers and clocks do: no run passes its limits or loses its work."""

import asyncio
import random
from collections import Counter
from unittest import mock

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from budget_core.agent.envelope import Envelope
from budget_core.agent.llm_call import Admission
from budget_core.agent.stop import StopReason
from budget_core.agent.toolbox import CANCELLED
from budget_core.allowance import MAX_REPAIR_ATTEMPTS
from budget_core.turn_state import TIMED_OUT
from budget_core.usage import Usage, read_usage
from tests.agent.run_worlds import PRICES, Entry, World, admitted
from tests_micro.script import check_conversation

SEEN = {"tokens held", "money held", "beyond a hold", "cancelled", "a child", "a tool's usage",
        StopReason.TOKEN_BUDGET, StopReason.COST_LIMIT}  # fmt: skip


@pytest.mark.parametrize(
    ("runtime", "examples", "seen_there"),
    [
        ("core", 100, set()),
        ("cpython", 100, set()),
        pytest.param("core", 1_200, SEEN, marks=pytest.mark.slow),
        pytest.param("cpython", 1_200, {*SEEN, "a thread's result"}, marks=pytest.mark.slow),
    ],
)
def test_no_schedule_passes_a_limit_loses_work_or_leaves_anything_behind(
    runtime: str, examples: int, seen_there: set[str]
) -> None:
    seen: Counter[str] = Counter()

    # a smaller seed is no simpler a world
    @settings(max_examples=examples, deadline=None, phases=set(Phase) - {Phase.shrink})
    @given(st.integers(0, 1 << 32))
    def play_any(seed: int) -> None:
        seen.update(asyncio.run(play(runtime, seed)))

    play_any()
    assert seen_there <= set(seen), "a test that never sees these proves nothing"


async def play(runtime: str, seed: int) -> list[str]:
    """Play one world, check it, and return what was seen in it."""
    entries: list[Entry] = []
    by_hold: dict[Admission, Entry] = {}
    claim, settle = Admission.claim, Admission.settle

    def claimed(hold: Admission) -> Admission | StopReason | None:
        answer = claim(hold)
        if answer is hold:
            entry = by_hold[hold] = Entry(hold)
            entries.append(entry)
            admitted.set(entry)
        return answer

    def settled(hold: Admission, tokens: int, nano_usd: int, *unclear: str) -> None:
        by_hold[hold].used.append((tokens, nano_usd))
        settle(hold, tokens, nano_usd, *unclear)

    with (
        mock.patch.object(Admission, "claim", claimed),
        mock.patch.object(Admission, "settle", settled),
    ):
        world = World(runtime, random.Random(seed))  # noqa: S311 - no secret
        await world.play()
    for entry in entries:
        check_call(world, entry)
    check_limits(world.root, world, entries)
    for run in world.runs():
        check_limits(run.budget, world, entries)
        assert run.result is not None
        check_conversation(run.result.messages)
        repairs = run._toolbox._repairs
        assert max(repairs.values(), default=0) <= MAX_REPAIR_ATTEMPTS
        assert run.state is None or not run.state.is_accepting_writes()
        assert run.state is None or run.state.validation_repair_counts is repairs
    assert world.root.turns.used == len(world.model.requests) == len(entries)
    assert not world.root._watchers
    assert not world.root.queue
    check_work(world)
    return what_was_seen(world, entries)


def check_call(world: World, entry: Entry) -> None:
    """Assert that a call was held for, told its limit, and counted as it was reported."""
    asked, chain, prompt = entry.asked, entry.envelope.chain(), 0
    check_conversation(asked["messages"])
    if world.count_tokens is not None:
        prompt = world.count_tokens(asked["messages"], asked["tools"])
    price, limit = PRICES[asked["model"]], asked.get("max_tokens")
    assert entry.held == (0 if limit is None else prompt + limit, price.cost(prompt, limit or 0))
    caps = [cap for one in chain for cap in (one.tokens.cap, one.nano_usd.cap) if cap is not None]
    assert limit is not None or not caps
    assert entry.misfits == []
    [used] = entry.used
    if read_usage(entry.reported).status == Usage.MEASURED:
        usage = entry.reported
        cost = price.cost(usage["prompt_tokens"], usage["completion_tokens"])
        assert used == (usage["total_tokens"], cost)


def check_limits(envelope: Envelope, world: World, entries: list[Entry]) -> None:
    """Assert that no count is above its cap, but for what calls used beyond their holds."""
    own = [entry for entry in entries if envelope in entry.envelope.chain()]
    charged = sum(tokens for one, tokens in world.charged if envelope in one.chain())
    used = [sum(entry.used[0][axis] for entry in own) for axis in (0, 1)]
    over = [sum(entry.over()[axis] for entry in own) for axis in (0, 1)]
    for draw, counted, bound in (
        (envelope.turns, len(own), 0),
        (envelope.tokens, used[0] + charged, over[0] + charged),
        (envelope.nano_usd, used[1], over[1]),
        (envelope.tool_calls, envelope.tool_calls.used, 0),
        (envelope.reflections, envelope.reflections.used, 0),
    ):
        assert draw.used == counted
        assert draw.cap is None or draw.used <= draw.cap + bound
        assert draw.held == 0
    for name, cap in envelope.budget.max_calls.items():
        assert envelope.calls(name).used <= cap


def check_work(world: World) -> None:
    """Assert that all that models said and tools returned is in a result."""
    kept = ""
    ends: Counter[str] = Counter()
    for run in world.runs():
        assert run.result is not None
        told = [m["content"] for m in run.result.messages if m["role"] == "tool"]
        assert told == [entry["content"] for entry in run.result.tool_results]
        ends.update(entry["status"] for entry in run.result.tool_results)
        kept += "\n".join([run.result.text] + [str(m["content"]) for m in run.result.messages])
    assert [text for text in world.model.said if text not in kept] == []
    # a tool whose run was cancelled has no result, and what a thread returns later is nobody's
    assert [text for text in world.returned if text not in kept] == []
    late = {outcome.value.content for outcome in world.late if outcome.value is not None}
    assert [text for text in world.returned_in_threads if text not in kept] == [
        text for text in world.returned_in_threads if text in late
    ]
    assert len(late) <= ends[CANCELLED] + ends[TIMED_OUT]


def what_was_seen(world: World, entries: list[Entry]) -> list[str]:
    """Return what happened in a world, so that a test can tell that it saw everything."""
    results = [run.result for run in world.runs() if run.result is not None]
    seen = [
        result.reason.kind
        for result in results
        if result.reason is not None and result.reason.axis != "completion tokens"
    ]
    happened = {
        "tokens held": any(entry.held[0] for entry in entries),
        "money held": any(entry.held[1] for entry in entries),
        "beyond a hold": any(entry.held[0] and entry.over()[0] for entry in entries),
        "a child": len(results) > 1,
        "a tool's usage": bool(world.charged),
        "a thread's result": bool(world.returned_in_threads),
    }
    return seen + [name for name, was in happened.items() if was]
