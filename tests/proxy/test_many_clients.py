"""Many clients on one account, in several languages, and a proxy that is killed among them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest

from budget_cpython.ledger.sqlite import SqliteLedger
from scripted_model import ScriptedEndpoint
from tests.paths import ROOT
from tests.ports import kept_port
from tests.proxy.support import ASKED, CHAT, ProxyCommand
from tests.serve.support import LIFE

HERE = ROOT / "tests/proxy"
ALLOWED = 100


def python(url: str, count: int) -> list[str]:
    return [sys.executable, str(HERE / "calls.py"), "openai", url, str(count)]


def shell(url: str, count: int) -> list[str]:
    return [str(HERE / "calls.sh"), url, str(count)]


def javascript(url: str, count: int) -> list[str]:
    return ["node", str(HERE / "node/calls.cjs"), "openai", url, str(count)]


def run_all(commands: list[list[str]], **environment: str) -> Counter[int]:
    """Run programs side by side; return how many calls had which status."""
    whole = {**os.environ, **environment}
    running = [subprocess.Popen(one, stdout=subprocess.PIPE, env=whole) for one in commands]
    said = [process.communicate(timeout=LIFE)[0] for process in running]
    return Counter(json.loads(line)["status"] for lines in said for line in lines.splitlines())


def check_exact(
    tmp_path: Path, clients: list[Any], each: int, workers: int, **environment: str
) -> None:
    """Assert that of all calls exactly as many are answered as the account has."""
    ledger = tmp_path / "ledger.db"
    with ScriptedEndpoint() as endpoint:
        options = ["--upstream", f"it={endpoint.base_url}", "--ledger", f"sqlite:{ledger}"]
        options += ["--limit", f"{ALLOWED} calls", "--workers", str(workers), "--access-log"]
        with ProxyCommand(*options) as proxy:
            commands = [client(proxy.url, each) for client in clients]
            statuses = run_all(commands, **environment)
            code, log = proxy.end()
        assert code == 0
        assert statuses == {200: ALLOWED, 402: each * len(clients) - ALLOWED}
        assert log.count(f'"POST {CHAT} HTTP/1.1"') == each * len(clients)  # none tried again
        assert len(endpoint.requests) == ALLOWED
    account = SqliteLedger(ledger)
    assert [(row.spent, row.held) for row in account.balance("proxy")] == [(ALLOWED, 0)]
    account.close()


@pytest.mark.slow
def test_clients_in_two_languages_get_exactly_what_the_account_has(tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    check_exact(tmp_path, [shell, shell, python, python], 30, 1)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_20_clients_in_three_languages_get_exactly_what_the_account_has(
    tmp_path: Path, node_path: str, workers: int
) -> None:
    clients = [python] * 7 + [javascript] * 7 + [shell] * 6
    check_exact(tmp_path, clients, 10, workers, NODE_PATH=node_path)


CLIENTS = 6
KILLS = 3


@pytest.mark.slow
def test_a_proxy_that_is_killed_and_started_again_counts_each_call_once(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    answered: list[int] = []
    over = threading.Event()

    def ask_on(url: str) -> None:
        with httpx.Client(timeout=60) as client:
            while not over.is_set():
                try:
                    answered.append(client.post(url + CHAT, json=ASKED).status_code)
                except httpx.TransportError:
                    time.sleep(0.01)  # it is killed: there is nothing to ask

    with ScriptedEndpoint(keep=100_000) as endpoint, kept_port() as port:
        options = ["--upstream", f"it={endpoint.base_url}", "--ledger", f"sqlite:{path}"]
        options += ["--limit", "100_000 calls", "--listen", f"127.0.0.1:{port}"]
        url = f"http://127.0.0.1:{port}"
        clients = [threading.Thread(target=ask_on, args=(url,)) for _ in range(CLIENTS)]
        for client in clients:
            client.start()
        for kill in range(1, KILLS + 1):
            with ProxyCommand(*options) as proxy:
                while len(answered) < 20 * kill:
                    time.sleep(0.01)
                proxy.send_signal(signal.SIGKILL)
                proxy.wait()
        with ProxyCommand(*options) as proxy:
            while len(answered) < 20 * (KILLS + 1):
                time.sleep(0.01)
            over.set()
            for client in clients:
                client.join()
            assert proxy.end()[0] == 0
        reached = len(endpoint.requests)
    assert set(answered) == {200}
    (row,) = balance_of(path)
    assert len(answered) <= row.spent <= reached  # none counted twice
    assert reached <= row.spent + row.held  # none lost
    assert row.held <= CLIENTS * KILLS
    (later,) = balance_of(path, 86_400)
    assert (later.spent, later.held) == (row.spent + row.held, 0)  # what was held is spent


def balance_of(path: Path, later_s: float = 0) -> list[Any]:
    """Return what stands against the account, by a clock that is ahead."""
    ledger = SqliteLedger(path, clock=lambda: time.time() + later_s)
    try:
        ledger.expire()
        return ledger.balance("proxy")
    finally:
        ledger.close()
