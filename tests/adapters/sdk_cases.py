"""What a budgeted client does, whatever its SDK; the tests of each SDK name these cases."""

import asyncio
import gc
import inspect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any, Protocol

import pytest

from budget_cpython import (
    BudgetError,
    BudgetExceededError,
    Deadline,
    DeadlineExceeded,
    Ledger,
    Price,
    budget,
    budgeted,
    open_ledger,
)
from budget_cpython.endpoint import ScriptedEndpoint
from budget_cpython.endpoint.calls import Reply

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
        known = [answer.usage for answer in self.endpoint.answers]
        return sum(usage.prompt + usage.completion for usage in known if usage)

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


def is_the_same_class(world: World) -> None:
    """A budgeted client is of the very same class, and its raw one stays without a budget."""
    world.budget("0 calls")
    assert type(world.client) is type(world.raw)
    world.client = world.raw
    assert world.text()


def counts(world: World) -> None:
    """What a call used is spent."""
    ledger = world.budget("10_000 tokens + 9 calls")
    assert world.text().startswith("You said")
    assert spent(ledger) == (world.used, 0)
    assert spent(ledger, "calls") == (1, 0)


def draws_on_blocks(world: World) -> None:
    """A call draws on the blocks around it."""
    world.client = budgeted(world.raw)
    with budget("1 call") as block:
        world.ask()
        assert isinstance(world.refused().__cause__, BudgetExceededError)
    assert block.spent["calls"] == 1
    world.ask()


def shares_an_account(world: World, folder: Any) -> None:
    """Clients draw on one account of a ledger."""
    url = f"sqlite:{folder}/budget.db"
    world.client = budgeted(world.raw, "2 calls", ledger=url, account="acme/research")
    world.ask()
    world.client = budgeted(world.raw, ledger=url, account="acme/research")
    world.ask()
    world.refused()
    with closing(open_ledger(url)) as ledger:
        (row,) = ledger.balance("acme/research")
        assert (row.spent, row.held) == (2, 0)


def lowers_the_limit(world: World) -> None:
    """An answer is cut to what is left."""
    ledger = world.budget("300 tokens")
    world.ask("long", limit=5_000)
    assert 200 < (world.endpoint.answers[-1].asked.max_tokens or 0) < 300
    assert spent(ledger) == (world.used, 0)
    assert isinstance(world.refused().__cause__, BudgetError)


def tells_the_model(world: World) -> None:
    """Near a limit the model is told, once, in the last message of that call."""
    world.budget("4 calls", warning_thresholds=[0.5])
    said = [("[Budget notice]" in str(world.body)) for _ in range(4) if world.ask()]
    assert said == [False, False, True, False]


def withdraws_tools(world: World) -> None:
    """Near a limit tools are withdrawn, all or by name."""
    world.budget("4 calls", tool_strip_threshold=0.5, tool_strip_disallow=["pay"])
    offered = []
    for _ in range(3):
        world.ask(tools=("look", "pay"))
        offered.append(world.sdk.tools(world.body))
    assert offered == [["look", "pay"], ["look", "pay"], ["look"]]
    world.budget("4 calls", tool_strip_threshold=0.25)
    for names in (["look"], []):
        world.ask(tools=("look",))
        assert world.sdk.tools(world.body) == names


def falls_back(world: World) -> None:
    """Where a model is too dear, the fallback model answers."""
    prices = {"scripted": Price(9_000, 9_000), "long": Price(1, 1)}
    ledger = world.budget("$0.01", fallback_model="long", prices=prices)
    assert "word word" in world.text()
    assert world.endpoint.answers[-1].asked.model == "long"
    assert spent(ledger, "nano_usd") == (1_000 * world.used, 0)


def makes_a_final_call(world: World) -> None:
    """Where only one more call fits, it has no tools and says so."""
    ledger = world.budget("400 tokens")
    world.ask(tools=("look",))
    for _ in range(20):
        if not world.sdk.tools(world.body):
            break
        world.ask(tools=("look",))
    assert "This is your last answer" in str(world.body)
    assert spent(ledger) == (world.used, 0)


def refuses(world: World) -> None:
    """A refusal raises the SDK's error after one attempt, with ours as its cause."""
    world.budget("1 call/day")
    world.ask()
    cause = world.refused().__cause__
    assert isinstance(cause, BudgetExceededError)
    assert (cause.axis, cause.left) == ("calls", 0)
    assert cause.resets_at is not None


