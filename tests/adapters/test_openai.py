"""A budget round the clients of openai."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

openai = pytest.importorskip("openai")

from budget_cpython import BudgetExceededError, budgeted  # noqa: E402
from budget_cpython.endpoint import ScriptedEndpoint  # noqa: E402
from budget_cpython.endpoint.calls import Reply  # noqa: E402
from tests.adapters import sdk_cases as cases  # noqa: E402
from tests.adapters.sdk_cases import LIMIT, World, spent  # noqa: E402
from tests.adapters.support import run_example  # noqa: E402

HELLO: Any = [{"role": "user", "content": "Hello?"}]


class Chat:
    """Chat completions."""

    status_error = openai.APIStatusError

    def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
        kind = openai.AsyncOpenAI if is_async else openai.OpenAI
        return kind(base_url=endpoint.base_url, api_key="k")

    def ask(self, client: Any, model: str, tools: tuple[str, ...], limit: int) -> Any:
        offered = [{"type": "function", "function": {"name": name}} for name in tools]
        more = {"tools": offered} if tools else {}
        create = client.chat.completions.create
        return create(model=model, messages=HELLO, max_tokens=limit, **more)

    def stream(self, client: Any, model: str, limit: int) -> Any:
        create = client.chat.completions.create
        return create(model=model, messages=HELLO, max_tokens=limit, stream=True)

    def text(self, event: Any) -> str:
        choice = event.choices[0]
        said = getattr(choice, "delta", None) or choice.message
        return said.content or ""

    def status(self, error: Any) -> int:
        return int(error.status_code)

    def tools(self, body: Any) -> list[str]:
        return [tool["function"]["name"] for tool in body.get("tools", ())]

    def close(self, stream: Any) -> Any:
        return stream.close()

    def end(self, client: Any, is_async: bool) -> Any:
        return client.close()


class Responses(Chat):
    """Responses."""

    def ask(self, client: Any, model: str, tools: tuple[str, ...], limit: int) -> Any:
        schema: Any = {"type": "object", "properties": {}}
        offered = [{"type": "function", "name": name, "parameters": schema} for name in tools]
        more = {"tools": offered} if tools else {}
        create = client.responses.create
        return create(model=model, input="Hello?", max_output_tokens=limit, **more)

    def stream(self, client: Any, model: str, limit: int) -> Any:
        create = client.responses.create
        return create(model=model, input="Hello?", max_output_tokens=limit, stream=True)

    def text(self, event: Any) -> str:
        if hasattr(event, "output_text"):
            return str(event.output_text)
        return str(event.delta) if event.type == "response.output_text.delta" else ""

    def tools(self, body: Any) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]


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


def test_clients_with_other_options_stay_budgeted(chat: World) -> None:
    ledger = chat.budget("3 calls")
    client, other = chat.client, Chat().client(chat.endpoint, chat.is_async)
    others = (
        client.with_options(max_retries=0),
        client.copy(timeout=5).with_options(http_client=other._client),
        client.with_options(max_retries=1),
    )
    for chat.client in others:
        assert chat.text()
    assert spent(ledger, "calls") == (3, 0)
    for chat.client in others:
        assert isinstance(chat.refused().__cause__, BudgetExceededError)
    chat.run(other.close())


def test_raw_answers_are_counted(chat: World) -> None:
    ledger = chat.budget("1 call + 1000 tokens")
    asked: Any = {"model": "scripted", "messages": HELLO, "max_tokens": LIMIT}
    raw = chat.run(chat.client.chat.completions.with_raw_response.create(**asked))
    used = chat.run(raw.parse()).usage.total_tokens
    assert spent(ledger) == (used, 0)
    with pytest.raises(openai.APIStatusError) as caught:
        chat.run(chat.client.chat.completions.with_raw_response.create(**asked))
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


def test_other_errors_of_the_vendor_stay_as_they_are(chat: World) -> None:
    ledger = chat.budget("1000 tokens")
    with pytest.raises(openai.AuthenticationError) as caught:
        chat.ask("error-401")
    assert caught.value.__cause__ is None
    assert spent(ledger) == (0, 0)


def test_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be budgeted"):
        budgeted(openai.Timeout(5), "1 call")


def test_the_example_runs() -> None:
    printed = run_example("with_openai.py")
    assert "told [Budget notice]" in printed
    assert "refused with 402: agent has 0 of 4 calls per run left" in printed
