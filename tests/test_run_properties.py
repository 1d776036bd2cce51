"""Whatever models, tools, callers and clocks do: no run passes its limits or loses its work."""

import asyncio
import contextlib
import random
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from budget_core.budget import Budget
from budget_core.envelope import Envelope
from budget_core.errors import ProviderError
from budget_core.estimate import estimate_tokens
from budget_core.hold import Hold
from budget_core.middleware import Middleware
from budget_core.operative import Operative
from budget_core.prices import Price
from budget_core.progress import NoProgress
from budget_core.provider import ChatResponse, ToolCall
from budget_core.run import Run
from budget_core.stop import StopRequested
from budget_core.tool import Tool, ToolOutput
from budget_core.turn_state import MAX_REPAIR_ATTEMPTS
from tests_micro.script import TEXT, check_conversation
from tests_micro.support import stopped_clock

MOST_CALLS = 40
ENDS = ("text", "calls", "calls", "calls", "error", "refusal", "cut", "none", "stream", "empty")
WORKS = ("text", "error", "stop", "late", "slow", "cancel", "child", "usage")
PRICES = {"model": Price(10, 100), "cheap": Price(1, 1)}


class Model:
    """Answers at random, keeps to no limit, and remembers what it said."""

    supports_response_deltas = True

    def __init__(self, chance: random.Random, advance: Any) -> None:
        self.chance = chance
        self.advance = advance
        self.said: list[str] = []
        self.results: list[str] = []
        self.calls = self.number = 0

    def get_default_model(self) -> str:
        return "model"

    def word(self, kind: str) -> str:
        """Return a text that no other call has."""
        self.number += 1
        return f"{kind}{self.number:05}"

    async def chat(
        self, messages: Any, tools: Any = None, model: Any = None, max_tokens: int | None = None,
        on_delta: Any = None,
    ) -> Any:  # fmt: skip
        chance = self.chance
        self.calls += 1
        check_conversation(messages)
        self.advance(chance.choice((0, 0, 0, 100, 3_000)))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        end = chance.choice(ENDS) if self.calls < MOST_CALLS else "text"
        if end == "error":
            raise KeyError("lost")
        if end == "refusal":
            raise ProviderError(429, "Slow down.")
        if end == "none":
            return None
        if end == "stream" and on_delta is not None:
            for _ in range(chance.randrange(1, 6)):
                text = self.word("piece")
                self.said.append(text)
                await on_delta(text)
                await asyncio.sleep(0)
            raise ProviderError(200, "It broke off.")
        return self.answer(end, max_tokens)

    def answer(self, end: str, max_tokens: int | None) -> ChatResponse:
        chance = self.chance
        text = None if end == "empty" else self.word("said")
        if text:
            self.said.append(text)
        prompt = chance.randrange(60)
        completion = chance.randrange(1, 60)
        if max_tokens is not None and chance.random() < 0.7:
            completion = min(completion, max_tokens)
        usage: Any = {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }
        usage = chance.choice((usage,) * 6 + (None, {}, {"total_tokens": -5}))
        calls = []
        if end == "calls":
            for number in range(chance.randrange(1, 4)):
                name = chance.choice(("work", "work", "work", "essential", "unknown"))
                good = {"text": self.word("asked")}
                arguments = chance.choice((good, good, good, {"text": 5}, {}, None))
                calls.append(ToolCall(f"c{number}", name, arguments))
        finish = "length" if end == "cut" else "stop"
        return ChatResponse(text, calls, finish, usage)


class Meddler(Middleware):
    """Raises now and then, waits, and declares pauses."""

    def __init__(self, chance: random.Random, advance: Any, rate: float) -> None:
        self.chance = chance
        self.advance = advance
        self.rate = rate

    async def meddle(self, budget: Any) -> None:
        if self.chance.random() > self.rate:
            return
        what = self.chance.randrange(4)
        if what == 0:
            raise StopRequested("Enough.")
        if what == 1:
            raise ValueError("Oops.")
        if what == 2:
            with budget.paused("approval"):
                self.advance(5_000)
                await asyncio.sleep(0)
        else:
            self.advance(1_000)
            await asyncio.sleep(0)

    async def before_llm(self, request: Any, budget: Any) -> None:
        await self.meddle(budget)

    async def after_llm(self, request: Any, response: Any, budget: Any) -> None:
        await self.meddle(budget)

    async def before_tool(self, call: Any, budget: Any) -> None:
        await self.meddle(budget)

    async def after_tool(self, call: Any, result: str, budget: Any) -> None:
        await self.meddle(budget)


