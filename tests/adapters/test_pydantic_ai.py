"""pydantic-ai within a budget: its models, streams, tools and agents."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from budget_core.repeats import RepeatedCallError
from budget_cpython import BudgetExceededError, DeadlineExceeded, budget, budgeted, open_ledger
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall, ScriptedUsage
from tests.adapters.model_cases import LIMIT, ModelCases, World
from tests.adapters.support import run_example

pytest.importorskip("pydantic_ai")

import openai
from pydantic_ai import Agent, ModelRetry, RunContext, capture_run_messages
from pydantic_ai.exceptions import (
    UsageLimitExceeded,
    UserError,
)
from pydantic_ai.messages import BinaryContent, ModelResponse, TextPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from budget_cpython.adapters.frameworks.pydantic_ai import BudgetedModel, ToolBudgetCapability

CLIENTS: list[Any] = []


def finish(work: Any) -> Any:
    """Run a coroutine, and close the clients that it used in its own event loop."""

    async def main() -> Any:
        try:
            return await work
        finally:
            while CLIENTS:
                await CLIENTS.pop().close()

    return asyncio.run(main())


def model(
    endpoint: ScriptedEndpoint,
    name: str = "scripted",
    *,
    responses: bool = False,
    retries: int = 0,
    base_url: str = "",
    **options: Any,
) -> Any:
    url = base_url or endpoint.base_url
    client = openai.AsyncOpenAI(base_url=url, api_key="key", max_retries=retries)
    CLIENTS.append(client)
    kind = OpenAIResponsesModel if responses else OpenAIChatModel
    return kind(name, provider=OpenAIProvider(openai_client=client), **options)


class Runs(World):
    """Runs of an agent that has a model."""

    refused = late = UsageLimitExceeded

    def model(self, name: str, **options: Any) -> Any:
        options.pop("stream", None)
        return model(self.endpoint, name, settings={"max_tokens": LIMIT}, **options)

    def ask(self, model: Any) -> Any:
        return Agent(model).run("Hello?")

    def pieces(self, model: Any, most: int = 999) -> list[str]:
        return list(finish(read(Agent(model), most)))

    def run(self, work: Any) -> Any:
        return finish(work)


@pytest.fixture
def world(endpoint: ScriptedEndpoint) -> World:
    return Runs(endpoint)


class TestModel(ModelCases):
    """Models of pydantic-ai."""


@pytest.mark.feature("refusal")
def test_questions_about_other_images_are_not_repeats() -> None:
    said = FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("A tomato.")]))
    agent = Agent(budgeted(said, "99 calls", repeats=2))

    def ask(image: bytes) -> None:
        asyncio.run(agent.run(["What is this?", BinaryContent(image, media_type="image/png")]))

    ask(b"one")
    ask(b"two")
    with pytest.raises(UsageLimitExceeded) as refused:
        ask(b"two")
    assert isinstance(refused.value.__cause__, RepeatedCallError)


def search(query: str) -> str:
    """Search for something."""
    return f"found {query}"


def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def run(agent: Any, **options: Any) -> Any:
    return finish(agent.run("Hello?", **options))


def searching(times: int, usage: ScriptedUsage | None = None) -> Callable[[Asked], Reply]:
    """Reply as a model that searches some times, while it is offered the tool, then answers."""

    def reply(asked: Asked) -> Reply:
        done = sum(message["role"] == "tool" for message in asked.messages)
        if done < times and "search" in asked.tools:
            return Reply(calls=(ScriptedToolCall("search", f'{{"query": "{done}"}}'),), usage=usage)
        return Reply("That is all.", usage=ScriptedUsage(100, 10))

    return reply


def texts(request: Any) -> list[str]:
    """Return the texts of a request's messages, of chat completions or of responses."""
    messages = request.body.get("messages") or request.body["input"]
    return [message.get("content") or "" for message in messages]


def results(messages: Any) -> list[str]:
    """Return what tools have answered."""
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if part.part_kind == "tool-return"]


