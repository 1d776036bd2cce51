"""The clients against a service that runs: many at once, and one that is killed in between."""

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import (
    BudgetExceededError,
    KeyReusedError,
    LedgerError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.http import AsyncHttpLedger, HttpLedger
from budget_cpython.ledger.opening import open_async_ledger, open_ledger
from budget_cpython.web.keys import RIGHTS, KeyFile
from tests.forked import in_child
from tests.ports import kept_port
from tests.proxy.support import Behind, Request
from tests.racing import in_threads
from tests.serve.support import PATIENCE, Service

CLIENTS = 20
TTL = 3600  # no hold is over before its test


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, str]]:
    """Return a service, and a key that may do everything."""
    keys = KeyFile(tmp_path_factory.mktemp("serve") / "keys.json")
    token = keys.add("all", "*", RIGHTS)
    options = ("--engine", "memory:", "--listen", "127.0.0.1:0", "--keys", keys.path)
    with Service(*options) as running:
        yield running, token
        assert running.end() == (0, "")


@pytest.fixture
def ledger(service: tuple[Service, str]) -> Iterator[HttpLedger]:
    with closing(HttpLedger(service[0].url, service[1], PATIENCE)) as found:
        yield found


def test_a_thread_does_over_http_what_it_does_with_a_ledger(ledger: HttpLedger) -> None:
    for path, window in (("daily", "day"), ("one", "run")):  # no day ends in the midst of a run
        ledger.set_limits(path, [Limit("tokens", 100, window)])
        assert ledger.limits(path) == [Limit("tokens", 100, window)]
        assert path in ledger.accounts()
    hold = ledger.reserve("one/a", {"tokens": 60}, ttl=TTL)
    assert ledger.extend(hold, 2 * TTL).expires_at is not None
    assert ledger.hold("one/a", hold.id).state == Hold.HELD
    assert ledger.commit(hold, {"tokens": 10}).actual == {"tokens": 10}
    assert ledger.release(hold).state == Hold.COMMITTED
    assert ledger.charge("one", {"tokens": 5}, "k").state == Hold.COMMITTED
    assert [(row.spent, row.held) for row in ledger.balance("one/a")] == [(15, 0)]
    assert ledger.history("one") == []
    assert ledger.expire() == 0
    with pytest.raises(BudgetExceededError) as refused:
        ledger.reserve("one", {"tokens": 86})
    assert (refused.value.scope, refused.value.left) == ("one", 85)
    with pytest.raises(KeyReusedError):
        ledger.charge("one", {"tokens": 6}, "k")
    with pytest.raises(UnknownAccountError):
        ledger.balance("unknown")


def test_a_wrong_key_is_refused_and_never_shown(service: tuple[Service, str]) -> None:
    running, token = service
    wrong = token[:-1]
    with closing(HttpLedger(running.url, wrong, PATIENCE)) as ledger:
        with pytest.raises(LedgerError, match="401") as refused:
            ledger.balance("one")
        assert not isinstance(refused.value, LedgerUnavailableError)
        assert wrong not in repr(ledger) + str(refused.value)


