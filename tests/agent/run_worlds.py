"""Random worlds for runs: models, tools, middleware, callers and clocks that do as they like."""

import asyncio
import contextlib
import random
from contextvars import ContextVar
from itertools import count
from threading import Lock
from typing import Any

import budget_core
import budget_cpython
from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.llm_call import Admission
from budget_core.agent.middleware import Middleware
from budget_core.agent.no_progress import NoProgress
from budget_core.agent.operative import Operative
from budget_core.agent.run import Run
from budget_core.agent.stop import StopRequested
from budget_core.agent.tool import Tool, ToolOutput
from budget_core.errors import ProviderError
from budget_core.prices import Price
from budget_core.provider import ChatResponse, ToolCall
from budget_core.usage_estimate import estimate_tokens
from budget_cpython.executor import BoundedToolExecutor
from tests_micro.script import TEXT, Script
from tests_micro.support import stopped_clock

MOST_CALLS = 40
PATIENCE_MS = 60_000
ENDS = ("text", "calls", "calls", "calls", "error", "refusal", "cut", "none", "stream", "empty")
WORKS = ("text", "error", "stop", "late", "slow", "cancel", "child", "child", "child", "usage")
PRICES = {"model": Price(10, 100), "cheap": Price(1, 1)}
RUNTIMES: dict[str, Any] = {"core": budget_core, "cpython": budget_cpython}

admitted: ContextVar["Entry"] = ContextVar("admitted")


class Entry:
    """An LLM call: what was set aside for it, what the model was told, said, and was counted."""

    asked: dict[str, Any]
    reported: Any = None

    def __init__(self, hold: Admission) -> None:
        self.envelope = hold.envelope
        self.held = (hold.tokens, hold.nano_usd)
        self.used: list[tuple[int, int]] = []
        self.misfits = [name for name, fits in self._fits() if not fits]

    def _fits(self) -> list[tuple[str, bool]]:
        found = []
        for one in self.envelope.chain():
            for name in ("turns", "tokens", "nano_usd"):
                draw = getattr(one, name)
                kept = 0 if one.closing and one is self.envelope else draw.kept
                promised = draw.used + draw.held + kept
                found.append((name, draw.cap is None or promised <= draw.cap))
        return found

    def over(self) -> tuple[int, int]:
        """Return the tokens and the money that were used beyond what was set aside."""
        [(tokens, nano_usd)] = self.used
        return max(0, tokens - self.held[0]), max(0, nano_usd - self.held[1])


