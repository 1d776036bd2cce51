"""An embedded OpenAI-compatible endpoint: the chat-completions protocol around a scripted model.

It serves demos and tests on 127.0.0.1 and needs no network, no key and no other package. Any
model name is answered by the scripted model, except the names in `MODES`, which fail or
misbehave on purpose so that a client can be tried against them.
"""

import argparse
import contextlib
import hmac
import itertools
import json
import signal
import socket
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any, Final, NamedTuple

from budget_cpython.scripted_model import (
    CHARS_PER_TOKEN,
    BadRequest,
    Json,
    Reply,
    ToolCall,
    check_request,
    count_tokens,
    cut,
    next_reply,
)

HOST: Final = "127.0.0.1"
DEFAULT_MODEL: Final = "scripted"
MAX_BODY: Final = 8 * 1024 * 1024
MAX_RECORDED: Final = 512
MAX_CONVERSATIONS: Final = 64
CACHE_STEP: Final = 128
PIECE_CHARS: Final = 12
IDLE_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 10.0
DRIP_SECONDS: Final = 0.05


class ApiError(Exception):
    """A refusal on its way to the client: a status, OpenAI's error body, extra headers."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body: Json = {
            "error": {"message": message, "type": kind, "param": param, "code": code}
        }


class ScriptedEndpoint:
    """Serve the scripted model on a local port, from construction until `close`.

    `port` 0 takes a free port; a port in use raises `OSError`. With an `api_key`, requests
    without it as their bearer token get a 401. Also a context manager.
    """

    def __init__(self, api_key: str | None = None, port: int = 0) -> None:
        self.api_key = api_key
        self._lock = threading.Lock()
        self._requests: deque[Json] = deque(maxlen=MAX_RECORDED)
        self._prompts: OrderedDict[str, list[str]] = OrderedDict()
        self._numbers = itertools.count(1)
        self._server = _Server(self, port)
        serve = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        serve.start()

    @property
    def base_url(self) -> str:
        """Return the address a client takes as its base URL."""
        return f"http://{HOST}:{self._server.server_port}/v1"

    @property
    def requests(self) -> list[Json]:
        """Return the latest chat request bodies, oldest first, refused ones included.

        At most `MAX_RECORDED` are kept.
        """
        with self._lock:
            return list(self._requests)

    def close(self) -> None:
        """Stop serving and cut every connection that is still open; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._server.cut_connections()

    def __enter__(self) -> "ScriptedEndpoint":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def record(self, body: Json) -> None:
        """Remember a chat request body, forgetting the oldest beyond `MAX_RECORDED`."""
        with self._lock:
            self._requests.append(body)

    def complete(self, body: Json) -> Json:
        """Return the `chat.completion` object that answers a checked request body."""
        prompt = _prompt(body)
        limit = body.get("max_tokens") or body.get("max_completion_tokens")
        reply = cut(next_reply(body), limit)
        with self._lock:
            number = next(self._numbers)
            seen = self._seen_before(_conversation(body), prompt)
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": body["model"],
            "choices": [_choice(reply, number)],
            "usage": _usage(sum(map(len, prompt)), seen, reply.chars),
        }

    def _seen_before(self, conversation: str, prompt: list[str]) -> int:
        before = self._prompts.pop(conversation, [])
        self._prompts[conversation] = prompt
        if len(self._prompts) > MAX_CONVERSATIONS:
            self._prompts.popitem(last=False)
        pairs = itertools.takewhile(
            lambda pair: pair[0] == pair[1], zip(before, prompt, strict=False)
        )
        return sum(len(part) for part, _ in pairs)


def _prompt(body: Json) -> list[str]:
    # Tools come first, as in the real service: withdrawing them breaks the cached prefix.
    parts = [*(body.get("tools") or ()), *body["messages"]]
    return [json.dumps(part, ensure_ascii=False) for part in parts]


def _conversation(body: Json) -> str:
    messages = body["messages"]
    roles = [message["role"] for message in messages]
    opening = messages[: roles.index("user") + 1] if "user" in roles else messages[:1]
    return json.dumps([body["model"], opening])