class World:
    """One random schedule: a budget, a model, tools, middleware, and somebody who cancels."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.fake, self.clock = stopped_clock()
        self.model = Model(chance, self.advance)
        self.children: list[Run] = []
        self.charged = 0
        self.root = Envelope.open(self.budget(), self.clock)
        self.run = self.operative().begin("What now?", self.root)
        self.task: asyncio.Task[Any] | None = None

    def some(self, *values: Any) -> Any:
        return None if self.chance.random() < 0.6 else self.chance.choice(values)

    def budget(self) -> Budget:
        return Budget(
            max_turns=self.some(0, 1, 2, 3, 5, 9),
            max_tokens=self.some(0, 1, 30, 100, 300, 900),
            max_tokens_per_turn=self.some(1, 10, 40),
            timeout=self.some(0, 1, 5, 20),
            max_tool_calls=self.some(0, 1, 2, 5),
            max_reflections=self.some(0, 1, 2),
            max_calls=self.some({"work": 1}, {"work": 3, "essential": 0}),
            max_nano_usd=self.some(0, 1_000_000, 9_000_000),
            max_context_tokens=self.some(200, 2_000),
            last_call=self.chance.choice((None, 0, 0.1, 0.1, 0.5, 1)),
        )

    def operative(self) -> Operative:
        chance = self.chance
        return Operative(
            self.model,
            [
                Tool("work", "Works.", self.work, TEXT, None, True, True),
                Tool("essential", "Works too.", self.work, TEXT, 60, True, True, True),
            ],
            reflect=self.some(lambda text, budget: chance.choice((None, "Mend it."))),
            stream=chance.random() < 0.5,
            fallback_model=self.some("cheap"),
            stop_when=self.some(NoProgress(2)),
            middleware=[Meddler(chance, self.advance, chance.choice((0, 0, 0.05)))],
            prices=PRICES,
            count_tokens=self.some(estimate_tokens),
            compact=None,
        )

    def advance(self, ms: int) -> None:
        self.fake.advance(ms)
        self.root.changed()

    async def work(self, text: str, token: Any, budget: Any) -> Any:
        kind = self.chance.choice(WORKS)
        if kind == "error":
            raise KeyError(text)
        if kind == "late":
            self.advance(self.chance.choice((500, 5_000)))
            await asyncio.sleep(0)
        if kind == "slow":
            for _ in range(3):
                await asyncio.sleep(0)
        if kind == "cancel" and self.chance.random() < 0.3:
            self.run.cancel("Enough.")
        if kind == "child" and len(self.children) < 4:
            both = [self.operative().begin("Help.", budget.child(self.budget())) for _ in "ab"]
            self.children += both
            await asyncio.gather(*[child.finish() for child in both])
        result = self.model.word("result")
        self.model.results.append(result)
        if kind == "stop":
            return ToolOutput.stop("Done.", result)
        if kind == "usage":
            self.charged += 7
            return ToolOutput(result, usage={"total_tokens": 7})
        return result

    def runs(self) -> list[Run]:
        """Return all runs but those that were cancelled before they began."""
        every = [self.run, *self.children]
        assert all(run.result or not run.budget.turns.used for run in every)
        return [run for run in every if run.result]

    async def play(self) -> None:
        self.task = asyncio.create_task(self.run.finish())
        if self.chance.random() < 0.3:
            for _ in range(self.chance.randrange(60)):
                await asyncio.sleep(0)
            self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        for _ in range(9):  # what was cancelled ends
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}


def check(world: World, holds: list[tuple[int, int, int, int]]) -> None:
    root, result = world.root, world.run.result
    if result is None:  # cancelled before it began
        assert not world.model.calls
        return
    for run in world.runs():
        assert run.result is not None
        check_conversation(run.result.messages)
        assert not run.state.is_accepting_writes()
        check_axes(run.budget)
        assert max(run.state.validation_repair_counts.values(), default=0) <= MAX_REPAIR_ATTEMPTS
    over = sum(max(0, used - held) for held, used, _, _ in holds) + world.charged
    spent = sum(max(0, paid - kept) for _, _, kept, paid in holds)
    assert root.tokens.used == sum(used for _, used, _, _ in holds) + world.charged
    for draw, bound in ((root.tokens, over), (root.nano_usd, spent)):
        assert draw.cap is None or draw.used <= draw.cap + bound
        assert draw.held == 0
    assert root.turns.used == world.model.calls == len(holds)
    assert not root._watchers
    check_work(world)


def check_axes(envelope: Envelope) -> None:
    """Assert that no count that is claimed one by one is above its cap."""
    for draw in (envelope.turns, envelope.tool_calls, envelope.reflections):
        assert draw.cap is None or draw.used <= draw.cap
        assert draw.held == 0
    for name, cap in envelope.budget.max_calls.items():
        assert envelope.calls(name).used <= cap
    assert envelope.tokens.held == envelope.nano_usd.held == 0


def check_work(world: World) -> None:
    """Assert that all that models said and tools returned is in a result."""
    kept = ""
    for run in world.runs():
        assert run.result is not None
        told = [m["content"] for m in run.result.messages if m["role"] == "tool"]
        assert told == [entry["content"] for entry in run.result.tool_results]
        kept += "\n".join([run.result.text] + [str(m["content"]) for m in run.result.messages])
    lost = [text for text in world.model.said if text not in kept]
    # a tool whose run was cancelled has no result, and what comes later is nobody's
    assert [text for text in lost if text.startswith("said")] == []
    assert [text for text in lost if text.startswith("piece")] == []
    assert [text for text in world.model.results if text not in kept] == []


@settings(max_examples=500, deadline=None)
@given(st.integers(0, 1 << 32))
def test_no_schedule_passes_a_limit_loses_work_or_leaves_anything_behind(seed: int) -> None:
    asyncio.run(play(random.Random(seed)))  # noqa: S311 - no secret


async def play(chance: random.Random) -> None:
    holds: list[tuple[int, int, int, int]] = []
    settle = Hold.settle

    def noted(hold: Hold, tokens: int, nano_usd: int, *unclear: str) -> None:
        settle(hold, tokens, nano_usd, *unclear)
        holds.append((hold._tokens, tokens, hold._nano_usd, nano_usd))

    with mock.patch.object(Hold, "settle", noted):
        world = World(chance)
        await world.play()
        check(world, holds)
