"""A framework's call whose client repeats an attempt that broke off: both count."""

import asyncio
from typing import Any

import httpx
import httpx2
import pytest

from budget_cpython import BudgetExceededError, budget
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.settling import answering, answering_blocking
from scripted_model import ApiError, Asked, Reply, ScriptedEndpoint
from tests.adapters.support import a_request, an_answer, tokens, used
from tests.adapters.test_instrumented import BODY, KINDS, Sender


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def sender(request: Any, endpoint: ScriptedEndpoint) -> Any:
    made = Sender(request.param, endpoint.base_url)
    yield made
    made.close()


def breaks(asked: Asked) -> Reply:
    raise ConnectionError


def an_account(limits: str) -> Any:
    (account,) = accounts_of(limits, None, None, Caller("framework"))
    return account


def post(sender: Sender, name: str) -> Any:
    return sender.post(json={**BODY, "model": name})


def test_the_attempt_after_one_that_broke_off_is_a_call_of_its_own(
    sender: Sender, endpoint: ScriptedEndpoint
) -> None:
    endpoint.scripts["breaks"] = breaks
    account = an_account("2 calls")
    call = BudgetedCall((account,), a_request())
    call.begin_blocking()
    with call.answering():
        with pytest.raises((httpx.TransportError, httpx2.TransportError)):
            post(sender, "breaks")
        assert used(account, "calls") == (1, 0)  # it may have been billed
        assert post(sender, "scripted").status_code == 200
        assert post(sender, "scripted").status_code == 402
    call.end_blocking(an_answer())
    assert used(account, "calls") == (2, 0)
    assert len(endpoint.requests) == 2


def test_the_usage_of_the_repeated_attempt_is_that_of_its_own_answer(
    sender: Sender, endpoint: ScriptedEndpoint
) -> None:
    endpoint.scripts["breaks"] = breaks
    account = an_account("9 calls + 100_000 tokens")
    with budget("9 calls + 100_000 tokens") as block:
        call = BudgetedCall((account,), a_request())
        call.begin_blocking()
        with call.answering():
            with pytest.raises((httpx.TransportError, httpx2.TransportError)):
                post(sender, "breaks")
            broken, _ = used(account)
            post(sender, "scripted")
        call.end_blocking(an_answer())
    for counted in (account, block.account):
        assert used(counted) == (broken + tokens(endpoint), 0)
        assert used(counted, "calls") == (2, 0)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_refusal_of_the_repeated_attempt_raises_the_budgets_error(
    endpoint: ScriptedEndpoint, is_async: bool
) -> None:
    openai = pytest.importorskip("openai")
    endpoint.scripts["breaks"] = breaks
    account = an_account("1 call")
    call = BudgetedCall((account,), a_request())
    where = {"base_url": endpoint.base_url, "api_key": "k", "max_retries": 2}
    asked: Any = {**BODY, "model": "breaks"}

    def ask() -> None:
        with openai.OpenAI(**where) as client, answering_blocking(call):
            client.chat.completions.create(**asked)

    async def ask_async() -> None:
        async with openai.AsyncOpenAI(**where) as client, answering(call):
            await client.chat.completions.create(**asked)

    call.begin_blocking()
    with pytest.raises(BudgetExceededError, match="0 of 1 calls"):
        asyncio.run(ask_async()) if is_async else ask()
    assert len(endpoint.requests) == 1


def test_an_attempt_that_the_provider_refused_costs_nothing(
    sender: Sender, endpoint: ScriptedEndpoint
) -> None:
    def refuses(asked: Asked) -> Reply:
        raise ApiError(429, "Rate limit reached.")

    endpoint.scripts["refuses"] = refuses
    account = an_account("1 call")
    call = BudgetedCall((account,), a_request())
    call.begin_blocking()
    with call.answering():
        assert post(sender, "refuses").status_code == 429
        assert post(sender, "scripted").status_code == 200
    call.end_blocking(an_answer())
    assert used(account, "calls") == (1, 0)
