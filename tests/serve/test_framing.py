"""A request's beginning and end have one reading; others are refused, and end the connection."""

import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.serve.framing import ANSWERED, CHUNKS, GET, LAST, REFUSED
from tests.serve.support import PATIENCE, Service


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service("--engine", "memory:", "--listen", "127.0.0.1:0") as service:
        yield service
        assert service.end() == (0, "")  # nothing is logged of what is malformed


def ask(service: Service, pieces: list[bytes]) -> list[bytes]:
    """Return the statuses of all answers, until the service ends the connection."""
    answer = b""
    with closing(socket.create_connection(("127.0.0.1", service.port), PATIENCE)) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError):
            for piece in pieces:
                raw.sendall(piece)
        with suppress(ConnectionError):  # it may be reset over bytes that were not read
            while piece := raw.recv(65_536):
                answer += piece
    return [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("request_", ANSWERED.values(), ids=ANSWERED)
def test_the_next_request_begins_where_one_ends(service: Service, request_: bytes) -> None:
    data = request_ + request_ + LAST
    assert ask(service, [data]) == [b"200"] * 3
    for size in (1, 2, 3, 50):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert ask(service, pieces) == [b"200"] * 3, size


@pytest.mark.parametrize("request_", REFUSED.values(), ids=REFUSED)
def test_a_malformed_request_ends_the_connection(service: Service, request_: bytes) -> None:
    data = request_ + LAST
    assert ask(service, [data]) in ([b"400"], [])  # a reset may take the answer with it
    assert ask(service, [GET + b"\r\n" + data])[1:] in ([b"400"], [])
    if len(data) < 1_000:
        pieces = [data[at : at + 1] for at in range(len(data))]
        assert ask(service, pieces) in ([b"400"], [])


def test_an_answer_that_has_begun_is_not_followed_by_another(service: Service) -> None:
    """A body that is malformed after it was refused ends the connection only."""
    large = CHUNKS + b"5000\r\n" + b" " * 0x5000 + b"\r\nnonsense\r\n\r\n"
    assert ask(service, [large]) in ([b"413"], [b"400"], [])
