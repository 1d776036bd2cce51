"""openai-agents within a budget: its models, providers, agents, tools and handoffs."""

import asyncio
import threading
from collections.abc import Callable
from copy import copy
from typing import Any

import pytest

from budget_cpython import (
    BudgetExceededError,
    DeadlineExceeded,
    budget,
    budgeted,
    open_ledger,
)
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall, ScriptedUsage

agents = pytest.importorskip("agents")
openai = pytest.importorskip("openai")

from agents import (  # noqa: E402
    Agent,
    Model,
    ModelProvider,
    OpenAIProvider,
    RunConfig,
    Runner,
    function_tool,
    handoff,
)

from budget_cpython.adapters.frameworks.openai_agents import AgentBudgetError, ToolBudgetGuardrail  # noqa: E402
from tests.adapters.model_cases import LIMIT, ModelCases, World  # noqa: E402
from tests.adapters.support import run_example, tokens  # noqa: E402

HAS_RETRIES = hasattr(agents, "ModelRetrySettings")


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


def provider(
    endpoint: ScriptedEndpoint, *, responses: bool = False, retries: int = 0, base_url: str = ""
) -> Any:
    url = base_url or endpoint.base_url
    client = openai.AsyncOpenAI(base_url=url, api_key="key", max_retries=retries)
    CLIENTS.append(client)
    return OpenAIProvider(openai_client=client, use_responses=responses)


def model(endpoint: ScriptedEndpoint, name: str = "scripted", **options: Any) -> Any:
    return provider(endpoint, **options).get_model(name)


class Runs(World):
    """Runs of an agent that has a model."""

    refused = late = AgentBudgetError

    def model(self, name: str, **options: Any) -> Any:
        options.pop("stream", None)
        return model(self.endpoint, name, **options)

    def ask(self, model: Any) -> Any:
        return Runner.run(self.agent(model), "Hello?")

    async def stream(self, model: Any) -> Any:
        result = Runner.run_streamed(self.agent(model), "Hello?")
        try:
            async for event in result.stream_events():
                if event.type == "raw_response_event" and event.data.type.endswith("text.delta"):
                    yield event.data.delta
        finally:
            result.cancel()

    def agent(self, model: Any) -> Any:
        settings = agents.ModelSettings(max_tokens=LIMIT)
        return Agent(name="a", model=model, model_settings=settings)

    def run(self, work: Any) -> Any:
        return finish(work)


@pytest.fixture
def world(endpoint: ScriptedEndpoint) -> World:
    return Runs(endpoint)


class TestModel(ModelCases):
    """Models of openai-agents."""


@function_tool  # type: ignore[untyped-decorator]
def search(query: str) -> str:
    """Search for something."""
    return f"found {query}"


@function_tool  # type: ignore[untyped-decorator]
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def run(agent: Any, config: Any = None, question: Any = "Hello?", **options: Any) -> Any:
    return finish(Runner.run(agent, question, run_config=config, **options))


def searching(
    times: int, tool: str = "search", usage: ScriptedUsage | None = None
) -> Callable[[Asked], Reply]:
    """Reply as a model that calls a tool some times, while it is offered, then answers."""

    def reply(asked: Asked) -> Reply:
        done = sum(message["role"] == "tool" for message in asked.messages)
        if done < times and tool in asked.tools:
            name = "input" if tool == "research" else "query"
            return Reply(calls=(ScriptedToolCall(tool, f'{{"{name}": "{done}"}}'),), usage=usage)
        return Reply("That is all.", usage=ScriptedUsage(100, 10))

    return reply


def texts(request: Any) -> list[str]:
    """Return the texts of a request's messages, of chat completions or of responses."""
    messages = request.body.get("messages") or request.body["input"]
    return [message.get("content") or "" for message in messages]


@pytest.mark.parametrize("responses", [False, True])
def test_a_call_counts_what_the_provider_reports(
    endpoint: ScriptedEndpoint, responses: bool
) -> None:
    endpoint.scripts["short"] = Reply("Hello.", usage=ScriptedUsage(100, 10, cached=40))
    agent = Agent(name="a", model=budgeted(model(endpoint, "short", responses=responses)))
    with budget("9 calls + 1000 tokens") as block:
        assert run(agent).final_output == "Hello."
    assert (block.spent["calls"], block.spent["tokens"]) == (1, 110)


