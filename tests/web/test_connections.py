"""Clients that stall, or open many connections, do not keep the others from being served."""

import json
import socket
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.cli import main
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.web.addresses import client_network
from budget_cpython.web.keys import KeyFile
from tests.serve.support import PATIENCE, Service

MEMORY = ("--engine", "memory:", "--listen", "127.0.0.1:0")
HEAD = "GET {} HTTP/1.1\r\nHost: localhost\r\n\r\n"
CROWD = 900  # a process may open 1,024 files by default
HEALTH = HEAD.format("/healthz").encode()
LARGE = HEAD.format("/openapi.json").encode() * 100
BODY = json.dumps({"amounts": {"tokens": 1}})
POST = f"POST /v1/reserve/org HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n"
RESERVE = f"{POST}Content-Type: application/json\r\n\r\n{BODY}".encode()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connect(stack: ExitStack, service: Service) -> socket.socket:
    address = ("127.0.0.1", service.port)
    return stack.enter_context(closing(socket.create_connection(address, PATIENCE)))


def ask(connection: socket.socket, request: bytes = HEALTH) -> bytes:
    """Return the first words of the answer, or nothing if the service ends the connection."""
    answer = b""
    with suppress(ConnectionError):
        connection.sendall(request)
        while not answer.endswith(b"}") and (piece := connection.recv(65_536)):
            answer += piece
    return answer[:12]


def is_ended(connection: socket.socket) -> bool:
    """Wait for the service to end a connection."""
    with suppress(ConnectionError):
        return connection.recv(1) == b""
    return True


def test_clients_that_never_read_do_not_keep_others_out(stack: ExitStack, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    KeyFile(keys).add("a", "org", ["read"])
    service = stack.enter_context(Service(*MEMORY, "--keys", keys))
    greedy = [connect(stack, service) for _ in range(CROWD)]
    for _ in range(2):
        for connection in greedy:
            connection.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):
                connection.send(LARGE)
        for _ in range(10):
            with closing(HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)) as other:
                other.request("GET", "/healthz")
                assert other.getresponse().status == 200


def test_a_client_that_does_not_read_its_answers_is_ended(stack: ExitStack) -> None:
    service = stack.enter_context(Service(*MEMORY, "--idle-timeout", "1"))
    connection = connect(stack, service)
    with suppress(ConnectionError):
        while True:
            connection.sendall(LARGE)


@pytest.mark.parametrize(
    "part", [b"", b"GET /healthz HTTP/1.1\r\nHost:", RESERVE[:-5], HEALTH + b"GET"]
)
def test_a_request_that_does_not_come_is_not_waited_for(stack: ExitStack, part: bytes) -> None:
    service = stack.enter_context(Service(*MEMORY, "--idle-timeout", "1"))
    connection = connect(stack, service)
    if part.startswith(HEALTH):
        assert ask(connection, part) == b"HTTP/1.1 200"
    else:
        connection.sendall(part)
    assert is_ended(connection)


def test_a_new_connection_takes_the_place_of_the_one_that_idles_longest(stack: ExitStack) -> None:
    service = stack.enter_context(Service(*MEMORY, "--connections-per-address", "3"))
    first, second, third = (connect(stack, service) for _ in range(3))
    for connection in (second, third, first):
        assert ask(connection) == b"HTTP/1.1 200"
    assert ask(connect(stack, service)) == b"HTTP/1.1 200"
    assert is_ended(second)
    assert ask(third) == ask(first) == b"HTTP/1.1 200"


def test_connections_are_limited_in_number(stack: ExitStack, tmp_path: Path) -> None:
    """Those of a Unix socket have no address."""
    listen = ("--engine", "memory:", "--listen", f"unix:{tmp_path / 's'}")
    options = ("--connections", "2", "--connections-per-address", "1")
    stack.enter_context(Service(*listen, *options))
    connections = [stack.enter_context(closing(socket.socket(socket.AF_UNIX))) for _ in range(3)]
    for connection in connections:
        connection.settimeout(PATIENCE)
        connection.connect(str(tmp_path / "s"))
        assert ask(connection) == b"HTTP/1.1 200"
    assert is_ended(connections[0])
    assert ask(connections[1]) == ask(connections[2]) == b"HTTP/1.1 200"


@pytest.mark.parametrize(("files", "stay"), [("-Sn 64", 100), ("-n 164", 36)])
def test_connections_leave_files_for_the_engine(stack: ExitStack, files: str, stay: int) -> None:
    service = stack.enter_context(Service(*MEMORY, "--connections", "100", files=files))
    connections = [connect(stack, service) for _ in range(100)]
    for connection in connections[::-1]:
        ask(connection)
    assert [ask(one) for one in connections].count(b"HTTP/1.1 200") == stay
    for connection in connections:
        connection.close()
    assert service.end()[1].count(f"allows {stay} connections") == (stay < 100)


def test_a_request_that_is_worked_on_keeps_its_connection(stack: ExitStack, tmp_path: Path) -> None:
    engine = ("--engine", f"sqlite:{tmp_path / 'ledger.db'}", "--listen", "127.0.0.1:0")
    limits = ("--connections-per-address", "2", "--idle-timeout", "1")
    service = stack.enter_context(Service(*engine, *limits))
    with closing(HttpLedger(service.url)) as ledger:
        ledger.set_limits("org", [Limit("tokens", 10)])
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as database, database:
        database.execute("BEGIN IMMEDIATE")
        working = [connect(stack, service) for _ in range(2)]
        for connection in working:
            assert ask(connection) == b"HTTP/1.1 200"
        for connection in working:
            connection.sendall(RESERVE)
        assert is_ended(connect(stack, service))  # there is no place for it
        working.pop().close()
        assert is_ended(connect(stack, service))  # it idles for longer than the limit
    assert ask(working[0], b"") in (b"HTTP/1.1 200", b"HTTP/1.1 503")  # after 5 s SQLite refuses


@pytest.mark.parametrize(
    ("host", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::/64"),
    ],
)
def test_a_client_is_its_ipv4_address_or_its_ipv6_network(host: str, network: str) -> None:
    assert client_network(host) == network


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "many", "9" * 5000, ""])
def test_bad_counts_are_usage_errors(capsys: pytest.CaptureFixture[str], count: str) -> None:
    with pytest.raises(SystemExit) as usage:
        main(["serve", "--engine", "memory:", f"--connections={count}"])
    assert usage.value.code == 2
    assert "from 1 to 1000000" in capsys.readouterr().err
