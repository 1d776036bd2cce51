"""A budget round the clients of anthropic."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

anthropic = pytest.importorskip("anthropic")

from budget_cpython import BudgetExceededError, budgeted  # noqa: E402
from budget_cpython.endpoint import ScriptedEndpoint  # noqa: E402
from tests.adapters import sdk_cases as cases  # noqa: E402
from tests.adapters.sdk_cases import LIMIT, World, spent  # noqa: E402
from tests.adapters.support import run_example  # noqa: E402

HELLO: Any = [{"role": "user", "content": "Hello?"}]


class Messages:
    """Messages."""

    status_error = anthropic.APIStatusError

    def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
        kind = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
        return kind(base_url=endpoint.root_url, api_key="k")

    def ask(self, client: Any, model: str, tools: tuple[str, ...], limit: int) -> Any:
        schema = {"type": "object", "properties": {}}
        offered = [{"name": name, "input_schema": schema} for name in tools]
        more = {"tools": offered} if tools else {}
        create = client.messages.create
        return create(model=model, messages=HELLO, max_tokens=limit, **more)

    def stream(self, client: Any, model: str, limit: int) -> Any:
        create = client.messages.create
        return create(model=model, messages=HELLO, max_tokens=limit, stream=True)

    def text(self, event: Any) -> str:
        if hasattr(event, "content"):
            return "".join(block.text for block in event.content if block.type == "text")
        delta = getattr(event, "delta", None)
        return str(getattr(delta, "text", None) or "")

    def status(self, error: Any) -> int:
        return int(error.status_code)

    def tools(self, body: Any) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def close(self, stream: Any) -> Any:
        return stream.close()

    def end(self, client: Any, is_async: bool) -> Any:
        return client.close()


@pytest.fixture(params=[False, True], ids=["blocking", "async"])
def world(request: Any, endpoint: ScriptedEndpoint) -> Iterator[World]:
    found = World(Messages(), endpoint, request.param)
    yield found
    found.close()


def test_a_budgeted_client_is_of_the_very_same_class(world: World) -> None:
    cases.is_the_same_class(world)


def test_what_a_call_used_is_spent(world: World) -> None:
    cases.counts(world)


def test_a_call_draws_on_the_blocks_around_it(world: World) -> None:
    cases.draws_on_blocks(world)


def test_clients_share_an_account(world: World, tmp_path: Path) -> None:
    cases.shares_an_account(world, tmp_path)


def test_an_answer_is_cut_to_what_is_left(world: World) -> None:
    cases.lowers_the_limit(world)


@pytest.mark.feature("notice")
def test_the_model_is_told_near_a_limit(world: World) -> None:
    cases.tells_the_model(world)


@pytest.mark.feature("tool withdrawal")
def test_tools_are_withdrawn_near_a_limit(world: World) -> None:
    cases.withdraws_tools(world)


@pytest.mark.feature("fallback")
def test_the_fallback_answers_where_a_model_is_too_dear(world: World) -> None:
    cases.falls_back(world)


@pytest.mark.feature("reserved final call")
def test_the_last_call_that_fits_has_no_tools(world: World) -> None:
    cases.makes_a_final_call(world)


@pytest.mark.feature("refusal")
def test_a_refusal_raises_the_sdks_error_once(world: World) -> None:
    cases.refuses(world)


@pytest.mark.feature("refusal")
def test_a_refused_stream_raises_the_same(world: World) -> None:
    cases.refuses_a_stream(world)


@pytest.mark.feature("wait")
def test_a_call_waits_for_what_others_hold(world: World) -> None:
    cases.waits(world)


@pytest.mark.feature("stream")
def test_a_stream_is_passed_on_and_counted(world: World) -> None:
    cases.streams(world)


@pytest.mark.feature("broken stream")
def test_a_stream_that_breaks_off_keeps_its_hold(world: World) -> None:
    cases.counts_broken_streams(world)


@pytest.mark.feature("abort")
def test_a_cancelled_call_keeps_its_hold(world: World) -> None:
    cases.counts_cancelled_calls(world)


@pytest.mark.feature("deadline")
def test_a_call_ends_at_the_deadline(world: World) -> None:
    cases.ends_at_the_deadline(world)


@pytest.mark.feature("retries")
def test_each_attempt_is_counted_once(world: World) -> None:
    cases.counts_retries(world)


def test_calls_side_by_side_do_not_exceed_the_budget(world: World) -> None:
    cases.counts_parallel_calls(world)


def test_counting_tokens_is_free(world: World) -> None:
    world.budget("0 calls")
    count = world.client.messages.count_tokens
    assert world.run(count(model="scripted", messages=HELLO)).input_tokens > 0


def test_clients_with_other_options_stay_budgeted(world: World) -> None:
    ledger = world.budget("3 calls")
    client, other = world.client, Messages().client(world.endpoint, world.is_async)
    others = (
        client.with_options(max_retries=0),
        client.copy(timeout=5).with_options(http_client=other._client),
        client.with_options(max_retries=1),
    )
    for world.client in others:
        assert world.text()
    assert spent(ledger, "calls") == (3, 0)
    for world.client in others:
        assert isinstance(world.refused().__cause__, BudgetExceededError)
    world.run(other.close())


def test_raw_answers_are_counted(world: World) -> None:
    ledger = world.budget("1 call + 1000 tokens")
    asked: Any = {"model": "scripted", "messages": HELLO, "max_tokens": LIMIT}
    raw = world.run(world.client.messages.with_raw_response.create(**asked))
    assert world.run(raw.parse()).content
    assert spent(ledger) == (world.used, 0)
    with pytest.raises(anthropic.APIStatusError) as caught:
        world.run(world.client.messages.with_raw_response.create(**asked))
    assert isinstance(caught.value.__cause__, BudgetExceededError)


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


def test_other_errors_of_the_vendor_stay_as_they_are(world: World) -> None:
    ledger = world.budget("1000 tokens")
    with pytest.raises(anthropic.AuthenticationError) as caught:
        world.ask("error-401")
    assert caught.value.__cause__ is None
    assert spent(ledger) == (0, 0)


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
