"""The commands `microbudget alerts watch` and `microbudget alerts test`, and `--alerts`."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_cpython.cli import main
from budget_cpython.ledger.opening import open_ledger
from budget_cpython.web.keys import KeyFile
from tests.alerts.support import Receiver, calls
from tests.ports import kept_port
from tests.proxy.support import ProxyCommand, until
from tests.serve.support import Service


class Alerts(Service):
    """The command `microbudget alerts`."""

    COMMAND = ["alerts"]


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    """Return the URL of a ledger with an account that is at half of its limit."""
    url = f"sqlite:{tmp_path / 'ledger.db'}"
    with closing(open_ledger(url)) as opened:
        calls(opened, "org/team", 10, 5, "run")
    return url


def settings(folder: Path, **urls: str) -> str:
    """Write channels at 50 percent, and return the file's path."""
    rows = [f'[[alerts]]\nname = "{name}"\nto = "{url}"\nat = 50\n' for name, url in urls.items()]
    file = folder / "budgets.toml"
    file.write_text('[accounts."org"]\nlimit = "100 calls/day"\n\n' + "\n".join(rows))
    return str(file)


def test_a_test_says_what_became_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Receiver() as receiver, kept_port() as port:
        file = settings(tmp_path, ops=receiver.url, nowhere=f"http://127.0.0.1:{port}")
        assert main(["alerts", "test", file]) == 1
        said = capsys.readouterr()
        assert (said.out, said.err) == ("ops: sent\n", "nowhere: ConnectError\n")
        assert main(["alerts", "test", file, "--to", "ops"]) == 0
        assert len(set(receiver.ids)) == 2
        capsys.readouterr()
        assert main(["alerts", "test", file, "--json"]) == 1
        assert json.loads(capsys.readouterr().out)["alerts"] == [
            {"to": "ops", "sent": True, "reason": ""},
            {"to": "nowhere", "sent": False, "reason": "ConnectError"},
        ]
    assert main(["alerts", "test", file, "--to", "desk"]) == 2
    assert "no channel is named 'desk': there are ops, nowhere" in capsys.readouterr().err


def test_one_look_sends_what_is_due(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Receiver(lambda number: 500 if number == 2 else 200) as receiver:
        command = ["alerts", "watch", settings(tmp_path, ops=receiver.url), "--once"]
        assert main([*command, "--ledger", ledger]) == 0
        assert capsys.readouterr().out == "crossings: 1, alerts sent: 1, attempts failed: 0\n"
        (body,) = receiver.bodies
        assert body["subject"] == "org/team"
        with closing(open_ledger(ledger)) as opened:
            calls(opened, "lab", 2, 1, "run")
        assert main([*command, "--ledger", ledger, "--json"]) == 1
        said = json.loads(capsys.readouterr().out)
        assert said == {"crossings": 1, "delivered": 0, "failed": 1}


def test_what_is_wrong_is_said_at_once(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "budgets.toml"
    file.write_text('[[alerts]]\nto = "https://example.com"\nat = "many"\n')
    assert main(["alerts", "watch", str(file), "--ledger", ledger]) == 2
    assert main(["serve", "--engine", ledger, "--alerts", str(file)]) == 2
    assert capsys.readouterr().err.count("whole percents") == 2
    assert main(["alerts", "test", str(tmp_path / "none")]) == 1


@pytest.mark.parametrize("once", [["--once"], []])
def test_a_ledger_that_is_not_there_is_refused_and_not_made(
    tmp_path: Path, once: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "bugdet.db"
    file = settings(tmp_path, ops="http://localhost:1")
    assert main(["alerts", "watch", file, "--ledger", f"sqlite:{missing}", *once]) == 1
    assert "there is no ledger" in capsys.readouterr().err
    assert not missing.exists()


def test_a_watch_runs_until_it_is_told_to_stop(tmp_path: Path, ledger: str) -> None:
    with Receiver() as receiver:
        file = settings(tmp_path, ops=receiver.url)
        with Alerts("watch", file, "--ledger", ledger, "--every", "0.05") as watch:
            assert watch.url == "watching for ops"
            until(lambda: len(receiver.ids) == 1)
            with closing(open_ledger(ledger)) as opened:
                calls(opened, "lab", 2, 1, "run")
            until(lambda: len(receiver.ids) == 2)
            assert watch.end() == (0, "")


def test_a_service_sends_alerts(tmp_path: Path, ledger: str) -> None:
    with Receiver() as receiver:
        file = settings(tmp_path, ops=receiver.url)
        more: tuple[Any, ...] = ("--engine", ledger, "--listen", "127.0.0.1:0", "--alerts", file)
        with Service(*more) as service:
            until(lambda: len(receiver.ids) == 1)
            assert service.end() == (0, "")


def test_a_ledger_over_http_is_watched(
    tmp_path: Path, ledger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = tmp_path / "keys.json"
    for name, account in (("all", "*"), ("team", "org")):
        key = KeyFile(keys).add(name, account, ["read", "limits"])
        (tmp_path / name).write_text(key)
    more = ("--engine", ledger, "--listen", "127.0.0.1:0", "--keys", keys)
    with Receiver() as receiver, Service(*more) as service:
        command = ["alerts", "watch", settings(tmp_path, ops=receiver.url), "--once"]
        command += ["--ledger", service.url, "--ledger-key"]
        assert main([*command, f"@{tmp_path / 'team'}"]) == 1
        assert "takes a key for every account" in capsys.readouterr().err
        for said in ("crossings: 1, alerts sent: 1", "crossings: 0, alerts sent: 0"):
            assert main([*command, f"@{tmp_path / 'all'}"]) == 0
            assert said in capsys.readouterr().out
        assert len(receiver.ids) == 1


@pytest.mark.parametrize(("option", "workers"), [("--settings", 1), ("--alerts", 2)])
def test_a_proxy_sends_alerts(tmp_path: Path, ledger: str, option: str, workers: int) -> None:
    with Receiver() as receiver:
        file = settings(tmp_path, ops=receiver.url)
        more = ("--upstream", "openai=http://localhost:1", "--limit", "9 calls", option, file)
        with ProxyCommand(*more, "--ledger", ledger, "--workers", workers) as proxy:
            until(lambda: len(receiver.ids) == 1)
            assert proxy.end() == (0, "")


def test_a_watch_waits_for_a_ledger_that_may_come_back(tmp_path: Path) -> None:
    with kept_port() as port:
        file = settings(tmp_path, ops="http://localhost:1")
        with Alerts("watch", file, "--ledger", f"redis://127.0.0.1:{port}") as watch:
            assert watch.url == "watching for ops"
            code, complaints = watch.end()
    assert code == 0
    assert complaints.startswith("warning: the ledger cannot be used yet: ")