@pytest.mark.feature("notice")
@pytest.mark.parametrize("responses", [False, True])
def test_the_model_is_told_in_one_call_and_its_history_stays_as_it_is(
    endpoint: ScriptedEndpoint, responses: bool
) -> None:
    endpoint.scripts["searching"] = searching(3)
    own = budgeted(
        model(endpoint, "searching", responses=responses), "9 calls", warning_thresholds=(0.2,)
    )
    result = run(Agent(name="a", model=own, tools=[search]))
    told = [[text[:7] == "[Budget" for text in texts(one)] for one in endpoint.requests]
    assert [sum(one) for one in told] == [0, 0, 1, 0]
    assert told[2][-1]
    assert "[Budget" not in str(result.to_input_list())


@pytest.mark.feature("notice")
def test_a_conversation_that_the_server_keeps_gets_no_notice_to_keep(
    endpoint: ScriptedEndpoint,
) -> None:
    own = budgeted(model(endpoint, responses=True), "2 calls", warning_thresholds=(0.5,))
    agent = Agent(name="a", model=own, instructions="Be brief.")

    async def main() -> None:
        await Runner.run(agent, "Hello?")
        await Runner.run(agent, "And then?", previous_response_id="resp_1")

    finish(main())
    (last,) = endpoint.requests[1:]
    assert last.body["instructions"].startswith("Be brief.\n\n[Budget")
    assert "[Budget" not in str(last.body["input"])


@pytest.mark.feature("tool withdrawal")
@pytest.mark.parametrize("responses", [False, True])
def test_near_the_limit_tools_and_handoffs_are_no_longer_offered(
    endpoint: ScriptedEndpoint, responses: bool
) -> None:
    endpoint.scripts["searching"] = searching(9)
    own = budgeted(
        model(endpoint, "searching", responses=responses), "9 calls", tool_strip_threshold=0.2
    )
    settings = agents.ModelSettings(tool_choice="search", parallel_tool_calls=True)
    agent = Agent(
        name="a",
        model=own,
        tools=[search],
        handoffs=[Agent(name="other", model=own)],
        model_settings=settings,
        reset_tool_choice=False,
    )
    assert run(agent).final_output == "That is all."
    assert [len(one.body.get("tools") or ()) for one in endpoint.requests] == [2, 2, 0]
    assert not {"tool_choice", "parallel_tool_calls"} & {
        name for name, value in endpoint.requests[-1].body.items() if value is not None
    }


@pytest.mark.feature("tool withdrawal")
def test_only_the_named_tools_are_withdrawn(endpoint: ScriptedEndpoint) -> None:
    options: Any = {"tool_strip_threshold": 0, "tool_strip_disallow": ("pay", "transfer_to_other")}
    own = budgeted(model(endpoint), "9 calls", **options)
    other = Agent(name="other", model=own)
    run(Agent(name="a", model=own, tools=[search, pay], handoffs=[other]))
    (request,) = endpoint.requests
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["search"]


@pytest.mark.feature("tool withdrawal")
def test_a_model_that_needs_its_tools_beside_their_results_may_not_call_them(
    endpoint: ScriptedEndpoint,
) -> None:
    endpoint.scripts["claude-4"] = searching(9)
    own = budgeted(model(endpoint, "claude-4"), "9 calls", tool_strip_threshold=0.1)
    assert run(Agent(name="a", model=own, tools=[search])).final_output == "That is all."
    assert len(endpoint.requests[-1].body["tools"]) == 1
    assert endpoint.requests[-1].body["tool_choice"] == "none"


@pytest.mark.feature("fallback")
@pytest.mark.parametrize("by", ["model", "provider"])
def test_a_cheaper_model_takes_over(endpoint: ScriptedEndpoint, by: str) -> None:
    limits = "$0.0001"
    options: Any = {"fallback_model": "gpt-4o-mini"}
    config, settings = None, agents.ModelSettings(max_tokens=100)
    if by == "model":
        own = budgeted(model(endpoint, "gpt-4"), limits, **options)
        agent = Agent(name="a", model=own, model_settings=settings)
    else:
        config = RunConfig(model_provider=budgeted(provider(endpoint), limits, **options))
        agent = Agent(name="a", model="gpt-4", model_settings=settings)
    run(agent, config)
    assert [one.body["model"] for one in endpoint.requests] == ["gpt-4o-mini"]


