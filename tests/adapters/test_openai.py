"""A budget round the clients of openai."""

from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai")

from budget_cpython import BudgetExceededError, budgeted  # noqa: E402
from scripted_model import ScriptedEndpoint  # noqa: E402
from scripted_model.calls import Reply  # noqa: E402
from tests.adapters.sdk_cases import GeneratedClientCases  # noqa: E402
from tests.adapters.sdk_world import LIMIT, GeneratedSdk, World, spent  # noqa: E402
from tests.adapters.support import run_example  # noqa: E402

HELLO: Any = [{"role": "user", "content": "Hello?"}]


class Chat(GeneratedSdk):
    """Chat completions."""

    status_error = openai.APIStatusError
    prompt = {"messages": HELLO}

    def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
        kind = openai.AsyncOpenAI if is_async else openai.OpenAI
        return kind(base_url=endpoint.base_url, api_key="k")

    def resource(self, client: Any) -> Any:
        return client.chat.completions

    def tool(self, name: str) -> Any:
        return {"type": "function", "function": {"name": name}}

    def text(self, event: Any) -> str:
        choice = event.choices[0]
        said = getattr(choice, "delta", None) or choice.message
        return said.content or ""

    def tools(self, body: Any) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", ())]


class Responses(GeneratedSdk):
    """Responses."""

    status_error = openai.APIStatusError
    prompt = {"input": "Hello?"}
    limit_name = "max_output_tokens"

    def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
        return Chat().client(endpoint, is_async)

    def resource(self, client: Any) -> Any:
        return client.responses

    def tool(self, name: str) -> Any:
        schema = {"type": "object", "properties": {}}
        return {"type": "function", "name": name, "parameters": schema}

    def text(self, event: Any) -> str:
        if hasattr(event, "output_text"):
            return str(event.output_text)
        return str(event.delta) if event.type == "response.output_text.delta" else ""


KINDS = [(Chat(), False), (Chat(), True), (Responses(), False), (Responses(), True)]
NAMES = ["chat", "async chat", "responses", "async responses"]


@pytest.fixture(params=KINDS, ids=NAMES)
def world(request: Any, endpoint: ScriptedEndpoint) -> Iterator[World]:
    found = World(request.param[0], endpoint, request.param[1])
    yield found
    found.close()


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def chat(request: Any, endpoint: ScriptedEndpoint) -> Iterator[World]:
    found = World(Chat(), endpoint, request.param)
    yield found
    found.close()


class TestClient(GeneratedClientCases):
    """Chat completions and responses."""


def test_a_response_is_refused_where_less_is_left_than_the_api_takes_as_a_limit(
    endpoint: ScriptedEndpoint,
) -> None:
    world = World(Responses(), endpoint, False)
    ledger = world.budget("20 tokens")
    error = world.refused()
    assert error.code == "insufficient_quota"
    assert "16 or more" in error.message
    assert spent(ledger) == (0, 0)
    world.close()


def test_embeddings_are_counted(chat: World) -> None:
    ledger = chat.budget("1000 tokens + 1 call", fallback_model="other")
    create = chat.client.embeddings.create
    answer = chat.run(create(model="scripted", input=["Hello?", "World"]))
    assert len(answer.data) == 2
    assert spent(ledger) == (answer.usage.total_tokens, 0)
    with pytest.raises(openai.APIStatusError) as caught:
        chat.run(chat.client.embeddings.create(model="scripted", input="Hello?"))
    assert isinstance(caught.value.__cause__, BudgetExceededError)


def test_answers_that_are_read_in_pieces_are_counted(endpoint: ScriptedEndpoint) -> None:
    chat = World(Chat(), endpoint, False)
    ledger = chat.budget("1000 tokens")
    create = chat.client.chat.completions.with_streaming_response.create
    with create(model="scripted", messages=HELLO, max_tokens=LIMIT) as response:
        assert b"".join(response.iter_bytes())
    assert spent(ledger) == (chat.used, 0)
    chat.close()


def test_answers_are_parsed(chat: World) -> None:
    ledger = chat.budget("1000 tokens")
    chat.endpoint.scripts["json"] = Reply('{"a": 1}')
    parse = chat.client.beta.chat.completions.parse
    answer = chat.run(parse(model="json", messages=HELLO, max_tokens=LIMIT))
    assert answer.choices[0].message.content == '{"a": 1}'
    assert spent(ledger) == (chat.used, 0)


def test_the_helper_for_streams_is_counted(endpoint: ScriptedEndpoint) -> None:
    chat = World(Chat(), endpoint, False)
    ledger = chat.budget("1000 tokens")
    helper = chat.client.beta.chat.completions
    stream = getattr(helper, "stream", None) or chat.client.chat.completions.stream
    with stream(model="scripted", messages=HELLO, max_tokens=LIMIT) as events:
        final = events.get_final_completion()
    assert final.choices[0].message.content.startswith("You said")
    assert spent(ledger) == (chat.used, 0)
    chat.close()


def test_the_usage_of_a_stream_comes_only_if_it_was_asked_for(chat: World) -> None:
    chat.budget("10_000 tokens")
    create = chat.client.chat.completions.create
    asked: Any = {"model": "scripted", "messages": HELLO, "stream": True}
    chunks = list(chat.events(chat.run(create(**asked))))
    assert all(chunk.choices for chunk in chunks)
    create = chat.client.chat.completions.create
    chunks = list(chat.events(chat.run(create(**asked, stream_options={"include_usage": True}))))
    assert [chunk.usage.total_tokens for chunk in chunks if not chunk.choices] == [chat.used // 2]


@pytest.mark.parametrize("is_async", [False, True])
def test_deployments_of_azure_are_counted(endpoint: ScriptedEndpoint, is_async: bool) -> None:
    class Azure(Chat):
        def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
            kind = openai.AsyncAzureOpenAI if is_async else openai.AzureOpenAI
            url = endpoint.base_url
            return kind(base_url=url, api_key="k", api_version="2024-10-21")

    world = World(Azure(), endpoint, is_async)
    ledger = world.budget("1 call + 1000 tokens")
    assert world.text()
    assert spent(ledger) == (world.used, 0)
    world.client = world.client.with_options(max_retries=1)
    assert isinstance(world.refused().__cause__, BudgetExceededError)
    world.close()


def test_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be budgeted"):
        budgeted(openai.Timeout(5), "1 call")


def test_the_example_runs() -> None:
    printed = run_example("with_openai.py")
    assert "told [Budget notice]" in printed
    assert "refused with 402: agent has 0 of 4 calls per run left" in printed
