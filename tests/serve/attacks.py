"""Hostile clients of a service, each in a loop until a time: `python -m tests.serve.attacks`.

The arguments are a port, seconds, the keys of two accounts, and the kinds of clients if not all.
They come from other addresses than the good clients. What was charged, with keys that were
repeated, is printed as JSON at the end.
"""

import asyncio
import json
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from tests.serve.framing import REFUSED
from tests.serve.raw_client import Connection, GoneError, post

CUT, BATCHED = "org-cut", "org-batched"
_BATCH = 1_000
_STALLED_S = 2.0
_RANDOM = random.SystemRandom()


class Attack:
    """Hostile clients, and what they were told is counted."""

    def __init__(self, port: int, seconds: float, cut_key: str, batch_key: str) -> None:
        self.charged: Counter[str] = Counter()
        self.tries: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._port = port
        self._end = time.monotonic() + seconds
        self._keys = {CUT: cut_key, BATCHED: batch_key}

    async def run(self, only: list[str]) -> None:
        """Attack with all kinds at once, or only with some."""
        kinds: list[tuple[Callable[[], Awaitable[None]], int, float]] = [
            (self.slow_head, 20, 0.1),
            (self.slow_body, 20, 0.1),
            (self.cut_request, 2, 0.05),
            (self.cut_answer, 2, 0.05),
            (self.not_http, 2, 0.05),
            (self.without_key, 4, 0.05),
            (self.large_body, 2, 0.1),
            (self.many_chunks, 1, 0.2),
            (self.bomb, 2, 0.1),
            (self.batch, 1, 1.0),
            (self.too_large_batch, 1, 0.5),
            (self.pipeline, 4, 0.2),
        ]
        await asyncio.gather(
            *(
                self._repeat(act, pause)
                for act, count, pause in kinds
                if act.__name__ in (only or act.__name__)
                for _ in range(count)
            )
        )

    async def _repeat(self, act: Callable[[], Awaitable[None]], pause: float) -> None:
        while time.monotonic() < self._end:
            with suppress(GoneError):
                await act()
            self.tries[act.__name__] += 1
            await asyncio.sleep(_RANDOM.uniform(0, 2 * pause))

    async def slow_head(self) -> None:
        """Send a head byte by byte."""
        await self._trickle(b"GET /v1/accounts HTTP/1.1\r\nHost: localhost\r\nX: ")

    async def slow_body(self) -> None:
        """Send a body byte by byte."""
        await self._trickle(post("/v1/charge/org-cut", self._keys[CUT], b" " * 1000)[:-1000])

    async def cut_request(self) -> None:
        """Reset the connection within a request."""
        async with self._connect() as one:
            data = self._charge(secrets.token_hex(8))
            await one.send(data[: _RANDOM.randrange(1, len(data))])
            one.reset()

    async def cut_answer(self) -> None:
        """Send one charge again and again, and leave before or within its answer, but the last."""
        data = self._charge(secrets.token_hex(8))
        for _ in range(_RANDOM.randrange(4)):
            with suppress(GoneError):
                async with self._connect() as one:
                    await one.send(data)
                    if _RANDOM.random() < 0.7:
                        await one.read(_RANDOM.randrange(1, 200))
                    one.reset()
        await self._until_answered(data)
        self.charged[CUT] += 1

    async def not_http(self) -> None:
        """Send bytes that are not HTTP, or that two servers may read differently."""
        junk = _RANDOM.choice([*REFUSED.values(), _RANDOM.randbytes(2000), b"\0" * 2000])
        async with self._connect() as one:
            await one.send(junk + b"GET /v1/accounts HTTP/1.1\r\nHost: localhost\r\n\r\n")
            said = await one.read_all(_STALLED_S)
            if said.startswith(b"HTTP/1.1 2"):
                self.wrong.append(f"{junk[:200]!r} was answered {said[:200]!r}")

    async def without_key(self) -> None:
        """Send a good request without a key, or with a wrong one, many times."""
        wrong = _RANDOM.choice(["", "x", "mb.good-0.wrong", self._keys[BATCHED][:-1]])
        async with self._connect() as one:
            for _ in range(20):
                status, _ = await one.ask(self._charge(secrets.token_hex(8), wrong))
                self._expect("without a key", status, 401)

    async def large_body(self) -> None:
        """Announce 100 MB, and send them."""
        async with self._connect() as one:
            head = post("/v1/charge/org-cut", self._keys[CUT], b"")
            await one.send(head.replace(b"Content-Length: 0", b"Content-Length: 100000000"))
            for _ in range(100):
                await one.send(b" " * 65_536)

    async def many_chunks(self) -> None:
        """Send a body in chunks of a byte, without an end."""
        async with self._connect() as one:
            head = post("/v1/batch", self._keys[BATCHED], b"")
            await one.send(head.replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
            for _ in range(40):
                await one.send(b"1\r\n \r\n" * 10_000)

    async def bomb(self) -> None:
        """Send JSON that is deep, long or ambiguous."""
        body = _RANDOM.choice(
            [b"[" * 16_000, b'{"a":' * 3_000, b"9" * 16_000, b"{" + b'"a":1,' * 2_000 + b'"a":1}',
             b'{"amounts":{"tokens":1e999}}', b'{"amounts":{"tokens":' + b"9" * 9_000 + b"}}",
             b'"\\ud800"', b"\xff\xfe", b"\x1f\x8b" * 8_000]
        )  # fmt: skip
        async with self._connect() as one:
            status, _ = await one.ask(post("/v1/charge/org-cut", self._keys[CUT], body))
            if not 400 <= status < 500:
                self.wrong.append(f"{body[:40]!r} was answered {status}")

    async def batch(self) -> None:
        """Send a batch that is as large as they may be; leave once, and send it again."""
        word = secrets.token_hex(8)
        rows = [
            {"operation": "charge", "path": BATCHED, "amounts": {"tokens": 1}, "key": f"{word}{n}"}
            for n in range(_BATCH)
        ]
        data = self._batch(rows)
        with suppress(GoneError):
            async with self._connect() as one:
                await one.send(data)
                one.reset()
        answers = json.loads(await self._until_answered(data))["answers"]
        for row in answers:
            self._expect("a batch's row", row["status"], 200)
        self.charged[BATCHED] += len(answers)

    async def too_large_batch(self) -> None:
        """Send a batch with too many rows, or of too many bytes."""
        rows: list[Any] = [{}] * (_BATCH + 1)
        data = self._batch(_RANDOM.choice([rows, [{"operation": "x" * 2_000_000}], rows * 20]))
        async with self._connect() as one:
            status, _ = await one.ask(data)
            if status not in (413, 422):
                self.wrong.append(f"a batch that is too large was answered {status}")

    async def pipeline(self) -> None:
        """Send requests, and read no answer."""
        async with self._connect() as one:
            with suppress(TimeoutError):
                async with asyncio.timeout(_STALLED_S):
                    for _ in range(100):
                        await one.send(
                            b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 99
                        )

    async def _trickle(self, data: bytes) -> None:
        async with self._connect() as one:
            await one.send(data)
            for _ in range(100):
                await one.send(b"x")
                await asyncio.sleep(0.2)

    async def _until_answered(self, data: bytes) -> bytes:
        while True:
            with suppress(GoneError):
                async with self._connect() as one:
                    status, body = await one.ask(data)
                    if status != 503:
                        self._expect("a charge", status, 200)
                        return body
            await asyncio.sleep(0.05)

    def _charge(self, key: str, token: str | None = None) -> bytes:
        body = json.dumps({"amounts": {"tokens": 1}, "key": key}).encode()
        return post(f"/v1/charge/{CUT}", self._keys[CUT] if token is None else token, body)

    def _batch(self, rows: list[Any]) -> bytes:
        return post("/v1/batch", self._keys[BATCHED], json.dumps({"operations": rows}).encode())

    def _connect(self) -> Connection:
        return Connection(self._port, f"127.0.0.{_RANDOM.randrange(2, 6)}")

    def _expect(self, what: str, status: int, wanted: int) -> None:
        if status != wanted:
            self.wrong.append(f"{what} was answered {status}, not {wanted}")


def main() -> None:
    """Attack, and print what was counted."""
    port, seconds, cut_key, batch_key, *only = sys.argv[1:]
    attack = Attack(int(port), float(seconds), cut_key, batch_key)
    asyncio.run(attack.run(only))
    print(json.dumps([attack.charged, attack.tries, attack.wrong]))


if __name__ == "__main__":
    main()
