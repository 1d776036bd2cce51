"""Several processes that serve one ledger answer as one would, and end with the first."""

import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from budget_cpython.cli import main
from budget_cpython.ledger.opening import open_ledger
from budget_cpython.serve.app import make_app
from budget_cpython.web.keys import KeyFile
from tests.alerts.support import Receiver, calls
from tests.cli.test_alerts import settings
from tests.ledger.patience import until
from tests.ledger.redis.server import empty_server, server
from tests.page.support import NOON, Visitor, make_ledger
from tests.serve.support import PATIENCE, Service
from tests.serve.test_command import is_open
from tests_micro.support import FakeClock


def serve(*more: object) -> Service:
    options = ("--engine", empty_server().url, "--listen", "127.0.0.1:0", "--workers", 2)
    return Service(*options, *more)


def ask(service: Service, method: str, path: str, **more: Any) -> httpx.Response:
    """Send a request over a connection of its own, which any of the processes may take."""
    return httpx.request(method, service.url + path, timeout=PATIENCE, **more)


def limit(service: Service, cap: int) -> None:
    body = {"limits": [{"axis": "calls", "cap": cap}]}
    assert ask(service, "PUT", "/v1/limits/org", json=body).status_code == 200


def reserve(service: Service) -> int:
    return ask(service, "POST", "/v1/reserve/org", json={"amounts": {"calls": 1}}).status_code


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_they_share_limits_and_refusals_and_end_together(number: signal.Signals) -> None:
    with serve("--metrics") as service:
        limit(service, 10)
        assert [reserve(service) for _ in range(16)] == [200] * 10 + [429] * 6
        for _ in range(6):
            lines = ask(service, "GET", "/metrics").text.splitlines()
            found = [line for line in lines if line.startswith("microbudget_refusals_total{")]
            assert [float(line.split()[-1]) for line in found] == [6]
        assert service.end(number) == (0, "")
        assert not is_open(service.port)


@pytest.mark.parametrize("workers", [1, 2])
def test_all_refusals_are_noted_before_they_end(workers: int) -> None:
    with serve("--workers", workers) as service:
        limit(service, 0)
        assert [reserve(service) for _ in range(5)] == [429] * 5
        assert service.end() == (0, "")
    with closing(open_ledger(server().url)) as ledger:
        noted = ledger.events("org", ["refused"])
    assert sum(event.details["times"] for event in noted) == 5


def test_they_end_where_the_first_is_killed() -> None:
    with serve() as service:
        assert ask(service, "GET", "/readyz").status_code == 200
        service.kill()
        until(lambda: not is_open(service.port), patience=PATIENCE)


def test_one_alert_is_sent_of_a_crossing(tmp_path: Path) -> None:
    with Receiver() as receiver:
        file = settings(tmp_path, ops=receiver.url)
        with serve("--alerts", file) as service:
            with closing(open_ledger(server().url)) as ledger:
                calls(ledger, "org/team", 10, 5, "run")
            until(lambda: receiver.ids, patience=PATIENCE)
            assert service.end() == (0, "")
        assert len(receiver.ids) == 1


def test_a_session_of_the_page_is_good_at_each(tmp_path: Path) -> None:
    keys, clock = KeyFile(tmp_path / "keys.json"), FakeClock(NOON)
    key = keys.add("ann", "acme", ["read", "limits"])
    ledger = make_ledger(clock)
    first, second, stranger = [
        make_app(ledger, KeyFile(keys.path), clock=clock, page_secret=secret)
        for secret in (b"ours", b"ours", b"theirs")
    ]
    visitor = Visitor(first)
    visitor.post("sign-in", key=key)
    token = visitor.token()
    visitor.app = second
    assert visitor.token() == token
    visitor.app = stranger
    assert visitor.get().status_code == 401


def test_a_key_that_is_revoked_is_refused_by_each_and_noted_once(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    old, new = keys.add("old", "*", ["read"]), keys.add("new", "*", ["read"])
    with serve("--keys", keys.path) as service:
        known, gone = [{"Authorization": f"Bearer {key}"} for key in (new, old)]
        assert ask(service, "GET", "/v1/accounts", headers=gone).status_code == 200
        keys.revoke("old")
        for _ in range(8):
            assert ask(service, "GET", "/v1/accounts", headers=gone).status_code == 401
            assert ask(service, "GET", "/v1/accounts", headers=known).status_code == 200
        events = ask(service, "GET", "/v1/events?kinds=keys", headers=known).json()["events"]
        assert [one["details"]["change"] for one in events] == ["revoked"]


def test_memory_is_refused_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--engine", "memory:", "--workers", "2"]) == 2
    said = capsys.readouterr().err
    assert "memory: is one process's own" in said
    assert "--engine redis://" in said
    assert len(said.splitlines()) == 1
