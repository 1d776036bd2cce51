"""Tool calls of one answer that run side by side, in threads and as tasks."""

import asyncio
import threading
from itertools import count
from typing import Any

import pytest

from budget_cpython import (
    BoundedToolExecutor,
    Budget,
    Envelope,
    Middleware,
    Operative,
    OperativeResult,
    Price,
    StopReason,
    StopRequested,
    Tool,
    ToolOutput,
)
from budget_cpython.executor import tool_options
from tests.executor.support import PATIENCE_S, eventually, hung
from tests_micro.script import Script
from tests_micro.support import stopped_clock

from .support import QUESTION, calls, says, usage

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def batch(name: str, count: int) -> Any:
    return calls(*[(name, {"n": n}) for n in range(count)])


def contents(result: OperativeResult) -> list[str]:
    return [entry["content"] for entry in result.tool_results]


def statuses(result: OperativeResult) -> list[str]:
    return [entry["status"] for entry in result.tool_results]


def test_tools_in_threads_run_side_by_side() -> None:
    barrier = threading.Barrier(3, timeout=PATIENCE_S)

    def meet(n: int) -> str:
        barrier.wait()
        return f"met {n}"

    operative = Operative(
        Script(batch("meet", 3), says("Done.")), [Tool("meet", "Meets.", meet, NUMBER)], Budget()
    )
    assert contents(operative.run_sync(QUESTION)) == ["met 0", "met 1", "met 2"]


def test_results_stand_in_the_order_of_their_calls_whichever_ends_first() -> None:
    turns = [threading.Event() for _ in range(4)]

    def last_first(n: int) -> str:
        if n < 3:
            assert turns[n + 1].wait(PATIENCE_S)
        turns[n].set()
        return str(n)

    tool = Tool("count", "Counts.", last_first, NUMBER)
    result = Operative(Script(batch("count", 4), says("Done.")), [tool]).run_sync(QUESTION)
    assert contents(result) == ["0", "1", "2", "3"]
    assert [m["tool_call_id"] for m in result.messages if m["role"] == "tool"] == [
        "c0",
        "c1",
        "c2",
        "c3",
    ]


@pytest.mark.parametrize("limits", [{"max_tool_calls": 3}, {"max_calls": {"mark": 3}}])
@pytest.mark.parametrize("kind", ["threads", "tasks"])
def test_a_batch_cannot_slip_past_a_cap(limits: dict[str, Any], kind: str) -> None:
    ran: list[int] = []

    def mark(n: int) -> str:
        ran.append(n)
        return "marked"

    async def mark_async(n: int) -> str:
        await asyncio.sleep(0)
        return mark(n)

    tool = Tool("mark", "Marks.", mark if kind == "threads" else mark_async, NUMBER)
    script = Script(batch("mark", 20), says("Done."))
    result = Operative(script, [tool], Budget(**limits)).run_sync(QUESTION)
    assert sorted(ran) == [0, 1, 2]
    assert statuses(result) == ["completed"] * 3 + ["denied"] * 17
    assert result.usage["tool_calls"] == 3


def test_a_batch_beyond_the_tool_calls_ends_the_run_with_a_last_call() -> None:
    tool = Tool("mark", "Marks.", lambda n: "marked", NUMBER)
    script = Script(batch("mark", 5), says("What there is."))
    result = Operative(script, [tool], Budget(max_tool_calls=3)).run_sync(QUESTION)
    assert result.reason is not None
    assert result.reason.kind == StopReason.TOOL_CALL_LIMIT
    assert (result.reason.used, result.reason.limit) == (5, 3)
    assert (result.text, script.offered[-1]) == ("What there is.", None)


def test_a_tool_that_hangs_in_a_thread_is_left_behind_and_the_others_are_kept() -> None:
    executor = BoundedToolExecutor()
    script = Script(calls(("work", {"n": 0}), ("hang", {}), ("work", {"n": 2})), says("Done."))
    with hung() as slow:
        tools = [
            Tool("work", "Works.", lambda n: f"done {n}", NUMBER),
            Tool("hang", "Hangs.", slow.run, cap_s=0.05),
        ]
        result = Operative(script, tools, Budget(), executor=executor).run_sync(QUESTION)
        assert statuses(result) == ["completed", "timed_out", "completed"]
        assert executor.abandoned == 1
    eventually(lambda: executor.abandoned == 0)
    assert statuses(result)[1] == "timed_out"
    assert result.text == "Done."


