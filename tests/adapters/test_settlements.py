"""Every end of a call, through a call of an SDK, blocking and in asyncio."""

import asyncio
from typing import Any

import pytest

from budget_core import Limit
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.vendors.request import LlmRequest
from tests.adapters.support import used
from tests_micro.settlement_cases import (
    CASES,
    HELD,
    LIMIT,
    MESSAGES,
    MODEL,
    PRICE,
    error_of,
    response_of,
)

LIMITS = [Limit("tokens", 10_000), Limit("nano_usd", 10**9)]
BY_CASE = pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])


def opened(case: Any, estimates: bool) -> tuple[BudgetAccount, BudgetedCall]:
    account = BudgetAccount(LIMITS, prices={MODEL: PRICE}, estimates=estimates)
    request = LlmRequest(MODEL, MESSAGES, max_tokens=LIMIT, stream="stream" in case)
    return account, BudgetedCall([account], request)


def count(call: BudgetedCall, case: Any) -> None:
    """Count what comes of a stream."""
    for piece in case.get("stream", ()):
        if isinstance(piece, str):
            call.on_text(piece)
        else:
            call.report = piece


def stands(account: BudgetAccount) -> tuple[tuple[int, int], tuple[int, int]]:
    return used(account), used(account, "nano_usd")


def expected(charged: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    tokens, nano_usd = charged or (0, 0)
    return (tokens, 0), (nano_usd, 0)


@pytest.mark.parametrize("estimates", [False, True])
@BY_CASE
def test_a_blocking_call_charges_each_end(case: Any, estimates: bool) -> None:
    account, call = opened(case, estimates)
    call.begin_blocking()
    assert stands(account) == ((0, HELD[0]), (0, HELD[1]))
    count(call, case)
    error = error_of(case)
    if error is None:
        call.end_blocking(response_of(case))
    else:
        call.fail_blocking(error)
    assert stands(account) == expected(case["estimates" if estimates else "charged"])


@BY_CASE
def test_an_awaited_call_charges_each_end(case: Any) -> None:
    async def main() -> None:
        account, call = opened(case, False)
        await call.begin()
        count(call, case)
        error = error_of(case)
        await (call.end(response_of(case)) if error is None else call.fail(error))
        assert stands(account) == expected(case["charged"])

    asyncio.run(main())


@pytest.mark.parametrize("how", ["abandoned", "forgotten"])
@BY_CASE
def test_a_call_that_is_left_charges_its_hold_or_what_is_known_if_more(case: Any, how: str) -> None:
    account, call = opened(case, False)
    call.begin_blocking()
    count(call, case)
    if how == "abandoned":
        call.abandon()
    del call
    account.deliver()
    assert stands(account) == expected(_broken(case))


def _broken(case: Any) -> Any:
    """Return the charge of a case whose answer did not come."""
    late = [one["charged"] for one in CASES if one.get("stream") == case.get("stream")]
    return max([HELD, *(one for one in late if case.get("stream") and one is not None)])
