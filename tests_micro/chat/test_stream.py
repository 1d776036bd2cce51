"""What the chat client makes of a streamed answer."""

import gc
import json

from budget_core.errors import ProviderError
from budget_core.usage_stream import AnswerTooLongError, StreamedAnswer
from tests_micro.support import raises_async
from tests_micro.wire import DEEP, KEY, URL, Client, Wire, answer, chunked, in_single_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.provider import ChatResponse


async def ignore(text: str) -> None:
    """Take a delta."""


def event(**delta: "Any") -> bytes:
    """Return an event of a stream that brings this delta."""
    return b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n"


def part(index: "Any", text: "Any", **fields: "Any") -> bytes:
    """Return an event of a stream that brings a part of a call's arguments."""
    function = {"name": fields.pop("name", None), "arguments": text}
    return event(tool_calls=[dict(fields, index=index, function=function)])


FINISH = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"total_tokens":9}}\n\n'
DONE = b"data: [DONE]\n\n"
TEXT = event(role="assistant", content="") + event(content="Grüße ") + event(content="😀!")
WHOLE = TEXT + FINISH + USAGE + DONE


class Listener:
    """Someone who hears a stream's deltas."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def hear(self, text: str) -> None:
        """Take a delta."""
        self.heard.append(text)


async def stream(*pieces: "bytes | BaseException") -> "tuple[ChatResponse, list[str]]":
    """Return what comes of a stream that ends with its connection, and its deltas."""
    listener = Listener()
    wire = Wire(b"HTTP/1.1 200 OK\r\n\r\n", *pieces)
    return await Client(URL, "small", KEY).ask(wire, on_delta=listener.hear), listener.heard


async def broken(*pieces: "bytes | BaseException") -> ProviderError:
    """Return the error that comes of a stream; the key is never in it."""
    error = await raises_async(ProviderError, stream, *pieces)
    assert KEY not in str(error)
    assert KEY not in error.message
    assert getattr(error, "__context__", None) is None
    return error


async def test_a_stream_brings_its_deltas_in_order_then_the_whole() -> None:
    response, deltas = await stream(WHOLE)
    assert deltas == ["Grüße ", "😀!"]
    assert response.content == "Grüße 😀!"
    assert response.finish_reason == "stop"
    assert response.usage == {"total_tokens": 9}


async def test_a_stream_may_be_cut_into_pieces_anywhere() -> None:
    for cut in range(1, len(WHOLE)):
        response, deltas = await stream(WHOLE[:cut], WHOLE[cut:])
        assert deltas == ["Grüße ", "😀!"], cut
        assert response.usage == {"total_tokens": 9}, cut


async def test_a_stream_may_come_one_byte_at_a_time_in_chunks() -> None:
    for raw in (chunked(*in_single_bytes(WHOLE)), chunked(WHOLE)):
        listener = Listener()
        wire = Wire(*in_single_bytes(raw))
        response = await Client(URL, "small").ask(wire, on_delta=listener.hear)
        assert response.content == "".join(listener.heard) == "Grüße 😀!"


async def test_a_delta_is_handed_on_before_the_next_piece_is_read() -> None:
    listener = Listener()
    wire = Wire(b"HTTP/1.1 200 OK\r\n\r\n", event(content="a"), KeyboardInterrupt())
    ask = Client(URL, "small").ask
    await raises_async(KeyboardInterrupt, ask, wire, on_delta=listener.hear)
    assert listener.heard == ["a"]


async def test_a_stream_may_have_other_line_ends_comments_fields_and_no_blanks() -> None:
    for raw in (
        WHOLE.replace(b"\n", b"\r\n"),
        WHOLE.replace(b"data: ", b"data:"),
        WHOLE.replace(b"data: ", b": keep-alive\n\nevent: x\nid: 1\nretry: 5\ndata:  "),
        b"\n\n:\n" + WHOLE,
        WHOLE.replace(b"\n\n", b"\n"),
    ):
        response, deltas = await stream(raw)
        assert deltas == ["Grüße ", "😀!"], raw
        assert response.usage == {"total_tokens": 9}, raw


async def test_a_tool_call_in_pieces_is_put_together() -> None:
    pieces = [part(0, "", id="c0", name="f")] + [part(0, char) for char in '{"a": "b"}']
    response, deltas = await stream(*pieces, FINISH, DONE)
    (call,) = response.tool_calls
    assert (call.id, call.name, call.arguments) == ("c0", "f", {"a": "b"})
    assert deltas == []
    assert response.content is None


async def test_tool_calls_that_come_interleaved_are_told_apart() -> None:
    first = part(1, '{"n"', id="c1", name="g") + part(0, '{"n"', id="c0", name="f")
    response, _ = await stream(first, part(0, ": 0}") + part(1, ": 1}"), FINISH, DONE)
    assert [(c.id, c.name) for c in response.tool_calls] == [("c0", "f"), ("c1", "g")]
    assert [call.arguments for call in response.tool_calls] == [{"n": 0}, {"n": 1}]


async def test_a_tool_calls_arguments_cut_by_the_token_limit_are_none() -> None:
    for text in ("", '{"a": "b', '{"a": 1', "[]"):
        response, _ = await stream(part(0, text, id="c", name="f"), FINISH, DONE)
        assert response.tool_calls[0].arguments is None, text


async def test_a_tool_call_without_id_name_or_place_breaks_a_stream() -> None:
    for bad in (
        part(0, "{}", name="f"),
        part(0, "{}", id="c"),
        part(None, "{}", id="c", name="f"),
        part("0", "{}", id="c", name="f") + part(1, "{}", id="d", name="f"),
        part([], "{}", id="c", name="f"),
        part(0, {}, id="c", name="f") + part(0, {"a": 1}),
        part(0, 5, id="c", name="f"),
        event(tool_calls=[{"id": "c"}]),
        event(tool_calls=5),
    ):
        await broken(bad, FINISH, DONE)


async def test_a_stream_that_ends_after_its_reason_needs_no_done() -> None:
    response, _ = await stream(TEXT, FINISH, USAGE)
    assert response.usage == {"total_tokens": 9}
    assert response.content == "Grüße 😀!"


async def test_a_stream_that_is_done_without_a_reason_is_whole() -> None:
    assert (await stream(TEXT, DONE))[0].finish_reason == "stop"


async def test_a_stream_that_brings_nothing_is_refused() -> None:
    for raw in (b"", DONE, b": keep-alive\n\n", USAGE + DONE, b'{"choices": []}\n', b"<html>\n"):
        assert "broke off" in str(await broken(raw)), raw


async def test_a_stream_that_is_cut_before_its_reason_is_refused() -> None:
    for cut in range(len(TEXT + FINISH) - 1):
        await broken((TEXT + FINISH)[:cut])


async def test_nothing_is_read_after_done() -> None:
    response, _ = await stream(WHOLE, AssertionError("read on"))
    assert response.content == "Grüße 😀!"
    response, _ = await stream(WHOLE + event(content="more"))
    assert response.content == "Grüße 😀!"


async def test_an_error_in_a_stream_is_told_without_the_key() -> None:
    for error in ({"message": "Overloaded, " + KEY}, "Overloaded, " + KEY):
        data = b"data: " + json.dumps({"error": error}).encode() + b"\n\n"
        found = await broken(TEXT, data, DONE)
        assert found.message == "the stream reported an error: Overloaded, [API key]"


async def test_an_error_in_a_stream_is_an_error_whatever_its_shape() -> None:
    for error in ({}, {"message": None}, 5, ["x"], True, {"code": 1}):
        data = b"data: " + json.dumps({"error": error or 1}).encode() + b"\n\n"
        assert "reported an error" in str(await broken(TEXT, data, FINISH, DONE)), error


async def test_a_chunk_that_says_there_was_no_error_is_none() -> None:
    chunk = b'data: {"error": null, "choices": [{"delta": {"content": "a"}}]}\n\n'
    assert (await stream(chunk, FINISH, DONE))[1] == ["a"]


async def test_a_chunk_of_another_shape_breaks_a_stream() -> None:
    for data in (
        b"{",
        b"",
        b"x",
        b"5",
        b"null",
        b"[]",
        b'"error"',
        b"{}",
        b'{"choices": 5}',
        b'{"choices": [5]}',
        b'{"choices": [{}]}',
        b'{"choices": [{"delta": null}]}',
        b'{"choices": [{"delta": []}]}',
        b'{"choices": [{"delta": {"content": "\xff"}}]}',
        DEEP.encode(),
    ):
        error = await broken(b"data: " + data + b"\n\n", FINISH, DONE)
        assert error.message == "the streamed answer is malformed", data


async def test_a_delta_that_is_no_text_is_passed_over() -> None:
    for value in (5, [{"a": 1}], {"a": 1}, True, None, ""):
        response, deltas = await stream(event(content=value), TEXT, FINISH, DONE)
        assert deltas == ["Grüße ", "😀!"], value
        assert response.content == "Grüße 😀!", value


async def test_a_stream_larger_than_allowed_is_left_off() -> None:
    wire = Wire(b"HTTP/1.1 200 OK\r\n\r\n", *[event(content="x" * 90)] * 99)
    client = Client(URL, "small", max_response_bytes=4096)
    error = await raises_async(ProviderError, client.ask, wire, on_delta=ignore)
    assert "larger than 4096 bytes" in str(error)


try:
    import tracemalloc
except ImportError:  # MicroPython knows what is in use
    tracemalloc = None  # type: ignore[assignment]

BOUND = 65_536


class Endless(Wire):
    """A wire that brings a beginning, then the same over and over.

    `read_bytes` is how much was read, `grown` how much more memory was in use shortly before the
    bound than when the beginning had been read.
    """

    def __init__(self, beginning: bytes, more: bytes) -> None:
        super().__init__(beginning)
        self.more = more
        self.read_bytes = self.grown = self.first = 0

    async def read(self, size: int) -> bytes:
        """Return the next piece."""
        if not self.pieces:
            self.pieces.append(self.more)
            if not self.first:
                self.first = in_use()
            elif self.read_bytes > BOUND - 2048:
                self.grown = max(self.grown, in_use() - self.first)
        piece = await super().read(size)
        self.read_bytes += len(piece)
        return piece


def in_use() -> int:
    """Return how many bytes of memory are in use."""
    gc.collect()
    if hasattr(gc, "mem_alloc"):
        bytes_in_use: int = gc.mem_alloc()
        return bytes_in_use
    bytes_traced: int = tracemalloc.get_traced_memory()[0]
    return bytes_traced


async def left_off(more: bytes, on_delta: "Any") -> Endless:
    """Return the wire of a stream without end that was left off at the bound."""
    wire = Endless(b"HTTP/1.1 200 OK\r\n\r\n", more)
    client = Client(URL, "small", max_response_bytes=BOUND)
    if tracemalloc:
        gc.freeze()  # what other tests left would be looked through at every look
        tracemalloc.start()
    error = await raises_async(ProviderError, client.ask, wire, on_delta=on_delta)
    if tracemalloc:
        tracemalloc.stop()
        gc.unfreeze()
    assert f"larger than {BOUND} bytes" in str(error)
    assert BOUND < wire.read_bytes <= BOUND + 1024
    return wire


async def test_a_line_without_end_is_left_off_at_the_bound_and_held_once() -> None:
    for line in (b"x" * 1024, b": " + b"x" * 1022, b"data: " + b"x" * 1018):
        assert (await left_off(line, ignore)).grown < BOUND * 1.5, line[:6]


async def test_deltas_without_end_are_left_off_at_the_bound_and_held_once() -> None:
    sink = StreamedAnswer(ignore)
    assert (await left_off(event(content="x" * 900), sink)).grown < BOUND * 1.5
    assert BOUND * 0.8 < len(sink.text) < BOUND


async def test_lines_that_bring_nothing_are_not_held() -> None:
    for line in (b": " + b"x" * 1021 + b"\n", b"\n" * 1024, event(content=None)):
        assert (await left_off(line, ignore)).grown < BOUND / 2, line[:6]


async def test_the_text_of_an_answer_is_there_once() -> None:
    sink = StreamedAnswer()
    response = await Client(URL, "small").ask(Wire(answer(WHOLE)), on_delta=sink)
    assert len(sink.pieces) == 1
    assert sink.pieces[0] is response.content
    assert sink.tokens == 4


async def test_usage_is_known_as_soon_as_it_comes() -> None:
    known = []

    async def look(text: str) -> None:
        known.append(sink.usage)

    sink = StreamedAnswer(look)
    first, second = {"total_tokens": 1}, {"total_tokens": 0}
    chunks = [
        {"choices": [{"delta": {"content": "a"}}], "usage": usage}
        for usage in (None, first, None, second, {})
    ]
    raw = b"".join([b"data: " + json.dumps(chunk).encode() + b"\n" for chunk in chunks])
    response = await Client(URL, "small").ask(Wire(answer(raw + FINISH)), on_delta=sink)
    assert known == [None, first, first, second, second]
    assert response.usage == sink.usage == second


async def test_what_came_of_a_stream_that_broke_off_is_known() -> None:
    for ending in (b"", b"data: {\n", b'data: {"error": "x"}\n', OSError(104)):
        sink = StreamedAnswer()
        wire = Wire(b"HTTP/1.1 200 OK\r\n\r\n", TEXT, ending)
        await raises_async(ProviderError, Client(URL, "small").ask, wire, on_delta=sink)
        assert (sink.text, sink.tokens, sink.usage) == ("Grüße 😀!", 4, None), ending


async def test_parts_of_tool_calls_and_thoughts_are_counted_but_are_no_text() -> None:
    calls = part(0, "", id="c", name="x" * 8) + part(0, "y" * 12) + part(0, "")
    thoughts = event(reasoning_content="z" * 8) + event(reasoning="z" * 8) + event(reasoning=5)
    sink = StreamedAnswer()
    wire = Wire(answer(calls + thoughts + FINISH + DONE))
    response = await Client(URL, "small").ask(wire, on_delta=sink)
    assert sink.tokens == 2 + 3 + 2 + 2
    assert sink.text == ""
    assert response.content is None


async def test_content_in_parts_is_text_and_its_thoughts_are_counted() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "z" * 8}]}
    said = {"type": "text", "text": "Hi."}
    for parts in ([thought, said], ["H", "i."], [None, 5, said, {"text": 5}]):
        sink = StreamedAnswer()
        response = await Client(URL, "small").ask(
            Wire(answer(event(content=parts) + FINISH)), on_delta=sink
        )
        assert (response.content, sink.text) == ("Hi.", "Hi.")
        assert sink.tokens == (3 if thought in parts else 1)


async def test_thoughts_that_are_no_text_are_passed_over() -> None:
    for value in (5, ["a"], {"a": 1}, True):
        sink = StreamedAnswer(limit=0)
        raw = event(reasoning=value) + event(reasoning_content=value)
        response = await Client(URL, "small").ask(Wire(answer(raw + FINISH)), on_delta=sink)
        assert (response.content, sink.tokens) == (None, 0), value


async def test_a_stream_past_its_limit_is_left_off_there() -> None:
    for raw in (event(content="a"), part(0, "a", id="c", name="f"), event(reasoning="a")):
        sink = StreamedAnswer(limit=4)
        wire = Wire(b"HTTP/1.1 200 OK\r\n\r\n", *[raw] * 9)
        await raises_async(AnswerTooLongError, Client(URL, "small").ask, wire, on_delta=sink)
        assert sink.tokens == 5, raw
        assert len(wire.pieces) >= 4, raw


async def test_the_limit_holds_for_long_pieces_of_every_kind() -> None:
    piece = "x" * 1000
    parts = [{"type": "text", "text": piece}]
    for raw in (
        event(content=piece),
        part(0, piece, id="c", name="f"),
        event(reasoning=piece),
        event(refusal=piece),
        event(content=parts),
        event(content=[{"type": "thinking", "thinking": parts}]),
        event(reasoning_details=parts),
    ):
        sink = StreamedAnswer(limit=500)
        wire = Wire(b"HTTP/1.1 200 OK\r\n\r\n", *[raw] * 99)
        await raises_async(AnswerTooLongError, Client(URL, "small").ask, wire, on_delta=sink)
        assert sink.tokens <= 500 * 6 // 4 + 16 + 1 + 250, raw[:60]


async def test_an_answer_is_its_own_text_and_usage_after_an_attempt_that_failed() -> None:
    sink = StreamedAnswer()
    client = Client(URL, "small")
    failed = Wire(answer(event(content="lost ") + USAGE))
    await raises_async(ProviderError, client.ask, failed, on_delta=sink)
    response = await client.ask(Wire(answer(TEXT + FINISH + DONE)), on_delta=sink)
    assert response.content == "Grüße 😀!"
    assert response.usage == {}
    assert sink.text == "lost Grüße 😀!"
    assert sink.tokens == 5
    await raises_async(ProviderError, client.ask, Wire(answer(DONE)), on_delta=sink)


async def test_what_a_listener_raises_reaches_the_caller_as_it_is() -> None:
    trouble = RuntimeError("deaf")

    async def deaf(text: str) -> None:
        raise trouble

    wire = Wire(answer(WHOLE))
    ask = Client(URL, "small").ask
    assert await raises_async(RuntimeError, ask, wire, on_delta=deaf) is trouble


async def test_a_refused_stream_is_told_like_any_refusal() -> None:
    wire = Wire(answer(b'{"error": {"message": "Slow down."}}', "429 x"))
    error = await raises_async(ProviderError, Client(URL, "small").ask, wire, on_delta=ignore)
    assert (error.status, error.message) == (429, "Slow down.")