@pytest.mark.feature("reserved final call")
def test_a_run_ends_with_an_answer_for_which_a_part_was_kept(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(99)
    own = budgeted(model(endpoint, "searching"), "1000 tokens", max_tokens=100)
    result = run(Agent(name="a", model=own, tools=[search]), max_turns=50)
    assert result.final_output == "That is all."
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

    async def streamed(agent: Any) -> None:
        async for _ in Runner.run_streamed(agent, "Hello?").stream_events():
            pass

    agent = Agent(name="a", model=own, tools=[search])
    with pytest.raises(agents.AgentsException, match=r"0 of 1,?000 tokens") as refused:
        finish(streamed(agent)) if streams else run(agent)
    assert type(refused.value) is AgentBudgetError
    assert isinstance(refused.value.__cause__, BudgetExceededError)
    done = [item.type for item in refused.value.run_data.new_items]
    assert done[-2:] == ["tool_call_item", "tool_call_output_item"]
    assert len(endpoint.requests) == 1


def test_an_answer_is_cut_to_what_is_left(endpoint: ScriptedEndpoint) -> None:
    agent = Agent(name="a", model=budgeted(model(endpoint, "long"), "200 tokens"))
    run(agent)
    (request,) = endpoint.requests
    assert "max_tokens" not in request.body  # reasoning models refuse it
    assert 100 < request.body["max_completion_tokens"] < 200


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        ("max_tokens", {"max_tokens": 5000}),
        ("max_output_tokens", {"max_tokens": 5000}),
        ("max_completion_tokens", {"extra_args": {"max_completion_tokens": 5000}}),
    ],
)
def test_a_limit_of_the_agent_is_lowered_in_its_own_field(
    endpoint: ScriptedEndpoint, field: str, settings: Any
) -> None:
    own = budgeted(model(endpoint, responses=field == "max_output_tokens"), "300 tokens")
    run(Agent(name="a", model=own, model_settings=agents.ModelSettings(**settings)))
    (request,) = endpoint.requests
    assert {name for name in request.body if name.startswith("max_")} == {field}
    assert 200 < request.body[field] < 300


def test_a_limit_below_what_is_left_stays(endpoint: ScriptedEndpoint) -> None:
    settings = agents.ModelSettings(max_tokens=30)
    run(Agent(name="a", model=budgeted(model(endpoint), "300 tokens"), model_settings=settings))
    assert endpoint.requests[0].body["max_tokens"] == 30


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

    async def main() -> Any:
        result = Runner.run_streamed(Agent(name="a", model=own), "Hello?")
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type.endswith("text.delta"):
                pieces.append(event.data.delta)
                began.set()  # the rest comes only once some has arrived
        return result

    with budget("9 calls") as block:
        assert finish(main()).final_output == "word " * 20
    assert "".join(pieces) == "word " * 20
    assert len(pieces) > 1
    assert (block.spent["calls"], block.spent["tokens"]) == (1, 110)


async def read(agent: Any, events: int = 999) -> None:
    """Read some events of an agent's stream, then leave it."""
    result = Runner.run_streamed(agent, "Hello?")
    async for _ in result.stream_events():
        events -= 1
        if not events:
            result.cancel()
            return


