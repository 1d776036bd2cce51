"""A budget round clients of httpx and httpx2, each sync and async, against a real server."""

import asyncio
import gc
import gzip
import inspect
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import httpx2
import pytest

from budget_cpython import (
    BudgetExceededError,
    Deadline,
    DeadlineExceeded,
    Price,
    budget,
    budgeted,
)
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.attempt import Terms
from budget_cpython.adapters.http.client import budgeted_http_client
from budget_cpython.ledger.limit_parser import parse_limits
from scripted_model import Reply, ScriptedEndpoint
from tests.adapters.support import until_sent, used
from tests.vendors.vectors import CHAT_EXTRA, CHAT_STREAM, CHAT_TEXT, MESSAGE_STREAM, events

KINDS = [httpx.Client, httpx.AsyncClient, httpx2.Client, httpx2.AsyncClient]
BODY = {"model": "scripted", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 50}


def an_account(text: str, **options: Any) -> BudgetAccount:
    return BudgetAccount(parse_limits(text), **options)


class Tries:
    """One kind of client round an address; sync and async are used alike."""

    def __init__(self, kind: Any, base_url: str, *accounts: BudgetAccount, **options: Any) -> None:
        self.raw = kind(base_url=base_url, **options)
        self.client = budgeted_http_client(self.raw, accounts)
        self.loop = asyncio.new_event_loop()

    def run(self, made: Any) -> Any:
        return self.loop.run_until_complete(made) if inspect.isawaitable(made) else made

    def post(self, body: Any = BODY, path: str = "chat/completions", **options: Any) -> Any:
        return self.run(self.client.post(path, json=body, **options))

    def open(self, body: Any) -> Any:
        request = self.client.build_request("POST", "chat/completions", json=body)
        return self.run(self.client.send(request, stream=True))

    def pieces(self, response: Any) -> Iterator[bytes]:
        if not hasattr(self.raw, "aclose"):
            yield from response.iter_raw()
            return
        found = response.aiter_raw()
        try:
            while True:
                yield self.run(anext(found))
        except StopAsyncIteration:
            return
        finally:
            self.run(found.aclose())

    def close(self, response: Any = None) -> None:
        what = response if response is not None else self.raw
        self.run(what.aclose() if hasattr(self.raw, "aclose") else what.close())


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__module__[:6] + kind.__name__)
def make(request: Any) -> Iterator[Callable[..., Tries]]:
    made: list[Tries] = []

    def tries(base_url: str, *accounts: BudgetAccount, **options: Any) -> Tries:
        made.append(Tries(request.param, base_url, *accounts, **options))
        return made[-1]

    yield tries
    for one in made:
        one.close()
        one.run(one.loop.shutdown_asyncgens())  # httpx leaves those of an answer that is left early
        one.loop.close()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as served:
        yield served


class Served(BaseHTTPRequestHandler):
    """Serves what a test says, and keeps what it was sent."""

    protocol_version = "HTTP/1.1"
    answer = b"{}"
    kind = "application/json"
    encoding = "identity"
    status = 200
    pause = 1 << 30  # bytes, after which it waits
    wait: threading.Event
    sent: list[tuple[str, Any, dict[str, str]]]

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.sent.append((self.path, json.loads(data), headers))
        self.send_response(self.status)
        self.send_header("Content-Type", self.kind)
        self.send_header("Content-Encoding", self.encoding)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer[: self.pause])
        self.wait.wait()
        self.wfile.write(self.answer[self.pause :])

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@pytest.fixture
def served() -> Iterator[Any]:
    class Own(Served):
        sent = []
        wait = threading.Event()

    Own.wait.set()

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """Say nothing of clients that leave."""

    with Quiet(("127.0.0.1", 0), Own) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        Own.url = f"http://127.0.0.1:{server.server_address[1]}/v1"  # type: ignore[attr-defined]
        yield Own
        Own.wait.set()
        server.shutdown()


def test_a_budgeted_client_is_of_the_same_type(make: Any, endpoint: ScriptedEndpoint) -> None:
    tries = make(endpoint.base_url, headers={"x-own": "1"})
    assert isinstance(tries.client, type(tries.raw))
    assert type(tries.client).__name__ == type(tries.raw).__name__
    assert tries.client.headers["x-own"] == "1"
    assert str(tries.client.base_url) == endpoint.base_url + "/"


