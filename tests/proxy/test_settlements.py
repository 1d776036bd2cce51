"""Every end of a call, through the proxy and `microbudget run`."""

import sys
from typing import Any

import pytest

from budget_core import Limit
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.proxy import Proxy
from budget_cpython.run.accounts import DeferredAccount
from budget_cpython.run.environment import Routes
from budget_cpython.run.within import run_within
from tests.proxy.settlements import PRICES, SENT, ask, behind
from tests.proxy.support import until
from tests.run.support import environment

CHARGED = [case["charged"] for case in SENT if case["charged"] is not None]


def an_account() -> BudgetAccount:
    limits = [Limit("tokens", 100_000), Limit("nano_usd", 10**12), Limit("calls", 999)]
    return BudgetAccount(limits, prices=PRICES)


def check(account: BudgetAccount, rows: Any) -> None:
    """Check what is charged, in all and by case."""
    spent = {row.axis: (row.spent, row.held) for row in account.balance()}
    tokens, nano_usd = (sum(figures) for figures in zip(*CHARGED, strict=True))
    found = {
        case["case"]: (row.input + row.output, row.nano_usd)
        for case, row in ((SENT[int(model.partition("-")[2])], row) for model, row in rows.items())
    }
    assert found == {case["case"]: case["charged"] for case in SENT if case["charged"] is not None}
    assert (spent["tokens"], spent["nano_usd"]) == ((tokens, 0), (nano_usd, 0))
    assert spent["calls"] == (len(CHARGED), 0)
    unsure = [case for case in SENT if case["charged"] and _is_estimated(case)]
    assert sum(row.estimated for row in rows.values()) == len(unsure)


def _is_estimated(case: Any) -> bool:
    return "error" in case or case["used"][2] == "estimated"


@pytest.mark.parametrize("notices", [False, True])
def test_a_proxy_charges_each_end(notices: bool) -> None:
    account = an_account()
    with behind() as server:
        proxy = Proxy({"openai": server.url}, [account], notices=notices)
        with proxy.running() as url:
            ask(url)
            until(lambda: len(proxy.usage.rows()) == len(CHARGED))
        check(account, proxy.usage.rows())


def test_a_run_charges_each_end() -> None:
    account = an_account()
    with behind() as server:
        routes = Routes({"openai": server.url}, {"MODELS_URL": ""})
        code = "import os; from tests.proxy.settlements import ask; ask(os.environ['MODELS_URL'])"
        report = run_within(
            [DeferredAccount(account.ledger, account.path, lambda: PRICES)],
            None,
            routes,
            [sys.executable, "-c", code],
            environment(),
            grace=5,
            shows=False,
            notices=False,
            strict=False,
        )
    assert report.exit_code == 0
    check(account, report.usage.rows())
