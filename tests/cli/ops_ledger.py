"""A ledger with a tree of accounts, for the tests of operators' commands; its windows never end."""

import json
from pathlib import Path
from typing import Any

import pytest

from budget_cpython import SqliteLedger, parse_limits
from budget_cpython.cli import main

LIMITS = {
    "acme": "$100",
    "acme/research": "$20 + 300 calls",
    "acme/research/ann": "$2",
    "acme/support": "500 calls + 20 tool:search",
    "trial": "1000 tokens",
}


def make_ledger(folder: Path) -> str:
    """Make a ledger of which `acme/research/ann` is over, and return its URL."""
    path = folder / "ledger.db"
    with SqliteLedger(path) as ledger:
        for account, text in LIMITS.items():
            ledger.set_limits(account, parse_limits(text))
        ledger.charge("acme/research/ann", {"usd": "2.50", "calls": 3})
        ledger.charge("acme/support", {"calls": 420})
        ledger.reserve("acme/research", {"usd": "0.12", "calls": 1}, key="job-1/step-2", ttl=3600)
    return f"sqlite:{path}"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """Run a command and return what it printed; its error where it fails."""
    assert main(list(arguments)) == code
    said = capsys.readouterr()
    return said.err if code in (1, 2) else said.out


def printed_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """Run a command with `--json` and return what it printed."""
    return json.loads(printed(capsys, *arguments, "--json"))
