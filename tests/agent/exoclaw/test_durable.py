"""exoclaw's durable executor, which keeps every answer in a journal."""

import json
import subprocess
import sys
from typing import Any

import pytest

from scripted_model import ScriptedEndpoint
from tests.ledger.dbos.support import database_url
from tests.paths import ROOT

from .play import PATIENCE


@pytest.fixture(scope="module")
def durable(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return what a turn and its replay saw."""
    with ScriptedEndpoint() as endpoint:
        database = database_url(tmp_path_factory.mktemp("durable"), "dbos")
        program = "tests.agent.exoclaw.durable_program"
        run = subprocess.run(
            [sys.executable, "-m", program, database, endpoint.base_url, "scripted"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    assert run.returncode == 0, run.stderr[-4000:]
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def test_a_turn_of_the_durable_executor_winds_down_within_its_budget(durable: list[Any]) -> None:
    assert durable[0]["calls"] == 4
    assert "I wrapped up here because of the budget notice." in durable[0]["reply"]


def test_the_journal_has_every_field_of_an_answer(durable: list[Any]) -> None:
    journal = durable[0]["journal"]
    assert len(journal) == 4
    for answer in journal:
        assert set(answer) == {
            "content",
            "tool_calls",
            "finish_reason",
            "usage",
            "reasoning_content",
            "thinking_blocks",
            "cost",
            "service_tier",
        }
    (call,) = journal[0]["tool_calls"]
    assert call == {"id": call["id"], "name": "list_files", "arguments": {}}


def test_a_replay_gives_the_same_answer_and_calls_no_model(durable: list[Any]) -> None:
    assert durable[1] == {"reply": durable[0]["reply"], "calls": 0}


def test_a_turn_that_goes_on_after_a_crash_counts_the_answers_of_its_journal(
    durable: list[Any],
) -> None:
    journal = [answer["usage"]["total_tokens"] for answer in durable[0]["journal"]]
    used = durable[2]
    assert (used["calls"], used["turns"], used["estimated"]) == (2, 4, 2)
    assert used["tool_calls"] == sum(len(one["tool_calls"]) for one in durable[0]["journal"])
    assert used["tokens"] - sum(journal[2:]) > 0.5 * sum(journal[:2])
    assert used["nano_usd"] == 1_000 * used["tokens"]
