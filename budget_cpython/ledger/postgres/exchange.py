"""Talk to the server over a connection, without saying how to wait for it.

What talks is a generator: it yields `READ` or `READ | WRITE` when it must wait, and is sent which
of the two is possible. So threads and asyncio run the same conversations, and both can give up on
a server that says nothing.
"""

import asyncio
import selectors
import time
from collections.abc import Generator, Sequence
from typing import TypeVar

import psycopg
from psycopg import errors, pq

T = TypeVar("T")
Talk = Generator[int, int, T]
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)
Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)


def script(connection: pq.abc.PGconn, text: bytes) -> Talk[bytes | None]:
    """Run statements, one transaction if they open none; return the last one's first value."""
    connection.send_query(text)
    return (yield from _answer(connection))


def execute(
    connection: pq.abc.PGconn, statement: bytes, parameters: Sequence[bytes | None]
) -> Talk[bytes | None]:
    """Run one statement, and return its first value."""
    connection.send_query_params(statement, parameters)
    return (yield from _answer(connection))


def prepare(connection: pq.abc.PGconn, name: bytes, statement: bytes) -> Talk[bytes | None]:
    """Give a statement a name."""
    connection.send_prepare(name, statement)
    return (yield from _answer(connection))


def execute_prepared(
    connection: pq.abc.PGconn, name: bytes, parameters: Sequence[bytes | None]
) -> Talk[bytes | None]:
    """Run a statement that was prepared, and return its first value."""
    connection.send_query_prepared(name, parameters)
    return (yield from _answer(connection))


def _answer(connection: pq.abc.PGconn) -> Talk[bytes | None]:
    """Read to the end, past the value: only then is it committed."""
    while connection.flush():
        if (yield READ | WRITE) & READ:
            connection.consume_input()
    value = failure = None
    while True:
        while connection.is_busy():
            yield READ
            try:
                connection.consume_input()
            except psycopg.OperationalError:
                break  # the result says what the server had to say at the last
        result = connection.get_result()
        if result is None:
            break
        if result.status not in _FINE:
            failure = failure or result
        elif result.ntuples:
            value = result.get_value(0, 0)
    if failure is not None:
        raise errors.error_from_result(failure)
    return value


def wait(talk: Talk[T], selector: selectors.BaseSelector, socket: int, seconds: float) -> T:
    """Run a conversation in this thread; raise `TimeoutError` where it takes too long."""
    until = time.monotonic() + seconds
    try:
        wanted = next(talk)
        while True:
            if selector.get_key(socket).events != wanted:
                selector.modify(socket, wanted)
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError
            wanted = talk.send(ready[0][1])
    except StopIteration as stop:
        result: T = stop.value
        return result


async def wait_async(talk: Talk[T], connection: pq.abc.PGconn, seconds: float) -> T:
    """Run a conversation on the running loop; raise `TimeoutError` where it takes too long."""
    try:
        wanted = next(talk)
        async with asyncio.timeout(seconds):
            while True:
                wanted = talk.send(await _ready(connection.socket, wanted))
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _ready(socket: int, wanted: int) -> int:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[int] = loop.create_future()

    def note(event: int) -> None:
        if not ready.done():
            ready.set_result(event)

    loop.add_reader(socket, note, READ)
    if wanted & WRITE:
        loop.add_writer(socket, note, WRITE)
    try:
        return await ready
    finally:
        loop.remove_reader(socket)
        if wanted & WRITE:
            loop.remove_writer(socket)
