"""Budgets in a forked process: one in memory refuses there, and one in a file counts both."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from budget_cpython import BudgetError, Ledger, budget, budgeted, open_ledger, parse_limits
from scripted_model import Reply, ScriptedEndpoint, ScriptedUsage
from tests.adapters.support import call_blocking
from tests.forked import in_child

BODY = {"model": "scripted", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 50}
WAY_OUT = "sqlite:budget.db"


def refuses() -> None:
    with pytest.raises(BudgetError, match=WAY_OUT):
        call_blocking()


def test_a_block_in_memory_refuses_in_a_forked_process() -> None:
    with budget("5 calls") as block:
        assert in_child(refuses) == 0
        call_blocking()
    assert block.spent["calls"] == 1


def test_a_block_that_was_made_before_the_fork_refuses_too() -> None:
    block = budget("5 calls")

    def enter() -> None:
        with block:
            refuses()

    assert in_child(enter) == 0


def test_a_ledger_in_memory_refuses_a_client_of_a_forked_process() -> None:
    ledger = Ledger()
    ledger.set_limits("acme", parse_limits("5 calls"))

    def enter() -> None:
        with budget("5 calls", ledger=ledger, account="acme"):
            refuses()

    assert in_child(enter) == 0


def test_a_client_in_memory_answers_402_in_a_forked_process(endpoint: ScriptedEndpoint) -> None:
    with httpx.Client(base_url=endpoint.base_url) as raw:
        client = budgeted(raw, "5 calls")

        def ask() -> None:
            answer = client.post("chat/completions", json=BODY)
            assert answer.status_code == 402
            assert WAY_OUT in answer.json()["error"]["message"]

        assert in_child(ask) == 0
        assert not endpoint.requests
        assert client.post("chat/completions", json=BODY).status_code == 200


@pytest.mark.parametrize("limits", ["10 min", "5 calls"])
def test_a_block_without_limits_that_refuse_goes_on_in_a_forked_process(limits: str) -> None:
    options: Any = {"enforcement": "observe"} if "calls" in limits else {}
    with budget(limits, **options):
        assert in_child(call_blocking) == 0


def test_a_block_that_a_forked_process_makes_is_its_own() -> None:
    def ask() -> None:
        with budget("1 call") as block:
            call_blocking()
        assert block.left == {"calls": 0}

    assert in_child(ask) == 0


def test_a_block_in_a_file_counts_forked_processes(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'budget.db'}"
    with budget("2 calls", ledger=url, account="acme"):
        assert in_child(call_blocking) == 0
        call_blocking()
        with pytest.raises(BudgetError, match="0 of 2"):
            call_blocking()
    with closing(open_ledger(url)) as ledger:
        assert ledger.balance("acme")[0].spent == 2


STREAM = """
import atexit, os, sys
import httpx
from budget_cpython import budgeted

given = {"ledger": sys.argv[2], "account": "acme"}
client = budgeted(httpx.Client(base_url=sys.argv[1]), "9000 tokens", **given)
asked = {"model": "told", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
with client.stream("POST", "chat/completions", json=asked) as answer:
    lines = answer.iter_lines()
    next(lines)
    if not os.fork():
        atexit._run_exitfuncs()
        os._exit(0)
    os.wait()
    for _ in lines:
        pass
"""


def test_a_call_that_is_open_is_not_settled_by_a_forked_process_that_ends(
    endpoint: ScriptedEndpoint, tmp_path: Path
) -> None:
    endpoint.scripts["told"] = Reply("word " * 20, usage=ScriptedUsage(100, 10))
    url = f"sqlite:{tmp_path}/budget.db"
    subprocess.run([sys.executable, "-c", STREAM, endpoint.base_url, url], check=True, timeout=60)
    with closing(open_ledger(url)) as ledger:
        (row,) = ledger.balance("acme")
        assert (row.spent, row.held) == (110, 0)
