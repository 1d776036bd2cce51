"""What a ledger is told of calls that a real client makes of a real endpoint."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from budget_cpython import (
    Budget,
    BudgetWrapper,
    ChatClient,
    Ledger,
    Limit,
    Operative,
    ProviderError,
    estimate_tokens,
)
from budget_cpython.endpoint import ScriptedEndpoint

HELLO = [{"role": "user", "content": "hello"}]
PROMPT = estimate_tokens(HELLO)
BOUND = 50


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def ledger() -> Ledger:
    ledger = Ledger()
    ledger.set_limits("org", [Limit("tokens", 10_000, "day")])
    return ledger


def standing(ledger: Ledger) -> tuple[int, int]:
    """Return what is spent and held."""
    [row] = ledger.balance("org")
    return row.spent, row.held


def ask(endpoint: ScriptedEndpoint, ledger: Ledger, model: str, **options: Any) -> Any:
    """Return the answer to one call, or raise what it raises."""
    client = ChatClient(endpoint.base_url, model, timeout_s=5)
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
    with ScriptedEndpoint() as gone:
        pass
    with pytest.raises(ProviderError):
        ask(gone, ledger, "scripted")
    assert standing(ledger) == (0, 0)


@pytest.mark.parametrize("model", ["truncated", "not-json"])
def test_a_call_with_half_an_answer_keeps_its_hold(
    endpoint: ScriptedEndpoint, ledger: Ledger, model: str
) -> None:
    with pytest.raises(ProviderError):
        ask(endpoint, ledger, model)
    assert standing(ledger) == (0, PROMPT + BOUND)


def test_a_stream_that_is_cut_keeps_its_hold(endpoint: ScriptedEndpoint, ledger: Ledger) -> None:
    with pytest.raises(ProviderError):
        ask(endpoint, ledger, "stream-cut", on_delta=_ignore)
    assert standing(ledger) == (0, PROMPT + BOUND)


def test_an_answer_without_a_report_counts_as_what_was_held(
    endpoint: ScriptedEndpoint, ledger: Ledger
) -> None:
    ask(endpoint, ledger, "no-usage")
    assert standing(ledger) == (PROMPT + BOUND, 0)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_run_counts_as_reported(endpoint: ScriptedEndpoint, ledger: Ledger, stream: bool) -> None:
    client = ChatClient(endpoint.base_url, "scripted", timeout_s=5)
    agent = Operative(
        client, budget=Budget(max_turns=3), stream=stream, ledger=ledger, account="org/agent"
    )
    result = agent.run_sync("hello")
    assert result.completed
    assert standing(ledger) == (result.usage["tokens"], 0)


def test_a_run_that_hangs_keeps_its_hold(endpoint: ScriptedEndpoint, ledger: Ledger) -> None:
    client = ChatClient(endpoint.base_url, "hang", timeout_s=5)
    budget = Budget(timeout=0.2)
    result = Operative(client, budget=budget, ledger=ledger, account="org/agent").run_sync("hello")
    assert result.reason is not None
    assert result.reason.kind == "timeout"
    spent, held = standing(ledger)
    assert spent == 0 < held
