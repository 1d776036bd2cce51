"""LangChain: chat models with a budget, and agents that end with what they have done."""

import asyncio
from typing import Any

import httpx
import pytest

from budget_cpython import BudgetExceededError, DeadlineExceeded, budget, budgeted
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

pytest.importorskip("langchain_openai")

import openai
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_openai import ChatOpenAI

from budget_cpython.adapters.frameworks.langchain import BudgetMiddleware

ASK = {"messages": [{"role": "user", "content": "Look around."}]}
KINDS = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def look() -> str:
    """Look around."""
    return "a tomato"


def pay() -> str:
    """Pay for it."""
    return "paid"


def a_model(endpoint: ScriptedEndpoint, name: str = "scripted", **options: Any) -> Any:
    options = {"base_url": endpoint.base_url, "max_tokens": 50, "max_retries": 0, **options}
    return ChatOpenAI(model=name, api_key="k", **options)


def an_agent(endpoint: ScriptedEndpoint, *middleware: Any, tools: Any = (look, pay)) -> Any:
    return create_agent(a_model(endpoint), list(tools), middleware=middleware)


def run(agent: Any, is_async: bool) -> list[Any]:
    found = asyncio.run(agent.ainvoke(ASK)) if is_async else agent.invoke(ASK)
    messages: list[Any] = found["messages"]
    return messages


def ask(model: Any, is_async: bool) -> Any:
    return asyncio.run(model.ainvoke("Hello?")) if is_async else model.invoke("Hello?")


class Chat(World):
    """Chat models."""

    def model(self, name: str, **options: Any) -> Any:
        options.pop("stream", None)
        return a_model(self.endpoint, name, **options)

    def ask(self, model: Any) -> Any:
        return model.ainvoke("Hello?") if self.is_async else model.invoke("Hello?")

    def stream(self, model: Any) -> Any:
        if self.is_async:
            return (piece.text async for piece in model.astream("Hello?") if piece.text)
        return (piece.text for piece in model.stream("Hello?") if piece.text)


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def world(request: Any, endpoint: ScriptedEndpoint) -> World:
    return Chat(endpoint, request.param)


class TestModel(ModelCases):
    """Models of LangChain."""


def test_a_budgeted_model_keeps_its_type_and_its_settings(endpoint: ScriptedEndpoint) -> None:
    model = a_model(endpoint, temperature=0.5)
    limited = budgeted(model, "1 calls/day", account="chat")
    assert isinstance(limited, ChatOpenAI)
    assert (type(limited).__name__, limited.temperature) == ("ChatOpenAI", 0.5)
    limited.bind_tools([look]).invoke("Hello?")
    model.invoke("Hello?")
    again = budgeted(limited.model_copy(update={"temperature": 1}), "5 calls")
    with pytest.raises(BudgetExceededError, match="chat has 0 of 1 calls"):
        again.invoke("Hello?")


def test_only_chat_models_are_taken(endpoint: ScriptedEndpoint) -> None:
    with pytest.raises(ValueError, match="BudgetMiddleware"):
        budgeted(an_agent(endpoint), "1 calls")
    with pytest.raises(ValueError, match="before it is bound"):
        budgeted(a_model(endpoint).bind(stop=["x"]), "1 calls")


def test_cached_answers_cost_nothing(endpoint: ScriptedEndpoint) -> None:
    from langchain_core.caches import InMemoryCache

    model = budgeted(a_model(endpoint, cache=InMemoryCache()), "1 calls")
    assert model.invoke("Hello?").content == model.invoke("Hello?").content


def test_the_limit_of_an_answer_is_lowered_to_what_is_left(endpoint: ScriptedEndpoint) -> None:
    model = a_model(endpoint, "long", max_tokens=None)
    answer = budgeted(model, "200 tokens").invoke("Hello?")
    sent = bodies(endpoint)[0]["max_completion_tokens"]
    assert 100 < sent < 200
    assert answer.usage_metadata["output_tokens"] <= sent
    budgeted(model.bind(max_tokens=500).bound, "200 tokens").invoke("Hello?", max_tokens=500)
    assert bodies(endpoint)[1]["max_completion_tokens"] == sent
    budgeted(a_model(endpoint, n=2), "100 tokens").invoke("Hello?")
    assert bodies(endpoint)[2]["max_completion_tokens"] < 50


