"""A budget round the clients of anthropic."""

from collections.abc import Iterator
from typing import Any

import pytest

anthropic = pytest.importorskip("anthropic")

from budget_cpython import budgeted  # noqa: E402
from scripted_model import ScriptedEndpoint  # noqa: E402
from tests.adapters.sdk_cases import GeneratedClientCases  # noqa: E402
from tests.adapters.sdk_world import LIMIT, GeneratedSdk, World, spent  # noqa: E402
from tests.adapters.support import run_example  # noqa: E402

HELLO: Any = [{"role": "user", "content": "Hello?"}]


class Messages(GeneratedSdk):
    """Messages."""

    status_error = anthropic.APIStatusError
    prompt = {"messages": HELLO}

    def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
        kind = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
        return kind(base_url=endpoint.root_url, api_key="k")

    def resource(self, client: Any) -> Any:
        return client.messages

    def tool(self, name: str) -> Any:
        return {"name": name, "input_schema": {"type": "object", "properties": {}}}

    def text(self, event: Any) -> str:
        if hasattr(event, "content"):
            return "".join(block.text for block in event.content if block.type == "text")
        delta = getattr(event, "delta", None)
        return str(getattr(delta, "text", None) or "")


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def world(request: Any, endpoint: ScriptedEndpoint) -> Iterator[World]:
    found = World(Messages(), endpoint, request.param)
    yield found
    found.close()


class TestClient(GeneratedClientCases):
    """Messages."""


def test_counting_tokens_is_free(world: World) -> None:
    world.budget("0 calls")
    count = world.client.messages.count_tokens
    assert world.run(count(model="scripted", messages=HELLO)).input_tokens > 0


def test_the_helper_for_streams_is_counted(endpoint: ScriptedEndpoint) -> None:
    world = World(Messages(), endpoint, False)
    ledger = world.budget("1000 tokens")
    asked: Any = {"model": "scripted", "messages": HELLO, "max_tokens": LIMIT}
    with world.client.messages.stream(**asked) as stream:
        assert "".join(stream.text_stream).startswith("You said")
    assert spent(ledger) == (world.used, 0)
    world.close()


def test_thinking_stays_below_a_lowered_limit(world: World) -> None:
    ledger = world.budget("3000 tokens")
    thinking = {"type": "enabled", "budget_tokens": 4_000}
    create = world.client.messages.create
    asked: Any = {"model": "long", "messages": HELLO, "thinking": thinking}
    world.run(create(**asked, max_tokens=8_000))
    assert 2_900 < world.body["max_tokens"] < 3_000
    assert world.body["thinking"]["budget_tokens"] == world.body["max_tokens"] // 2
    assert spent(ledger) == (world.used, 0)
    world.budget("1000 tokens")
    world.run(world.client.messages.create(**asked, max_tokens=8_000))
    assert "thinking" not in world.body


def test_clients_that_sign_their_requests_are_refused() -> None:
    client = anthropic.AnthropicVertex(region="r", project_id="p", access_token="t")  # noqa: S106
    with pytest.raises(ValueError, match="AnthropicVertex cannot be budgeted"):
        budgeted(client, "1 call")
    client.close()


def test_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be budgeted"):
        budgeted(anthropic.Timeout(5), "1 call")


def test_the_example_runs() -> None:
    printed = run_example("with_anthropic.py")
    assert "of which 1495 to think" in printed
    assert "refused with 402: agent has 0 of 2 calls per run left" in printed