def test_another_object_is_refused() -> None:
    with pytest.raises(ValueError, match="httpx or httpx2"):
        budgeted_http_client(object())


def test_a_call_draws_on_its_accounts(make: Any, endpoint: ScriptedEndpoint) -> None:
    account, other = an_account("1000 tokens"), an_account("9 calls")
    answer = make(endpoint.base_url, account, other).post()
    assert answer.status_code == 200
    assert used(account) == (answer.json()["usage"]["total_tokens"], 0)
    assert used(other, "calls") == (1, 0)


def test_budgeted_takes_a_client_of_httpx(make: Any, endpoint: ScriptedEndpoint) -> None:
    tries = make(endpoint.base_url)
    tries.client = budgeted(tries.raw, "1 call")
    assert [tries.post().status_code for _ in range(2)] == [200, 402]


def test_a_client_that_is_budgeted_twice_draws_on_both_once(
    make: Any, endpoint: ScriptedEndpoint
) -> None:
    accounts = [an_account("9 calls"), an_account("9 calls")]
    tries = make(endpoint.base_url, accounts[0])
    tries.client = budgeted_http_client(tries.client, accounts[1:])
    with budget("9 calls") as block:
        tries.post()
    assert [used(account, "calls") for account in accounts] == [(1, 0)] * 2
    assert block.spent["calls"] == 1


def test_a_block_is_drawn_on_as_well(make: Any, endpoint: ScriptedEndpoint) -> None:
    tries = make(endpoint.base_url)
    with budget("1 call") as block:
        assert [tries.post().status_code for _ in range(2)] == [200, 402]
    assert block.spent["calls"] == 1
    assert tries.post().status_code == 200


def test_accounts_of_a_request_take_the_place_of_the_clients(
    make: Any, endpoint: ScriptedEndpoint
) -> None:
    own, other = an_account("9 calls"), an_account("9 calls")
    make(endpoint.base_url, own).post(extensions={"microbudget": Terms([other])})
    assert (used(own, "calls"), used(other, "calls")) == ((0, 0), (1, 0))


def test_a_refused_call_is_not_sent(make: Any, endpoint: ScriptedEndpoint) -> None:
    tries = make(endpoint.base_url, an_account("0 calls/day"))
    before = len(endpoint.requests)
    answer = tries.post()
    assert len(endpoint.requests) == before
    assert answer.status_code == 402
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["ratelimit"].startswith('"calls per day";r=0;t=')
    assert answer.json()["error"]["code"] == "insufficient_quota"
    error = answer.extensions["microbudget"]
    assert isinstance(error, BudgetExceededError)
    assert answer.json()["error"]["budget"]["resets_at"] == error.resets_at
    assert tries.run(tries.client.get("models")).status_code == 200


def test_a_refused_stream_can_be_read(make: Any, endpoint: ScriptedEndpoint) -> None:
    tries = make(endpoint.base_url, an_account("0 calls"))
    answer = tries.open({**BODY, "stream": True})
    assert answer.status_code == 402
    assert answer.json()["error"]["type"] == "insufficient_quota"
    tries.close(answer)


def test_the_request_is_rewritten(make: Any, served: Any) -> None:
    served.answer = json.dumps({"choices": [], "usage": CHAT_EXTRA["usage"]}).encode()
    tries = make(served.url, an_account("100 tokens"), headers={"authorization": "Bearer k"})
    tries.post({**BODY, "max_tokens": 500}, params={"a": "b c"})
    ((path, body, headers),) = served.sent
    assert path == "/v1/chat/completions?a=b+c"
    assert body["max_tokens"] == 94
    assert headers["authorization"] == "Bearer k"
    assert headers["content-type"] == "application/json"


def test_the_fallback_model_may_be_in_the_path(make: Any, served: Any) -> None:
    usage = {"promptTokenCount": 2, "candidatesTokenCount": 3, "totalTokenCount": 5}
    served.answer = json.dumps({"usageMetadata": usage}).encode()
    prices = {"gemini/x": Price(900, 900), "cheap/er": Price(1, 1)}
    account = an_account("$0.001", fallback_model="cheap/er", prices=prices)
    tries = make(served.url.replace("/v1", "/v1beta"), account)
    body = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
    tries.post(body, "models/gemini%2Fx:generateContent?key=k")
    ((path, _, _),) = served.sent
    assert path == "/v1beta/models/cheap%2Fer:generateContent?key=k"
    assert used(account, "nano_usd") == (5_000, 0)


