"""Other people's waits, ended by a deadline: each hangs for real, and is not waited for long."""

import asyncio
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import requests

from budget_core.errors import DeadlineExceeded
from budget_cpython.context.deadline import Deadline
from tests.late_clock import LateClock

PATIENCE = 60
"""Seconds after which what hangs ends in another way, and the test fails."""

HTTP = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
SHORT_HTTP = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nyes"


class Unhurried(Deadline):
    """A deadline that no stall of the machine uses up before a wait is bounded by it."""

    __slots__ = ()

    def timeout(self, at_most: float | None = None) -> float | None:
        seconds = super().timeout(at_most)
        self._clock.read.go()  # type: ignore[attr-defined]
        return seconds


class Server:
    """Takes one connection, hears what comes first, says `first`, then `again` every 10 ms."""

    def __init__(self, first: bytes = b"", again: bytes = b"") -> None:
        self.first = first
        self.again = again
        self.heard: Future[bytes] = Future()
        self.over = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.listener.getsockname()
        self.url = "http://{}:{}/".format(*self.address)
        self.thread = threading.Thread(target=self.serve)

    def serve(self) -> None:
        connection, _ = self.listener.accept()
        with connection:
            if self.over.is_set():
                return
            self.heard.set_result(connection.recv(65_536))
            end = time.monotonic() + PATIENCE
            try:
                connection.sendall(self.first)
                while not self.over.wait(0.01) and time.monotonic() < end:
                    connection.sendall(self.again)
            except ConnectionError:
                pass

    def __enter__(self) -> "Server":
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        with self.listener:
            socket.create_connection(self.address).close()
            self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@dataclass
class Place:
    """What a wait waits for: a server, a file that a program writes, an event."""

    server: Server
    file: Path
    program: str = f"import time; time.sleep({PATIENCE})"
    event_s: float = PATIENCE

    def was_touched(self) -> bool:
        with socket.create_connection(self.server.address, PATIENCE) as probe:
            probe.sendall(b"probe")
            first = self.server.heard.result(PATIENCE)
        return first != b"probe" or self.file.exists()


def by_socket(place: Place, deadline: Deadline) -> None:
    with socket.create_connection(place.server.address, timeout=deadline.timeout()) as connection:
        connection.sendall(b"?")
        assert connection.recv(3)


def by_subprocess(place: Place, deadline: Deadline) -> None:
    program = f"open({str(place.file)!r}, 'w').close()\n{place.program}"
    subprocess.run([sys.executable, "-S", "-c", program], timeout=deadline.timeout(), check=True)


def by_httpx(place: Place, deadline: Deadline) -> None:
    httpx.get(place.server.url, timeout=deadline.timeout(), trust_env=False).raise_for_status()


def by_requests(place: Place, deadline: Deadline) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.get(place.server.url, timeout=deadline.timeout()).raise_for_status()


def by_wait_for(place: Place, deadline: Deadline) -> None:
    async def main(seconds: float | None) -> None:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(place.event_s, event.set)
        await asyncio.wait_for(event.wait(), seconds)

    asyncio.run(main(deadline.timeout()))


WAITS: list[tuple[Callable[[Place, Deadline], None], type[Exception]]] = [
    (by_socket, TimeoutError),
    (by_subprocess, subprocess.TimeoutExpired),
    (by_httpx, httpx.TimeoutException),
    (by_requests, requests.Timeout),
    (by_wait_for, TimeoutError),
]
each_wait = pytest.mark.parametrize(
    ("wait", "error"), WAITS, ids=lambda value: getattr(value, "__name__", None)
)


@pytest.fixture
def silence(tmp_path: Path) -> Iterator[Place]:
    with Server() as server:
        yield Place(server, tmp_path / "started")


@pytest.fixture
def answers(tmp_path: Path) -> Iterator[Place]:
    with Server(SHORT_HTTP) as server:
        yield Place(server, tmp_path / "started", "", 0)


@each_wait
def test_a_wait_for_nothing_ends_with_its_own_error_when_the_deadline_passes(
    silence: Place, wait: Callable[[Place, Deadline], None], error: type[Exception]
) -> None:
    deadline = Unhurried.from_now(0.15, LateClock().clock)
    with pytest.raises(error) as caught:
        wait(silence, deadline)
    assert not isinstance(caught.value, DeadlineExceeded)
    assert deadline.remaining_seconds() <= 0.02
    assert deadline.elapsed_seconds() < PATIENCE


@each_wait
def test_a_wait_is_refused_before_it_begins_when_the_deadline_has_passed(
    silence: Place, wait: Callable[[Place, Deadline], None], error: type[Exception]
) -> None:
    deadline = Deadline.from_now(0)
    with pytest.raises(DeadlineExceeded) as caught:
        wait(silence, deadline)
    assert caught.value.deadline is deadline
    assert not silence.was_touched()


@each_wait
@pytest.mark.parametrize("seconds", [60, float("inf")])
def test_what_answers_in_time_is_not_disturbed(
    answers: Place,
    wait: Callable[[Place, Deadline], None],
    error: type[Exception],
    seconds: float,
) -> None:
    wait(answers, Deadline.from_now(seconds))


def test_a_scope_also_ends_an_answer_that_never_ends() -> None:
    async def main(url: str) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as client:
            deadline = Deadline.from_now(0.15)
            with pytest.raises(DeadlineExceeded) as caught:
                async with deadline.scope():
                    await client.get(url)
        assert caught.value.deadline is deadline
        assert deadline.elapsed_seconds() < PATIENCE

    with Server(HTTP, b".") as server:
        asyncio.run(main(server.url))
