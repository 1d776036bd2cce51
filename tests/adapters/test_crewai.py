"""CrewAI: LLMs and tools with a budget, in crews of one agent and of several."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_cpython import budget, budgeted, instrument, uninstrument
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall
from tests.adapters.model_cases import ModelCases, World
from tests.adapters.support import (
    bodies,
    counted,
    looks_on,
    names_of,
    run_example,
    tokens,
)

pytest.importorskip("crewai")

import crewai
import openai
from crewai.hooks import register_before_tool_call_hook, unregister_before_tool_call_hook
from crewai.hooks.dispatch import HookAborted
from crewai.llms.base_llm import call_stop_override
from crewai.llms.providers.openai.completion import OpenAICompletion
from crewai.tools import tool as as_tool

from budget_cpython.adapters.frameworks.crewai import ToolBudgetHook

KINDS = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.fixture(autouse=True)
def storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path))


def an_llm(endpoint: ScriptedEndpoint, name: str = "scripted", **options: Any) -> Any:
    options = {"base_url": endpoint.base_url, "max_tokens": 50, "max_retries": 0, **options}
    return crewai.LLM(model=f"openai/{name}", api_key="k", **options)


def ask(llm: Any, is_async: bool = False) -> Any:
    return asyncio.run(llm.acall("Hello?")) if is_async else llm.call("Hello?")


def look() -> str:
    """Look around."""
    return "a tomato"


def pay() -> str:
    """Pay for it."""
    return "paid"


def an_agent(llm: Any, *tools: Callable[..., str], role: str = "cook") -> Any:
    made = [as_tool(function.__name__)(function) for function in tools]
    return crewai.Agent(role=role, goal="Cook.", backstory="A cook.", llm=llm, tools=made)


def a_crew(*agents: Any) -> Any:
    tasks = [
        crewai.Task(description="Look.", expected_output="What is there.", agent=agent)
        for agent in agents
    ]
    return crewai.Crew(agents=list(agents), tasks=tasks)


class Chat(World):
    """LLMs, which hand a stream's text over as a whole."""

    refused = late = HookAborted

    def model(self, name: str, **options: Any) -> Any:
        return an_llm(self.endpoint, name, **options)

    def ask(self, model: Any) -> Any:
        return model.acall("Hello?") if self.is_async else model.call("Hello?")

    def pieces(self, model: Any, most: int = 999) -> list[str]:
        answer = self.ask(model)
        return [self.run(answer) if self.is_async else answer]


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def world(request: Any, endpoint: ScriptedEndpoint) -> World:
    return Chat(endpoint, request.param)


class TestModel(ModelCases):
    """Models of CrewAI."""

    test_a_stream_that_is_left_costs_its_hold = None  # type: ignore[assignment]


def test_a_budgeted_llm_keeps_its_type_and_its_counters(endpoint: ScriptedEndpoint) -> None:
    llm = an_llm(endpoint, temperature=0.5)
    limited = budgeted(llm, "1 calls/day", account="chat")
    assert isinstance(limited, OpenAICompletion)
    assert limited.temperature == 0.5
    ask(limited)
    assert limited.get_token_usage_summary().total_tokens == tokens(endpoint)
    ask(llm)
    with pytest.raises(HookAborted, match="chat has 0 of 1 calls"):
        ask(budgeted(limited, "5 calls"))
    with pytest.raises(ValueError, match="Agent"):
        budgeted(a_crew(an_agent(llm)), "1 calls")


def test_the_limit_of_an_answer_is_lowered_to_what_is_left(endpoint: ScriptedEndpoint) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        limits = {"max_tokens": None, name: 500}
        ask(budgeted(an_llm(endpoint, "long", **limits), "200 tokens"))
        assert 100 < bodies(endpoint)[-1][name] < 200
    ask(budgeted(an_llm(endpoint, "long", max_tokens=None), "200 tokens"))
    assert 100 < bodies(endpoint)[-1]["max_completion_tokens"] < 200


