"""What `3 calls` means round any framework: scenarios, a model that is never done, a report.

The scenarios are those that agent-budget-semantics 0.5.0 names; its wheel has no more of them than
their titles, so what happens in each is written here. The endpoint counts the model's calls. A
module of this folder has a framework, and inherits the tests.
"""

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import pytest

from budget_cpython import budget, budgeted, open_ledger, parse_limits
from scripted_model import ApiError, Asked, Reply, ScriptedEndpoint, ScriptedToolCall
from tests.adapters.support import tokens

MODEL = "gpt-4o-mini"
WORDS = "I have seen enough."
PROMPT = "Look round the house."
UNLIMITED = 99  # a framework's own limit where ours is tried
ENDLESS = 40  # calls after which the model ends by itself what nothing else ends
NO_AGENTS = "a client has no agents"
NOT_REPEATED = "its client does not repeat an attempt that broke off"
AT_ONCE = {"Retry-After": "0", "retry-after-ms": "1"}


@dataclass(frozen=True)
class Scenario:
    """What the model, its provider and its tools do; `calls` reach the model within `limits`."""

    name: str
    rounds: int = ENDLESS  # of tools that the model wants
    side_by_side: int = 1  # tools that it calls at once
    levels: int = 1  # of agents that are the tools of one another
    streams: bool = False
    refuses: bool = False  # the provider refuses the first attempt
    breaks: bool = False  # the first attempt breaks off after it was sent
    found: str = "A tomato."
    system: str = "You look round."
    limits: str = "3 calls"
    raised: str = ""  # the limits that the first tool sets
    calls: int = 3

    def __str__(self) -> str:
        return self.name


SCENARIOS = (
    Scenario("S1", rounds=2),
    Scenario("S2"),
    Scenario("S3", levels=2),
    Scenario("S4", side_by_side=3),
    Scenario("S5", refuses=True),
    Scenario("S6", limits="3 calls + 1_000_000 tokens"),
    Scenario("S7", streams=True),
    Scenario("S8", found="A tomato. " * 5_000),
    Scenario("S9", system="You look round. " * 2_000),
    Scenario("S10", levels=3),
    Scenario("S11", breaks=True),
    Scenario("S12", raised="5 calls", calls=5),
)


@dataclass
class Job:
    """One run of a framework: what it is to do, and what came of it.

    `limit` is the framework's own; without one the run is within our budget.
    """

    endpoint: ScriptedEndpoint
    scenario: Scenario
    limit: int | None = None
    tools: int = 0
    attempts: int = 0
    wanted: tuple[str, ...] = ("ask_", "look")  # parts of the names of tools, the first first
    fixed: dict[str, str] = field(default_factory=dict)  # arguments of tools
    ledger: Any = field(default_factory=lambda: open_ledger("memory:"))
    lock: Any = field(default_factory=threading.Lock)

    def budgeted(self, thing: Any, *limits: str, **options: Any) -> Any:
        """Return a thing with our budget, unless the framework's own limit is tried."""
        return thing if self.limit else budgeted(thing, *limits, **options)

    def look(self, place: str) -> str:
        """Look at a place."""
        with self.lock:
            self.tools += 1
            if self.tools == 1 and self.scenario.raised:
                self.ledger.set_limits("run", parse_limits(self.scenario.raised))
        return self.scenario.found

    def reply(self, asked: Asked) -> Reply:
        """Call tools for as long as there are some, those that are agents first."""
        with self.lock:
            self.attempts += 1
            number = self.attempts
        if number == 1 and self.scenario.refuses:
            raise ApiError(429, "Rate limit reached.", headers=AT_ONCE)
        if number == 1 and self.scenario.breaks:
            raise ConnectionError
        looked = sum(str(message.get("role")) == "tool" for message in asked.messages)
        names = [name for part in self.wanted for name in asked.tools if part in name]
        if not names or number > ENDLESS or looked >= self.scenario.rounds:
            return Reply(WORDS)
        wanted = range(self.scenario.side_by_side if "look" in names[0] else 1)
        calls = [self.call(names[0], asked.tools[names[0]], f"{number}.{one}") for one in wanted]
        return Reply(calls=tuple(calls))

    def call(self, name: str, schema: Any, text: str) -> ScriptedToolCall:
        """Return a call of a tool with a text for each argument that has no fixed one."""
        required = schema.get("required") or list(schema.get("properties", {}))
        given = {one: self.fixed.get(one, f"place {text}") for one in required}
        return ScriptedToolCall(name, json.dumps(given))

    def run(self, work: "Callable[[Job], object]") -> str:
        """Run to the end, and return how that came."""
        try:
            said = work(self)
        except Exception as error:  # noqa: BLE001 - each framework has errors of its own
            return f"raises `{type(error).__name__}`"
        if self.attempts > ENDLESS:
            return "has no end"
        return "answers" if WORDS in str(said) else "ends without an answer"

    def row(self, framework: "Framework", end: str) -> dict[str, Any]:
        """Return this run's row for the page."""
        return {
            "framework": framework.title,
            "version": version(framework.package),
            "limit": framework.limit,
            "with": framework.ours,
            "scenario": "own" if self.limit else self.scenario.name,
            "calls": self.calls,
            "tools": self.tools,
            "end": end,
            "lacks": dict(framework.lacks),
        }

    @property
    def calls(self) -> int:
        """Count the attempts that the provider did not refuse."""
        return self.attempts - self.scenario.refuses


class Framework:
    """How a framework runs an agent that looks round: its own limit of three, and our budget."""

    title: str
    package: str
    limit = ""  # what it is called; empty: there is none
    ours: str  # what has our budget
    lacks: Mapping[str, str] = {}  # why a scenario is not run, by its name
    ended: tuple[int, str]  # the model's calls with its own limit, and how the run ends
    models: tuple[str, ...] = (MODEL,)

    def run(self, job: Job) -> object:
        """Run an agent to its end, and return its answer."""
        raise NotImplementedError


class ThreeCalls:
    """Tests of a framework."""

    framework: Framework

    def report(self, job: Job, end: str, request: Any) -> None:
        """Report a run, for the tables in docs/three_calls.md."""
        report = json.dumps(job.row(self.framework, end))
        request.node.user_properties.append(("three_calls", report))

    @pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
    def test_three_calls_are_three_calls_of_the_model(
        self, scenario: Scenario, endpoint: ScriptedEndpoint, request: Any
    ) -> None:
        if scenario.name in self.framework.lacks:
            pytest.skip(self.framework.lacks[scenario.name])
        job = Job(endpoint, scenario)
        endpoint.scripts |= dict.fromkeys(self.framework.models, job.reply)
        with budget(scenario.limits, ledger=job.ledger, account="run") as block:
            end = job.run(self.framework.run)
        self.report(job, end, request)
        assert job.calls == scenario.calls
        spent, held = block.spent["calls"], block.held.get("calls", 0)
        assert spent + held == scenario.calls
        if "tokens" in scenario.limits:
            assert block.spent["tokens"] == tokens(endpoint)

    def test_its_own_limit_of_three(self, endpoint: ScriptedEndpoint, request: Any) -> None:
        if not self.framework.limit:
            pytest.skip("it has no limit of its own")
        job = Job(endpoint, Scenario("S2"), limit=3)
        endpoint.scripts |= dict.fromkeys(self.framework.models, job.reply)
        end = job.run(self.framework.run)
        self.report(job, end, request)
        assert (job.calls, end) == self.framework.ended