@pytest.mark.parametrize("responses", [False, True])
def test_a_request_counts_what_the_provider_reports(
    endpoint: ScriptedEndpoint, responses: bool
) -> None:
    endpoint.scripts["short"] = Reply("Hello.", usage=ScriptedUsage(100, 10, cached=40))
    agent = Agent(budgeted(model(endpoint, "short", responses=responses)))
    with budget("9 calls + 1000 tokens") as block:
        assert run(agent).output == "Hello."
    assert (block.spent["calls"], block.spent["tokens"]) == (1, 110)


@pytest.mark.feature("notice")
@pytest.mark.parametrize("responses", [False, True])
def test_the_model_is_told_in_one_call_and_its_history_stays_as_it_is(
    endpoint: ScriptedEndpoint, responses: bool
) -> None:
    endpoint.scripts["searching"] = searching(3)
    first = model(endpoint, "searching", responses=responses)
    own = budgeted(first, "9 calls", warning_thresholds=(0.2,))
    result = run(Agent(own, instructions="Be brief.", tools=[search]))
    told = [[text[:7] == "[Budget" for text in texts(one)] for one in endpoint.requests]
    assert [sum(one) for one in told] == [0, 0, 1, 0]
    assert told[2][-1]
    assert "[Budget" not in str(result.all_messages())
    for request in endpoint.requests:
        assert "Be brief." in str(request.body)


@pytest.mark.feature("tool withdrawal")
@pytest.mark.parametrize("responses", [False, True])
def test_near_the_limit_tools_are_no_longer_offered(
    endpoint: ScriptedEndpoint, responses: bool
) -> None:
    endpoint.scripts["searching"] = searching(9)
    first = model(endpoint, "searching", responses=responses)
    own = budgeted(first, "9 calls", tool_strip_threshold=0.2)
    settings: Any = {"parallel_tool_calls": True}
    result = run(Agent(own, tools=[search, pay], model_settings=settings))
    assert result.output == "That is all."
    assert [len(one.body.get("tools") or ()) for one in endpoint.requests] == [2, 2, 0]
    assert not {"tool_choice", "parallel_tool_calls"} & endpoint.requests[-1].body.keys()


@pytest.mark.feature("tool withdrawal")
def test_only_the_named_tools_are_withdrawn_and_an_output_s_tool_stays(
    endpoint: ScriptedEndpoint,
) -> None:
    endpoint.scripts["structured"] = Reply(
        calls=(ScriptedToolCall("final_result", '{"response": 5}'),)
    )
    options: Any = {"tool_strip_threshold": 0, "tool_strip_disallow": ("pay",)}
    own = budgeted(model(endpoint, "structured"), "9 calls", **options)
    assert run(Agent(own, tools=[search, pay], output_type=int)).output == 5
    own = budgeted(model(endpoint, "structured"), "9 calls", tool_strip_threshold=0)
    assert run(Agent(own, tools=[search, pay], output_type=int)).output == 5
    names = [{tool["function"]["name"] for tool in one.body["tools"]} for one in endpoint.requests]
    assert names == [{"search", "final_result"}, {"final_result"}]


@pytest.mark.feature("tool withdrawal")
def test_an_anthropic_model_keeps_its_tools_and_may_not_call_them() -> None:
    seen: list[Any] = []

    class Claude(FunctionModel):  # type: ignore[misc, unused-ignore]
        system = "anthropic"

    def reply(messages: Any, info: Any) -> ModelResponse:
        seen.append((len(info.function_tools), info.model_settings))
        return ModelResponse(parts=[TextPart("That is all.")])

    own = budgeted(Claude(reply), "9 calls", tool_strip_threshold=0)
    thinking = {"type": "enabled", "budget_tokens": 3000}
    settings: Any = {"anthropic_thinking": thinking, "max_tokens": 4000}
    with budget("2500 tokens", tool_strip_threshold=None):
        run(Agent(own, tools=[search], model_settings=settings))
    ((tools, sent),) = seen
    assert tools == 1
    assert sent["extra_body"] == {"tool_choice": {"type": "none"}}
    assert 1100 < sent["max_tokens"] < 2500
    assert 1024 <= sent["anthropic_thinking"]["budget_tokens"] < sent["max_tokens"]
    assert thinking["budget_tokens"] == 3000