class Model(Script):
    """Answers at random, keeps to no limit, and remembers what it said."""

    def __init__(self, chance: random.Random, advance: Any) -> None:
        super().__init__(self.reply, model="model")
        self.chance = chance
        self.advance = advance
        self.said: list[str] = []
        self._numbers = count(1)

    def word(self, kind: str) -> str:
        """Return a text that no other call has."""
        return f"{kind}{next(self._numbers):05}"

    async def reply(self, request: dict[str, Any]) -> Any:
        """Answer, or fail."""
        chance, entry = self.chance, admitted.get()
        entry.asked = {**request, "messages": list(request["messages"])}
        self.advance(chance.choice((0, 0, 0, 100, 3_000)))
        for _ in range(chance.randrange(3)):
            await asyncio.sleep(0)
        end = chance.choice(ENDS) if len(self.requests) <= MOST_CALLS else "text"
        if end == "error":
            return KeyError("lost")
        if end == "refusal":
            return ProviderError(429, "Slow down.")
        if end == "none":
            return None
        on_delta = request.get("on_delta")
        if end == "stream" and on_delta is not None:
            for _ in range(chance.randrange(1, 6)):
                text = self.word("piece")
                self.said.append(text)
                await on_delta(text)
                await asyncio.sleep(0)
            return ProviderError(200, "It broke off.")
        answer = self.answer(end, request.get("max_tokens"))
        entry.reported = answer.usage
        return answer

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
    """One random schedule: a budget, a model, tools, middleware, and somebody who cancels.

    On CPython tools run side by side, some of them in threads, with loops of their own.
    """

    def __init__(self, runtime: str, chance: random.Random) -> None:
        self.chance = chance
        self.runtime = RUNTIMES[runtime]
        self.in_threads = runtime == "cpython"
        self.salt = chance.random()
        self.fake, self.clock = stopped_clock()
        self._clock_lock = Lock()
        self.model = Model(chance, self.advance)
        self.count_tokens = self.some(estimate_tokens)
        self.returned: list[str] = []
        self.returned_in_threads: list[str] = []
        self.late: list[Any] = []
        self.charged: list[tuple[Envelope, int]] = []
        self.children: list[Run] = []
        self.executors: list[BoundedToolExecutor] = []
        self.beside = chance.choice((0, 0, 0, 2, 4))
        budget = self.budget()
        if self.beside:  # they are to contend for something
            limits = ({"max_tokens": 200}, {"max_tokens": 600}, {"max_nano_usd": 9_000_000})
            budget = budget.replace(**chance.choice(limits))
        self.root: Envelope = self.runtime.Envelope.open(budget, self.clock)
        self.run = self.operative().begin("What now?", self.root)

    def some(self, *values: Any) -> Any:
        return None if self.chance.random() < 0.7 else self.chance.choice(values)

    def budget(self) -> Budget:
        made: Budget = self.runtime.Budget(
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
        return made

    def operative(self) -> Operative:
        chance = self.chance
        more: dict[str, Any] = {}
        if self.in_threads:
            more["executor"] = BoundedToolExecutor(on_late=self.late.append)
            self.executors.append(more["executor"])
        made: Operative = self.runtime.Operative(
            self.model,
            [
                Tool("work", "Works.", self.tool(), TEXT, None, True, True),
                Tool("essential", "Works too.", self.tool(), TEXT, 60, True, True, True),
            ],
            reflect=self.some(lambda text, budget: chance.choice((None, "Mend it."))),
            stream=chance.random() < 0.5,
            fallback_model=self.some("cheap"),
            stop_when=self.some(NoProgress(2)),
            middleware=[Meddler(chance, self.advance, chance.choice((0, 0, 0.05)))],
            prices=PRICES,
            count_tokens=self.count_tokens,
            compact=None,
            **more,
        )
        return made

    def advance(self, ms: int) -> None:
        with self._clock_lock:
            self.fake.advance(ms)
        self.root.changed()

    def tool(self) -> Any:
        threaded = self.in_threads and self.chance.random() < 0.5
        return self.work_in_thread if threaded else self.work

    async def work(self, text: str, token: Any, budget: Any) -> ToolOutput:
        output = await self._work(text, token, budget)
        self.returned.append(output.content)
        return output

    def work_in_thread(self, text: str, token: Any, budget: Any) -> ToolOutput:
        output = asyncio.run(self._work(text, token, budget))
        self.returned_in_threads.append(output.content)
        return output

    async def _work(self, text: str, token: Any, budget: Any) -> ToolOutput:
        # of its own, so that threads do not change what a seed stands for more than they must
        chance = random.Random(f"{text}{self.salt}")  # noqa: S311 - no secret
        kind = chance.choice(WORKS)
        if kind == "error":
            raise KeyError(text)
        if kind == "late":
            self.advance(chance.choice((500, 5_000)))
            await asyncio.sleep(0)
        if kind == "slow":
            for _ in range(3):
                await asyncio.sleep(0)
        if kind == "cancel" and chance.random() < 0.3:
            self.run.cancel("Enough.")
        if kind == "child" and len(self.children) < self.beside + 4:
            both = [self.child(budget) for _ in range(2)]
            for child in both:
                token.on_cancel(child.cancel)
            await asyncio.gather(*[child.finish() for child in both])
        result = self.model.word("result")
        if kind == "stop":
            return ToolOutput.stop("Done.", result)
        if kind == "usage":
            self.charged.append((budget, 7))
            return ToolOutput(result, usage={"total_tokens": 7})
        return ToolOutput(result)

    def child(self, budget: Envelope) -> Run:
        child = self.operative().begin("Help.", budget.child(self.budget()))
        self.children.append(child)
        return child

    def runs(self) -> list[Run]:
        """Return all runs but those that were cancelled before they began."""
        return [run for run in (self.run, *self.children) if run.result]

    async def play(self) -> None:
        task = asyncio.create_task(self.run.finish())
        beside = [asyncio.create_task(self.child(self.root).finish()) for _ in range(self.beside)]
        if self.chance.random() < 0.3:
            for _ in range(self.chance.randrange(60)):
                await asyncio.sleep(0)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await asyncio.gather(*beside)
        for _ in range(9):  # what was cancelled ends
            await asyncio.sleep(0)
        for _ in range(PATIENCE_MS):  # what is in threads takes its time
            if not self.in_threads or not self._is_busy():
                break
            await asyncio.sleep(0.001)
        assert not self._is_busy()

    def _is_busy(self) -> bool:
        threads = sum(one.running + one.abandoned for one in self.executors)
        return threads > 0 or asyncio.all_tasks() != {asyncio.current_task()}