@pytest.mark.feature("deadline")
def test_a_tool_ends_at_the_deadline_and_the_run_with_it(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(9, "research")

    @function_tool  # type: ignore[untyped-decorator]
    async def research(input: str) -> None:
        await asyncio.Event().wait()

    agent = Agent(name="a", model=model(endpoint, "searching"), tools=[research])
    with budget("0.3 s"), pytest.raises(AgentBudgetError) as ended:
        run(budgeted(agent))
    assert isinstance(ended.value.__cause__, DeadlineExceeded)


@pytest.mark.feature("parallel tools")
def test_tools_side_by_side_cannot_pass_their_limit(endpoint: ScriptedEndpoint) -> None:
    calls = tuple(ScriptedToolCall("search", f'{{"query": "{number}"}}') for number in range(5))

    def reply(asked: Asked) -> Reply:
        done = any(message["role"] == "tool" for message in asked.messages)
        return Reply("That is all.") if done else Reply(calls=calls)

    endpoint.scripts["five"] = reply
    agent = Agent(name="a", model=model(endpoint, "five"), tools=[search, pay])
    result = run(budgeted(agent, "2 tool:search + 9 calls"))
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert len([text for text in outputs if text.startswith("found")]) == 2
    assert len([text for text in outputs if "[Budget] The tool search was not" in text]) == 3
    assert result.final_output == "That is all."


@pytest.mark.feature("parallel tools")
def test_a_tool_has_a_guardrail_of_its_own(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["searching"] = searching(3)
    limited = copy(search)
    limited.tool_input_guardrails = [
        ToolBudgetGuardrail("1 tool:search", tool_prices={"search": "0.1"})
    ]
    result = run(Agent(name="a", model=model(endpoint, "searching"), tools=[limited]))
    outputs = [item.output for item in result.new_items if item.type == "tool_call_output_item"]
    assert [text.startswith("found") for text in outputs] == [True, False, False]


@pytest.mark.feature("child agents")
def test_agents_draw_on_the_budget_of_the_one_that_hands_off_to_them(
    endpoint: ScriptedEndpoint,
) -> None:
    endpoint.scripts["hands"] = lambda asked: Reply(
        calls=(ScriptedToolCall(next(name for name in asked.tools if "transfer" in name), "{}"),)
    )
    last = Agent(name="last", model=model(endpoint))
    middle = Agent(name="middle", model=model(endpoint, "hands"), handoffs=[handoff(last)])
    first = Agent(name="first", model=model(endpoint, "hands"), handoffs=[middle])
    middle.handoffs.append(first)  # they may hand off in a circle
    with budget("9 calls") as block:
        result = run(budgeted(first, "3 calls"))
    assert result.last_agent.name == "last"
    assert block.spent["calls"] == 3


@pytest.mark.feature("child agents")
def test_what_an_agent_used_is_missing_where_it_hands_off(endpoint: ScriptedEndpoint) -> None:
    usage = ScriptedUsage(900, 200)
    endpoint.scripts["hands"] = Reply(
        calls=(ScriptedToolCall("transfer_to_last", "{}"),), usage=usage
    )
    last = Agent(name="last", model=model(endpoint))
    first = Agent(name="first", model=model(endpoint, "hands"), handoffs=[last])
    with pytest.raises(AgentBudgetError) as refused:
        run(budgeted(first, "1000 tokens", max_tokens=10))
    assert refused.value.run_data.last_agent.name == "last"
    assert len(endpoint.requests) == 1


@pytest.mark.feature("child agents")
def test_an_agent_behind_a_tool_draws_on_the_budget_of_its_caller(
    endpoint: ScriptedEndpoint,
) -> None:
    endpoint.scripts["asks"] = searching(1, "research")
    child = budgeted(Agent(name="child", model=model(endpoint)))
    tool = child.as_tool("research", "Finds things.")
    parent = Agent(name="parent", model=model(endpoint, "asks"), tools=[tool])
    ledger = open_ledger("memory:")
    result = run(budgeted(parent, "9 calls + 9 tool_calls", ledger=ledger, account="acme"))
    assert result.final_output == "That is all."
    spent = {row.axis: row.spent for row in ledger.balance("acme")}
    assert spent == {"calls": 3, "tool_calls": 1}


@pytest.mark.feature("child agents")
def test_a_budgeted_provider_serves_all_agents_of_a_run(endpoint: ScriptedEndpoint) -> None:
    config = RunConfig(model_provider=budgeted(provider(endpoint), "3 calls"))
    endpoint.scripts["asks"] = searching(1, "research")
    tool = Agent(name="child", model="scripted").as_tool("research", "", run_config=config)
    parent = Agent(name="parent", model="asks", tools=[tool])
    with budget("9 calls") as block:
        run(parent, config)
    assert block.spent["calls"] == 3


@pytest.mark.skipif(not HAS_RETRIES, reason="the agent behind a tool is not known")
def test_an_agent_behind_a_tool_needs_a_budget(endpoint: ScriptedEndpoint) -> None:
    tool = Agent(name="child", model=model(endpoint)).as_tool("research", "")
    with pytest.raises(ValueError, match=r"budgeted\(child\)"):
        budgeted(Agent(name="parent", model=model(endpoint), tools=[tool]), "1 calls")


def test_an_agent_s_model_is_found_by_name_with_its_first_call(
    endpoint: ScriptedEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.base_url)
    own = budgeted(Agent(name="a", model="error-400"), "9 calls")
    with pytest.raises(openai.BadRequestError):
        run(own)
    agents.set_default_openai_client(
        openai.AsyncOpenAI(base_url=endpoint.base_url, api_key="key"), use_for_tracing=False
    )
    agents.set_default_openai_api("chat_completions")
    with budget("9 calls") as block:
        run(budgeted(Agent(name="a", model="scripted"), "300 tokens"))
    assert block.spent["calls"] == 1
    assert "max_completion_tokens" in endpoint.requests[-1].body


@pytest.mark.feature("retries")
def test_a_refused_attempt_of_the_client_costs_nothing(endpoint: ScriptedEndpoint) -> None:
    own = budgeted(model(endpoint, "busy", retries=2), "9 calls")
    with budget("9 calls") as block:
        run(Agent(name="a", model=own))
    assert len(endpoint.requests) == 2
    assert block.spent["calls"] == 1


@pytest.mark.feature("retries")
@pytest.mark.skipif(not HAS_RETRIES, reason="the runner does not retry")
@pytest.mark.parametrize("streams", [False, True])
def test_each_retry_of_the_runner_counts_and_a_refusal_is_not_retried(
    endpoint: ScriptedEndpoint, streams: bool
) -> None:
    def always(context: Any) -> bool:
        return True

    backoff = {"initial_delay": 0, "jitter": False}
    retry = agents.ModelRetrySettings(max_retries=3, policy=always, backoff=backoff)
    settings = agents.ModelSettings(retry=retry, max_tokens=10)

    def ask() -> None:
        own = budgeted(model(endpoint, "truncated"))
        agent = Agent(name="a", model=own, model_settings=settings)
        finish(read(agent)) if streams else run(agent)

    with budget("9 calls") as block, pytest.raises(openai.APIError):
        ask()
    assert len(endpoint.requests) == 4
    assert block.left["calls"] == 5
    with budget("0 calls"), pytest.raises(AgentBudgetError):
        ask()
    with budget("0 s"), pytest.raises(AgentBudgetError):
        ask()
    assert len(endpoint.requests) == 4


def test_an_error_while_a_refusal_is_handled_is_no_refusal(endpoint: ScriptedEndpoint) -> None:
    try:
        run(Agent(name="a", model=budgeted(model(endpoint), "0 calls")))
    except AgentBudgetError:
        with pytest.raises(openai.BadRequestError):
            run(Agent(name="a", model=budgeted(model(endpoint, "error-400"))))


@pytest.mark.parametrize("streams", [False, True])
def test_a_model_of_litellm_is_counted_once(endpoint: ScriptedEndpoint, streams: bool) -> None:
    pytest.importorskip("litellm")
    from agents.extensions.models.litellm_model import LitellmModel

    own = LitellmModel("openai/gpt-4o-mini", base_url=endpoint.base_url, api_key="key")
    agent = Agent(name="a", model=budgeted(own, "2 calls/day", account="litellm"))
    with budget("9 calls + 9000 tokens") as block:
        for _ in range(2):
            finish(read(agent)) if streams else run(agent)
        with pytest.raises(AgentBudgetError) as refused:
            finish(read(agent)) if streams else run(agent)
    assert isinstance(refused.value.__cause__, BudgetExceededError)
    assert (block.spent["calls"], block.spent["tokens"]) == (2, tokens(endpoint))


def test_a_model_whose_calls_no_budget_sees_is_refused() -> None:
    class Own(Model):  # type: ignore[misc]
        async def get_response(self, *given: Any, **named: Any) -> Any: ...

        def stream_response(self, *given: Any, **named: Any) -> Any: ...

    class Owns(ModelProvider):  # type: ignore[misc]
        def get_model(self, model_name: str | None) -> Any:
            return Own()

    for what in (Own(), Agent(name="a", model=Own())):
        with pytest.raises(ValueError, match="Own cannot be budgeted"):
            budgeted(what, "1 calls")
    with pytest.raises(ValueError, match="Own cannot be budgeted"):
        run(Agent(name="a", model="own"), RunConfig(model_provider=budgeted(Owns(), "1 calls")))


@pytest.mark.skipif(not HAS_RETRIES, reason="the SDK has no websockets")
def test_a_model_on_a_websocket_is_refused(endpoint: ScriptedEndpoint) -> None:
    from agents.models.openai_responses import OpenAIResponsesWSModel

    client = openai.AsyncOpenAI(base_url=endpoint.base_url, api_key="key")
    with pytest.raises(ValueError, match="OpenAIResponsesWSModel cannot be budgeted"):
        budgeted(OpenAIResponsesWSModel("scripted", openai_client=client), "1 calls")


def test_budgeted_names_what_it_takes() -> None:
    with pytest.raises(ValueError, match="a ModelProvider or an Agent"):
        budgeted(agents.ModelSettings(), "1 calls")


def test_the_example_runs() -> None:
    printed = run_example("with_openai_agents.py")
    assert "tool: [Budget] The tool search was not called" in printed
    assert "assistant: I searched 3 times." in printed
    assert "refused: agent has 0 of 5 calls" in printed
