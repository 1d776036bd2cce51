"""`repeats=`: the same call again and again is refused, by the blocks and accounts around it."""

import asyncio
import threading
from typing import Any

import pytest

from budget_core.repeats import RepeatedCallError
from budget_cpython import Ledger, budget, budgeted
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import BudgetedCall, apart
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.provider_errors import UnbilledError
from budget_cpython.ledger.limit_parser import parse_limits
from tests.adapters.support import a_request, an_answer, call_async, call_blocking


def test_a_block_refuses_the_same_call_again_and_again() -> None:
    with budget("$5 + 99 calls", repeats=4) as block:
        for _ in range(2):
            call_blocking()
        asyncio.run(call_async())
        with pytest.raises(RepeatedCallError, match="repeats=4 refuses this one"):
            call_blocking()
        with pytest.raises(RepeatedCallError):
            asyncio.run(call_async())
        call_blocking(tools=[{"name": "look", "native": None}])
        call_blocking()
    assert (block.spent["calls"], block.held) == (5, {})
    call_blocking()


def test_a_block_compares_nothing_by_default() -> None:
    with budget("99 calls") as block:
        for _ in range(20):
            call_blocking()
    assert block.spent["calls"] == 20


def test_calls_that_failed_or_were_left_are_not_repeats() -> None:
    with budget("99 calls", repeats=2):
        for end in ("fail", "unbilled", "abandon"):
            call = BudgetedCall((), a_request())
            call.begin_blocking()
            if end == "abandon":
                call.abandon()
            else:
                call.fail_blocking(UnbilledError() if end == "unbilled" else OSError())
        call_blocking()
        with pytest.raises(RepeatedCallError):
            call_blocking()


def test_calls_in_flight_count_when_they_are_answered() -> None:
    with budget("99 calls", repeats=3):
        calls = [BudgetedCall((), a_request()) for _ in range(5)]
        for call in calls:
            call.begin_blocking()
        for call in calls:
            call.end_blocking(an_answer())
        with pytest.raises(RepeatedCallError):
            call_blocking()


def test_a_call_that_another_answers_counts_once() -> None:
    """As a framework's model has a client that is counted as well."""
    with budget("99 calls", repeats=3):
        for _ in range(2):
            outer = BudgetedCall((), a_request())
            outer.begin_blocking()
            with outer.answering():
                call_blocking()
            outer.end_blocking(an_answer())
        with pytest.raises(RepeatedCallError):
            call_blocking()


def test_a_call_of_a_tool_is_one_of_its_own() -> None:
    with budget("99 calls", repeats=3):
        outer = BudgetedCall((), a_request())
        outer.begin_blocking()
        with outer.answering(), apart():
            call_blocking()
        outer.end_blocking(an_answer())
        with pytest.raises(RepeatedCallError):
            call_blocking()


def test_each_block_and_client_compares_for_itself() -> None:
    own = BudgetAccount(parse_limits("99 calls"), repeats=3)
    with budget("99 calls", repeats=5) as outer:
        for _ in range(2):
            call_blocking(own)
        with pytest.raises(RepeatedCallError, match="repeats=3"):
            call_blocking(own)
        for _ in range(2):
            call_blocking()
        with pytest.raises(RepeatedCallError, match="repeats=5"):
            call_blocking()
    assert outer.spent["calls"] == 4


def test_an_account_above_the_one_that_is_drawn_on_compares_too() -> None:
    ledger = Ledger()
    own = BudgetAccount(parse_limits("99 calls"), ledger, "team/me")
    with budget("99 calls", ledger=ledger, account="team", repeats=2):
        call_blocking(own)
        with pytest.raises(RepeatedCallError):
            call_blocking(own)


@pytest.mark.parametrize("mode", ["warn", "observe"])
def test_where_limits_refuse_nothing_repeats_are_not_refused_either(mode: str) -> None:
    with budget("1 calls", repeats=2, enforcement=mode) as block:
        for _ in range(4):
            call_blocking()
    assert block.spent["calls"] == 4


def test_threads_share_the_row_of_a_block() -> None:
    refused = []

    def ask() -> None:
        try:
            call_blocking()
        except RepeatedCallError as error:
            refused.append(error)

    with budget("99 calls", repeats=3):
        for _ in range(5):
            thread = threading.Thread(target=ask)
            thread.start()
            thread.join()
    assert len(refused) == 3


@pytest.mark.parametrize("repeats", [0, 1, 2.5, True])
def test_a_malformed_number_is_refused(repeats: Any) -> None:
    with pytest.raises(ValueError, match="repeats must be a whole number >= 2"):
        budget("9 calls", repeats=repeats)


def test_a_function_has_a_row_of_its_own_in_each_of_its_calls() -> None:
    @budgeted("99 calls", repeats=3)
    def agent(calls: int) -> None:
        for _ in range(calls):
            call_blocking()

    agent(2)
    agent(2)
    with pytest.raises(RepeatedCallError):
        agent(3)


def test_where_only_tools_are_called_nothing_would_be_compared() -> None:
    tools = Caller("mcp", models=False)
    with pytest.raises(ValueError, match="mcp counts calls of tools: repeats"):
        accounts_of("9 tool_calls", None, None, tools, repeats=3)
