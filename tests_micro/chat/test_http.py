"""What a URL may be, and how an answer is read off the wire within its bounds."""

from budget_core.chat.http import HttpEndpoint, HttpExchange
from budget_core.errors import ProviderError
from tests_micro.support import raises, raises_async
from tests_micro.wire import Wire, answer, chunked, in_single_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

URL = "http://host/v1"
TLS = object()  # in the place of a context
CLOSED = b"HTTP/1.1 200 OK\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
KNOWN = answer(b"hello")
PIECEWISE = chunked(b"he", b"l", b"lo")


async def fetch(*pieces: "bytes | BaseException", most: int = 4096) -> "tuple[int, bytes]":
    """Return the status and body of an answer that comes in pieces, and see it closed once."""
    wire = Wire(*pieces)
    exchange = HttpExchange(HttpEndpoint(URL, None, 1, most, None))
    try:
        await wire.connected(exchange.send, "POST", "/v1", tuple)
        return exchange.status, await wire.connected(exchange.read_all)
    finally:
        await exchange.close()
        assert wire.closed == 1


def endpoint(url: str) -> HttpEndpoint:
    """Return the endpoint at a URL."""
    return HttpEndpoint(url, None, 1, 4096, TLS)


async def refused(*pieces: "bytes | BaseException", most: int = 4096) -> ProviderError:
    """Return the error that an answer comes to."""
    return await raises_async(ProviderError, fetch, *pieces, most=most)


def test_a_url_is_split_into_what_a_connection_needs() -> None:
    for url, parts in (
        ("http://host", (False, "host", 80, "")),
        ("https://host", (True, "host", 443, "")),
        ("http://host/", (False, "host", 80, "")),
        ("http://127.0.0.1:8080/v1", (False, "127.0.0.1", 8080, "/v1")),
        ("https://host:1/a//b:c/", (True, "host", 1, "/a//b:c")),
        ("https://host:65535/%20", (True, "host", 65535, "/%20")),
    ):
        to = endpoint(url)
        assert (to.secure, to.host, to.port, to.path) == parts, url


def test_only_http_and_https_are_spoken() -> None:
    for url in ("", "host", "host:80", "//host", "/v1", "ftp://host", "HTTP://host", "http:/host"):
        assert "https://host:port/path" in str(raises(ValueError, endpoint, url)), url


def test_a_url_without_a_host_is_refused() -> None:
    for url in ("http://", "http:///v1", "http://:80/v1"):
        raises(ValueError, endpoint, url)


def test_a_port_outside_its_range_is_refused() -> None:
    for port in ("", "0", "65536", "-1", "+1", "8o80", "80:80", "9" * 5000, "1_0", "00080 "):
        assert "port" in str(raises(ValueError, endpoint, f"http://host:{port}/v1")), port


def test_a_password_in_a_url_is_refused_without_being_shown() -> None:
    for url in ("http://me:hunter2@host/v1", "http://hunter2@host:80"):
        assert "hunter2" not in str(raises(ValueError, endpoint, url)), url


def test_a_url_that_the_chat_path_cannot_follow_is_refused() -> None:
    for url in ("http://host/v1?version=1", "http://host?a", "http://host/v1#top", "http://[::1]/"):
        raises(ValueError, endpoint, url)


def test_a_url_cannot_smuggle_in_a_header() -> None:
    for char in "\r\n\t \0\x7f\x1b\xe9\u2028\u0661":
        for url in ("http://ho{}st/v1", "http://host/v1{}X: y", "http://host:8{}0/", "{}http://h/"):
            raises(ValueError, endpoint, url.replace("{}", char))


async def test_a_request_says_where_it_goes_how_long_it_is_and_that_it_is_the_last() -> None:
    wire = Wire(KNOWN)
    exchange = HttpExchange(HttpEndpoint("http://host:81/v1", "a-key", 1, 4096, None))
    await wire.connected(exchange.send, "POST", "/v1/chat", lambda: (b"bo", b"dy"))
    head, _, body = wire.sent.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /v1/chat HTTP/1.1"
    for line in (
        "Host: host:81",
        "Authorization: Bearer a-key",
        "Content-Length: 4",
        "Connection: close",
    ):
        assert lines.count(line) == 1, line
    assert body == b"body"
    assert wire.opened == [("host", 81)]


async def test_a_long_body_is_written_in_small_parts() -> None:
    wire = Wire(KNOWN)
    pieces = [b"%d" % (number % 10) * 100 for number in range(50)]
    await wire.connected(HttpExchange(endpoint(URL)).send, "POST", "/v1", lambda: pieces)
    assert wire.sent.endswith(b"\r\nContent-Length: 5000\r\n\r\n" + b"".join(pieces))
    assert 100 <= wire.largest <= 600


async def test_an_answer_may_be_cut_into_pieces_anywhere() -> None:
    for raw in (KNOWN, PIECEWISE, CLOSED):
        for cut in range(1, len(raw)):
            assert await fetch(raw[:cut], raw[cut:]) == (200, b"hello"), raw[:cut]


async def test_an_answer_may_come_one_byte_at_a_time() -> None:
    for raw in (KNOWN, PIECEWISE, CLOSED):
        assert await fetch(*in_single_bytes(raw)) == (200, b"hello"), raw