def _usage(prompt_chars: int, seen_chars: int, reply_chars: int) -> Json:
    prompt, completion = count_tokens(prompt_chars), count_tokens(reply_chars)
    cached = seen_chars // CHARS_PER_TOKEN // CACHE_STEP * CACHE_STEP
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def _choice(reply: Reply, number: int) -> Json:
    message: Json = {"role": "assistant", "content": reply.content, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            _call(call, f"call_{number}_{index}") for index, call in enumerate(reply.calls)
        ]
    return {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": reply.finish_reason,
    }


def _call(call: ToolCall, call_id: str) -> Json:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call_id, "type": "function", "function": function}


def _chunks(completion: Json, include_usage: bool) -> Iterator[Json]:
    head = {key: completion[key] for key in ("id", "created", "model")}
    head["object"] = "chat.completion.chunk"
    ends = {"usage": None} if include_usage else {}
    for delta, reason in _deltas(completion["choices"][0]):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        yield {**head, "choices": [choice], **ends}
    if include_usage and "usage" in completion:
        yield {**head, "choices": [], "usage": completion["usage"]}


def _deltas(choice: Json) -> Iterator[tuple[Json, str | None]]:
    message = choice["message"]
    yield {"role": "assistant", "content": ""}, None
    for piece in _pieces(message["content"]):
        yield {"content": piece}, None
    for index, call in enumerate(message.get("tool_calls", ())):
        opening = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": opening}]}, None
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, choice["finish_reason"]


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, endpoint: ScriptedEndpoint, port: int) -> None:
        self.endpoint = endpoint
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer would look the host's name up, which can block where DNS is slow.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = HOST, self.socket.getsockname()[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        with self._open_lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        with self._open_lock:
            for connection in self._open:
                _shut(connection, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _shut(connection: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(how)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_SECONDS
    server: _Server

    def serve(self) -> None:
        """Answer a request of any method: the route decides which one it takes."""
        try:
            raw = self._read_body()
        except ApiError as error:
            self._refuse_unread(error)
            return
        try:
            self._route(raw)
        except ApiError as error:
            self.send_json(error.status, error.body, error.headers)
        except RecursionError:
            self.send_json(400, ApiError(400, "The JSON body is nested too deeply.").body)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = serve

    def _read_body(self) -> bytes:
        length = self.headers.get("Content-Length", "0").strip()
        if "Transfer-Encoding" in self.headers:
            raise ApiError(411, "Send the body with a Content-Length.")
        if not (length.isascii() and length.isdigit()):
            raise ApiError(400, "Content-Length is not a whole number.")
        if len(length) > len(str(MAX_BODY)) or int(length) > MAX_BODY:
            raise ApiError(413, f"The body is larger than {MAX_BODY} bytes.")
        raw = self.rfile.read(int(length))
        if len(raw) < int(length):
            raise ConnectionError("the client left before its body was complete")
        return raw

    def _refuse_unread(self, error: ApiError) -> None:
        self.send_json(error.status, error.body, {"Connection": "close"})
        # Closing on unread bytes resets the connection, and the client may lose the answer.
        _shut(self.connection, socket.SHUT_WR)
        self.connection.settimeout(DRAIN_SECONDS)
        left = 2 * MAX_BODY
        while left > 0 and (piece := self.rfile.read1(65536)):
            left -= len(piece)

    def _route(self, raw: bytes) -> None:
        path = self.path.partition("?")[0]
        if path not in _ROUTES:
            raise ApiError(404, f"Invalid URL ({self.command} {path})", code="unknown_url")
        method, answer = _ROUTES[path]
        if self.command != method:
            message = f"Not allowed to {self.command} on {path}."
            raise ApiError(405, message, code="method_not_supported", headers={"Allow": method})
        self._check_key()
        answer(self, raw)

    def _check_key(self) -> None:
        key = self.server.endpoint.api_key
        if key is None:
            return
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("latin-1", "replace"), key.encode())
        if scheme.lower() != "bearer" or not same:
            raise ApiError(
                401,
                "Incorrect API key provided.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def chat(self, raw: bytes) -> None:
        """Answer `POST /v1/chat/completions`."""
        body = _parse(raw)
        self.server.endpoint.record(body)
        try:
            check_request(body)
        except BadRequest as error:
            raise ApiError(400, str(error), param=error.param, code=error.code) from None
        _mode(body["model"]).act(self, body)

    def models(self, raw: bytes) -> None:
        """Answer `GET /v1/models`."""
        names = [DEFAULT_MODEL, *MODES]
        kind = {"object": "model", "created": 0, "owned_by": "microbudget"}
        self.send_json(200, {"object": "list", "data": [{"id": name, **kind} for name in names]})

    def send_json(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        """Send a whole JSON answer."""
        self.send_bytes(status, json.dumps(body).encode(), "application/json", headers)

    def send_bytes(
        self, status: int, payload: bytes, kind: str, headers: dict[str, str] | None = None
    ) -> None:
        """Send a whole answer; to HEAD, only its head."""
        head = {"Content-Type": kind, "Content-Length": str(len(payload)), **(headers or {})}
        self.send_head(status, head)
        if self.command != "HEAD":
            self.wfile.write(payload)

    def send_head(self, status: int, headers: dict[str, str]) -> None:
        """Send the status line and the headers."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def send_completion(self, body: Json, completion: Json, cut_short: bool = False) -> None:
        """Send a completion, as a stream where the request asks for one."""
        if not body.get("stream"):
            self.send_json(200, completion)
            return
        include_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        events = [json.dumps(chunk) for chunk in _chunks(completion, include_usage)]
        if cut_short:
            self._send_events(events[: len(events) // 2], ended=False)
        else:
            self._send_events([*events, "[DONE]"], ended=True)

    def _send_events(self, events: Iterable[str], ended: bool) -> None:
        chunked = self.request_version != "HTTP/1.0"
        framing = {"Transfer-Encoding": "chunked"} if chunked else {"Connection": "close"}
        self.send_head(200, {"Content-Type": "text/event-stream", **framing})
        for event in events:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
        if chunked and ended:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = self.close_connection or not ended

    def client_leaves(self, seconds: float | None) -> bool:
        """Wait until the client leaves or the endpoint closes: False when `seconds` pass first."""
        self.connection.settimeout(seconds)
        try:
            while self.connection.recv(4096):
                pass
        except TimeoutError:
            return False
        return True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Send what http.server refuses by itself in the protocol's own error shape."""
        error = ApiError(code, message or explain or "Bad request.")
        self.send_json(code, error.body, {"Connection": "close"})

    def version_string(self) -> str:
        """Return the name that stands in the Server header."""
        return "microbudget-endpoint"

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: demos and tests own the terminal."""


def _parse(raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except ValueError:
        raise ApiError(400, "We could not parse the JSON body of your request.") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The JSON body of your request must be an object.")
    return body


_ROUTES: Final[dict[str, tuple[str, Callable[[_Handler, bytes], None]]]] = {
    "/v1/chat/completions": ("POST", _Handler.chat),
    "/v1/models": ("GET", _Handler.models),
}


def _answer(handler: _Handler, body: Json) -> None:
    handler.send_completion(body, handler.server.endpoint.complete(body))


def _fail(status: int, **details: Any) -> Callable[[_Handler, Json], None]:
    def act(handler: _Handler, body: Json) -> None:
        raise ApiError(status, f"{body['model']}: the model's name asks for this.", **details)

    return act


def _hang(handler: _Handler, body: Json) -> None:
    handler.client_leaves(None)
    handler.close_connection = True


def _drip(handler: _Handler, body: Json) -> None:
    handler.send_head(200, {"Content-Type": "application/json", "Connection": "close"})
    while not handler.client_leaves(DRIP_SECONDS):
        handler.wfile.write(b" ")


def _huge(handler: _Handler, body: Json) -> None:
    handler.send_head(200, {"Content-Type": "application/json", "Connection": "close"})
    handler.wfile.write(b'{"id": "')
    while True:
        handler.wfile.write(b"x" * 65536)


def _truncated(handler: _Handler, body: Json) -> None:
    payload = json.dumps(handler.server.endpoint.complete(body)).encode()
    length = str(len(payload))
    handler.send_head(200, {"Content-Type": "application/json", "Content-Length": length})
    handler.wfile.write(payload[: len(payload) // 2])
    handler.close_connection = True


def _not_json(handler: _Handler, body: Json) -> None:
    handler.send_bytes(200, b"<html><body>Bad gateway</body></html>", "text/html")


def _bad_arguments(handler: _Handler, body: Json) -> None:
    completion = handler.server.endpoint.complete(body)
    for call in completion["choices"][0]["message"].get("tool_calls", ()):
        call["function"]["arguments"] = '["not an object"]'
    handler.send_completion(body, completion)


def _no_usage(handler: _Handler, body: Json) -> None:
    completion = handler.server.endpoint.complete(body)
    del completion["usage"]
    handler.send_completion(body, completion)


def _stream_cut(handler: _Handler, body: Json) -> None:
    handler.send_completion(body, handler.server.endpoint.complete(body), cut_short=True)


class Mode(NamedTuple):
    """What a special model name does, and the words that say so in the help."""

    act: Callable[[_Handler, Json], None]
    says: str


MODES: Final[dict[str, Mode]] = {
    "error-400": Mode(_fail(400, param="model"), "answers 400"),
    "error-401": Mode(_fail(401, code="invalid_api_key"), "answers 401"),
    "error-429": Mode(
        _fail(429, kind="requests", code="rate_limit_exceeded", headers={"Retry-After": "1"}),
        "answers 429 with Retry-After",
    ),
    "error-500": Mode(_fail(500, kind="server_error"), "answers 500"),
    "hang": Mode(_hang, "accepts the request and never answers"),
    "drip": Mode(_drip, "sends one byte now and then, without end"),
    "huge": Mode(_huge, "sends a body without end"),
    "truncated": Mode(_truncated, "sends less than its Content-Length, then closes"),
    "not-json": Mode(_not_json, "answers 200 with a page of HTML"),
    "bad-arguments": Mode(_bad_arguments, "calls tools with arguments that are no JSON object"),
    "no-usage": Mode(_no_usage, "leaves out the usage"),
    "stream-cut": Mode(_stream_cut, "drops the connection in the middle of a stream"),
}


def _mode(model: str) -> Mode:
    if model.startswith("error-") and model not in MODES:
        return Mode(_fail(404, param="model", code="model_not_found"), "answers 404")
    return MODES.get(model, Mode(_answer, "answers"))


def main(arguments: list[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; return the exit code."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    try:
        endpoint = ScriptedEndpoint(options.api_key, options.port)
    except OSError as error:
        print(f"cannot serve on {HOST}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1
    with endpoint:
        print(endpoint.base_url, flush=True)
        # An endless wait is deaf to Ctrl-C on Windows.
        while not stop.wait(1.0):
            pass
    return 0


def _parser() -> argparse.ArgumentParser:
    rows = [f"  {name:14} {mode.says}" for name, mode in MODES.items()]
    parser = argparse.ArgumentParser(
        prog="python -m budget_cpython.endpoint",
        description=f"Serve a scripted model over the chat-completions protocol on {HOST}.\n"
        "The first line printed is the base URL; Ctrl-C or SIGTERM stops it.",
        epilog="Any model name is answered, but some misbehave:\n" + "\n".join(rows),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port", type=_port, default=0, metavar="N", help="port to serve on (default: a free one)"
    )
    parser.add_argument(
        "--api-key", metavar="K", help="refuse requests without this bearer token (default: none)"
    )
    return parser


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise argparse.ArgumentTypeError("a port is a whole number from 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