def test_a_ledger_is_opened_by_its_url(service: tuple[Service, str]) -> None:
    running, token = service
    with closing(open_ledger(running.url, key=token, timeout_s=PATIENCE)) as ledger:
        ledger.set_limits("opened", [Limit("calls", 1)])
        assert ledger.reserve("opened", {"calls": 1}, ttl=TTL).state == Hold.HELD

    async def refused() -> None:
        ledger = open_async_ledger(running.url, key=token, timeout_s=PATIENCE)
        assert isinstance(ledger, AsyncHttpLedger)
        with pytest.raises(BudgetExceededError):
            await ledger.reserve("opened", {"calls": 1})
        await ledger.close()

    asyncio.run(refused())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Return the connections that are made from now on."""
    made: list[socket.socket] = []
    connect = socket.create_connection

    def noted(*arguments: Any, **options: Any) -> socket.socket:
        made.append(connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", noted)
    return made


def test_a_connection_serves_one_request_after_another(
    ledger: HttpLedger, made: list[socket.socket]
) -> None:
    for _ in range(20):
        ledger.accounts()
    (only,) = made
    assert only.fileno() >= 0
    ledger.close()
    assert only.fileno() < 0
    ledger.accounts()
    assert len(made) == 2


def test_a_forked_process_has_connections_of_its_own(
    ledger: HttpLedger, made: list[socket.socket]
) -> None:
    ledger.accounts()
    assert len(made) == 1

    def ask() -> None:
        for _ in range(2):
            ledger.accounts()
            assert len(made) == 2

    assert in_child(ask) == 0
    ledger.accounts()
    assert len(made) == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}",
        b'HTTP/1.1 200 OK\r\n\r\n{"accounts": [], "next": null}',
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b" " * 99_999,
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1000 + b"\r\n",
    ],
)
def test_a_broken_answer_is_asked_for_again_and_then_in_doubt(answer: bytes) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        seen = []

        def serve() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                with connection, suppress(OSError):  # it may be reset over what is unread
                    seen.append(connection.recv(65_536))
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)
                    while connection.recv(65_536):
                        pass

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(LedgerUnavailableError) as caught:
            HttpLedger(url, timeout_s=PATIENCE, max_response_bytes=65_536).accounts()
        thread.join()
    assert caught.value.applied is None
    assert len(seen) == 2


def test_a_list_of_devices_that_goes_round_in_circles_comes_to_an_end() -> None:
    row = {"account": "a", "seen_at": 0, "spent": 0, "cap": None, "resets_at": 0, "left": {}}

    def act(http: Request) -> None:
        http.reply({"devices": [row], "next": "a"})

    with Behind(act) as service, closing(HttpLedger(service.url, timeout_s=PATIENCE)) as ledger:
        assert [one.account for one in ledger.devices()] == ["a", "a"]


def test_a_service_that_is_not_there_leaves_no_doubt() -> None:
    with kept_port() as port, pytest.raises(LedgerUnavailableError) as caught:
        HttpLedger(f"http://127.0.0.1:{port}", timeout_s=PATIENCE).reserve("org", {})
    assert caught.value.applied is False


def test_a_service_that_is_stopped_and_killed_grants_the_limit_exactly(tmp_path: Path) -> None:
    """Twenty clients repeat what got lost with its key; the service ends twice meanwhile."""
    granted: list[str] = []
    tried = threading.Semaphore(0)
    over = threading.Event()
    with ExitStack() as stack:
        port = stack.enter_context(kept_port())
        options = ("--engine", f"sqlite:{tmp_path / 'ledger.db'}", "--listen", f"127.0.0.1:{port}")
        first = stack.enter_context(Service(*options))
        shared = stack.enter_context(closing(HttpLedger(first.url, timeout_s=PATIENCE)))
        shared.set_limits("org", [Limit("calls", 150)])

        def claim() -> None:
            for _ in range(10):
                key = os.urandom(8).hex()
                while not over.is_set():
                    try:
                        granted.append(shared.reserve("org", {"calls": 1}, key, TTL).id)
                    except BudgetExceededError:
                        pass
                    except LedgerUnavailableError:
                        threading.Event().wait(0.01)  # do not spin while nothing answers
                        continue
                    break
                tried.release()

        def interrupt() -> None:
            service = first
            for number, after in ((signal.SIGTERM, 60), (signal.SIGKILL, 50)):
                for _ in range(after):
                    tried.acquire(timeout=PATIENCE)
                service.end(number)
                service = stack.enter_context(Service(*options))
                services.append(service)

        services: list[Service] = []
        interrupter = threading.Thread(target=interrupt)
        interrupter.start()
        try:
            in_threads(claim, CLIENTS)
        finally:
            over.set()
            interrupter.join()
        assert len(set(granted)) == len(granted) == 150
        (row,) = shared.balance("org")
        assert (row.held, row.spent) == (150, 0)
        assert services[1].end() == (0, "")