async def test_an_answer_cut_short_is_an_error_wherever_it_was_cut() -> None:
    for raw, last in ((KNOWN, len(KNOWN)), (PIECEWISE, PIECEWISE.find(b"0\r\n"))):
        for cut in range(last):
            await refused(raw[:cut])


async def test_what_follows_a_body_is_not_part_of_it() -> None:
    for raw in (KNOWN, PIECEWISE):
        assert await fetch(raw + b"HTTP/1.1 500 smuggled\r\n\r\n") == (200, b"hello"), raw


async def test_chunks_may_have_extensions_capitals_zeros_and_trailers() -> None:
    for chunks in (
        b"5;name=value\r\nhello\r\n0\r\n\r\n",
        b"005 ; a\r\nhello\r\n000;z\r\nTrailer: x\r\n\r\n",
        b"A\r\nhellohello\r\n0\r\n\r\n",
        b"a\nhellohello\n0\n\n",
    ):
        assert (await fetch(CHUNKED + chunks))[1] in (b"hello", b"hellohello"), chunks


async def test_a_chunk_size_that_is_no_number_is_refused() -> None:
    for size in (b"-5", b"+5", b"0x5", b"5_0", b"g", b";", b"5 5", b"", b"\xb2", b"f" * 16):
        await refused(CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n")


async def test_a_chunk_that_ends_elsewhere_than_its_size_says_is_refused() -> None:
    for chunk in (b"4\r\nhello\r\n0\r\n\r\n", b"9\r\nhello\r\n0\r\n\r\n"):
        await refused(CHUNKED + chunk)


async def test_a_length_that_is_no_number_is_refused() -> None:
    for value in (b"-5", b"+5", b"5, 5", b"five", b"5.0", b"\xc2\xb2", b"9" * 5000, b""):
        raw = b"HTTP/1.1 200 OK\r\nContent-Length: " + value + b"\r\n\r\nhello"
        assert "malformed" in str(await refused(raw, most=100_000)), value[:9]


async def test_headers_are_read_whatever_their_case_and_blanks() -> None:
    for header in ("content-length:5", "CONTENT-LENGTH:   5  ", "X:\r\nContent-length: 5\r\nY"):
        raw = f"HTTP/1.0 200\r\n{header}\r\n\r\nhello and more"
        assert await fetch(raw.encode()) == (200, b"hello"), header


async def test_bytes_that_are_no_text_in_a_header_do_no_harm() -> None:
    raw = b"HTTP/1.1 200 \xff\xfe\r\nX-\xff: \xfe\r\n\xff\r\n\r\nhello"
    assert await fetch(raw) == (200, b"hello")


async def test_what_is_not_http_is_refused_without_a_status() -> None:
    for raw in (
        b"",
        b"\r\n\r\n",
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 -20 OK\r\n\r\n",
        b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x02\n",
        b"{}",
    ):
        assert (await refused(raw)).status == 0, raw


async def test_an_announcement_before_the_answer_is_passed_over() -> None:
    for before in (b"100 Continue\r\n", b"103 Early Hints\r\nContent-Length: 3\r\nLink: x\r\n"):
        for raw in (KNOWN, PIECEWISE, CLOSED):
            assert await fetch(b"HTTP/1.1 " + before + b"\r\n" + raw) == (200, b"hello"), before


async def test_an_answer_may_be_as_large_as_allowed_and_not_a_byte_larger() -> None:
    for raw in (KNOWN, PIECEWISE, CLOSED):
        assert await fetch(raw, most=len(raw)) == (200, b"hello")
        error = await refused(raw, most=len(raw) - 6)
        assert f"larger than {len(raw) - 6} bytes" in str(error), raw


async def test_a_body_without_end_is_left_off() -> None:
    for head in (
        CLOSED,
        CHUNKED + b"ffffff\r\n",
        b"HTTP/1.1 200 x\r\nContent-Length: 999999\r\n\r\n",
    ):
        wire = [head] + [b"x" * 1024] * 5 + [AssertionError("read on")]
        assert "larger than" in str(await refused(*wire))


async def test_headers_without_end_are_left_off() -> None:
    for piece in (b"X-Header: value\r\n" * 64, b"\r\nHTTP/1.1 100 Continue\r\n" * 40):
        endless = [b"HTTP/1.1 100 Continue\r\n"] + [piece] * 5 + [AssertionError("read on")]
        assert "larger than" in str(await refused(*endless))


async def test_an_error_of_the_connection_is_a_provider_error_with_its_status() -> None:
    for piece, status in ((b"", 0), (b"HTTP/1.1 200 OK\r\n", 200), (CLOSED, 200), (CHUNKED, 200)):
        pieces: list[Any] = [piece] if piece else []
        error = await refused(*pieces, OSError(104, "reset"))
        assert error.status == status
        assert "connection trouble" in str(error)


async def test_a_connection_is_closed_after_any_error() -> None:
    for trouble in (KeyboardInterrupt(), AssertionError(), MemoryError()):
        await raises_async(type(trouble), fetch, trouble)


async def test_an_exchange_that_was_never_opened_can_be_closed() -> None:
    await HttpExchange(endpoint(URL)).close()


async def test_an_answer_that_claims_to_be_huge_is_read_and_breaks_off_on_every_word_size() -> None:
    for length in (1 << 31, 1 << 40, 10**14):
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode()
        assert "broke off" in str(await refused(head + b"hello"))
