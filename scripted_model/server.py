"""Serve the scripted model: routes, the API key, and a record of the requests."""

import itertools
import json
import re
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from socketserver import ThreadingTCPServer
from typing import Any, Final, NamedTuple

from scripted_model.calls import Answer, Asked, Reply
from scripted_model.checks import ApiError, Json
from scripted_model.faults import FAULTS, answer_as
from scripted_model.formats import format_of
from scripted_model.http_handler import HttpHandler
from scripted_model.model import cut_reply
from scripted_model.scripts import SCRIPTS, script_of
from scripted_model.usage import PromptCache

HOST: Final = "127.0.0.1"
DEFAULT_MODEL: Final = "scripted"
_MODELS: Final = re.compile("/v1(?:alpha|beta)?/models(?:/([^/:]+))?")


class ReceivedRequest(NamedTuple):
    """A request as it came: `headers` by lower-case names, `body` empty unless a JSON object."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json


class ScriptedEndpoint:
    """Serve the scripted model on a local port, from construction until `close`.

    `port` 0 takes a free port; a port in use raises `OSError`. With an `api_key`, requests
    without it get a 401. `scripts` has replies by model name, or functions that are called with
    what was `Asked`, in a thread of their own, and return the `Reply` or raise an `ApiError`;
    it may be changed at any time. The last `keep` requests and answers are kept. Also a context
    manager.
    """

    def __init__(
        self,
        api_key: str | None = None,
        port: int = 0,
        *,
        scripts: Mapping[str, Reply | Callable[[Asked], Reply]] | None = None,
        keep: int = 1000,
    ) -> None:
        self.api_key = api_key
        self.scripts = dict(scripts or {})
        self._lock = threading.Lock()
        self._requests: deque[ReceivedRequest] = deque(maxlen=keep)
        self._answers: deque[Answer] = deque(maxlen=keep)
        self._cache = PromptCache()
        self._numbers = itertools.count(1)
        self._server = _EndpointServer(self, port)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def base_url(self) -> str:
        """Return the address that OpenAI's clients take as their base URL."""
        return f"{self.root_url}/v1"

    @property
    def root_url(self) -> str:
        """Return the address that Anthropic's and Google's clients take as their base URL."""
        return f"http://{HOST}:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Return the last requests, oldest first, refused ones too."""
        with self._lock:
            return list(self._requests)

    @property
    def answers(self) -> list[Answer]:
        """Return the model's last answers with their usage, oldest first.

        They include those that a model which misbehaves has not sent as they are.
        """
        with self._lock:
            return list(self._answers)

    def close(self) -> None:
        """Stop serving and cut every connection that is still open; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._server.cut_connections()

    def __enter__(self) -> "ScriptedEndpoint":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def handle(self, http: HttpHandler, raw: bytes) -> None:
        """Answer a request whose body was read; raises `ApiError`."""
        body, wrong = _parse(raw)
        with self._lock:
            row = ReceivedRequest(http.command, http.address, http.query, http.fields, body)
            self._requests.append(row)
        form, models = format_of(http.address), _MODELS.fullmatch(http.address)
        if http.command == "POST" and form is not None:
            self._check_key(http)
            if wrong:
                raise ApiError(400, wrong)
            http.format = form
            asked = form.read(body, http.address)
            answer_as(asked.model)(http, self.answer(asked))
        elif http.command == "GET" and models:
            self._check_key(http)
            names = (DEFAULT_MODEL, *FAULTS, *SCRIPTS, *self.scripts)
            one = models[1]
            http.send_json(200, http.vendor.model(one) if one else http.vendor.models(names))
        else:
            message = f"Invalid URL ({http.command} {http.address})"
            raise ApiError(404, message, code="unknown_url")

    def answer(self, asked: Asked) -> Answer:
        """Return the model's answer to a checked request."""
        script = self.scripts.get(asked.model) or script_of(asked.model)
        reply = cut_reply(script if isinstance(script, Reply) else script(asked), asked.max_tokens)
        usage = self._cache.use(asked, reply)
        with self._lock:
            answer = Answer(asked, next(self._numbers), reply, usage)
            self._answers.append(answer)
        return answer

    def _check_key(self, http: HttpHandler) -> None:
        if self.api_key is not None and http.vendor.key(http.fields, http.query) != self.api_key:
            headers = {"WWW-Authenticate": "Bearer"}
            message = "Incorrect API key provided."
            raise ApiError(401, message, code="invalid_api_key", headers=headers)


class _EndpointServer(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, endpoint: ScriptedEndpoint, port: int) -> None:
        self._open: set[socket.socket] = set()
        super().__init__((HOST, port), partial(HttpHandler, endpoint.handle))

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


def _parse(raw: bytes) -> tuple[Json, str]:
    """Return the JSON object of a body, and what is wrong if it has none."""
    try:
        body = json.loads(raw)
    except ValueError:
        return {}, "We could not parse the JSON body of your request."
    if not isinstance(body, dict):
        return {}, "The JSON body of your request must be an object."
    return body, ""
