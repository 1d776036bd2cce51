"""The command: where it listens, how it ends, and its errors."""

import json
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from budget_core.chat.tls import tls_context
from budget_cpython.cli import main
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.web.addresses import ListenAddress
from budget_cpython.web.connections import MAX_HEADERS
from budget_cpython.web.keys import KeyFile
from tests.paths import ROOT
from tests.ports import kept_port
from tests.serve.support import PATIENCE, Service, make_client

MEMORY = ("--engine", "memory:", "--listen", "127.0.0.1:0")
JSON = {"Content-Type": "application/json"}
LIMITS = json.dumps({"limits": [{"axis": "tokens", "cap": 100}]})


def request(connection: HTTPConnection, method: str, url: str, *more: Any) -> tuple[int, Any]:
    connection.request(method, url, *more)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def connect(service: Service) -> "closing[HTTPConnection]":
    return closing(HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE))


def cli(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Run the command line here; return the exit code, and what it printed."""
    capsys.readouterr()
    try:
        code = main(["serve", *map(str, arguments)])
    except SystemExit as usage:
        code = int(usage.code or 0)
    return code, *capsys.readouterr()


@pytest.fixture(scope="module")
def shared() -> Iterator[Service]:
    with Service(*MEMORY) as service:
        yield service


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_it_listens_and_serves_until_a_signal(number: signal.Signals) -> None:
    with Service(*MEMORY) as service:
        with connect(service) as connection:
            assert request(connection, "GET", "/readyz") == (200, {"status": "ok"})
            assert request(connection, "PUT", "/v1/limits/org", LIMITS, JSON)[0] == 200
        assert service.end(number) == (0, "")


def test_a_request_on_its_way_is_answered_before_it_ends() -> None:
    body = json.dumps({"amounts": {"tokens": 1}}).encode()
    with Service(*MEMORY, "--grace", PATIENCE) as service, connect(service) as connection:
        request(connection, "PUT", "/v1/limits/org", LIMITS, JSON)
        connection.putrequest("POST", "/v1/reserve/org")
        for name, value in (*JSON.items(), ("Content-Length", str(len(body)))):
            connection.putheader(name, value)
        connection.putheader("Expect", "100-continue")
        connection.endheaders()
        assert connection.sock.recv(1000).startswith(b"HTTP/1.1 100")  # it waits for the rest
        service.send_signal(signal.SIGTERM)
        while is_open(service.port):
            time.sleep(0.02)  # many connections at once would fill the queue of the listener
        connection.sock.sendall(body)
        answer = connection.getresponse()
        assert answer.status == 200
        assert json.loads(answer.read())["state"] == "held"
        assert (service.wait(), service.stderr and service.stderr.read()) == (0, "")


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except (ConnectionError, TimeoutError):
        return False
    return True


def test_a_request_that_never_comes_is_not_waited_for_longer_than_the_grace() -> None:
    with Service(*MEMORY, "--grace", "1") as service, connect(service) as connection:
        request(connection, "PUT", "/v1/limits/org", LIMITS, JSON)
        connection.putrequest("POST", "/v1/reserve/org")
        for name, value in (*JSON.items(), ("Content-Length", "9"), ("Expect", "100-continue")):
            connection.putheader(name, value)
        connection.endheaders()
        assert connection.sock.recv(1000).startswith(b"HTTP/1.1 100")
        code, complaints = service.end()
        assert code == 0
        assert "grace" in complaints


def test_a_connection_goes_on_after_a_refusal(shared: Service) -> None:
    with connect(shared) as connection:
        for _ in range(2):
            assert request(connection, "POST", "/v1/reserve/org", b"{", JSON)[0] == 400
            assert request(connection, "POST", "/v1/what", b"x" * 1000, JSON)[0] == 404
            assert request(connection, "GET", "/healthz")[0] == 200


def test_a_large_body_is_refused_before_it_is_sent(shared: Service) -> None:
    with connect(shared) as connection:
        connection.putrequest("POST", "/v1/reserve/org")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(100_000_000))
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.headers["connection"]) == (413, "close")


def ask_raw(service: Service, data: bytes) -> bytes:
    """Return all that is answered to raw bytes, until the service ends the connection."""
    answer = b""
    with closing(socket.create_connection(("127.0.0.1", service.port), PATIENCE)) as raw:
        raw.sendall(data)
        with suppress(ConnectionError):  # it may be reset over bytes that were not read
            while piece := raw.recv(65_536):
                answer += piece
    return answer


def test_a_body_with_two_lengths_is_refused_and_its_connection_ends(shared: Service) -> None:
    head = b"POST /v1/charge/org HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    lengths = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    smuggled = b"0\r\n\r\nGET /v1/accounts HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answer = ask_raw(shared, head + lengths + smuggled)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


def test_nobody_can_fill_the_log_without_a_key() -> None:
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    requests = b"GET /v1 HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"GET\r\n\r\n"
    lengths = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
    not_chunks = b"POST / HTTP/1.1\r\nHost: localhost\r\n" + lengths + b"{}\r\n\r\n"
    with Service(*MEMORY) as service:
        assert ask_raw(service, requests).count(b"HTTP/1.1 4") == 2
        assert ask_raw(service, not_chunks).count(b"HTTP/1.1 400") == 1
        assert service.end() == (0, "")


@pytest.mark.parametrize("name", ["Authorization", "Idempotency-Key"])
def test_a_header_that_is_given_twice_ends_the_connection(shared: Service, name: str) -> None:
    twice = f"{name}: a\r\n{name.lower()}: b\r\n"
    head = f"GET /v1/accounts HTTP/1.1\r\nHost: localhost\r\n{twice}\r\n".encode()
    answer = ask_raw(shared, head + head)
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("end", [b"", b"\r\nHost: localhost\r\n\r\n"])
def test_headers_are_limited_in_size(shared: Service, end: bytes) -> None:
    """Also those that arrive whole."""
    answer = ask_raw(shared, b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 2 * MAX_HEADERS + end)
    assert answer[:12] in (b"HTTP/1.1 400", b"")


def test_a_whole_head_below_the_limit_is_read(shared: Service) -> None:
    text = b"x" * (MAX_HEADERS - 200)
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: "
    assert ask_raw(shared, head + text + b"\r\n\r\n")[:12] == b"HTTP/1.1 200"


def test_the_log_of_requests_shows_no_key(tmp_path: Path) -> None:
    secret = KeyFile(tmp_path / "keys.json").add("pico", "org", ["read"])
    with Service(*MEMORY, "--access-log") as service, connect(service) as connection:
        for url in ("/v1/accounts?key=", "/v1/balance/org/", "/v1/accounts?after=a%3F&b="):
            request(connection, "GET", url + secret)
        request(connection, "GET", "/" + "a" * 10_000)
        _, log = service.end()
    assert '"GET /v1/accounts HTTP/1.1" 422' in log
    assert "/v1/balance/org/mb.pico.... HTTP" in log
    assert secret[-43:] not in log
    assert len(log) < 2000


def test_an_engine_that_hangs_does_not_keep_the_service_from_ending() -> None:
    program = """
import sys, threading
from budget_cpython.cli import main, serve
from budget_cpython.ledger import opening
class Hung:
    asked = 0
    def limits(self, path):
        self.asked += 1
        if self.asked > 1:  # the first is the command's own
            threading.Event().wait()
    reserve = close = lambda *_: threading.Event().wait()
opening.open_ledger = lambda url: Hung()
serve.CLOSING_S = 0.1
arguments = ["--engine", "memory:", "--listen", "127.0.0.1:0", "--engine-timeout", "0.1"]
sys.exit(main(["serve", *arguments]))
"""
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        late = threading.Timer(PATIENCE, process.kill)
        late.start()
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        with closing(HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
            assert request(connection, "GET", "/readyz")[0] == 503
        process.terminate()
        assert process.wait() == 0
        late.cancel()


def test_a_socket_in_the_file_system_is_for_its_owner_and_is_gone_at_the_end(
    tmp_path: Path,
) -> None:
    place = tmp_path / "s"
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(place))  # as after a kill
    with Service("--engine", "memory:", "--listen", f"unix:{place}") as service:
        assert service.url == f"unix:{place}"
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        with closing(socket.socket(socket.AF_UNIX)) as raw:
            raw.connect(str(place))
            raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert raw.recv(1000).startswith(b"HTTP/1.1 200")
        assert service.end() == (0, "")
    assert not place.exists()


def test_a_socket_that_another_server_listens_on_is_not_replaced(tmp_path: Path) -> None:
    address = ListenAddress.parse(f"unix:{tmp_path / 's'}")
    with address.listen() as listener:
        with pytest.raises(OSError, match="another server listens there"):
            address.listen()
        with closing(socket.socket(socket.AF_UNIX)) as client:
            client.connect(address.path)
            listener.accept()[0].close()


def test_a_file_that_is_not_a_socket_is_not_replaced(tmp_path: Path) -> None:
    place = tmp_path / "s"
    place.write_text("mine")
    with pytest.raises(OSError, match="in use"):
        ListenAddress.parse(f"unix:{place}").listen()
    assert place.read_text() == "mine"


def test_small_answers_are_sent_at_once_and_dead_connections_end() -> None:
    with ListenAddress("127.0.0.1").listen() as listener:
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        with client, accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_an_address_of_this_machine_is_served_by_the_url_that_is_printed() -> None:
    with Service("--engine", "memory:", "--listen", "127.0.0.2:0") as service:
        assert service.url.startswith("http://127.0.0.2:")
        with closing(HttpLedger(service.url, timeout_s=PATIENCE)) as ledger:
            assert ledger.accounts() == []


def test_a_port_in_use_is_one_clear_line_and_exit_code_1() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        place = f"127.0.0.1:{other.getsockname()[1]}"
        with Service("--engine", "memory:", "--listen", place) as service:
            _, complaints = service.communicate()
    assert service.returncode == 1
    assert len(complaints.splitlines()) == 1
    assert place in complaints
    assert "in use" in complaints


def test_an_address_that_others_reach_needs_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in ("0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"):
        code, _, said = cli(capsys, "--engine", "memory:", "--listen", place)
        assert code == 2
        assert "--keys" in said
    keys = tmp_path / "keys.json"
    code, _, said = cli(capsys, "--engine", "memory:", "--listen", "0.0.0.0:0", "--keys", keys)
    assert code == 1
    assert "key add" in said


def test_keys_that_travel_unencrypted_are_warned_of(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    assert main(["serve", "key", "add", "a", "--account", "*", "--keys", str(keys)]) == 0
    everywhere = ("--engine", "memory:", "--listen", "0.0.0.0:0", "--keys", keys)
    with Service(*everywhere) as service:
        code, complaints = service.end()
    assert code == 0
    assert "unencrypted" in complaints


def test_tls_is_served_with_a_certificate() -> None:
    data = ROOT / "tests/data"
    files = ("--ssl-certfile", data / "localhost.pem", "--ssl-keyfile", data / "localhost.key")
    with Service(*MEMORY, *files) as service:
        assert service.url.startswith("https://127.0.0.1:")
        tls = tls_context(str(data / "localhost.pem"))
        ledger = HttpLedger(f"https://localhost:{service.port}", timeout_s=PATIENCE, tls=tls)
        assert ledger.accounts() == []
        ledger.close()
        assert service.end() == (0, "")


def test_a_certificate_that_cannot_be_served_with_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    none, empty = tmp_path / "none.pem", tmp_path / "empty.pem"
    empty.write_bytes(b"")
    for options, code, says in (
        (("--ssl-keyfile", empty), 2, "--ssl-certfile"),
        (("--ssl-certfile", none), 1, str(none)),
        (("--ssl-certfile", empty, "--ssl-keyfile", none), 1, str(none)),
        (("--ssl-certfile", empty), 1, str(empty)),
    ):
        said = cli(capsys, *MEMORY, *options)
        assert (said[0], says in said[2], len(said[2].splitlines())) == (code, True, 1), said


@pytest.mark.parametrize("place", ["", "host", "host:", ":80", "h:65536", "h:x", "unix:", "::1:80"])
def test_a_malformed_address_is_a_usage_error(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, said = cli(capsys, "--engine", "memory:", f"--listen={place}")
    assert code == 2
    assert "HOST:PORT" in said


def test_an_address_is_local_or_not() -> None:
    for text, host, port, local in (
        ("127.0.0.1:80", "127.0.0.1", 80, True),
        ("localhost:0", "localhost", 0, True),
        ("[::1]:80", "::1", 80, True),
        ("127.9.9.9:1", "127.9.9.9", 1, True),
        ("192.0.2.1:80", "192.0.2.1", 80, False),
        ("localhost.example:80", "localhost.example", 80, False),
    ):
        place = ListenAddress.parse(text)
        assert (place.host, place.port, place.is_local) == (host, port, local)


def test_a_missing_or_unknown_engine_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MICROBUDGET_ENGINE", raising=False)
    for options in ((), ("--engine", "nonsense:"), ("--engine", "")):
        code, _, said = cli(capsys, *options)
        assert (code, said[:7]) == (2, "error: "), options


def test_a_file_that_cannot_be_a_ledger_ends_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, url, said = cli(capsys, "--engine", f"sqlite:{tmp_path}", "--listen", "127.0.0.1:0")
    assert (code, url, len(said.splitlines())) == (1, "", 1)
    assert str(tmp_path) in said


def test_a_new_file_may_be_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine = ("--no-create", "--listen", "127.0.0.1:0", "--engine")
    code, url, said = cli(capsys, *engine, f"sqlite:{tmp_path}/bugdet.db")
    assert (code, url) == (1, "")
    assert "there is no ledger" in said
    assert list(tmp_path.iterdir()) == []
    assert cli(capsys, *engine, "memory:")[0] == 2


def test_a_server_out_of_reach_is_warned_of_and_may_come_back() -> None:
    with (
        kept_port() as port,
        Service("--engine", f"redis://127.0.0.1:{port}", "--listen", "127.0.0.1:0") as service,
    ):
        with connect(service) as connection:
            assert request(connection, "GET", "/readyz")[0] == 503
        code, complaints = service.end()
    assert code == 0
    assert complaints.startswith("warning: the ledger cannot be used yet")


def test_axes_and_holds_are_limited_by_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    bounds = ("--axes", "tokens,calls", "--max-holds", "1")
    with Service(*MEMORY, *bounds) as service, connect(service) as connection:
        request(connection, "PUT", "/v1/limits/org", LIMITS, JSON)
        for amounts, status in (({"cents": 1}, 422), ({"calls": 1}, 200), ({"tokens": 1}, 507)):
            body = json.dumps({"amounts": amounts})
            assert request(connection, "POST", "/v1/reserve/org", body, JSON)[0] == status
    for options in (
        (*MEMORY, "--max-holds=-1"),
        (*MEMORY, "--axes", "a b"),
        ("--engine", "sqlite:x.db", "--max-holds", "5"),
        ("--engine", "http://127.0.0.1:1", "--axes", "tokens"),
    ):
        code, _, said = cli(capsys, *options)
        assert (code, said[:7]) == (2, "error: "), options


def test_bad_times_are_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("0", "-1", "nan", "inf", "x", "86401"):
        assert cli(capsys, *MEMORY, f"--grace={text}")[0] == 2


@pytest.mark.parametrize("module", ["starlette", "uvicorn"])
def test_a_missing_package_is_named_with_what_to_install(module: str) -> None:
    program = f"import sys; sys.modules[{module!r}] = None\n"
    program += "from budget_cpython.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "serve", *MEMORY]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'microbudget[serve]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_keys_are_made_listed_and_revoked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys.json"
    options = ("--account", "org/team", "--rights", "read,reserve", "--keys", keys)
    code, token, said = cli(capsys, "key", "add", "pico", *options)
    assert (code, said) == (0, "")
    assert token.startswith("mb.pico.")
    monkeypatch.setenv("MICROBUDGET_KEYS", str(keys))
    code, listed, _ = cli(capsys, "key", "list")
    assert code == 0
    assert "pico" in listed
    assert "reserve,read  org/team" in listed
    assert token.strip()[-43:] not in listed
    for again in (("add", "pico", *options), ("revoke", "unknown"), ("add", "a.b", *options)):
        code, _, said = cli(capsys, "key", *again)
        assert (code, said[:7]) == (2, "error: ")
    assert cli(capsys, "key", "revoke", "pico", "--keys", tmp_path / "nope.json")[0] == 1
    assert sorted(path.name for path in tmp_path.glob("nope*")) == []
    monkeypatch.delenv("MICROBUDGET_KEYS")
    assert "pico" in cli(capsys, "--keys", keys, "key", "list")[1]
    monkeypatch.setenv("MICROBUDGET_KEYS", str(keys))
    assert cli(capsys, "key", "revoke", "pico")[0] == 0
    assert cli(capsys, "key", "list") == (0, "", "no keys\n")


def test_a_key_may_not_charge_unless_it_is_told_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    made = ("key", "add", "pico", "--account", "org/lab", "--keys", keys.path)
    code, token, _ = cli(capsys, *made)
    assert (code, keys.keys()["pico"].rights) == (0, ("reserve", "read"))
    client = make_client(("org", "tokens", 9, "day"), ("org/lab", "tokens", 1, "day"), keys=keys)
    for operation, status in (("charge", 403), ("reserve", 429)):
        body = {"amounts": {"tokens": 5}}
        answer = client("POST", f"/v1/{operation}/org/lab", body, token.strip())
        assert answer.status_code == status
    assert client.ledger.balance("org")[0].left == 9


def test_a_command_that_is_missing_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, said = cli(capsys, "key")
    assert code == 2
    assert "usage: microbudget serve key [-h] COMMAND" in said


def test_a_running_service_refuses_a_key_that_is_revoked(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    header = {"Authorization": "Bearer " + keys.add("a", "*", ["read"])}
    with Service(*MEMORY, "--keys", keys.path, "--access-log") as service:
        with connect(service) as connection:
            assert request(connection, "GET", "/v1/accounts", None, header)[0] == 200
            keys.revoke("a")
            assert request(connection, "GET", "/v1/accounts", None, header)[0] == 401
        code, log = service.end()
    assert code == 0
    assert "/v1/accounts" in log
    assert header["Authorization"][-43:] not in log