def test_stop_words_of_the_call_stay(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["scripted"] = Reply("A tomato.\nObservation: none")
    llm = budgeted(an_llm(endpoint), "200 tokens")
    with call_stop_override(llm, ["\nObservation:"]):
        assert ask(llm) == "A tomato."


@pytest.mark.feature("notice")
@pytest.mark.feature("reserved final call")
def test_an_agent_is_told_and_answers_in_its_last_call(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["scripted"] = looks_on("look")
    llm = budgeted(an_llm(endpoint), "4 calls", warning_thresholds=(0.5,))
    result = a_crew(an_agent(llm, look)).kickoff()
    assert result.raw == "I saw a tomato."
    assert [names_of(body) for body in bodies(endpoint)] == [["look"]] * 3 + [[]]
    third, last = bodies(endpoint)[2:]
    assert "50% of your agent budget" in third["messages"][-1]["content"]
    assert "last answer" in last["messages"][-1]["content"]
    assert sum("[Budget" in str(one["content"]) for one in last["messages"]) == 1


@pytest.mark.feature("tool withdrawal")
def test_near_a_limit_some_tools_are_withdrawn(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["scripted"] = looks_on("look")
    options: Any = {"tool_strip_threshold": 0.5, "tool_strip_disallow": ("pay",)}
    a_crew(an_agent(budgeted(an_llm(endpoint), "4 calls", **options), look, pay)).kickoff()
    offered = [names_of(body) for body in bodies(endpoint)]
    assert offered == [["look", "pay"], ["look", "pay"], ["look"], []]


@pytest.mark.feature("refusal")
@pytest.mark.feature("retries")
def test_a_refused_crew_is_aborted_once_and_keeps_what_is_done(endpoint: ScriptedEndpoint) -> None:
    asked: list[str] = []
    options: Any = {"on_limit_reached": lambda **said: asked.append(said["scope"])}
    llm = budgeted(an_llm(endpoint), "1 calls", **options)
    crew = a_crew(an_agent(llm), an_agent(llm, role="waiter"))
    with pytest.raises(HookAborted, match="0 of 1 calls"):
        crew.kickoff()
    assert crew.tasks[0].output.raw
    assert crew.tasks[1].output is None
    assert (len(endpoint.requests), len(asked)) == (1, 1)


@pytest.mark.feature("child agents")
def test_all_agents_of_a_crew_draw_on_one_budget(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["second"] = looks_on("look")
    models = [budgeted(an_llm(endpoint, name)) for name in ("scripted", "second")]
    agents = [an_agent(llm, look, role=llm.model) for llm in models]
    with budget("4 calls") as block:
        result = a_crew(*agents).kickoff()
    asked = [(body["model"], names_of(body)) for body in bodies(endpoint)]
    assert asked == [("scripted", ["look"]), *[("second", ["look"])] * 2, ("second", [])]
    assert result.raw == "I saw a tomato."
    assert block.left["calls"] == 0


@pytest.mark.feature("child agents")
def test_a_crew_in_a_tool_draws_on_the_budget_around_it(endpoint: ScriptedEndpoint) -> None:
    def look() -> str:
        """Ask another crew."""
        return str(a_crew(an_agent(budgeted(an_llm(endpoint, "child")))).kickoff().raw)

    def reply(asked: Asked) -> Reply:
        done = asked.messages[-1]["role"] == "tool"
        return Reply("Done." if done else "", () if done else (ScriptedToolCall("look", "{}"),))

    endpoint.scripts["scripted"] = reply
    with budget("9 calls") as block:
        a_crew(an_agent(budgeted(an_llm(endpoint)), look)).kickoff()
    assert [body["model"] for body in bodies(endpoint)] == ["scripted", "child", "scripted"]
    assert block.spent["calls"] == 3


@pytest.fixture
def _instrumented() -> Iterator[None]:
    instrument()
    yield
    uninstrument()


@pytest.mark.usefixtures("_instrumented")
@KINDS
def test_an_llm_and_the_client_inside_it_count_a_call_once(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    with budget("9 calls + 9000 tokens") as block:
        ask(budgeted(an_llm(endpoint)), is_async)
    assert (block.spent["calls"], block.spent["tokens"]) == (1, tokens(endpoint))


@pytest.mark.usefixtures("_instrumented")
@KINDS
def test_what_a_tool_calls_counts_beside_the_llm_that_runs_it(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    def look() -> str:
        """Ask two other models."""
        ask(budgeted(an_llm(endpoint, "llm")))
        client = openai.OpenAI(base_url=endpoint.base_url, api_key="k")
        asked: Any = [{"role": "user", "content": "Hello?"}]
        client.chat.completions.create(model="client", messages=asked)
        return "a tomato"

    endpoint.scripts["scripted"] = looks_on("look")
    schema = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
    llm = budgeted(an_llm(endpoint))
    given = ("Look.", [schema], None, {"look": look})
    with budget("9 calls") as block:
        answer = asyncio.run(llm.acall(*given)) if is_async else llm.call(*given)
    assert answer == "a tomato"
    assert [body["model"] for body in bodies(endpoint)] == ["scripted", "llm", "client"]
    assert block.spent["calls"] == 3


@pytest.fixture
def hooked() -> Iterator[Callable[[Any], None]]:
    """Register hooks for tools until the test is over."""
    hooks: list[Any] = []

    def register(hook: Any) -> None:
        register_before_tool_call_hook(hook)
        hooks.append(hook)

    yield register
    for hook in hooks:
        unregister_before_tool_call_hook(hook)


@pytest.mark.feature("parallel tools")
def test_parallel_tools_do_not_exceed_their_limit(
    endpoint: ScriptedEndpoint, hooked: Callable[[Any], None]
) -> None:
    ran: list[int] = []

    def look(place: int) -> str:
        """Look at a place."""
        ran.append(place)
        return "a tomato"

    def reply(asked: Asked) -> Reply:
        if asked.messages[-1]["role"] == "tool":
            return Reply("I saw a tomato.")
        return Reply(
            "", tuple(ScriptedToolCall("look", f'{{"place": {place}}}') for place in range(5))
        )

    endpoint.scripts["scripted"] = reply
    hooked(ToolBudgetHook("3 tool_calls/day", account="tools"))
    with budget("9 calls + 2 tool_calls") as block:
        result = a_crew(an_agent(budgeted(an_llm(endpoint)), look)).kickoff()
    answers = [one for one in bodies(endpoint)[-1]["messages"] if one["role"] == "tool"]
    assert result.raw == "I saw a tomato."
    assert (len(ran), len(answers)) == (2, 5)
    assert sum("blocked by hook" in one["content"] for one in answers) == 3
    assert block.left["tool_calls"] == 0


@pytest.mark.feature("deadline")
def test_no_tool_runs_after_the_deadline() -> None:
    context = type("Context", (), {"tool_name": "look"})
    with budget("0 s"), pytest.raises(HookAborted, match="deadline"):
        ToolBudgetHook("9 tool_calls")(context)


@pytest.mark.feature("retries")
def test_each_attempt_counts_once(endpoint: ScriptedEndpoint) -> None:
    with budget("9 calls") as block:
        agent = an_agent(budgeted(an_llm(endpoint, "truncated")))
        with pytest.raises(Exception, match=r"(?i)connect"):
            a_crew(agent).kickoff()
    assert len(endpoint.requests) == 1 + agent.max_retry_limit
    assert counted(block, "calls") == len(endpoint.requests)


def test_the_example_answers_in_time() -> None:
    printed = run_example("with_crewai.py")
    assert "used: 6 of 6 calls" in printed
    assert "blocked" in printed
