"""The processes of the proxy's benchmark: `python -m benchmarks.proxy_sides ROLE [UPSTREAM]`.

`upstream` answers any request at once, and a stream in two parts: the second one when as many
streams have begun as the request says. `bare` passes requests on with starlette and httpx; `ours`
does the same with a budget. Each prints its port.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.proxy import Proxy
from budget_cpython.proxy.app import SWITCH_S

_USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
_CHOICE = {"index": 0, "message": {"role": "assistant", "content": "hello"}}
_BODY = json.dumps({"id": "1", "model": "m", "choices": [_CHOICE], "usage": _USAGE}).encode()
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
_ANSWER = _HEAD % len(_BODY) + _BODY
_STREAM = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_PIECE = json.dumps({"choices": [{"index": 0, "delta": {"content": "hello"}}]})
_LAST = json.dumps({"choices": [], "usage": _USAGE})
_READ = 65_536  # bytes of a request that are looked at, and how many are read at once
_PLENTY = "1_000_000_000_000 tokens + 1_000_000_000 calls"


def _event(data: str) -> bytes:
    content = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(content), content)


class _Upstream:
    """Answers without looking at what is asked, but for `stream` and the number in the path."""

    def __init__(self) -> None:
        self._begun = 0
        self._all_begun = asyncio.Event()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
                body = await reader.readexactly(min(length, _READ))
                for left in range(length - len(body), 0, -_READ):
                    await reader.readexactly(min(left, _READ))
                if b'"stream": true' in body:
                    await self._stream(writer, int(json.loads(body)["at_once"]))
                else:
                    writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, at_once: int) -> None:
        writer.write(_STREAM + _event(_PIECE))
        self._begun += 1
        if self._begun == at_once:
            self._all_begun.set()
        await self._all_begun.wait()
        writer.write(_event(_PIECE) + _event(_LAST) + _event("[DONE]") + b"0\r\n\r\n")


async def _serve_upstream() -> None:
    server = await asyncio.start_server(_Upstream().answer, "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def bare_app(upstream: str) -> Starlette:
    """Return a proxy that passes each request on, and does nothing else."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=1000)
        async with httpx.AsyncClient(limits=limits, timeout=600) as client:
            app.state.client = client
            yield

    async def pass_on(request: Request) -> StreamingResponse:
        client: httpx.AsyncClient = request.app.state.client
        left_out = (b"host", b"content-length")
        sent = client.build_request(
            request.method,
            upstream + request.url.path,
            headers=[row for row in request.headers.raw if row[0] not in left_out],
            content=await request.body(),
        )
        answer = await client.send(sent, stream=True)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in answer.aiter_raw():
                    yield piece
            finally:
                await answer.aclose()

        headers = dict(answer.headers)
        headers.pop("transfer-encoding", None)
        return StreamingResponse(pieces(), answer.status_code, headers)

    return Starlette(routes=[Route("/{path:path}", pass_on, methods=["POST"])], lifespan=lifespan)


def our_app(upstream: str) -> Starlette:
    """Return the proxy as the command serves it, with limits that are never reached, in memory."""
    sys.setswitchinterval(SWITCH_S)
    return Proxy({"openai": upstream}, [BudgetAccount(parse_limits(_PLENTY), prices={})]).app


class _Server(uvicorn.Server):
    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        print(self.servers[0].sockets[0].getsockname()[1], flush=True)


def main(role: str, upstream: str = "") -> None:
    """Serve until killed."""
    if role == "upstream":
        asyncio.run(_serve_upstream())
        return
    app = {"bare": bare_app, "ours": our_app}[role](upstream)
    options: Any = {"log_level": "error", "access_log": False, "ws": "none", "backlog": 1000}
    _Server(uvicorn.Config(app, port=0, **options)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
