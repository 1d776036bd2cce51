"""What a ledger is told of calls that are closed, as generators are, or whose loop is gone."""

import asyncio
from typing import Any

import pytest

from budget_core.agent.llm_call import Request
from budget_core.agent.llm_gate import Gate
from budget_cpython import Budget, BudgetWrapper, Envelope, Ledger, Limit
from tests_micro.script import Script, says

NOON = 20_000 * 86_400 + 43_200
HELLO = [{"role": "user", "content": "hello"}]
MOST_ANSWER = 4096
REPORT = {"prompt_tokens": 5_000, "completion_tokens": 1, "total_tokens": 5_001}


def silent(*reports: dict[str, int]) -> Script:
    """Return a provider that never answers, but may report what was used."""

    async def wait(request: dict[str, Any]) -> None:
        for report in reports:
            request["on_delta"].usage = report
        await asyncio.Event().wait()

    return Script(wait, model="m")


class Awaited:
    """A ledger whose methods take a moment, before and after they do their work."""

    def __init__(self, ledger: Ledger) -> None:
        self.beneath = ledger

    def __getattr__(self, name: str) -> Any:
        async def later(*arguments: Any) -> Any:
            await asyncio.sleep(0)
            result = getattr(self.beneath, name)(*arguments)
            await asyncio.sleep(0)
            return result

        return later


def make_ledger() -> Ledger:
    """Return a ledger with the account `org`."""
    ledger = Ledger(lambda: NOON)
    ledger.set_limits("org", [Limit("tokens", 10_000, "day")])
    return ledger


def standing(ledger: Ledger) -> tuple[int, int]:
    """Return what is spent and held."""
    [row] = ledger.balance("org")
    return row.spent, row.held


async def ignore(text: str) -> None:
    """Take a piece of an answer."""


async def driven(pending: Any, steps: int) -> None:
    """Go so many steps of the loop with a coroutine, and close it."""
    awaited = pending.send(None)
    for _ in range(steps):
        await asyncio.sleep(0)
        if awaited is None or awaited.done():
            awaited = pending.send(None)
    pending.close()
    for _ in range(9):
        await asyncio.sleep(0)


WAYS = pytest.mark.parametrize("wrap", [lambda ledger: ledger, Awaited], ids=["blocks", "awaited"])


@WAYS
def test_a_closed_run_is_charged_the_hold_of_a_model_that_was_asked_and_no_other(
    wrap: Any,
) -> None:
    async def leave(steps: int, model: Script) -> tuple[int, int]:
        ledger = make_ledger()
        gate = Gate(model, Envelope.open(Budget()), ledger=wrap(ledger), account="org/a")
        await driven(gate.ask(Request(HELLO)), steps)
        assert gate.envelope.tokens.held == 0
        await gate.envelope.ledger.flush()
        return standing(ledger)

    for steps in range(20):
        model = silent()
        spent, held = asyncio.run(leave(steps, model))
        assert (spent > MOST_ANSWER, held > MOST_ANSWER) == (bool(model.requests), False)
    assert model.requests


@WAYS
def test_a_closed_call_whose_reservation_is_under_way_holds_nothing(
    wrap: Any,
) -> None:
    async def leave(steps: int, model: Script) -> tuple[int, int]:
        ledger = make_ledger()
        wrapper: Any = BudgetWrapper(model, ledger=wrap(ledger), account="org/a")
        await driven(wrapper.chat(HELLO), steps)
        await wrapper.flush()
        return standing(ledger)

    for steps in range(12):
        model = silent()
        spent, held = asyncio.run(leave(steps, model))
        assert (spent > MOST_ANSWER, held > MOST_ANSWER) == (bool(model.requests), False)
    assert model.requests


def test_a_stream_whose_loop_is_closed_can_be_closed_and_is_recorded() -> None:
    ledger = make_ledger()

    async def begin() -> None:
        pending.send(None)
        await asyncio.sleep(0)

    wrapper: Any = BudgetWrapper(silent(REPORT), ledger=ledger, account="org/a")
    pending = wrapper.chat(HELLO, on_delta=ignore)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(begin())
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    pending.close()
    assert asyncio.run(wrapper.flush())
    assert standing(ledger) == (5_001, 0)


def test_a_call_without_a_loop_is_recorded() -> None:
    ledger = make_ledger()
    model = Script(says("hi", REPORT), model="m")
    pending: Any = BudgetWrapper(model, ledger=ledger, account="org/a").chat(HELLO)
    with pytest.raises(StopIteration):
        pending.send(None)
    assert standing(ledger) == (5_001, 0)
