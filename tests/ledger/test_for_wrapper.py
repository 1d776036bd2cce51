"""What a ledger counts of calls that a real client makes of a real endpoint."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from budget_cpython import (
    Budget,
    BudgetWrapper,
    ChatClient,
    Envelope,
    Ledger,
    Limit,
    Operative,
    ProviderError,
    estimate_tokens,
)
from budget_cpython.endpoint import ScriptedEndpoint
from tests.ledger.patience import NO_HURRY, until
from tests.ports import kept_port
from tests_micro.support import stopped_clock

HELLO = [{"role": "user", "content": "hello"}]
PROMPT = estimate_tokens(HELLO)
BOUND = 50
NOON = 20_000 * 86_400 + 43_200


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger(lambda: NOON)
    ledger.set_limits("org", [Limit("tokens", 10_000, "day")])
    return ledger


def standing(ledger: Ledger) -> tuple[int, int]:
    """Return what is spent and held."""
    [row] = ledger.balance("org")
    return row.spent, row.held


def ask(endpoint: ScriptedEndpoint, ledger: Ledger, model: str, **options: Any) -> Any:
    """Return the answer to one call, or raise what it raises."""
    return ask_at(endpoint.base_url, ledger, model, **options)


def ask_at(url: str, ledger: Ledger, model: str, **options: Any) -> Any:
    client = ChatClient(url, model, timeout_s=NO_HURRY)
    wrapper = BudgetWrapper(client, ledger=ledger, account="org/agent")
    return asyncio.run(wrapper.chat(HELLO, max_tokens=BOUND, **options))


async def _ignore(text: str) -> None:
    pass


@pytest.mark.parametrize("options", [{}, {"on_delta": _ignore}], ids=["whole", "streamed"])
def test_an_answer_counts_as_reported(
    endpoint: ScriptedEndpoint, ledger: Ledger, options: dict[str, Any]
) -> None:
    response = ask(endpoint, ledger, "scripted", **options)
    assert standing(ledger) == (response.usage["total_tokens"], 0)


@pytest.mark.parametrize("model", ["error-400", "error-429", "error-500"])
def test_a_refused_call_costs_nothing(
    endpoint: ScriptedEndpoint, ledger: Ledger, model: str
) -> None:
    with pytest.raises(ProviderError):
        ask(endpoint, ledger, model)
    assert standing(ledger) == (0, 0)


def test_a_call_that_never_left_costs_nothing(ledger: Ledger) -> None:
    with kept_port() as port, pytest.raises(ProviderError):
        ask_at(f"http://127.0.0.1:{port}/v1", ledger, "scripted")
    assert standing(ledger) == (0, 0)


@pytest.mark.parametrize("model", ["truncated", "not-json"])
def test_a_call_with_half_an_answer_is_charged_its_hold(
    endpoint: ScriptedEndpoint, ledger: Ledger, model: str
) -> None:
    with pytest.raises(ProviderError):
        ask(endpoint, ledger, model)
    assert standing(ledger) == (PROMPT + BOUND, 0)


def test_a_stream_that_is_cut_is_charged_its_hold(
    endpoint: ScriptedEndpoint, ledger: Ledger
) -> None:
    with pytest.raises(ProviderError):
        ask(endpoint, ledger, "stream-cut", on_delta=_ignore)
    assert standing(ledger) == (PROMPT + BOUND, 0)


def test_an_answer_without_a_report_counts_as_what_was_held(
    endpoint: ScriptedEndpoint, ledger: Ledger
) -> None:
    ask(endpoint, ledger, "no-usage")
    assert standing(ledger) == (PROMPT + BOUND, 0)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_run_counts_as_reported(endpoint: ScriptedEndpoint, ledger: Ledger, stream: bool) -> None:
    client = ChatClient(endpoint.base_url, "scripted", timeout_s=NO_HURRY)
    agent = Operative(
        client, budget=Budget(max_turns=3), stream=stream, ledger=ledger, account="org/agent"
    )
    result = agent.run_sync("hello")
    assert result.completed
    assert standing(ledger) == (result.usage["tokens"], 0)


def test_a_run_that_hangs_is_charged_its_hold(endpoint: ScriptedEndpoint, ledger: Ledger) -> None:
    client = ChatClient(endpoint.base_url, "hang", timeout_s=NO_HURRY)
    ticks, monotonic = stopped_clock()
    envelope = Envelope.open(Budget(timeout=NO_HURRY), monotonic)
    agent = Operative(client, budget=envelope, ledger=ledger, account="org/agent")

    def is_asked() -> bool:
        return "hang" in [one.body["model"] for one in endpoint.requests]

    async def run() -> Any:
        running = asyncio.ensure_future(agent.begin("hello").finish())
        await asyncio.to_thread(until, is_asked)
        ticks.advance(NO_HURRY * 1000)
        envelope.extend(timeout=0)  # which has it look at the clock
        return await running

    result = asyncio.run(run())
    assert result.reason is not None
    assert result.reason.kind == "timeout"
    assert standing(ledger) == (result.usage["tokens"], 0)
    assert result.usage["estimated"] == 1


def test_a_ledger_that_wrappers_have_used_is_freed_with_them() -> None:
    ledger = Ledger(lambda: NOON)
    ledger.set_limits("org", [Limit("tokens", 10_000, "day")])
    before = dict(vars(ledger))
    wrapper = BudgetWrapper(ChatClient("http://127.0.0.1:1", "key"), ledger=ledger, account="org")
    assert vars(ledger) == before
    freed = weakref.ref(ledger)
    del ledger, wrapper, before
    gc.collect()
    assert freed() is None