@pytest.mark.feature("fallback")
def test_a_cheaper_model_takes_over(endpoint: ScriptedEndpoint) -> None:
    own = budgeted(model(endpoint, "gpt-4"), "$0.0001", fallback_model="gpt-4o-mini")
    run(Agent(own, model_settings={"max_tokens": 100}))
    assert [one.body["model"] for one in endpoint.requests] == ["gpt-4o-mini"]


@pytest.mark.feature("reserved final call")
def test_a_run_ends_with_an_answer_for_which_a_part_was_kept(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(99)
    own = budgeted(model(endpoint, "searching"), "1000 tokens", max_tokens=100)
    assert run(Agent(own, tools=[search])).output == "That is all."
    last = endpoint.requests[-1]
    assert "tools" not in last.body
    assert texts(last)[-1].startswith("[Budget")


@pytest.mark.feature("refusal")
@pytest.mark.parametrize("streams", [False, True])
def test_a_refusal_ends_the_run_with_its_partial_work(
    endpoint: ScriptedEndpoint, streams: bool
) -> None:
    endpoint.scripts["searching"] = searching(9, usage=ScriptedUsage(900, 200))
    own = budgeted(model(endpoint, "searching"), "1000 tokens", max_tokens=10)
    agent = Agent(own, tools=[search])
    left = pytest.raises(UsageLimitExceeded, match=r"0 of 1,?000 tokens")
    with capture_run_messages() as messages, left as refused:
        finish(read(agent)) if streams else run(agent)
    assert isinstance(refused.value.__cause__, BudgetExceededError)
    assert results(messages) == ["found 0"]
    assert len(endpoint.requests) == 1


@pytest.mark.feature("refusal")
def test_its_own_usage_limits_hold_beside_the_budget(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(9)
    agent = Agent(budgeted(model(endpoint, "searching"), "9 calls"), tools=[search])
    ended = pytest.raises(UsageLimitExceeded, match="request_limit of 2")
    with budget("9 calls") as block, ended as refused:
        run(agent, usage_limits=UsageLimits(request_limit=2))
    assert refused.value.__cause__ is None
    assert block.spent["calls"] == 2


@pytest.mark.parametrize("of", ["model", "agent"])
def test_a_limit_of_the_answer_is_lowered_to_what_is_left(
    endpoint: ScriptedEndpoint, of: str
) -> None:
    settings: Any = {"max_tokens": 5000}
    first = model(endpoint, settings=settings if of == "model" else None)
    run(Agent(budgeted(first, "300 tokens"), model_settings=settings if of == "agent" else None))
    (request,) = endpoint.requests
    assert 200 < request.body["max_completion_tokens"] < 300


def test_a_limit_below_what_is_left_stays(endpoint: ScriptedEndpoint) -> None:
    first = model(endpoint, settings={"max_tokens": 30})
    run(Agent(budgeted(first, "300 tokens")))
    assert endpoint.requests[0].body["max_completion_tokens"] == 30


async def read(agent: Any, pieces: int = 999) -> list[str]:
    """Read some pieces of an agent's stream, then leave it."""
    found = []
    async with agent.run_stream("Hello?") as stream:
        async for text in stream.stream_text(delta=True, debounce_by=None):
            found.append(text)
            if len(found) == pieces:
                break
    return found


@pytest.mark.feature("stream")
@pytest.mark.parametrize("responses", [False, True])
def test_a_stream_comes_piece_by_piece_and_counts_what_it_reports(
    endpoint: ScriptedEndpoint, responses: bool
) -> None:
    began = threading.Event()
    reply = Reply("word " * 20, usage=ScriptedUsage(100, 10), halfway=lambda: began.wait(60))
    endpoint.scripts["stream"] = reply
    own = budgeted(model(endpoint, "stream", responses=responses), "9 calls + 9999 tokens")
    pieces = []

    async def main() -> None:
        async with Agent(own).run_stream("Hello?") as stream:
            async for text in stream.stream_text(delta=True, debounce_by=None):
                pieces.append(text)
                began.set()  # the rest comes only once some has arrived

    with budget("9 calls") as block:
        finish(main())
    assert "".join(pieces) == "word " * 20
    assert len(pieces) > 1
    assert (block.spent["calls"], block.spent["tokens"]) == (1, 110)


@pytest.mark.feature("stream")
def test_the_streams_of_a_run_with_tools_count(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(2, usage=ScriptedUsage(100, 10))
    agent = Agent(budgeted(model(endpoint, "searching")), tools=[search])
    with budget("9 calls") as block:
        assert "".join(finish(read(agent))) == "That is all."
    assert (block.spent["calls"], block.spent["tokens"]) == (3, 330)


@pytest.mark.feature("deadline")
def test_a_tool_ends_at_the_deadline_and_the_run_with_it(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(9)

    async def search(query: str) -> None:
        await asyncio.Event().wait()

    own = budgeted(model(endpoint, "searching"))
    agent = Agent(own, tools=[search], capabilities=[ToolBudgetCapability()])
    with budget("0.3 s"), pytest.raises(UsageLimitExceeded) as ended:
        run(agent)
    assert isinstance(ended.value.__cause__, DeadlineExceeded)


@pytest.mark.feature("parallel tools")
def test_tools_side_by_side_cannot_pass_their_limit(endpoint: ScriptedEndpoint) -> None:
    calls = tuple(ScriptedToolCall("search", f'{{"query": "{number}"}}') for number in range(5))

    def reply(asked: Asked) -> Reply:
        done = any(message["role"] == "tool" for message in asked.messages)
        return Reply("That is all.") if done else Reply(calls=calls)

    endpoint.scripts["five"] = reply
    own = budgeted(model(endpoint, "five"), "2 tool:search + 9 tool_calls + 9 calls")
    result = run(Agent(own, tools=[search, pay], capabilities=[ToolBudgetCapability(own)]))
    answers = results(result.all_messages())
    assert len([text for text in answers if text.startswith("found")]) == 2
    assert len([text for text in answers if "[Budget] The tool search was not" in text]) == 3
    assert result.output == "That is all."


@pytest.mark.feature("parallel tools")
def test_tools_have_limits_of_their_own_and_a_price(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(3)
    tools = ToolBudgetCapability("$0.25/day", account="tools", tool_prices={"search": "0.1"})
    agent = Agent(model(endpoint, "searching"), tools=[search], capabilities=[tools])
    answers = results(run(agent).all_messages())
    assert [text.startswith("found") for text in answers] == [True, True, False]


@pytest.mark.feature("child agents")
def test_a_tool_that_asks_for_another_attempt_counts_each(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["seeker"] = seek_until_found
    own = budgeted(model(endpoint, "seeker"), "10 calls + 5 tool:search + 5 tool_calls")
    agent = Agent(own, tools=[seek_twice()], capabilities=[ToolBudgetCapability(own)])
    assert run(agent).output == "That is all."
    spent = {row.axis: (row.spent, row.held) for row in own.accounts[0].balance()}
    assert (spent["calls"], spent["search"], spent["tool_calls"]) == ((3, 0), (2, 0), (2, 0))


def seek_until_found(asked: Asked) -> Reply:
    """Reply as a model that searches until it has found something."""
    if "found" in str(asked.messages[-1]["content"]):
        return Reply("That is all.", usage=ScriptedUsage(100, 10))
    return Reply(
        calls=(ScriptedToolCall("search", '{"query": "tomatoes"}'),), usage=ScriptedUsage(100, 10)
    )


def seek_twice() -> Callable[[str], str]:
    """Return a tool that wants other words the first time."""
    asked: list[str] = []

    def search(query: str) -> str:
        """Search for something."""
        asked.append(query)
        if len(asked) == 1:
            raise ModelRetry("try other words")
        return f"found {query}"

    return search


def test_an_agent_behind_a_tool_draws_on_the_budget_of_its_caller(
    endpoint: ScriptedEndpoint,
) -> None:
    endpoint.scripts["searching"] = searching(1)
    child = Agent(budgeted(model(endpoint)))
    ledger = open_ledger("memory:")
    limits = "9 calls + 9 tool_calls"
    own = budgeted(model(endpoint, "searching"), limits, ledger=ledger, account="acme")

    async def search(context: RunContext[None], query: str) -> str:
        result = await child.run(query, usage=context.usage)
        return str(result.output)

    run(
        Agent(own, tools=[search], capabilities=[ToolBudgetCapability(own)]),
        usage_limits=UsageLimits(request_limit=3),
    )
    assert {row.axis: row.spent for row in ledger.balance("acme")} == {"calls": 3, "tool_calls": 1}


@pytest.mark.feature("child agents")
def test_a_child_s_refusal_ends_the_run_of_its_caller(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(1, usage=ScriptedUsage(900, 200))
    child = Agent(budgeted(model(endpoint)))
    agent = Agent(budgeted(model(endpoint, "searching")))

    @agent.tool_plain(name="search")  # type: ignore[untyped-decorator]
    async def ask(query: str) -> str:
        return str((await child.run(query)).output)

    with budget("1000 tokens", max_tokens=10), pytest.raises(UsageLimitExceeded):
        run(agent)
    assert len(endpoint.requests) == 1


@pytest.mark.feature("retries")
def test_a_refused_attempt_of_the_client_costs_nothing(endpoint: ScriptedEndpoint) -> None:
    with budget("9 calls") as block:
        run(Agent(budgeted(model(endpoint, "busy", retries=2))))
    assert len(endpoint.requests) == 2
    assert block.spent["calls"] == 1


@pytest.mark.feature("retries")
def test_each_model_of_a_fallback_model_counts_and_a_refusal_asks_no_other_one(
    endpoint: ScriptedEndpoint,
) -> None:
    several = FallbackModel(model(endpoint, "truncated"), model(endpoint))
    own = budgeted(several, "9 calls")
    assert len(several.models) == 2
    assert not any(isinstance(one, BudgetedModel) for one in several.models)

    async def main() -> None:
        with budget("9 calls") as block:
            await Agent(own).run("Hello?")
        assert block.left["calls"] == 7
        with budget("0 calls"), pytest.raises(UsageLimitExceeded):
            await Agent(own).run("Hello?")

    finish(main())
    assert len(endpoint.requests) == 2


def test_a_model_by_its_name(endpoint: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    own = BudgetedModel("openai-chat:gpt-4o-mini", "0 calls")
    assert own.model_name == "gpt-4o-mini"
    with pytest.raises(UsageLimitExceeded):
        run(Agent(own))


def test_a_batch_has_no_budget(endpoint: ScriptedEndpoint) -> None:
    with pytest.raises(UserError, match="batches"):
        finish(budgeted(model(endpoint), "9 calls").batch_create([]))


def test_budgeted_says_how_an_agent_gets_a_budget(endpoint: ScriptedEndpoint) -> None:
    with pytest.raises(ValueError, match="ToolBudgetCapability"):
        budgeted(Agent(model(endpoint)), "1 calls")


def test_the_example_runs() -> None:
    printed = run_example("with_pydantic_ai.py")
    assert "tool: Tomato soup." in printed
    assert "tool: [Budget] The tool ask_cook was not called" in printed
    assert "refused: agent has 0 of 5 calls" in printed
