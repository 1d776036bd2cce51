"""What the tests of the proxy share: a server behind it, and the command."""

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import httpx

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.proxy import Proxy
from budget_cpython.web.server import running
from tests.serve.support import PATIENCE, Service

CHAT = "/v1/chat/completions"
ASKED: dict[str, Any] = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}


@dataclass
class Seen:
    """A request that arrived."""

    path: str
    headers: Any
    body: bytes


class Behind:
    """A server whose answers are a test's own: `act(http)` is called for each request."""

    def __init__(self, act: "Callable[[Request], None]") -> None:
        self.requests: list[Seen] = []
        behind = self

        class Handler(Request):
            def handle_request(self) -> None:
                self.body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                behind.requests.append(Seen(self.path, self.headers, self.body))
                act(self)

            do_GET = do_POST = do_DELETE = handle_request  # noqa: N815 - its names

        self._server = _Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """A server that prints what went wrong in it, but for clients that left."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Request(BaseHTTPRequestHandler):
    """A request to a `Behind`, and what answers it."""

    protocol_version = "HTTP/1.1"
    body = b""

    def reply(self, body: Any = None, status: int = 200, **headers: str) -> None:
        """Send a whole answer, bytes or JSON."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def begin_stream(self) -> None:
        """Send the head of a stream of events."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def begin_answer(self) -> None:
        """Send the head of a stream and the first words of an answer."""
        self.begin_stream()
        self.event(chunk("hello"))

    def end_answer(self) -> None:
        """Send the usage of an answer, and end its stream."""
        for data in (chunk("", usage(7, 5)), "[DONE]", None):
            self.event(data)

    def event(self, data: Any) -> None:
        """Send an event of a stream; `None` ends the stream."""
        if data is None:
            self.wfile.write(b"0\r\n\r\n")
            return
        said = data if isinstance(data, str) else json.dumps(data)
        content = f"data: {said}\n\n".encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def chunk(text: str, usage: Any = None) -> dict[str, Any]:
    """Return a chunk of a chat completion."""
    choices = [{"index": 0, "delta": {"content": text}, "finish_reason": None}]
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
    return {**head, "choices": choices if usage is None else [], "usage": usage}


def usage(prompt: int, completion: int) -> dict[str, int]:
    """Return a usage report."""
    total = prompt + completion
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}


def spent(account: BudgetAccount, axis: str) -> tuple[int, int]:
    """Return what is spent and what is held on an axis of an account's account."""
    for row in account.balance():
        if row.axis == axis:
            return row.spent, row.held
    raise LookupError(axis)


@contextmanager
def budgeted(url: str, limits: str, **options: Any) -> Iterator[tuple[str, BudgetAccount, Proxy]]:
    """Serve a proxy before one server, within limits; yield its URL, its account and itself."""
    of_account = {
        name: options.pop(name) for name in ("prices", "wait", "repeats") if name in options
    }
    account = BudgetAccount(parse_limits(limits), **of_account)
    proxy = Proxy({"openai": url}, [account], **options)
    with proxy.running() as place:
        yield place, account, proxy


class ProxyCommand(Service):
    """The command `microbudget proxy`."""

    COMMAND = ["proxy", "--listen", "127.0.0.1:0"]


def ask_raw(url: str, data: bytes) -> bytes:
    """Return all that is answered to raw bytes, until the proxy ends the connection."""
    host, _, port = url.removeprefix("http://").partition(":")
    answer = b""
    with closing(socket.create_connection((host, int(port)), PATIENCE)) as raw:
        raw.sendall(data)
        while piece := raw.recv(65_536):
            answer += piece
    return answer


class Counted:
    """An ASGI app that notes the requests to another one."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.requests: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            self.requests.append(scope["path"])
        await self._app(scope, receive, send)

    def running(self) -> AbstractContextManager[str]:
        """Serve it in a thread."""
        return running(self, "127.0.0.1:0")


def get(url: str, **more: Any) -> httpx.Response:
    """Make a GET request that may take long."""
    return httpx.get(url, **{"timeout": PATIENCE, **more})


def post(url: str, **more: Any) -> httpx.Response:
    """Make a POST request that may take long."""
    return httpx.post(url, **{"timeout": PATIENCE, **more})


def stream(method: str, url: str, **more: Any) -> AbstractContextManager[httpx.Response]:
    """Make a request whose answer is read as it comes."""
    return httpx.stream(method, url, **{"timeout": PATIENCE, **more})


def until(happened: Callable[[], bool]) -> None:
    """Wait until something has happened in another thread."""
    late = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < late
        time.sleep(0.01)