def refuses_a_stream(world: World) -> None:
    """A refused stream raises the same."""
    world.budget("0 calls")
    with pytest.raises(world.sdk.status_error) as caught:
        list(world.events(world.stream()))
    assert world.sdk.status(caught.value) == 402
    assert isinstance(caught.value.__cause__, BudgetExceededError)
    assert world.attempts == 0


def waits(world: World) -> None:
    """A call waits for what another one holds."""
    ledger = world.budget("150 tokens", wait=60, expect=LIMIT)
    held = ledger.reserve(ACCOUNT, {"tokens": 140})
    threading.Timer(0.2, ledger.release, [held]).start()
    assert world.text()
    assert spent(ledger) == (world.used, 0)


def streams(world: World) -> None:
    """A stream passes as it comes, and is counted at its end."""
    ledger = world.budget("10_000 tokens")
    half = threading.Event()
    world.endpoint.scripts["halves"] = Reply("word " * 20, halfway=half.wait)
    events = world.events(world.stream("halves"))
    text = ""
    while not text:
        text += world.sdk.text(next(events))
    assert len(text) < 100
    assert spent(ledger)[0] == 0
    half.set()
    text += "".join(world.sdk.text(event) for event in events)
    assert text == "word " * 20
    assert spent(ledger) == (world.used, 0)


def counts_broken_streams(world: World) -> None:
    """A stream that breaks off, ends in an error, or is left, keeps its hold."""
    half = threading.Event()
    world.endpoint.scripts["halves"] = Reply("word " * 20, halfway=half.wait)
    ledger = world.budget("10_000 tokens")
    stream = world.stream("halves")
    next(world.events(stream))
    world.leave(stream)
    half.set()
    assert sum(spent(ledger)) >= LIMIT
    for model in ("stream-cut", "stream-error"):
        ledger = world.budget("10_000 tokens")
        stream = world.stream(model)
        with suppress(Exception):  # each SDK has its own, or none
            list(world.events(stream))
        world.leave(stream)
        assert sum(spent(ledger)) >= LIMIT


def counts_cancelled_calls(world: World) -> None:
    """A cancelled call keeps its hold."""
    if not world.is_async:
        pytest.skip("a blocking call is not cancelled")

    async def cancel() -> None:
        call = asyncio.ensure_future(world.sdk.ask(world.client, "hang", (), LIMIT))
        await asyncio.to_thread(until, lambda: world.attempts == 1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    ledger = world.budget("10_000 tokens")
    world.run(cancel())
    assert sum(spent(ledger)) >= LIMIT


def ends_at_the_deadline(world: World) -> None:
    """A deadline ends a call that hangs, and refuses the ones after it."""
    ledger = world.budget("9 calls + 10_000 tokens")
    with Deadline.from_now(0.3).as_current():
        with pytest.raises(Exception) as caught:  # noqa: PT011 - each SDK has its own
            world.ask("hang")
        assert not isinstance(caught.value, AssertionError)
        until(Deadline.current().is_expired)
        assert isinstance(world.refused().__cause__, DeadlineExceeded)
    assert spent(ledger, "calls")[0] + spent(ledger, "calls")[1] <= 1


def counts_retries(world: World) -> None:
    """Each attempt counts once: nothing if the vendor refuses it, its hold if it breaks off."""
    ledger = world.budget("9 calls + 10_000 tokens")
    assert world.text("busy")
    assert world.attempts == 2
    assert spent(ledger, "calls") == (1, 0)
    with suppress(Exception):  # each SDK has its own
        world.ask("truncated")
    assert world.attempts > 2
    assert sum(spent(ledger, "calls")) == 1 + world.attempts - 2
    assert sum(spent(ledger)) >= (world.attempts - 2) * LIMIT


def counts_parallel_calls(world: World, count: int = 12) -> None:
    """Calls side by side do not exceed the budget."""
    ledger = world.budget("5 calls")
    found: list[int] = []

    def ask() -> None:
        try:
            world.sdk.ask(world.client, "scripted", (), LIMIT)
            found.append(200)
        except world.sdk.status_error as error:
            found.append(world.sdk.status(error))

    async def ask_all() -> None:
        calls = [world.sdk.ask(world.client, "scripted", (), LIMIT) for _ in range(count)]
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            is_error = isinstance(answer, world.sdk.status_error)
            found.append(world.sdk.status(answer) if is_error else 200)

    if world.is_async:
        world.run(ask_all())
    else:
        threads = [threading.Thread(target=ask) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == [200] * 5 + [402] * (count - 5)
    assert spent(ledger, "calls") == (5, 0)
    assert world.attempts == 5


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)
