"""A budget round the clients of google-genai."""

from collections.abc import Iterator
from typing import Any

import pytest

genai = pytest.importorskip("google.genai")

from google.genai import types  # type: ignore[import-untyped, unused-ignore]  # noqa: E402
from google.genai.errors import (  # type: ignore[import-untyped, unused-ignore]  # noqa: E402
    APIError,
    ClientError,
)

from budget_cpython import BudgetExceededError, budgeted  # noqa: E402
from scripted_model import ScriptedEndpoint  # noqa: E402
from tests.adapters.sdk_cases import ClientCases  # noqa: E402
from tests.adapters.sdk_world import World, spent  # noqa: E402
from tests.adapters.support import run_example  # noqa: E402


class Generate:
    """Contents of models."""

    status_error = APIError

    def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
        retries = types.HttpRetryOptions(attempts=3, initial_delay=0.01)
        options = types.HttpOptions(base_url=endpoint.root_url, retry_options=retries)
        return genai.Client(api_key="k", http_options=options)

    def ask(self, client: Any, model: str, tools: tuple[str, ...], limit: int) -> Any:
        functions: Any = [types.FunctionDeclaration(name=name) for name in tools]
        offered: Any = [types.Tool(function_declarations=functions)] if tools else None
        config = types.GenerateContentConfig(max_output_tokens=limit, tools=offered)
        return self.of(client).generate_content(model=model, contents="Hello?", config=config)

    def stream(self, client: Any, model: str, limit: int) -> Any:
        config = types.GenerateContentConfig(max_output_tokens=limit)
        create = self.of(client).generate_content_stream
        return create(model=model, contents="Hello?", config=config)

    def of(self, client: Any) -> Any:
        return client.models

    def text(self, event: Any) -> str:
        return event.text or ""

    def status(self, error: Any) -> int:
        return int(error.code)

    def tools(self, body: Any) -> list[str]:
        found = [tool.get("functionDeclarations", ()) for tool in body.get("tools", ())]
        return [function["name"] for functions in found for function in functions]

    def close(self, stream: Any) -> Any:
        return stream.aclose() if hasattr(stream, "aclose") else stream.close()

    def end(self, client: Any, is_async: bool) -> Any:
        client.close()
        return client.aio.aclose()


class AsyncGenerate(Generate):
    """The same of `aio`."""

    def of(self, client: Any) -> Any:
        return client.aio.models


@pytest.fixture(params=[Generate(), AsyncGenerate()], ids=["blocking", "async"])
def world(request: Any, endpoint: ScriptedEndpoint) -> Iterator[World]:
    found = World(request.param, endpoint, isinstance(request.param, AsyncGenerate))
    yield found
    found.close()


class TestClient(ClientCases):
    """Contents of models."""


@pytest.mark.feature("refusal")
def test_a_refusal_is_an_error_of_the_client(world: World) -> None:
    world.budget("0 calls")
    error = world.refused()
    assert isinstance(error, ClientError)
    assert (error.code, error.status) == (402, "RESOURCE_EXHAUSTED")


def test_chats_are_counted(world: World) -> None:
    ledger = world.budget("2 calls + 10_000 tokens")
    chats = world.client.aio.chats if world.is_async else world.client.chats
    chat = chats.create(model="scripted")
    for _ in range(2):
        assert world.run(chat.send_message("Hello?")).text
    assert spent(ledger) == (world.used, 0)
    with pytest.raises(ClientError) as caught:
        world.run(chat.send_message("Hello?"))
    assert isinstance(caught.value.__cause__, BudgetExceededError)


def test_a_model_that_a_user_tuned_draws_on_the_budget(world: World) -> None:
    world.budget("0 calls")
    with pytest.raises(ClientError) as caught:
        world.ask("tunedModels/mine")
    assert isinstance(caught.value.__cause__, BudgetExceededError)


def test_counting_tokens_is_free(world: World) -> None:
    world.budget("0 calls")
    count = world.sdk.of(world.client).count_tokens  # type: ignore[attr-defined]
    assert world.run(count(model="scripted", contents="Hello?")).total_tokens > 0


def test_the_end_of_a_budgeted_client_leaves_the_raw_one_open(world: World) -> None:
    world.budget("1 call")
    world.ask()
    world.client.close()
    world.client = world.raw
    assert world.text()


def test_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be budgeted"):
        budgeted(types.HttpOptions(), "1 call")


def test_the_example_runs() -> None:
    printed = run_example("with_google_genai.py")
    assert "refused with 402: acme/garden has 0 of 3 calls per day left" in printed
    assert "answered: 3 requests" in printed
