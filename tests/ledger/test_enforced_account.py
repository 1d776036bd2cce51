"""What a ledger counts of calls that a real client makes of a real endpoint."""

import asyncio
import gc
import weakref
from collections.abc import Iterator
from copy import copy
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
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from scripted_model import ScriptedEndpoint
from tests.ledger.patience import NO_HURRY, until
from tests_micro.script import Script, says
from tests_micro.support import stopped_clock

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


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_run_counts_as_reported(endpoint: ScriptedEndpoint, ledger: Ledger, stream: bool) -> None:
    client = ChatClient(endpoint.base_url, "scripted", timeout_s=NO_HURRY)
    agent = Operative(
        client, budget=Budget(max_turns=3), stream=stream, ledger=ledger, account="org/agent"
    )
    result = agent.run_sync("hello")
    assert result.completed
    assert standing(ledger) == (result.usage["tokens"], 0)


def test_a_copy_of_a_wrapper_has_a_tracker_and_a_model_of_its_own(ledger: Ledger) -> None:
    models = [Script(says("hi", {"total_tokens": 30}), model=name) for name in ("m", "other")]
    trackers = [TurnBudgetTracker(TurnBudgetConfig()) for _ in models]
    wrapper = BudgetWrapper(models[0], trackers[0], ledger=ledger, account="org/agent")
    other = copy(wrapper)
    other.tracker, other.inner = trackers[1], models[1]
    asyncio.run(other.chat([{"role": "user", "content": "hello"}]))
    assert [tracker.iterations_seen for tracker in trackers] == [0, 1]
    assert [len(model.requests) for model in models] == [0, 1]
    assert standing(ledger) == (30, 0)


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
