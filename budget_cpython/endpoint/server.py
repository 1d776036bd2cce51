"""Serve the scripted model: routes, the API key, and a record of the requests."""

import itertools
import json
import socket
import sys
import threading
from collections import deque
from contextlib import suppress
from socketserver import ThreadingTCPServer
from typing import Any, Final

from budget_cpython.endpoint.completions import completion, prompt_parts, shared_chars, usage
from budget_cpython.endpoint.faults import FAULTS, answer_as
from budget_cpython.endpoint.http_handler import HttpHandler
from budget_cpython.endpoint.model import next_reply
from budget_cpython.endpoint.protocol import ApiError, Json, check_request

HOST: Final = "127.0.0.1"
DEFAULT_MODEL: Final = "scripted"
MAX_RECORDED: Final = 512
MAX_PROMPTS: Final = 16


class ScriptedEndpoint:
    """Serve the scripted model on a local port, from construction until `close`.

    `port` 0 takes a free port; a port in use raises `OSError`. With an `api_key`, requests
    without it as their bearer token get a 401. Also a context manager.
    """

    def __init__(self, api_key: str | None = None, port: int = 0) -> None:
        self.api_key = api_key
        self._lock = threading.Lock()
        self._requests: deque[Json] = deque(maxlen=MAX_RECORDED)
        self._prompts: deque[tuple[str, list[str]]] = deque(maxlen=MAX_PROMPTS)
        self._numbers = itertools.count(1)
        self._server = _Server(self, port)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def base_url(self) -> str:
        """Return the address a client takes as its base URL."""
        return f"http://{HOST}:{self._server.server_address[1]}/v1"

    @property
    def requests(self) -> list[Json]:
        """Return the last `MAX_RECORDED` chat request bodies, oldest first, refused ones too."""
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

    def complete(self, body: Json) -> Json:
        """Record a request body, check it, and return the `chat.completion` that answers it."""
        self._requests.append(body)
        check_request(body)
        model, prompt, reply = body["model"], prompt_parts(body), next_reply(body)
        with self._lock:
            number = next(self._numbers)
            seen = [shared_chars(old, prompt) for name, old in self._prompts if name == model]
            self._prompts.append((model, prompt))
        used = usage(sum(map(len, prompt)), max(seen, default=0), reply.chars)
        return completion(model, number, reply, used)


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, endpoint: ScriptedEndpoint, port: int) -> None:
        self.endpoint = endpoint
        self._open: set[socket.socket] = set()
        super().__init__((HOST, port), _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def cut_connections(self) -> None:
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(HttpHandler):
    server: _Server

    def answer(self, raw: bytes) -> None:
        match self.command, self.path.partition("?")[0]:
            case "POST", "/v1/chat/completions":
                self._check_key()
                self._chat(raw)
            case "GET", "/v1/models":
                self._check_key()
                self._models()
            case method, path:
                raise ApiError(404, f"Invalid URL ({method} {path})", code="unknown_url")

    def _check_key(self) -> None:
        key = self.server.endpoint.api_key
        if key is not None and self.headers.get("Authorization") != f"Bearer {key}":
            headers = {"WWW-Authenticate": "Bearer"}
            message = "Incorrect API key provided."
            raise ApiError(401, message, code="invalid_api_key", headers=headers)

    def _chat(self, raw: bytes) -> None:
        body = _parse(raw)
        completion = self.server.endpoint.complete(body)
        answer_as(body["model"])(self, body, completion)

    def _models(self) -> None:
        kind = {"object": "model", "created": 0, "owned_by": "microbudget"}
        data = [{"id": name, **kind} for name in (DEFAULT_MODEL, *FAULTS)]
        self.send_json(200, {"object": "list", "data": data})


def _parse(raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except ValueError:
        raise ApiError(400, "We could not parse the JSON body of your request.") from None
    if not isinstance(body, dict):
        raise ApiError(400, "The JSON body of your request must be an object.")
    return body