@pytest.mark.feature("notice")
@KINDS
def test_a_notice_is_sent_last_and_not_kept(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    endpoint.scripts["scripted"] = looks_on("look")
    middleware = BudgetMiddleware("4 calls", warning_thresholds=(0.5,))
    messages = run(an_agent(endpoint, middleware), is_async)
    first, _, third, last = bodies(endpoint)
    assert "50% of your agent budget" in third["messages"][-1]["content"]
    assert sum("[Budget" in str(one["content"]) for one in last["messages"]) == 1
    assert "[Budget" not in str(messages)
    assert last["messages"][: len(first["messages"])] == first["messages"]


@pytest.mark.feature("tool withdrawal")
def test_near_a_limit_some_tools_are_withdrawn(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["scripted"] = looks_on("look", "pay")
    options: Any = {"tool_strip_threshold": 0.5, "tool_strip_disallow": ("pay",)}
    run(an_agent(endpoint, BudgetMiddleware("4 calls", **options)), False)
    offered = [names_of(body) for body in bodies(endpoint)]
    assert offered == [["look", "pay"], ["look", "pay"], ["look"], []]


@pytest.mark.feature("tool withdrawal")
def test_anthropic_s_models_keep_tools_that_they_may_not_call(endpoint: ScriptedEndpoint) -> None:
    seen: list[dict[str, Any]] = []

    class Claude(ChatOpenAI):  # type: ignore[misc]
        @property
        def _llm_type(self) -> str:
            return "anthropic-chat"

        def _generate(self, messages: Any, *given: Any, **options: Any) -> Any:
            seen.append(options)
            return super()._generate(messages)

    said = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
    model = Claude(model="scripted", base_url=endpoint.base_url, api_key="k")
    limited = budgeted(model, "1 calls").bind_tools([look])
    limited.invoke([said, ToolMessage("a tomato", tool_call_id="1")])
    assert (names_of(seen[0]), seen[0]["tool_choice"]) == (["look"], {"type": "none"})


@pytest.mark.feature("tool withdrawal")
def test_a_tool_that_is_the_form_of_the_answer_stays(endpoint: ScriptedEndpoint) -> None:
    model = budgeted(a_model(endpoint, "parallel"), "9 calls", tool_strip_threshold=0)
    schema = {"title": "Seen", "description": "s", "type": "object", "properties": {}}
    form = model.with_structured_output(schema, method="function_calling")
    form.invoke("What did you see?")
    assert names_of(bodies(endpoint)[0]) == ["Seen"]


@pytest.mark.feature("reserved final call")
@KINDS
def test_an_agent_makes_a_final_call_without_tools(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    endpoint.scripts["scripted"] = looks_on("look")
    messages = run(an_agent(endpoint, BudgetMiddleware("3 calls")), is_async)
    assert messages[-1].content == "I saw a tomato."
    assert [names_of(body) for body in bodies(endpoint)] == [["look", "pay"], ["look", "pay"], []]
    assert "last answer" in bodies(endpoint)[-1]["messages"][-1]["content"]


@pytest.mark.feature("refusal")
@KINDS
def test_a_refused_agent_ends_with_what_it_has_done(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    endpoint.scripts["scripted"] = looks_on("look")
    with budget("1 calls"):
        budgeted(a_model(endpoint)).invoke("Hello?")
        messages = run(an_agent(endpoint, BudgetMiddleware()), is_async)
    assert isinstance(messages[-1], AIMessage)
    assert messages[-1].content.startswith("[Budget exhausted] agent has 0 of 1 calls")
    assert messages[-1].response_metadata["finish_reason"] == "budget"
    with pytest.raises(BudgetExceededError):
        run(an_agent(endpoint, BudgetMiddleware("0 calls", exit_behavior="error")), is_async)
    assert len(endpoint.requests) == 1


def test_malformed_options_are_refused() -> None:
    with pytest.raises(ValueError, match="'stop'"):
        BudgetMiddleware("1 calls", exit_behavior="stop")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no time"):
        BudgetMiddleware("1 calls + 5 s")


@pytest.mark.feature("stream")
def test_an_agent_that_streams_is_counted_once_a_call(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["scripted"] = looks_on("look")
    with budget("9 calls + 90000 tokens") as block:
        agent = an_agent(endpoint, BudgetMiddleware("3 calls"))
        parts = list(agent.stream(ASK, stream_mode="messages"))
    assert "".join(part.text for part, _ in parts[-12:] if part.type != "tool").endswith("tomato.")
    assert all(body["stream"] for body in bodies(endpoint))
    assert (block.spent["calls"], block.spent["tokens"]) == (3, tokens(endpoint))


@pytest.mark.parametrize("streams", [False, True])
def test_a_model_over_a_budgeted_client_counts_once_on_the_block(
    endpoint: ScriptedEndpoint, streams: bool
) -> None:
    with httpx.Client() as raw, budget("9 calls + 9000 tokens") as block:
        client = budgeted(raw, "1 calls/day", account="client")
        model = budgeted(a_model(endpoint, http_client=client))
        list(model.stream("Hello?")) if streams else model.invoke("Hello?")
        assert (block.spent["calls"], block.spent["tokens"]) == (1, tokens(endpoint))
        with pytest.raises(openai.APIStatusError, match="client has 0 of 1 calls"):
            model.invoke("Hello?")


@pytest.mark.parametrize("streams", [False, True])
def test_an_awaited_model_over_a_budgeted_client_counts_once_on_the_block(
    endpoint: ScriptedEndpoint, streams: bool
) -> None:
    async def main() -> None:
        async with httpx.AsyncClient() as raw:
            client = budgeted(raw, "1 calls/day", account="client")
            model = budgeted(a_model(endpoint, http_async_client=client))
            if streams:
                assert [piece async for piece in model.astream("Hello?")]
            else:
                await model.ainvoke("Hello?")
            with pytest.raises(openai.APIStatusError, match="client has 0 of 1 calls"):
                await model.ainvoke("Hello?")

    with budget("9 calls + 9000 tokens") as block:
        asyncio.run(main())
    assert (block.spent["calls"], block.spent["tokens"]) == (1, tokens(endpoint))


@pytest.mark.feature("deadline")
@KINDS
def test_no_call_begins_after_the_deadline(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    with budget("0 s"):
        with pytest.raises(DeadlineExceeded):
            ask(budgeted(a_model(endpoint)), is_async)
        messages = run(an_agent(endpoint, BudgetMiddleware("9 calls")), is_async)
    assert messages[-1].response_metadata["finish_reason"] == "deadline"
    assert endpoint.requests == []


@pytest.mark.feature("deadline")
def test_an_awaited_tool_ends_at_the_deadline(endpoint: ScriptedEndpoint) -> None:
    async def look() -> str:
        """Look for ever."""
        await asyncio.Event().wait()
        return ""

    endpoint.scripts["scripted"] = looks_on("look")
    with budget("0.5 s"):
        messages = run(an_agent(endpoint, BudgetMiddleware(), tools=[look]), True)
    assert messages[-1].response_metadata["finish_reason"] == "deadline"


@pytest.mark.feature("parallel tools")
@KINDS
def test_parallel_tools_do_not_exceed_their_limit(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    ran = []

    def look() -> str:
        """Look around."""
        ran.append(1)
        return "a tomato"

    def reply(asked: Asked) -> Reply:
        if asked.messages[-1]["role"] == "tool":
            return Reply("I saw a tomato.")
        return Reply("", (ScriptedToolCall("look", "{}"),) * 5)

    endpoint.scripts["scripted"] = reply
    middleware = BudgetMiddleware("9 calls + 2 tool_calls")
    messages = run(an_agent(endpoint, middleware, tools=[look]), is_async)
    answers = [one for one in messages if isinstance(one, ToolMessage)]
    assert (len(ran), len(answers)) == (2, 5)
    assert [one.status for one in answers].count("error") == 3
    assert any("The tool look was not called" in one.content for one in answers)
    assert messages[-1].content == "I saw a tomato."


@pytest.mark.feature("child agents")
@KINDS
def test_a_child_agent_draws_on_its_parent_s_budget(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    child = create_agent(a_model(endpoint, "child"), [pay], middleware=[BudgetMiddleware()])

    def look() -> str:
        """Ask another agent."""
        return str(child.invoke(ASK)["messages"][-1].content)

    endpoint.scripts["scripted"] = looks_on("look")
    endpoint.scripts["child"] = looks_on("pay")
    with budget("90 calls") as block:
        middleware = BudgetMiddleware("4 calls/day", account="parent")
        messages = run(an_agent(endpoint, middleware, tools=[look]), is_async)
    assert [body["model"] for body in bodies(endpoint)] == ["scripted", "child", "child", "child"]
    assert messages[-1].content.startswith("[Budget exhausted] parent has 0 of 4 calls")
    assert block.spent["calls"] == 4


@pytest.mark.feature("child agents")
def test_a_model_that_a_tool_calls_draws_on_the_agent_s_budget(endpoint: ScriptedEndpoint) -> None:
    inner = budgeted(a_model(endpoint, "inner"))

    def look() -> str:
        """Think."""
        inner.invoke("Hello?")
        return str(inner.invoke("Hello?").content)

    endpoint.scripts["scripted"] = looks_on("look")
    agent = an_agent(endpoint, BudgetMiddleware("2 calls"), tools=[look])
    messages = run(agent, False)
    assert len(endpoint.requests) == 2
    assert messages[-2].status == "error"
    assert messages[-1].content.startswith("[Budget exhausted]")


@pytest.mark.feature("retries")
@KINDS
def test_each_attempt_counts_once(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    with budget("9 calls") as block:
        model = budgeted(a_model(endpoint, "truncated"))
        retried = model.with_retry(stop_after_attempt=3, wait_exponential_jitter=False)
        with pytest.raises(Exception, match=r"(?i)connection|peer|incomplete|body"):
            ask(retried, is_async)
    assert len(endpoint.requests) == 3
    assert counted(block, "calls") == 3


@pytest.mark.feature("retries")
def test_attempts_that_the_provider_refused_cost_nothing(endpoint: ScriptedEndpoint) -> None:
    with budget("9 calls + 9000 tokens") as block:
        fallback = budgeted(a_model(endpoint))
        budgeted(a_model(endpoint, "error-500")).with_fallbacks([fallback]).invoke("Hello?")
        with pytest.raises(Exception, match=r"(?i)connection"):
            budgeted(a_model(endpoint, base_url="http://127.0.0.1:9")).invoke("Hello?")
    assert len(endpoint.requests) == 2
    assert counted(block, "calls") == 1


@pytest.mark.feature("retries")
@KINDS
def test_no_attempt_of_a_refused_call_is_sent(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    model = budgeted(a_model(endpoint, max_retries=2), "0 calls")
    with pytest.raises(BudgetExceededError):
        ask(model.with_retry(stop_after_attempt=3, wait_exponential_jitter=False), is_async)
    assert endpoint.requests == []


def test_the_example_answers_in_time() -> None:
    printed = run_example("with_langchain.py")
    assert "[Budget notice] 50% of your agent budget is used (2 of 4 calls)" in printed
    assert "assistant: I looked into 3 rooms" in printed
    assert "used: 4 calls" in printed
