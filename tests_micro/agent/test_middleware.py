"""How middleware sees, changes and holds up what goes to a model and to tools."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.llm_call import Request
from budget_core.agent.middleware import Middleware
from tests_micro.script import SHOUT, USAGE, calls, play, prepare, says
from tests_micro.support import stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Witness(Middleware):
    """Takes a note of each point, with its own name."""

    def __init__(self, name: str, notes: "list[str]") -> None:
        self.name = name
        self.notes = notes

    def note(self, point: str, budget: "Any") -> None:
        """Take a note."""
        self.notes.append(f"{self.name} {point} {budget.turns.used}")

    def before_llm(self, request: "Any", budget: "Any") -> None:
        """Take a note."""
        self.note("before_llm", budget)

    def after_llm(self, request: "Any", response: "Any", budget: "Any") -> None:
        """Take a note."""
        self.note("after_llm", budget)

    async def before_tool(self, call: "Any", budget: "Any") -> None:
        """Take a note."""
        self.note("before_tool", budget)

    async def after_tool(self, call: "Any", result: str, budget: "Any") -> None:
        """Take a note."""
        self.note("after_tool", budget)


async def test_middleware_is_asked_in_order_before_and_the_other_way_round_after() -> None:
    notes: list[str] = []
    both = [Witness("a", notes), Witness("b", notes)]
    await play(SHOUT, says("Done."), middleware=both)
    assert notes == [
        "a before_llm 0",
        "b before_llm 0",
        "b after_llm 1",
        "a after_llm 1",
        "a before_tool 1",
        "b before_tool 1",
        "b after_tool 1",
        "a after_tool 1",
        "a before_llm 1",
        "b before_llm 1",
        "b after_llm 2",
        "a after_llm 2",
    ]


async def test_middleware_that_does_nothing_changes_nothing() -> None:
    plain = await play(SHOUT, says("Done."))
    played = await play(SHOUT, says("Done."), middleware=[Middleware()])
    assert played.script.sent == plain.script.sent
    assert played.result.messages == plain.result.messages


async def test_a_request_may_be_changed_for_one_call() -> None:
    class Changes(Middleware):
        def before_llm(self, request: "Any", budget: "Any") -> None:
            request.messages.append({"role": "user", "content": "Hurry."})
            request.tools = None
            request.model = "small"
            request.max_tokens = 40
            request.options["temperature"] = 0

    asked: list[Any] = []

    def answer(options: "Any") -> "Any":
        asked.append(options)
        return says("Done.")

    played = await play(
        answer, middleware=[Changes()], budget=Budget(max_tokens_per_turn=50), model="large"
    )
    assert played.script.sent[0][-1]["content"] == "Hurry."
    assert (played.script.offered, played.script.models) == ([None], ["small"])
    assert (played.script.limits, asked[0]["temperature"]) == ([40], 0)
    assert len(played.result.messages) == 2


async def test_a_model_chosen_by_middleware_makes_the_last_call_too() -> None:
    class Chooses(Middleware):
        def before_llm(self, request: "Any", budget: "Any") -> None:
            request.model = "small"

    played = await play(SHOUT, middleware=[Chooses()], budget=Budget(max_turns=2))
    assert played.script.models == ["small", "small"]


async def test_a_request_holds_copies_of_what_it_was_made_of() -> None:
    messages: list[Any] = []
    tools: list[Any] = [{}]
    options: dict[str, Any] = {"temperature": 0}
    request = Request(messages, tools, options=options)
    assert (request.messages, request.tools, request.options) == (messages, tools, options)
    request.messages.append({})
    request.options["seed"] = 1
    assert (messages, options) == ([], {"temperature": 0})
    assert request.tools is not tools
    assert Request([]).tools is None


async def test_a_request_cannot_ask_for_more_tokens_than_there_are() -> None:
    class Greedy(Middleware):
        def before_llm(self, request: "Any", budget: "Any") -> None:
            request.max_tokens = 10_000

    for budget, limit in ((Budget(max_tokens_per_turn=50), 50), (Budget(max_tokens=100), 90)):
        played = await play(says("Done."), middleware=[Greedy()], budget=budget)
        assert played.script.limits == [limit]


async def test_an_answer_may_be_replaced_and_is_counted_as_it_came() -> None:
    class Replaces(Middleware):
        async def after_llm(self, request: "Any", response: "Any", budget: "Any") -> "Any":
            return says(response.content.upper(), usage=None)

    played = await play(says("Done."), middleware=[Replaces()])
    assert (played.result.text, played.result.usage["tokens"]) == ("DONE.", 100)
    assert played.diary.of("response")[0]["response"].content == "Done."
    assert played.diary.of("response")[0]["usage"] == USAGE


async def test_a_call_may_be_changed_answered_and_its_result_replaced() -> None:
    class Deals(Middleware):
        def before_tool(self, call: "Any", budget: "Any") -> "Any":
            if call.name == "shout":
                call.arguments["text"] = "changed"
                return None
            return {"answer": 1}

        def after_tool(self, call: "Any", result: str, budget: "Any") -> "Any":
            return ["x", result] if call.name == "fail" else result + "!"

    three = calls(("shout", {"text": "hi"}), ("whisper", {"text": "A"}), ("fail", {}))
    played = await play(three, says("Done."), middleware=[Deals(), Middleware()])
    assert played.told == ["CHANGED!", '{"answer": 1}!', '["x", "{\\"answer\\": 1}"]']
    assert played.statuses == ["completed", "answered", "answered"]
    assert played.result.usage["tool_calls"] == 1


async def test_arguments_are_checked_before_middleware_sees_a_call() -> None:
    notes: list[str] = []
    played = await play(
        calls(("whisper", {"text": 5})), says("Done."), middleware=[Witness("a", notes)]
    )
    assert played.statuses == ["invalid"]
    assert "a before_tool 1" not in notes
    assert "a after_tool 1" in notes


class Approval(Middleware):
    """Lets a human think about each tool call for six seconds."""

    def __init__(self, fake: "Any", declared: bool) -> None:
        self.fake = fake
        self.declared = declared

    async def before_tool(self, call: "Any", budget: "Any") -> None:
        """Wait for approval."""
        if not self.declared:
            self.fake.advance(6_000)
            return
        with budget.paused("approval"):
            self.fake.advance(6_000)
            await asyncio.sleep(0)
            assert budget.remaining()["time_ms"] is None


async def test_an_approval_that_waits_counts_against_the_timeout() -> None:
    fake, clock = stopped_clock()
    two = calls(("shout", {}), ("shout", {}))
    played = await play(
        two, says("No."), middleware=[Approval(fake, False)], clock=clock, budget=Budget(timeout=10)
    )
    assert played.figures == ("timeout", "ms", 12_000, 10_000, 1_000, "run")
    assert played.statuses == ["completed", "denied"]
    assert played.result.budget.pauses == []


async def test_an_approval_that_is_declared_a_pause_does_not() -> None:
    fake, clock = stopped_clock()
    two = calls(("shout", {}), ("shout", {}))
    played = await play(
        two, says("Yes."), middleware=[Approval(fake, True)], clock=clock, budget=Budget(timeout=10)
    )
    assert (played.result.text, played.result.completed) == ("Yes.", True)
    assert played.result.usage["elapsed_ms"] == 0
    assert played.result.budget.pauses == [{"reason": "approval", "ms": 6_000}] * 2


class Hangs(Middleware):
    """Never comes back from one of the four points, and `pass_by` there lets time pass."""

    def __init__(self, point: str, pass_by: "Callable[[], object] | None" = None) -> None:
        async def hang(*arguments: "Any") -> None:
            if not arguments[-1].closing:
                await asyncio.sleep(0)
                if pass_by is not None:
                    pass_by()
                await asyncio.Event().wait()

        setattr(self, point, hang)


async def test_middleware_that_hangs_is_cancelled_with_the_time_of_the_run() -> None:
    two = calls(("shout", {}), ("shout", {}), text="Let me see.")
    for point, statuses, sent in (
        ("before_llm", [], 1),
        ("after_llm", [], 2),
        ("before_tool", ["denied", "denied"], 2),
        ("after_tool", ["completed", "denied"], 2),
    ):
        fake, clock = stopped_clock()
        hangs = Hangs(point, lambda fake=fake: fake.advance(20))  # type: ignore[misc]
        budget = Budget(timeout=0.1, last_call=0.8)
        played = await play(
            *[two] * (sent - 1), says("Sorry."), middleware=[hangs], budget=budget, clock=clock
        )
        assert (played.reason.kind, played.statuses) == ("timeout", statuses), point
        assert (len(played.script.sent), played.result.text) == (sent, "Sorry."), point
        if sent > 1:
            assert "Let me see." in played.result.messages[1]["content"]


async def test_middleware_that_hangs_ends_with_a_run_that_is_cancelled() -> None:
    for point in ("before_llm", "after_llm", "before_tool", "after_tool"):
        played = prepare(SHOUT, says("No."), middleware=[Hangs(point)])
        task = asyncio.create_task(played.run.finish())
        for _ in range(20):
            await asyncio.sleep(0)
        played.run.cancel("Enough.")
        await task
        assert (played.reason.kind, played.reason.reason) == ("cancelled", "Enough."), point