def test_what_a_late_tool_used_is_still_counted() -> None:
    free = threading.Event()

    def work() -> ToolOutput:
        assert free.wait(2 * PATIENCE_S)
        return ToolOutput("late", usage=usage(70))

    envelope = Envelope.open(Budget(max_tokens=10_000))
    script = Script(calls(("work", {})), says("Done."))
    operative = Operative(script, [Tool("work", "Works.", work, cap_s=0.02)])
    result = operative.run_sync(QUESTION, envelope)
    assert envelope.tokens.used == 200
    free.set()
    eventually(lambda: envelope.tokens.used == 270)
    assert statuses(result) == ["timed_out"]


def test_what_a_tool_in_a_thread_cost_counts_also_without_tokens() -> None:
    dear = Tool("search", "", lambda: ToolOutput("Found.", usd="0.005"))
    result = Operative(Script(calls(("search", {})), says("Done.")), [dear]).run_sync(QUESTION)
    assert (result.usage["nano_usd"], result.state.missing_counts) == (5_000_000, 0)


def test_a_cooperative_tool_brings_its_part_home() -> None:
    fake, clock = stopped_clock()

    def look(token: Any) -> str:
        for second in range(500):
            if token.is_expired():
                return f"counted for {second} s"
            fake.advance(1_000)
        return "counted on"

    tool = Tool("count", "Counts.", look, cap_s=500, cooperative=True)
    result = Operative(Script(calls(("count", {})), says("Done."))).run_sync(QUESTION)
    assert statuses(result) == ["invalid"]
    operative = Operative(Script(calls(("count", {})), says("Done.")), [tool])
    result = operative.run_sync(QUESTION, Envelope.open(Budget(), clock))
    assert contents(result) == ["counted for 499 s"]


def test_options_of_the_function_hold_beside_the_tools_own() -> None:
    with hung() as slow:
        tool = Tool("hang", "Hangs.", tool_options(cap_s=0.02)(lambda: slow.run()))
        result = Operative(Script(calls(("hang", {})), says("Done.")), [tool]).run_sync(QUESTION)
    assert statuses(result) == ["timed_out"]


def test_a_tool_that_stops_the_run_keeps_what_has_ended_and_cancels_the_rest() -> None:
    ended = threading.Event()

    async def work(n: int) -> str | ToolOutput:
        if n == 2:
            await asyncio.Event().wait()
        if n == 1:
            ended.set()
            return "also done"
        while not ended.is_set():  # noqa: ASYNC110 - of a thread's kind
            await asyncio.sleep(0)
        return ToolOutput.stop("all files are processed", "The answer.")

    script = Script(batch("work", 3))
    result = Operative(script, [Tool("work", "Works.", work, NUMBER)]).run_sync(QUESTION)
    assert result.reason is not None
    assert (result.reason.kind, result.reason.reason) == (
        StopReason.EXPLICIT_STOP,
        "all files are processed",
    )
    assert contents(result) == ["The answer.", "also done", "Error: cancelled"]
    assert statuses(result) == ["completed", "completed", "cancelled"]
    assert (result.text, len(script.sent)) == ("The answer.", 1)


def test_middleware_that_stops_a_batch_keeps_what_had_begun_and_begins_no_more() -> None:
    class Second(Middleware):
        def before_tool(self, call: Any, budget: Any) -> None:
            if call.arguments["n"] == 1:
                raise StopRequested("not that one")

    ran: list[int] = []

    def mark(n: int) -> str:
        ran.append(n)
        return f"marked {n}"

    told: list[tuple[str, str]] = []

    def tell(kind: str, **fields: Any) -> None:
        if kind.startswith("tool"):
            told.append((kind, fields["call"].id))

    operative = Operative(
        Script(batch("mark", 4)),
        [Tool("mark", "Marks.", mark, NUMBER)],
        middleware=[Second()],
        on_event=tell,
    )
    result = operative.run_sync(QUESTION)
    assert ran == [0]
    assert statuses(result) == ["completed", "denied", "denied", "denied"]
    assert told == [
        ("tool_started", "c0"),
        ("tool_started", "c1"),
        ("tool_finished", "c0"),
        ("tool_finished", "c1"),
    ]
    assert [m["role"] for m in result.messages].count("tool") == 4
    assert result.reason is not None
    assert result.reason.reason == "not that one"


def test_three_sub_agents_of_five_under_a_parent_of_ten_spend_ten() -> None:
    again = calls(("think", {}))
    sub = Operative(Script(again), [Tool("think", "Thinks.", lambda: "hm")], Budget(last_call=None))
    tool = sub.as_tool("research", "Researches.", max_turns=5)
    ask = calls(*[("research", {"task": f"part {n}"}) for n in range(3)])
    envelope = Envelope.open(Budget(max_turns=11, last_call=None))
    result = Operative(Script(ask, says("Done.")), [tool]).run_sync(QUESTION, envelope)
    assert envelope.turns.used == 11
    assert statuses(result) == ["completed"] * 3
    assert result.reason is not None
    assert result.reason.kind == StopReason.TURN_LIMIT


