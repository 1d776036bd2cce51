"""What the tests of the service share: a client that holds it to its own description."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import httpx
from jsonschema import Draft202012Validator

from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.serve.app import make_app
from budget_cpython.serve.openapi import describe
from budget_cpython.web.keys import KeyFile
from tests.paths import ROOT
from tests_micro.support import FakeClock

NOON = 1_772_366_400  # 2026-03-01 12:00 UTC
MIDNIGHT = NOON + 43_200
DOCUMENT = json.loads(json.dumps(describe(with_keys=False)))
PATIENCE = 120  # seconds, where only hanging is to be seen
LIFE = 900  # a service's, of all tests of a module


class Client:
    """Requests to an app in this process.

    Each answer, and each request that is not refused, must be as the app's description says.
    """

    def __init__(
        self, ledger: Any, keys: KeyFile | None = None, clock: Any = None, **options: Any
    ) -> None:
        self.ledger = ledger
        self.clock = clock
        if clock is not None:
            options["clock"] = clock
        self.app = make_app(ledger, keys, **{"engine_timeout": PATIENCE, **options})

    def __call__(
        self, method: str, url: str, body: Any = None, key: str | None = None, **more: Any
    ) -> httpx.Response:
        return asyncio.run(self.ask(method, url, body, key, **more))

    async def ask(
        self, method: str, url: str, body: Any = None, key: str | None = None, **more: Any
    ) -> httpx.Response:
        """Make one request."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        headers.update(more.pop("headers", {}))
        transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            content = more if "content" in more else {"json": body}
            answer = await client.request(method, url, headers=headers, **content)
        check_answer(method, url, body, answer)
        return answer


class Failing:
    """A ledger whose engine fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def reserve(self, *arguments: object) -> object:
        raise self.error

    limits = reserve


def make_client(*rows: tuple[str, str, int | None, str], **options: Any) -> Client:
    """Return a client of a new ledger at noon, with limits: `(path, axis, cap, window)`."""
    clock = FakeClock(NOON)
    ledger = Ledger(clock)
    for path, axis, cap, window in rows:
        ledger.set_limits(path, [*ledger.limits(path), Limit(axis, cap, window)])
    return Client(ledger, clock=clock, **options)


def check_answer(method: str, url: str, body: Any, answer: httpx.Response) -> None:
    """Assert that an answer, and the request if it was done, are as the description says."""
    place = place_of(urlsplit(url).path)
    operation = DOCUMENT["paths"].get(place, {}).get(method.lower())
    said = answer.json()
    if operation is None:
        assert answer.status_code in (404, 405, 413, 422) or url == "/openapi.json"
        return
    described = operation["responses"][str(answer.status_code)]
    if "$ref" in described:
        described = DOCUMENT["components"]["responses"][str(answer.status_code)]
    validate(described["content"]["application/json"]["schema"], said)
    if answer.status_code == 200:
        assert is_described(operation, url, body), (url, body)


def is_described(operation: Any, url: str, body: Any) -> bool:
    """Tell whether a request is one that the description knows."""
    parts = urlsplit(url)
    given = dict(parse_qsl(parts.query))
    given["path"] = unquote(parts.path).partition("/v1/")[2].partition("/")[2]
    for parameter in operation.get("parameters", ()):
        name = parameter["name"]
        if parameter["in"] == "header":
            continue
        if name not in given and not parameter["required"]:
            continue
        if not valid(parameter["schema"], given.pop(name, None)):
            return False
    given.pop("path", None)
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json")
    return not given and (body is None if schema is None else valid(schema["schema"], body))


def place_of(path: str) -> str:
    """Return the path of the description that a URL's path is of."""
    return re.sub(r"^(/v1/[^/]+)/.+", r"\1/{path}", path)


def validator(schema: Any) -> Draft202012Validator:
    return Draft202012Validator(dict(schema, components=DOCUMENT["components"]))


def valid(schema: Any, value: Any) -> bool:
    return bool(validator(schema).is_valid(value))


def validate(schema: Any, value: Any) -> None:
    validator(schema).validate(value)


def put_ahead(seconds: float) -> None:
    """Let the running loop's clock, and with it all that waits for it, go ahead."""
    loop: Any = asyncio.get_running_loop()
    read = loop.time
    loop.time = lambda: read() + seconds


class Service(subprocess.Popen[str]):
    """The command, as a process that is gone when its `with` block is; `url` is what it printed."""

    COMMAND = ["serve", "--engine-timeout", str(PATIENCE)]

    def __init__(self, *arguments: object, files: str = "", **environment: str) -> None:
        """Start it; `files` is an option of `ulimit` and its number."""
        command = [sys.executable, "-W", "error", "-m", "budget_cpython.cli", *self.COMMAND]
        if files:
            command = ["sh", "-c", f'ulimit {files} && exec "$@"', "sh", *command]
        self._late = threading.Timer(LIFE, self.kill)
        super().__init__(
            [*command, *map(str, arguments)],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._late.start()
        assert self.stdout is not None
        self.url = self.stdout.readline().strip()
        self.port = urlsplit(self.url).port or 0

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal; return the exit code, and what was complained of."""
        self.send_signal(number)
        _, complaints = self.communicate()
        return self.returncode, complaints

    def __exit__(self, *error: Any) -> None:
        self._late.cancel()
        self.kill()
        super().__exit__(*error)
