"""LiteLLM: its functions with a budget, and the attempts of its router."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any

import pytest

from budget_core.errors import BudgetError
from budget_cpython import BudgetExceededError, budget, budgeted
from budget_cpython.vendors.answer_lengths import longest_answer
from scripted_model import Asked, Reply, ScriptedEndpoint, ScriptedToolCall
from tests.adapters.model_cases import ModelCases, World
from tests.adapters.support import bodies, counted, run_example, tokens

litellm = pytest.importorskip("litellm")
openai = pytest.importorskip("openai")

HELLO = [{"role": "user", "content": "Hello?"}]
KINDS = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in ("look", "pay")
]


def ask(
    llm: Any,
    endpoint: ScriptedEndpoint,
    is_async: bool = False,
    name: str = "gpt-4o-mini",
    **more: Any,
) -> Any:
    """Make one call, and return its answer, or the pieces of its stream."""
    options: dict[str, Any] = {
        "model": f"openai/{name}",
        "messages": HELLO,
        "max_tokens": 50,
        "num_retries": 0,
        "api_base": endpoint.base_url,
        "api_key": "k",
    }
    return finish(llm, is_async, "completion", **options | more)


def finish(llm: Any, is_async: bool, name: str, **options: Any) -> Any:
    async def main() -> Any:
        answer = await getattr(llm, "a" + name)(**options)
        return [piece async for piece in answer] if options.get("stream") else answer

    if is_async:
        return asyncio.run(main())
    answer = getattr(llm, name)(**options)
    return list(answer) if options.get("stream") else answer


def a_router(endpoint: ScriptedEndpoint, *models: str, **options: Any) -> Any:
    where = {"api_base": endpoint.base_url, "api_key": "k"}
    known = [
        {"model_name": name, "litellm_params": {"model": f"openai/{name}", **where}}
        for name in models
    ]
    return litellm.Router(model_list=known, **options)


def text_of(pieces: list[Any]) -> str:
    return "".join(piece.choices[0].delta.content or "" for piece in pieces)


class Chat(World):
    """Completions: a model is its name with the other arguments of a call, after the module."""

    refused = litellm.BudgetExceededError
    late = litellm.Timeout
    fallback = "openai/gpt-4o-mini"

    def model(self, name: str, **options: Any) -> Any:
        base_url = options.pop("base_url", self.endpoint.base_url)
        options |= {"model": f"openai/{name}", "messages": HELLO, "max_tokens": 50}
        where = {"api_base": base_url, "api_key": "k"}
        return litellm, {"num_retries": 0, "max_retries": 0, **where, **options, "stream": False}

    def budgeted(self, model: Any, limits: str | None = None, **options: Any) -> Any:
        return budgeted(litellm, limits, **options), model[1]

    def ask(self, model: Any) -> Any:
        llm, options = model
        return (llm.acompletion if self.is_async else llm.completion)(**options)

    def stream(self, model: Any) -> Any:
        return self.awaited(model) if self.is_async else self.blocking(model)

    def blocking(self, model: Any) -> Iterator[str]:
        llm, options = model
        with closing(llm.completion(**options | {"stream": True})) as stream:
            for piece in stream:
                if text := piece.choices[0].delta.content:
                    yield text

    async def awaited(self, model: Any) -> AsyncIterator[str]:
        llm, options = model
        async with aclosing(await llm.acompletion(**options | {"stream": True})) as stream:
            async for piece in stream:
                if text := piece.choices[0].delta.content:
                    yield text


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def world(request: Any, endpoint: ScriptedEndpoint) -> World:
    return Chat(endpoint, request.param)


class TestModel(ModelCases):
    """Models of LiteLLM."""


def test_no_answer_is_allowed_more_than_the_list_of_litellm_has() -> None:
    rows = [
        (longest_answer(name, 0), row["max_output_tokens"], name)
        for name, row in litellm.model_cost.items()
        if row.get("litellm_provider") in ("openai", "anthropic", "gemini")
        and isinstance(row.get("max_output_tokens"), int)
        and row.get("mode") in ("chat", "responses")
    ]
    assert [row for row in rows if row[0] > row[1]] == []
    assert sum(row[0] > 0 for row in rows) > 20


def test_what_is_budgeted_stands_in_for_the_module(endpoint: ScriptedEndpoint) -> None:
    llm = budgeted(litellm, "1 calls")
    assert isinstance(llm, type(litellm))
    assert llm.ModelResponse is litellm.ModelResponse
    assert "embedding" in dir(llm)
    assert isinstance(budgeted(a_router(endpoint, "one"), "1 calls"), litellm.Router)
    with pytest.raises(ValueError, match=r"budgeted\(litellm"):
        budgeted(litellm.ModelResponse(), "1 calls")
    ask(litellm, endpoint)
    ask(llm, endpoint)


@KINDS
@pytest.mark.parametrize("name", ["completion", "embedding", "responses"])
def test_each_function_counts_what_it_used(
    endpoint: ScriptedEndpoint, name: str, is_async: bool
) -> None:
    options: Any = {"api_base": endpoint.base_url, "api_key": "k"}
    options.update({"messages": HELLO} if name == "completion" else {"input": "Hello?"})
    with budget("9 calls + 90000 tokens") as block:
        finish(budgeted(litellm), is_async, name, model="openai/gpt-4o-mini", **options)
    assert (block.spent["calls"], block.spent["tokens"]) == (1, tokens(endpoint))


@KINDS
def test_embeddings_of_a_fallback_are_not_made(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    llm = budgeted(litellm, "$0.0001", fallback_model="openai/text-embedding-3-small")
    options: Any = {"api_base": endpoint.base_url, "api_key": "k", "input": "x" * 16_000}
    with budget("9 calls") as block, pytest.raises(BudgetError, match="do not compare") as raised:
        finish(llm, is_async, "embedding", model="openai/text-embedding-3-large", **options)
    assert raised.value.status_code == 402  # type: ignore[attr-defined]
    assert endpoint.requests == []
    assert counted(block, "calls") == 0


@KINDS
def test_more_answers_than_tokens_are_not_asked_for(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    llm = budgeted(litellm, "100 tokens")
    with budget("9 calls") as block, pytest.raises(BudgetError, match="fewer than the answers"):
        ask(llm, endpoint, is_async, n=10_000, max_tokens=1)
    assert endpoint.requests == []
    assert counted(block, "calls") == 0


@KINDS
def test_a_text_completion_counts_what_it_used(is_async: bool) -> None:
    options: Any = {"model": "text-completion-openai/gpt-3.5-turbo-instruct", "api_key": "k"}
    options.update(prompt="Hello?", mock_response="Hello yourself.")
    with budget("9 calls + 9000 tokens") as block:
        answer = finish(budgeted(litellm), is_async, "text_completion", **options)
    assert block.spent["tokens"] == answer.usage.total_tokens > 0


def test_arguments_may_be_given_by_position(endpoint: ScriptedEndpoint) -> None:
    with budget("9 calls + 9000 tokens") as block:
        options = {"api_base": endpoint.base_url, "api_key": "k", "max_tokens": 50}
        budgeted(litellm).completion("openai/gpt-4o-mini", HELLO, **options)
    assert block.spent["tokens"] == tokens(endpoint)


def test_the_limit_of_an_answer_is_lowered_to_what_is_left(endpoint: ScriptedEndpoint) -> None:
    for limits in ({"max_tokens": None}, {"max_tokens": 500}):
        answer = ask(budgeted(litellm, "200 tokens"), endpoint, name="long", **limits)
        sent = bodies(endpoint)[-1]["max_tokens"]
        assert 100 < sent < 200
        assert answer.usage.completion_tokens <= sent
    ask(budgeted(litellm, "200 tokens"), endpoint, max_tokens=None, max_completion_tokens=500)
    assert bodies(endpoint)[-1]["max_completion_tokens"] < 200


def test_cached_answers_cost_nothing(endpoint: ScriptedEndpoint) -> None:
    block = budget("9 calls")
    try:
        litellm.cache = litellm.Cache(type="local")
        with block:
            for _ in range(2):
                ask(budgeted(litellm), endpoint, caching=True)
    except ModuleNotFoundError:
        pytest.skip("the cache of a newer LiteLLM needs fastapi")
    finally:
        litellm.cache = None
    assert len(endpoint.requests) == 1
    assert counted(block, "calls") == 1


@pytest.mark.feature("notice")
@KINDS
def test_a_notice_is_sent_last_and_not_kept(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    llm = budgeted(litellm, "2 calls", warning_thresholds=(0.5,))
    messages = list(HELLO)
    for _ in range(2):
        ask(llm, endpoint, is_async, messages=messages)
    first, second = bodies(endpoint)
    assert len(first["messages"]) == 1
    assert "50% of your agent budget" in second["messages"][-1]["content"]
    assert messages == HELLO


@pytest.mark.feature("tool withdrawal")
@KINDS
def test_near_a_limit_tools_are_withdrawn(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    options: Any = {"tool_strip_threshold": 0.3, "tool_strip_disallow": ("pay",)}
    llm = budgeted(litellm, "3 calls", **options)
    for _ in range(3):
        ask(llm, endpoint, is_async, tools=TOOLS)
    offered = [
        [one["function"]["name"] for one in body.get("tools", ())] for body in bodies(endpoint)
    ]
    assert offered == [["look", "pay"], ["look"], []]


@pytest.mark.feature("tool withdrawal")
def test_anthropic_s_models_keep_tools_that_they_may_not_call(endpoint: ScriptedEndpoint) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages: list[Any] = [
        *HELLO,
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "a tomato"},
    ]
    options: Any = {"model": "anthropic/claude-3-5-haiku-latest", "api_base": endpoint.root_url}
    ask(budgeted(litellm, "1 calls"), endpoint, messages=messages, tools=TOOLS, **options)
    (body,) = bodies(endpoint)
    assert [one["name"] for one in body["tools"]] == ["look", "pay"]
    assert body["tool_choice"] == {"type": "none"}


@pytest.mark.feature("reserved final call")
def test_the_last_call_is_made_without_tools(endpoint: ScriptedEndpoint) -> None:
    def reply(asked: Asked) -> Reply:
        calls = tuple(ScriptedToolCall(name, "{}") for name in asked.tools)
        return Reply("" if calls else "I saw a tomato.", calls)

    endpoint.scripts["gpt-4o-mini"] = reply
    llm, messages = budgeted(litellm, "3 calls"), list(HELLO)
    while True:
        said = ask(llm, endpoint, messages=messages, tools=TOOLS).choices[0].message
        messages.append(said)
        if not said.tool_calls:
            break
        for call in said.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "a tomato"})
    assert said.content == "I saw a tomato."
    assert len(endpoint.requests) == 3
    assert "last answer" in bodies(endpoint)[-1]["messages"][-1]["content"]


@pytest.mark.feature("refusal")
@KINDS
def test_a_refusal_is_litellm_s_own_error(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    with pytest.raises(litellm.BudgetExceededError, match="0 of 0 calls") as raised:
        ask(budgeted(litellm, "0 calls"), endpoint, is_async)
    assert isinstance(raised.value.__cause__, BudgetExceededError)
    with pytest.raises(litellm.BudgetExceededError) as raised:
        ask(budgeted(litellm, "$0.0000001"), endpoint, is_async)
    assert (raised.value.current_cost, raised.value.max_budget) == (0, 0.0000001)
    assert endpoint.requests == []


@pytest.mark.feature("stream")
@KINDS
def test_a_stream_passes_and_is_counted(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    with budget("9 calls + 9000 tokens") as block:
        pieces = ask(budgeted(litellm), endpoint, is_async, stream=True)
        assert (block.spent["calls"], block.spent["tokens"]) == (1, tokens(endpoint))
        asked: Any = {"stream": True, "stream_options": {"include_usage": True}}
        with_usage = ask(budgeted(litellm), endpoint, is_async, **asked)
    assert text_of(pieces) == 'You said: "Hello?".'
    assert with_usage[-1].usage.total_tokens == tokens(endpoint) / 2


def test_a_stream_is_one_of_litellm_s(endpoint: ScriptedEndpoint) -> None:
    options = {"api_base": endpoint.base_url, "api_key": "k", "stream": True}
    stream = budgeted(litellm, "1 calls").completion("openai/gpt-4o-mini", HELLO, **options)
    assert isinstance(stream, litellm.CustomStreamWrapper)
    assert litellm.stream_chunk_builder(list(stream)).choices[0].message.content


@pytest.mark.feature("stream")
def test_responses_stream_and_are_counted(endpoint: ScriptedEndpoint) -> None:
    options: Any = {"api_base": endpoint.base_url, "api_key": "k", "stream": True}
    options.update(model="openai/gpt-4o-mini", input="Hello?")
    with budget("9 calls + 9000 tokens") as block:
        for is_async in (False, True):
            events = finish(budgeted(litellm), is_async, "responses", **options)
            assert events[-1].type == "response.completed"
    assert (block.spent["calls"], block.spent["tokens"]) == (2, tokens(endpoint))


@pytest.mark.feature("retries")
@KINDS
def test_each_attempt_counts_once(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    with budget("9 calls") as block, pytest.raises(litellm.InternalServerError):
        ask(budgeted(litellm), endpoint, is_async, "not-json", num_retries=2)
    assert len(endpoint.requests) == 3
    assert counted(block, "calls") == 3


@pytest.mark.feature("retries")
@KINDS
def test_attempts_that_the_provider_refused_cost_nothing(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    with budget("9 calls + 9000 tokens") as block:
        ask(budgeted(litellm), endpoint, is_async, "busy", num_retries=None)
        with pytest.raises(litellm.BadRequestError):
            ask(budgeted(litellm), endpoint, is_async, "error-400", num_retries=2)
        with pytest.raises(litellm.InternalServerError):
            ask(budgeted(litellm), endpoint, is_async, api_base="http://127.0.0.1:9")
    assert len(endpoint.requests) == 3
    assert counted(block, "calls") == 1


@pytest.mark.feature("retries")
@KINDS
def test_each_fallback_counts_once(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    with budget("9 calls") as block:
        fallbacks = ["openai/not-json", "openai/gpt-4o-mini"]
        more: Any = {"fallbacks": fallbacks, "num_retries": None, "metadata": {"a": 1}}
        answer = ask(budgeted(litellm), endpoint, is_async, "not-json", **more)
    assert answer.choices[0].message.content
    assert "metadata" not in bodies(endpoint)[-1]
    assert counted(block, "calls") == len(endpoint.requests)


@pytest.mark.feature("retries")
@KINDS
def test_a_router_s_attempts_count_once_each(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    options: Any = {"num_retries": 2, "fallbacks": [{"not-json": ["gpt-4o-mini"]}]}
    router = a_router(endpoint, "not-json", "gpt-4o-mini", **options)
    with budget("9 calls") as block:
        limited = budgeted(router, "9 calls + 100000 tokens")
        answer = finish(limited, is_async, "completion", model="not-json", messages=HELLO)
        router.completion(model="gpt-4o-mini", messages=HELLO)
    assert answer.choices[0].message.content
    assert len(endpoint.requests) == 5
    assert counted(block, "calls") == 4


@pytest.mark.feature("stream")
@KINDS
def test_a_router_streams(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    with budget("9 calls + 9000 tokens") as block:
        limited = budgeted(a_router(endpoint, "gpt-4o-mini"))
        options: Any = {"model": "gpt-4o-mini", "messages": HELLO, "stream": True}
        pieces = finish(limited, is_async, "completion", **options)
    assert text_of(pieces) == 'You said: "Hello?".'
    assert (block.spent["calls"], block.spent["tokens"]) == (1, tokens(endpoint))


@pytest.mark.feature("retries")
@KINDS
def test_no_attempt_of_a_refused_call_is_made(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    asked: list[str] = []
    options: Any = {"on_limit_reached": lambda **said: asked.append(said["scope"])}
    with pytest.raises(litellm.BudgetExceededError):
        ask(budgeted(litellm, "0 calls", **options), endpoint, is_async, num_retries=3)
    router = budgeted(a_router(endpoint, "gpt-4o-mini", num_retries=3), "0 calls", **options)
    with pytest.raises(litellm.BudgetExceededError):
        finish(router, is_async, "completion", model="gpt-4o-mini", messages=HELLO)
    assert endpoint.requests == []
    assert len(asked) == 2


def test_what_of_a_router_cannot_be_budgeted_is_refused(endpoint: ScriptedEndpoint) -> None:
    router = budgeted(a_router(endpoint, "gpt-4o-mini"), "1 calls")
    with pytest.raises(NotImplementedError, match=r"budgeted\(litellm\)\.responses"):
        router.responses(model="gpt-4o-mini", input="Hello?")
    assert "Router" in repr(router)


def test_the_example_tells_what_each_attempt_cost() -> None:
    printed = run_example("with_litellm.py")
    assert "3 attempts" in printed
