"""Drive the clients of several SDKs alike, blocking and async, against the scripted endpoint."""

import asyncio
import gc
import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import pytest

from budget_cpython import Ledger, budgeted
from scripted_model import ScriptedEndpoint
from tests.adapters.support import tokens

ACCOUNT = "acme/research"
LIMIT = 100  # tokens of an answer


class Sdk(Protocol):
    """One SDK: how its clients are made and called; the asyncio ones return what is awaited."""

    status_error: type[Exception]

    def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
        """Return a client of an endpoint, without a budget."""

    def ask(self, client: Any, model: str, tools: tuple[str, ...], limit: int) -> Any:
        """Make one call, and return its answer."""

    def stream(self, client: Any, model: str, limit: int) -> Any:
        """Make one call whose answer is an iterator of its events; return that."""

    def text(self, event: Any) -> str:
        """Return the text of an answer, or in one of its events."""

    def status(self, error: Any) -> int:
        """Return the status of an error."""

    def tools(self, body: Any) -> list[str]:
        """Return the names of the tools that a request offers and that may be called."""

    def close(self, stream: Any) -> Any:
        """Leave a stream."""

    def end(self, client: Any, is_async: bool) -> Any:
        """Close a client."""


class GeneratedSdk:
    """The common part of openai and anthropic, whose clients one generator writes."""

    status_error: type[Exception]
    prompt: dict[str, Any]
    limit_name = "max_tokens"

    def client(self, endpoint: ScriptedEndpoint, is_async: bool) -> Any:
        raise NotImplementedError

    def resource(self, client: Any) -> Any:
        """Return the part of a client that has `create`."""
        raise NotImplementedError

    def tool(self, name: str) -> Any:
        """Return the definition of a tool."""
        raise NotImplementedError

    def text(self, event: Any) -> str:
        raise NotImplementedError

    def asked(self, limit: int) -> dict[str, Any]:
        """Return the arguments of a call, without its model."""
        return {**self.prompt, self.limit_name: limit}

    def ask(self, client: Any, model: str, tools: tuple[str, ...], limit: int) -> Any:
        more = {"tools": [self.tool(name) for name in tools]} if tools else {}
        return self.resource(client).create(model=model, **self.asked(limit), **more)

    def stream(self, client: Any, model: str, limit: int) -> Any:
        return self.resource(client).create(model=model, **self.asked(limit), stream=True)

    def status(self, error: Any) -> int:
        return int(error.status_code)

    def tools(self, body: Any) -> list[str]:
        return [tool["name"] for tool in body.get("tools", ())]

    def close(self, stream: Any) -> Any:
        return stream.close()

    def end(self, client: Any, is_async: bool) -> Any:
        return client.close()


class World:
    """An SDK's client round the scripted endpoint; both its kinds are used alike."""

    def __init__(self, sdk: Sdk, endpoint: ScriptedEndpoint, is_async: bool) -> None:
        self.sdk = sdk
        self.endpoint = endpoint
        self.is_async = is_async
        self.loop = asyncio.new_event_loop()
        self.raw = sdk.client(endpoint, is_async)
        self.client = self.raw

    def run(self, made: Any) -> Any:
        return self.loop.run_until_complete(made) if inspect.isawaitable(made) else made

    def budget(self, limits: str, **options: Any) -> Ledger:
        """Put a budget round the client, and return the ledger of its account."""
        ledger = Ledger()
        self.client = budgeted(self.raw, limits, ledger=ledger, account=ACCOUNT, **options)
        return ledger

    def ask(self, model: str = "scripted", tools: tuple[str, ...] = (), limit: int = LIMIT) -> Any:
        return self.run(self.sdk.ask(self.client, model, tools, limit))

    def text(self, *asked: Any, **named: Any) -> str:
        return self.sdk.text(self.ask(*asked, **named))

    def stream(self, model: str = "scripted", limit: int = LIMIT) -> Any:
        return self.run(self.sdk.stream(self.client, model, limit))

    def events(self, stream: Any) -> Iterator[Any]:
        if not self.is_async:
            yield from stream
            return
        found = aiter(stream)
        while True:
            try:
                event = self.run(anext(found))
            except StopAsyncIteration:
                return
            yield event

    def leave(self, stream: Any) -> None:
        self.run(self.sdk.close(stream))

    @property
    def used(self) -> int:
        """The tokens of all answers of the endpoint."""
        return tokens(self.endpoint)

    @property
    def attempts(self) -> int:
        return len(self.endpoint.requests)

    @property
    def body(self) -> Any:
        """The body of the last request."""
        return self.endpoint.requests[-1].body

    def refused(self, **asked: Any) -> Any:
        """Return the error of a call that is refused, after one attempt that is not sent."""
        before, sends, http = self.attempts, [], self.http
        send = http.send

        def counted(*given: Any, **options: Any) -> Any:
            sends.append(given)
            return send(*given, **options)

        http.send = counted
        with pytest.raises(self.sdk.status_error) as caught:
            self.ask(**asked)
        del http.send
        assert (self.attempts - before, len(sends)) == (0, 1)
        assert self.sdk.status(caught.value) == 402
        return caught.value

    @property
    def http(self) -> Any:
        """The HTTP client inside the budgeted client."""
        api = getattr(self.client, "_api_client", None)
        if api is None:
            return self.client._client
        return api._async_httpx_client if self.is_async else api._httpx_client

    def close(self) -> None:
        self.client = None
        gc.collect()  # ends the streams that were left, while their loop is there
        self.run(self.loop.shutdown_asyncgens())
        self.run(self.sdk.end(self.raw, self.is_async))
        self.loop.close()


def spent(ledger: Ledger, axis: str = "tokens") -> tuple[int, int]:
    """Return what an account spent on an axis, and what it holds."""
    (row,) = [row for row in ledger.balance(ACCOUNT) if row.axis == axis]
    return row.spent, row.held


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)
