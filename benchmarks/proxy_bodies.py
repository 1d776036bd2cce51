"""What one client's large bodies cost others of a proxy: their 99th percentile, and its memory.

A client sends bodies of 15 MB without a pause, of one kind after the other. Small clients ask
meanwhile, and alone before and after; the lower percentile of several turns counts for both.
"""

import asyncio
import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure, ratio
from benchmarks.proxy import Side, both, load

CLIENTS = 8
MOST_P99 = 2.0
MOST_MEMORY = 4.0
_MB = 1 << 20


def texts(size: int) -> tuple[str, Any]:
    """Return the path and the body of a request with one long text."""
    return "chat/completions", _chat("a tomato, and \n" * (size // 16))


def images(size: int) -> tuple[str, Any]:
    """Return one with four images as URLs of data."""
    url = "data:image/png;base64," + "iVBORw0KGgo/" * (size // 48)
    return "chat/completions", _chat([{"type": "image_url", "image_url": {"url": url}}] * 4)


def prompts(size: int) -> tuple[str, Any]:
    """Return one with a list of prompts."""
    return "completions", {
        "model": "m",
        "max_tokens": 5,
        "prompt": ["a tomato " * 40] * (size // 364),
    }


def embeddings(size: int) -> tuple[str, Any]:
    """Return one with as many texts to embed as a body may have values."""
    count = 480_000
    return "embeddings", {"model": "m", "input": ["a" * max(1, size // count - 4)] * count}


def emoji(size: int) -> tuple[str, Any]:
    """Return one with as many prompts as a body may have values, and an emoji in each."""
    count = 480_000
    prompt = "a" * max(1, size // count - 16) + "\U0001f600"
    return "completions", {"model": "m", "max_tokens": 5, "prompt": [prompt] * count}


def parts(size: int) -> tuple[str, Any]:
    """Return one with a message of as many parts as a body may have, and an emoji in each."""
    count = 99_000
    part = {"type": "text", "text": "a" * max(1, size // count - 44) + "\U0001f600"}
    return "chat/completions", _chat([part] * count)


_NOTE = (
    "To pass 15 MB on takes its part: the bare proxy's ratios, which have no target, show how "
    "much. Runs differ by a tenth or more, so some kinds are above 2 in one run and below it in "
    "another."
)


_EMOJI = (
    "Python's texts take four bytes for each letter where one is an emoji, so bodies of emoji and "
    "of parts, which have one in each text, take more than four times their size of memory."
)
KINDS: dict[str, Callable[[int], tuple[str, Any]]] = {
    "one text": texts,
    "images": images,
    "prompts": prompts,
    "embeddings": embeddings,
    "emoji": emoji,
    "parts": parts,
}


def measure(quick: bool = False) -> list[Figure]:
    """Return the percentiles beside large bodies to those alone, and the memory of each body.

    The bare proxy's show what it takes to pass on so much without reading it.
    """
    if not Path("/proc/self/status").exists():
        raise RuntimeError("it reads /proc")
    turns, requests = (2, 400) if quick else (5, 1000)
    bodies = {name: _request(*kind(15 * _MB)) for name, kind in KINDS.items()}
    with both() as sides:
        times = [_times(side, bodies, turns, requests) for side in sides]
    figures = []
    for (alone, beside), who in zip(times, ("", ", bare"), strict=True):
        place = f"proxy, {CLIENTS} clients"
        figures.append(Figure(f"{place} alone: 99th percentile{who}", alone * 1e3, "ms"))
        for name, found in beside.items():
            where = f"{place} beside 15 MB of {name}: 99th percentile"
            target = None if who else MOST_P99
            figures.append(ratio(f"{where}, ratio{who}", found, alone, target, _NOTE))
    return figures + [_memory(name, kind) for name, kind in KINDS.items()]


def _times(
    side: Side, bodies: dict[str, bytes], turns: int, requests: int
) -> tuple[float, dict[str, float]]:
    """Return the least percentile of small clients alone, and beside each body."""

    def once() -> float:
        return asyncio.run(load(side, CLIENTS, requests)).p99_s

    once()  # warms it up
    alone: list[float] = []
    beside: dict[str, list[float]] = {name: [] for name in bodies}
    for _ in range(turns):
        for name, body in bodies.items():
            alone.append(once())
            with _sending(side, body):
                beside[name].append(once())
    return min(alone), {name: min(found) for name, found in beside.items()}


def _memory(name: str, kind: Callable[[int], tuple[str, Any]]) -> Figure:
    """Return how far above its memory at its start the proxy is for a body of 31 MB, at most.

    Its helper counts, which a small body has started before.
    """
    body = _request(*kind(31 * _MB))
    with both() as sides:
        side = sides[0]
        asyncio.run(load(side, CLIENTS, 100))  # warms it up
        with closing(_connection(side)) as raw:
            _ask(raw, _request(*kind(_MB)))
            begun = most = _resident(side)
            sender = threading.Thread(target=_ask, args=(raw, body))
            sender.start()
            while sender.is_alive():
                most = max(most, _resident(side))
                time.sleep(0.001)
    grown = most - begun
    return ratio(
        f"proxy, 31 MB of {name}: memory to its size", grown, len(body), MOST_MEMORY, _EMOJI
    )


def _resident(side: Side) -> int:
    """Return the resident memory of a process and of those that it started, in bytes."""
    files = Path(f"/proc/{side.pid}/task").glob("*/children")
    pids = [side.pid, *(int(pid) for file in files for pid in file.read_text().split())]
    pages = [Path(f"/proc/{pid}/statm").read_text().split()[1] for pid in pids]
    return sum(map(int, pages)) * resource.getpagesize()


@contextmanager
def _sending(side: Side, body: bytes) -> Iterator[None]:
    """Return a `with` in which a client sends a request over and over; one is answered before."""
    over, begun = threading.Event(), threading.Event()

    def send() -> None:
        with closing(_connection(side)) as raw:
            while not over.is_set():
                _ask(raw, body)
                begun.set()

    sender = threading.Thread(target=send)
    sender.start()
    begun.wait()
    try:
        yield
    finally:
        over.set()
        sender.join()


def _connection(side: Side) -> socket.socket:
    return socket.create_connection(("127.0.0.1", side.port))


def _ask(raw: socket.socket, request: bytes) -> None:
    raw.sendall(request)
    answer = b""
    while not answer.endswith((b"}}", b"0\r\n\r\n")):
        piece = raw.recv(_MB)
        answer += piece
        if not piece or not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"refused: {answer[:500]!r}")


def _chat(content: Any) -> Any:
    return {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": content}]}


def _request(path: str, body: Any) -> bytes:
    content = json.dumps(body).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content