def test_what_is_not_a_call_of_a_model_passes_through(make: Any, served: Any) -> None:
    account = an_account("0 calls")
    for path in ("files", "messages/count_tokens", "responses/r/cancel"):
        assert make(served.url, account).post({"b": 1}, path).status_code == 200
    assert [body for _, body, _ in served.sent] == [{"b": 1}] * 3


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\x1f\x8b\x08\x00", b"[" * 100_000])
def test_a_body_that_cannot_be_read_is_refused(make: Any, served: Any, content: bytes) -> None:
    tries = make(served.url, an_account("9 calls"))
    answer = tries.run(tries.client.post("chat/completions", content=content))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unreadable_request"
    assert served.sent == []


def test_a_key_in_another_case_is_refused(make: Any, served: Any) -> None:
    account = an_account("9 calls")
    answer = make(served.url, account).post({**BODY, "Max_Tokens": 9_999})
    assert (answer.status_code, served.sent) == (400, [])
    assert "write it as 'max_tokens'" in answer.json()["error"]["message"]
    assert used(account, "calls") == (0, 0)


def test_a_key_that_is_given_twice_is_refused(make: Any, served: Any) -> None:
    account = an_account("9 calls")
    text = b'{"model": "cheap", "messages": [], "max_tokens": 9, "model": "dear"}'
    tries = make(served.url, account)
    answer = tries.run(tries.client.post("chat/completions", content=text))
    assert (answer.status_code, served.sent) == (400, [])
    assert "has the key 'model' twice" in answer.json()["error"]["message"]
    assert used(account, "calls") == (0, 0)


@pytest.mark.parametrize("depth", [100, 500, 1_000, 10_000])
@pytest.mark.parametrize("nested", [b'{"k": %s}', b"[%s]"])
def test_a_body_that_is_nested_too_deeply_is_refused(
    make: Any, served: Any, nested: bytes, depth: int
) -> None:
    account = an_account("9 calls + 1000 tokens")
    tries, (opened, closed) = make(served.url, account), nested.split(b"%s")
    content = b'{"model": "m", "input": %s1%s}' % (opened * depth, closed * depth)
    answer = tries.run(tries.client.post("embeddings", content=content))
    error = answer.json()["error"]
    assert error["code"] == "unreadable_request"
    assert "nested more than 100 levels deep" in error["message"]
    assert served.sent == []
    assert used(account, "calls") == (0, 0)


def test_a_body_may_be_nested_up_to_a_bound(make: Any, served: Any) -> None:
    tries = make(served.url, an_account("9 calls"))
    content = b'{"model": "m", "input": %s1%s}' % (b"[" * 99, b"]" * 99)
    tries.run(tries.client.post("embeddings", content=content))
    assert len(served.sent) == 1


@pytest.mark.parametrize("model", ["error-400", "error-401", "error-429", "error-500"])
def test_an_answer_that_is_an_error_costs_nothing(
    make: Any, endpoint: ScriptedEndpoint, model: str
) -> None:
    account = an_account("9 calls + 1000 tokens")
    tries = make(endpoint.base_url, account)
    assert tries.post({**BODY, "model": model}).status_code == int(model[-3:])
    response = tries.open({**BODY, "model": model, "stream": True})
    assert response.status_code == int(model[-3:])
    tries.close(response)
    assert (used(account), used(account, "calls")) == ((0, 0), (0, 0))


@pytest.mark.parametrize(
    ("address", "name"),
    [("http://127.0.0.1:9/v1", "ConnectError"), ("ftp://127.0.0.1/v1", "UnsupportedProtocol")],
)
def test_a_call_that_was_never_sent_costs_nothing(make: Any, address: str, name: str) -> None:
    account = an_account("1000 tokens")
    tries = make(address, account)
    with pytest.raises((getattr(httpx, name), getattr(httpx2, name))):
        tries.post()
    assert used(account) == (0, 0)


def test_an_error_that_its_caller_handles_meanwhile_says_nothing_of_a_call(
    make: Any, endpoint: ScriptedEndpoint
) -> None:
    def break_off(_response: Any) -> None:
        raise RuntimeError("after the answer")

    async def break_off_async(response: Any) -> None:
        break_off(response)

    account = an_account("1000 tokens")
    tries = make(endpoint.base_url, account)
    is_async = hasattr(tries.raw, "aclose")
    tries.client.event_hooks = {"response": [break_off_async if is_async else break_off]}
    try:
        raise httpx.ConnectError("another address refused")
    except httpx.ConnectError:
        with pytest.raises(RuntimeError):
            tries.post()
    assert used(account)[0] >= 50
    assert used(account)[1] == 0


def test_a_call_that_its_proxy_does_not_connect_costs_nothing(make: Any, served: Any) -> None:
    account = an_account("1000 tokens")
    tries = make(
        "https://127.0.0.1:9/v1", account, proxy=served.url
    )  # its answer to CONNECT is 501
    with pytest.raises((httpx.ProxyError, httpx2.ProxyError)):
        tries.post()
    assert used(account) == (0, 0)


@pytest.mark.parametrize("model", ["truncated", "not-json", "no-usage"])
def test_a_call_whose_usage_is_unknown_keeps_its_hold(
    make: Any, endpoint: ScriptedEndpoint, model: str
) -> None:
    account = an_account("1000 tokens")
    tries = make(endpoint.base_url, account)
    try:
        tries.post({**BODY, "model": model})
    except (httpx.RemoteProtocolError, httpx2.RemoteProtocolError):
        assert model == "truncated"
    assert used(account)[0] >= 50
    assert used(account)[1] == 0


def test_a_stream_is_passed_on_and_counted(make: Any, served: Any) -> None:
    served.kind, served.answer = "text/event-stream", events(*CHAT_STREAM)
    account = an_account("1000 tokens")
    tries = make(served.url, account)
    response = tries.open({**BODY, "stream": True})
    assert used(account)[0] == 0
    data = b"".join(tries.pieces(response))
    assert data == served.answer.replace(events(CHAT_EXTRA), b"")
    assert used(account) == (13, 0)
    ((_, body, headers),) = served.sent
    assert body["stream_options"] == {"include_usage": True}
    assert headers["accept-encoding"] == "identity"
    assert "content-length" not in response.headers
    assert CHAT_TEXT


def test_a_stream_that_is_read_at_once_is_the_same(make: Any, served: Any) -> None:
    served.kind, served.answer = "text/event-stream", events(*CHAT_STREAM)
    account = an_account("1000 tokens")
    answer = make(served.url, account).post({**BODY, "stream": True})
    assert answer.content == served.answer.replace(events(CHAT_EXTRA), b"")
    assert used(account) == (13, 0)


def test_a_whole_answer_may_be_asked_for_as_a_stream(make: Any, endpoint: Any) -> None:
    account = an_account("1000 tokens")
    tries = make(endpoint.base_url, account)
    data = b"".join(tries.pieces(tries.open(BODY)))
    assert used(account) == (json.loads(data)["usage"]["total_tokens"], 0)


def reads(tries: Tries) -> None:
    """Have a hook of a client read each answer, as those do that log them."""

    def read(response: Any) -> None:
        response.read()

    async def aread(response: Any) -> None:
        await response.aread()

    tries.client.event_hooks = {"response": [aread if hasattr(tries.raw, "aclose") else read]}


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
@pytest.mark.parametrize("streamed", [True, False])
def test_a_stream_that_a_hook_has_read_is_settled_from_what_was_read(
    make: Callable[..., Tries], served: Any, streamed: bool, encoding: str
) -> None:
    data = events(*CHAT_STREAM)
    served.kind, served.encoding = "text/event-stream", encoding
    served.answer = data if encoding == "identity" else gzip.compress(data)
    account = an_account("1000 tokens")
    tries = make(served.url, account)
    reads(tries)
    body = {**BODY, "stream": True}
    response = tries.open(body) if streamed else tries.post(body)
    assert used(account) == (13, 0)
    assert response.content == data.replace(events(CHAT_EXTRA), b"")
    tries.close(response)
    assert used(account) == (13, 0)


def test_a_broken_stream_that_a_hook_has_read_is_charged_its_hold(
    make: Callable[..., Tries], served: Any
) -> None:
    served.kind, served.answer = "text/event-stream", events(*CHAT_STREAM[:3])
    account = an_account("1000 tokens")
    tries = make(served.url, account)
    reads(tries)
    assert tries.open({**BODY, "stream": True}).status_code == 200
    assert used(account)[0] >= 50
    assert (used(account)[1], account.calls.estimated) == (0, 1)


@pytest.mark.parametrize("package", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_stream_of_a_mock_transport_is_settled(package: Any, is_async: bool) -> None:
    head = {"content-type": "text/event-stream"}
    data = events(*CHAT_STREAM)
    transport = package.MockTransport(lambda _: package.Response(200, headers=head, content=data))
    account = an_account("1000 tokens")
    kind = package.AsyncClient if is_async else package.Client
    tries = Tries(kind, "http://mock", account, transport=transport)
    tries.close(tries.open({**BODY, "stream": True}))
    assert used(account) == (13, 0)
    tries.close()
    tries.loop.close()


def test_a_stream_may_be_closed_once_it_is_complete(make: Any, served: Any) -> None:
    served.kind, served.answer = "text/event-stream", events(*CHAT_STREAM)
    account = an_account("1000 tokens")
    tries = make(served.url, account)
    response = tries.open({**BODY, "stream": True})
    for data in tries.pieces(response):
        if b"[DONE]" in data:
            break
    tries.close(response)
    assert used(account) == (13, 0)


def test_a_stream_that_is_left_early_keeps_its_hold(make: Any, served: Any) -> None:
    served.kind, served.answer = "text/event-stream", events(*CHAT_STREAM)
    served.pause = len(events(*CHAT_STREAM[:3]))
    served.wait.clear()
    account = an_account("1000 tokens")
    tries = make(served.url, account)
    response = tries.open({**BODY, "stream": True})
    assert next(tries.pieces(response))
    tries.close(response)
    assert used(account)[0] >= 50
    assert used(account)[1] == 0


def test_a_stream_that_is_never_read_keeps_its_hold(make: Any, served: Any) -> None:
    served.kind, served.answer = "text/event-stream", events(*CHAT_STREAM)
    account = an_account("1000 tokens")
    tries = make(served.url, account)
    tries.close(tries.open({**BODY, "stream": True}))
    assert used(account)[0] >= 50
    assert used(account)[1] == 0


def test_a_stream_that_breaks_off_keeps_its_hold(make: Any, endpoint: ScriptedEndpoint) -> None:
    account = an_account("1000 tokens")
    tries = make(endpoint.base_url, account)
    response = tries.open({**BODY, "model": "stream-cut", "stream": True})
    with pytest.raises((httpx.RemoteProtocolError, httpx2.RemoteProtocolError)):
        list(tries.pieces(response))
    tries.close(response)
    assert used(account)[0] >= 50
    assert used(account)[1] == 0


def test_a_stream_that_is_compressed_all_the_same_is_passed_on_unread(
    make: Any, served: Any
) -> None:
    data = events(*CHAT_STREAM)
    served.kind, served.answer = "text/event-stream", gzip.compress(data)
    served.encoding = "gzip"
    account = an_account("1000 tokens", estimates=True)
    assert make(served.url, account).post({**BODY, "stream": True}).content == data
    assert used(account)[0] >= 50
    assert used(account)[1] == 0


def test_embeddings_are_refused_where_only_a_fallback_is_left(make: Any, served: Any) -> None:
    prices = {"scripted": Price(9_000, 9_000), "cheap": Price(1, 1)}
    account = an_account("$0.001", fallback_model="cheap", prices=prices)
    answer = make(served.url, account).post({"model": "scripted", "input": "Hello"}, "embeddings")
    assert answer.status_code == 402
    assert "no embeddings of scripted" in answer.json()["error"]["message"]
    assert (served.sent, used(account, "nano_usd")) == ([], (0, 0))


def test_a_stream_that_ends_before_its_last_event_keeps_its_hold(make: Any, served: Any) -> None:
    start = MESSAGE_STREAM[0]
    served.kind, served.answer = "text/event-stream", events(start, {"type": "error"})
    account = an_account("1000 tokens")
    tries = make(served.url, account)
    tries.post({**BODY, "stream": True}, "messages")
    assert used(account)[0] >= 50
    assert used(account)[1] == 0


def test_a_stream_of_a_server_that_reports_no_usage_is_estimated(make: Any, served: Any) -> None:
    served.kind, served.answer = "text/event-stream", events(*CHAT_STREAM[:-2])
    account = an_account("1000 tokens", estimates=True)
    make(served.url, account).post({**BODY, "stream": True})
    assert 0 < used(account)[0] < 50
    assert used(account)[1] == 0


@pytest.mark.parametrize("model", ["hang", "drip"])
def test_a_deadline_ends_a_call_that_was_sent_and_says_so(
    make: Any, endpoint: ScriptedEndpoint, model: str
) -> None:
    account = an_account("9 calls + 1000 tokens")
    tries = make(endpoint.base_url, account, timeout=600)
    for deadline in until_sent(endpoint):
        with deadline.as_current():
            answer = tries.post({**BODY, "model": model})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (402, "deadline_exceeded")
        assert isinstance(answer.extensions["microbudget"], DeadlineExceeded)
    assert "The call was sent" in error["message"]
    assert used(account)[0] >= 50
    assert used(account)[1] == 0


def test_a_deadline_that_passes_before_a_connection_says_so(make: Any, served: Any) -> None:
    served.wait.clear()
    tries = make(served.url, limits=httpx.Limits(max_connections=1), timeout=600)
    response = tries.open({**BODY, "stream": True})  # has the only connection
    account = an_account("1000 tokens")
    tries.client = budgeted_http_client(tries.raw, [account])
    with Deadline.from_now(0.2).as_current():
        answer = tries.post()
    assert "The call was not sent" in answer.json()["error"]["message"]
    assert used(account) == (0, 0)
    served.wait.set()
    tries.close(response)


def test_a_stream_ends_at_the_deadline(make: Any, endpoint: ScriptedEndpoint) -> None:
    half = threading.Event()
    endpoint.scripts["halves"] = Reply("word " * 20, halfway=lambda: half.wait(600))
    tries = make(endpoint.base_url, timeout=600)
    for deadline in until_sent(endpoint):
        with deadline.as_current():
            response = tries.open({**BODY, "model": "halves", "stream": True})
        if response.status_code == 200:
            with pytest.raises(DeadlineExceeded):
                list(tries.pieces(response))
        tries.close(response)
    half.set()


def test_a_deadline_that_has_passed_refuses(make: Any, served: Any) -> None:
    tries = make(served.url, an_account("9 calls"))
    with Deadline.from_now(0).as_current():
        answer = tries.post()
    assert answer.status_code == 402
    assert answer.json()["error"]["code"] == "deadline_exceeded"
    assert isinstance(answer.extensions["microbudget"], DeadlineExceeded)
    assert served.sent == []


def waits_for(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_a_cancelled_call_keeps_its_hold(endpoint: ScriptedEndpoint) -> None:
    async def cancel(kind: Any) -> int:
        account, before = an_account("1000 tokens"), len(endpoint.requests)
        async with budgeted_http_client(kind(base_url=endpoint.base_url), [account]) as client:
            body = {**BODY, "model": "hang"}
            call = asyncio.create_task(client.post("chat/completions", json=body))
            await asyncio.to_thread(waits_for, lambda: len(endpoint.requests) > before)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        return sum(used(account))

    for kind in (httpx.AsyncClient, httpx2.AsyncClient):
        assert asyncio.run(cancel(kind)) >= 50


def test_a_client_that_is_closed_holds_nothing(make: Any, endpoint: ScriptedEndpoint) -> None:
    account = an_account("9 calls")
    tries = make(endpoint.base_url, account)
    tries.run(tries.client.aclose() if hasattr(tries.raw, "aclose") else tries.client.close())
    with pytest.raises(RuntimeError, match="closed"):
        tries.post()
    assert used(account, "calls") == (0, 0)


def test_the_end_of_a_budgeted_client_leaves_the_connections(endpoint: ScriptedEndpoint) -> None:
    class Closing(httpx2.Client):
        def __del__(self) -> None:
            self.close()

    raw = Closing(base_url=endpoint.base_url)
    client = budgeted_http_client(raw)
    del client
    gc.collect()
    assert not raw.is_closed
    client = budgeted_http_client(raw)
    del raw
    gc.collect()
    assert client.get("models").status_code == 200


def test_many_threads_draw_on_one_account(endpoint: ScriptedEndpoint) -> None:
    account = an_account("20 calls")
    found: list[int] = []
    with httpx2.Client(base_url=endpoint.base_url) as raw:
        client = budgeted_http_client(raw, [account])

        def ask() -> None:
            for _ in range(5):
                found.append(client.post("chat/completions", json=BODY).status_code)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (found.count(200), found.count(402)) == (20, 20)
    assert used(account, "calls") == (20, 0)
