"""What a budget adds to a proxy: ours beside a bare one of starlette and httpx.

Both pass the same requests on to one server, for 50 clients that ask without a pause, and take
turns in short rounds; the best round of each counts. The seconds of the processor are those of the
proxy's process alone, so other programs do not change them much.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figures import Figure, ratio

CLIENTS = 50
STREAMS = 500
MOST_TIME = 1 / 0.6  # of the bare proxy's time a request
MOST_P99 = 2.0
_TICKS = os.sysconf("SC_CLK_TCK")
_MESSAGES = [{"role": "user", "content": "Say hello to the world in a few words, please."}]
_ASKED = {"model": "m", "max_tokens": 100, "messages": _MESSAGES}


@dataclass
class Side:
    """A process that is measured."""

    name: str
    port: int
    pid: int

    def processor_s(self) -> float:
        """Return the seconds of the processor that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_kb(self) -> int:
        """Return its resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize() // 1024


@dataclass
class Round:
    """What a round of requests took: seconds in all, and at the 99th percentile."""

    each_s: float
    p99_s: float
    processor_s: float


def measure(quick: bool = False) -> list[Figure]:
    """Return the time a request and its 99th percentile beside the bare proxy, and the streams."""
    if not Path("/proc/self/stat").exists():
        raise RuntimeError("it reads /proc")
    rounds, requests = (4, 300) if quick else (20, 1000)
    with both() as sides:
        for side in sides:
            asyncio.run(load(side, CLIENTS, requests))  # warms it up
        found: dict[str, list[Round]] = {side.name: [] for side in sides}
        for turn in range(rounds):
            for side in sides if turn % 2 else reversed(sides):
                found[side.name].append(asyncio.run(load(side, CLIENTS, requests)))
        whole = {side.name: asyncio.run(streams(side, STREAMS)) for side in sides}
    ours, bare = (_best(found[name]) for name in ("ours", "bare"))
    place = f"proxy, {CLIENTS} clients"
    return [
        Figure(f"{place}: requests a second", 1 / ours.each_s, "/s"),
        Figure(f"{place}: requests a second, bare", 1 / bare.each_s, "/s"),
        ratio(f"{place}: time a request, ratio", ours.each_s, bare.each_s, MOST_TIME),
        Figure(f"{place}: processor time a request", ours.processor_s * 1e6, "µs"),
        ratio(f"{place}: processor time, ratio", ours.processor_s, bare.processor_s, MOST_TIME),
        Figure(f"{place}: 99th percentile", ours.p99_s * 1e3, "ms"),
        ratio(f"{place}: 99th percentile, ratio", ours.p99_s, bare.p99_s, MOST_P99),
        Figure(f"proxy: of {STREAMS} streams at once, broken", STREAMS - whole["ours"], "", 0),
    ]


def _best(rounds: list[Round]) -> Round:
    """Return the least of each."""
    return Round(
        min(one.each_s for one in rounds),
        min(one.p99_s for one in rounds),
        min(one.processor_s for one in rounds),
    )


@contextmanager
def _process(role: str, *arguments: str) -> Iterator[Side]:
    command = [sys.executable, "-m", "benchmarks.proxy_sides", role, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        try:
            yield Side(role, int(process.stdout.readline()), process.pid)
        finally:
            process.kill()


@contextmanager
def both() -> Iterator[list[Side]]:
    """Serve our proxy and the bare one, in this order, before one server."""
    with _process("upstream") as upstream:
        url = f"http://127.0.0.1:{upstream.port}"
        with _process("ours", url) as ours, _process("bare", url) as bare:
            yield [ours, bare]


async def load(side: Side, clients: int, requests: int) -> Round:
    """Make requests by clients that each wait for their answer, and then ask again."""
    times: list[float] = []
    left = iter(range(requests))
    begun, used = time.perf_counter(), side.processor_s()
    await asyncio.gather(*(_ask_on(side.port, left, times) for _ in range(clients)))
    whole, used = time.perf_counter() - begun, side.processor_s() - used
    times.sort()
    return Round(whole / requests, times[len(times) * 99 // 100], used / requests)


async def _ask_on(port: int, left: Iterator[int], times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = _request(_ASKED)
    for _ in left:
        begun = time.perf_counter()
        writer.write(request)
        if not (await _read(reader)).endswith(b"}}"):
            raise RuntimeError("an answer is not whole")
        times.append(time.perf_counter() - begun)
    writer.close()


async def streams(side: Side, count: int) -> int:
    """Return how many of so many streams, all of which begin before one ends, come whole."""
    request = _request({**_ASKED, "stream": True, "at_once": count})

    async def read() -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", side.port)
        writer.write(request)
        said = await _read(reader)
        writer.close()
        return said.count(b"hello") == 2 and said.endswith(b"data: [DONE]\n\n")

    return sum(await asyncio.gather(*(read() for _ in range(count))))


def _request(body: object) -> bytes:
    content = json.dumps(body).encode()
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
    )
    return head + b"\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content)


async def _read(reader: asyncio.StreamReader) -> bytes:
    """Return the body of an answer."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if not head.startswith(b"http/1.1 200"):
        raise RuntimeError(head.decode())
    _, known, rest = head.partition(b"content-length: ")
    if known:
        return await reader.readexactly(int(rest.split(b"\r\n")[0]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += (await reader.readexactly(size + 2))[:-2]
    await reader.readline()
    return body
