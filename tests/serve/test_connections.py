"""Connections that are too many, or that ask for nothing, shut nobody else out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from uvicorn.server import ServerState

from budget_cpython.serve.connections import Connection
from tests.serve.support import PATIENCE, make_client, put_ahead

ASK = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
NEVER = 3600.0
SOON = 50.0  # but later than a busy machine's next step
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serving(most: int, first: float, following: float) -> AsyncIterator[int]:
    """Serve with connections of these bounds; give the port."""

    class Bounded(Connection):
        most_connections = most
        first_request_s = first
        next_request_s = following

    config = uvicorn.Config(make_client().app, log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Bounded(config, state, {}), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()


async def connect(port: int) -> Streams:
    return await asyncio.open_connection("127.0.0.1", port)


async def is_answered(streams: Streams) -> bool:
    """Tell whether a request is answered, or the connection at an end."""
    reader, writer = streams
    try:
        writer.write(ASK)
        head = await reader.readuntil(b"}")
    except (asyncio.IncompleteReadError, ConnectionError):
        return False
    return head.startswith(b"HTTP/1.1 200")


async def end(*all_streams: Streams) -> None:
    for _, writer in all_streams:
        writer.close()


async def ends(streams: Streams) -> bool:
    """Wait for a connection's end."""
    try:
        return await streams[0].read() == b""
    except ConnectionError:
        return True


def run(test: object) -> None:
    async def patiently() -> None:
        async with asyncio.timeout(PATIENCE):
            await test()  # type: ignore[operator]

    asyncio.run(patiently())


def test_one_connection_too_many_is_ended_and_the_others_go_on() -> None:
    async def crowd() -> None:
        async with serving(2, NEVER, NEVER) as port:
            first, second = await connect(port), await connect(port)
            assert await is_answered(first)
            third = await connect(port)
            assert not await is_answered(third)
            assert await is_answered(second)
            assert await is_answered(first)
            await end(first)
            while not await is_answered(fourth := await connect(port)):
                await end(fourth)
            await end(second, third, fourth)

    run(crowd)


def test_who_asks_for_nothing_is_not_waited_for() -> None:
    async def idle() -> None:
        async with serving(2, 0.01, NEVER) as port:
            silent, slow = await connect(port), await connect(port)
            slow[1].write(ASK[:20])
            assert await ends(silent)
            assert await ends(slow)
            await end(silent, slow)

    run(idle)


def test_the_next_request_is_not_waited_for_however_slowly_it_comes() -> None:
    async def idle() -> None:
        async with serving(2, NEVER, 0.01) as port:
            slow = await connect(port)
            slow[1].write(ASK + ASK[:20])
            assert (await slow[0].readuntil(b"}")).startswith(b"HTTP/1.1 200")
            assert await ends(slow)
            await end(slow)

    run(idle)


def test_a_request_that_takes_longer_than_the_wait_for_one_is_answered() -> None:
    async def slow() -> None:
        async with serving(2, SOON, SOON) as port:
            reader, writer = await connect(port)
            head = b"POST /v1/what HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
            writer.write(head + b"Expect: 100-continue\r\n\r\n")
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            later = asyncio.Event()
            asyncio.get_running_loop().call_later(SOON, later.set)  # behind the wait
            put_ahead(SOON)
            await later.wait()
            writer.write(b"x")
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 404")
            await end((reader, writer))

    run(slow)
