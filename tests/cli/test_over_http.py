"""Operators' commands on a ledger behind `microbudget serve`, with a key."""

from pathlib import Path

import pytest

from budget_cpython.web.keys import KeyFile
from tests.cli.ops_ledger import make_ledger, printed, printed_json
from tests.serve.support import Service


def test_all_commands_work_over_http(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    keys, secret = tmp_path / "keys.json", tmp_path / "key"
    secret.write_text(KeyFile(keys).add("ops", "*", ["read", "reserve", "charge", "limits"]))
    engine, listen = ("--engine", make_ledger(tmp_path)), ("--listen", "127.0.0.1:0")
    with Service(*engine, *listen, "--keys", keys) as service:
        ledger = ("--ledger", service.url, "--ledger-key", f"@{secret}")
        assert "5 accounts, 1 over" in printed(capsys, "status", *ledger)
        assert "1 open hold" in printed(capsys, "top", "--once", *ledger)
        assert "$2" in printed(capsys, "history", "acme/research/ann", *ledger)
        printed(capsys, "limits", "set", "trial", "5 calls", "--yes", *ledger)
        shown = printed_json(capsys, "limits", "show", "trial", *ledger)
        assert shown == {"trial": [{"axis": "calls", "limit": 5, "window": "run"}]}
        printed(capsys, "holds", "release", "job-1/step-2", "--yes", *ledger)
        assert printed(capsys, "holds", *ledger) == "no hold is open\n"
        assert printed_json(capsys, "suggest", *ledger) == []
        assert printed_json(capsys, "doctor", *ledger)["ledger"] == service.url
        assert "key" in printed(capsys, "status", "--ledger", service.url, code=1)