def test_sub_agents_side_by_side_never_overspend_the_tokens_they_share() -> None:
    async def answer(request: Any) -> Any:
        await asyncio.sleep(0)
        return says("Found.", 400)

    sub = Operative(Script(answer), count_tokens=lambda messages, tools: 360)
    tool = sub.as_tool("research", "Researches.", max_tokens_per_turn=40)
    ask = calls(*[("research", {"task": f"part {n}"}) for n in range(6)])
    envelope = Envelope.open(Budget(max_tokens=2_000, last_call=None))
    result = Operative(Script(ask, says("Done.")), [tool]).run_sync(QUESTION, envelope)
    assert envelope.tokens.held == 0
    assert envelope.tokens.used <= 2_000
    assert sum("Found." in text for text in contents(result)) >= 4


def test_sub_agents_without_limits_of_their_own_wait_for_each_others_holds() -> None:
    async def answer(request: Any) -> Any:
        await asyncio.sleep(0)
        return says("Found.", 100)

    tool = Operative(Script(answer)).as_tool("research", "Researches.")
    ask = calls(*[("research", {"task": f"part {n}"}) for n in range(5)])
    envelope = Envelope.open(Budget(max_tokens=2_000))
    result = Operative(Script(ask, says("Done.")), [tool]).run_sync(QUESTION, envelope)
    assert contents(result) == ["Found."] * 5
    assert envelope.tokens.used == 700


def test_children_in_threads_and_loops_of_their_own_share_what_there_is() -> None:
    parent = Envelope.open(Budget(max_turns=100, last_call=None))
    again = calls(("think", {}))

    def run() -> None:
        think = Tool("think", "Thinks.", lambda: "hm")
        Operative(Script(again), [think]).run_sync(QUESTION, parent.child())

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE_S)
        assert not thread.is_alive(), "it hangs"
    assert parent.turns.used == 100


def test_one_call_object_given_twice_is_two_calls() -> None:
    numbers = count(1)

    def pay(n: int) -> str:
        return f"receipt {next(numbers)}"

    answer = batch("pay", 1)
    answer.tool_calls *= 2
    result = Operative(Script(answer, says("Done.")), [Tool("pay", "", pay, NUMBER)]).run_sync(
        QUESTION
    )
    assert sorted(contents(result)) == ["receipt 1", "receipt 2"]


def test_a_call_that_has_ended_is_told_before_a_slower_one_ends() -> None:
    told = threading.Event()

    def work(n: int) -> str:
        if n == 1:
            assert told.wait(PATIENCE_S)
        return str(n)

    def tell(kind: str, **fields: Any) -> None:
        if kind == "tool_finished":
            told.set()

    tool = Tool("work", "", work, NUMBER)
    operative = Operative(Script(batch("work", 2), says("Done.")), [tool], on_event=tell)
    assert contents(operative.run_sync(QUESTION)) == ["0", "1"]


def test_middleware_that_stops_after_a_call_cancels_what_still_runs() -> None:
    class First(Middleware):
        def after_tool(self, call: Any, result: str, budget: Any) -> None:
            raise StopRequested("seen enough")

    async def work(n: int) -> str:
        if n == 1:
            await asyncio.Event().wait()
        return "first"

    operative = Operative(
        Script(batch("work", 2)), [Tool("work", "", work, NUMBER)], middleware=[First()]
    )
    result = operative.run_sync(QUESTION)
    assert statuses(result) == ["completed", "cancelled"]
    assert str(result.reason).endswith("seen enough")


def test_a_foreign_result_with_odd_figures_is_a_result() -> None:
    class Foreign:
        usage = usage(30)
        nano_usd = "0.3"

        def __repr__(self) -> str:
            return "foreign"

    envelope = Envelope.open(Budget(max_nano_usd=10**9, last_call=None))
    odd = [Tool("odd", "", Foreign), Tool("disk", "", lambda: {"usage": "df -h"})]
    prices = {"script": Price(0.1, 0.1)}
    script = Script(calls(("odd", {}), ("disk", {})), says("Done."))
    result = Operative(script, odd, prices=prices).run_sync(QUESTION, envelope)
    assert statuses(result) == ["completed", "completed"]
    assert (envelope.tokens.used, envelope.unpriced) == (230, 1)
