"""Streams are read while they are passed on, however their bytes are cut."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_core.usage import read_usage
from budget_cpython.vendors.answers import Piece, Reader
from budget_cpython.vendors.request import LlmRequest
from tests.properties import examples
from tests.vendors.vectors import (
    CHAT,
    CHAT_EXTRA,
    CHAT_STREAM,
    CHAT_TEXT,
    CHAT_USAGE,
    EMBEDDINGS,
    GENERATE,
    GOOGLE_STREAM,
    GOOGLE_USAGE,
    MESSAGE_STREAM,
    MESSAGES,
    RESPONSE_STREAM,
    RESPONSES,
    STREAM,
    STREAMS,
    chunk,
    events,
    format_at,
    has_usage,
)

SSE = "text/event-stream; charset=utf-8"
AS_ASKED: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def reader_of(path: str, asked: dict[str, Any] = AS_ASKED) -> Reader:
    wire = format_at(path)
    return wire.reader(wire.read(asked), SSE)


def read(reader: Reader, *parts: bytes) -> list[Piece]:
    pieces = [piece for part in parts for piece in reader.feed(part)]
    return [*pieces, *reader.end()]


def raw(pieces: list[Piece]) -> bytes:
    return b"".join(piece.raw for piece in pieces if piece.passed)


@pytest.mark.parametrize(("path", "data", "text", "usage", "tier"), STREAMS)
def test_a_stream_cut_at_any_byte_says_the_same(
    path: str, data: bytes, text: str, usage: dict[str, Any], tier: str | None
) -> None:
    for cut in range(len(data) + 1):
        reader = reader_of(path)
        pieces = read(reader, data[:cut], data[cut:])
        assert raw(pieces) == data
        assert "".join(piece.text for piece in pieces) == text
        answer = reader.response()
        assert (answer.content, answer.service_tier) == (text, tier)
        assert has_usage(answer, usage)


@pytest.mark.parametrize(("path", "data", "text", "usage", "tier"), STREAMS)
def test_a_stream_that_comes_byte_by_byte_says_the_same(
    path: str, data: bytes, text: str, usage: dict[str, Any], tier: str | None
) -> None:
    reader = reader_of(path)
    pieces = read(reader, *(bytes([byte]) for byte in data))
    assert raw(pieces) == data
    assert has_usage(reader.response(), usage)
    assert "".join(piece.text for piece in pieces) == text


@pytest.mark.parametrize(("path", "data", "text", "usage", "tier"), STREAMS)
@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_all_line_ends_are_known(
    path: str, data: bytes, text: str, usage: dict[str, Any], tier: str | None, ends: bytes
) -> None:
    data = data.replace(b"\r\n", b"\n").replace(b"\n", ends)
    for size in (1, 2, 3, 7):
        reader = reader_of(path)
        parts = [data[begin : begin + size] for begin in range(0, len(data), size)]
        assert raw(read(reader, *parts)) == data
        assert reader.response().content == text
        assert has_usage(reader.response(), usage)


def test_an_event_is_passed_on_as_soon_as_it_is_complete() -> None:
    reader = reader_of(CHAT)
    data = events(chunk({"content": "a"}))
    assert reader.feed(data[:-1]) == []
    assert reader.feed(data[-1:]) == [Piece(data, "a")]


def test_comments_and_data_in_several_lines_are_read() -> None:
    data = (
        b'\xef\xbb\xbf: hello\n\ndata: {"choices":\ndata:[{"delta":\ndata: {"content": "a"}}]}\n\n'
    )
    reader = reader_of(CHAT)
    pieces = read(reader, data)
    assert raw(pieces) == data
    assert [piece.text for piece in pieces] == ["", "a"]


def test_the_chunk_with_the_usage_is_swallowed_unless_it_was_asked_for() -> None:
    data, extra = events(*CHAT_STREAM), events(CHAT_EXTRA)
    asked: tuple[dict[str, Any], ...] = ({}, {"stream_options": None}, {"stream_options": {}})
    for body in asked:
        reader = reader_of(CHAT, body)
        assert raw(read(reader, data)) == data.replace(extra, b"")
        assert has_usage(reader.response(), CHAT_USAGE)


def test_chunks_without_choices_or_with_both_choices_and_usage_are_passed_on() -> None:
    filters: dict[str, Any] = {"choices": [], "prompt_filter_results": []}
    last = chunk({"content": ""}, usage=CHAT_USAGE)
    last["choices"][0]["finish_reason"] = "stop"
    data = events(filters, chunk({"content": "a"}, usage=None), last, "[DONE]")
    reader = reader_of(CHAT, {})
    assert raw(read(reader, data)) == data
    assert has_usage(reader.response(), CHAT_USAGE)


@pytest.mark.parametrize(
    ("path", "whole", "known"),
    [
        (CHAT, CHAT_STREAM[:-2], None),
        (CHAT, [chunk({"content": "a"}, usage=CHAT_USAGE)], CHAT_USAGE),
        (RESPONSES, RESPONSE_STREAM[:-1], None),
        (MESSAGES, MESSAGE_STREAM[:-2], MESSAGE_STREAM[0]["message"]["usage"]),
        (STREAM, GOOGLE_STREAM[:-1], GOOGLE_STREAM[0]["usageMetadata"]),
    ],
)
def test_the_usage_of_a_stream_that_breaks_off_is_not_final(
    path: str, whole: list[Any], known: dict[str, Any] | None
) -> None:
    reader = reader_of(path)
    read(reader, events(*whole))
    assert reader.report == known
    assert has_usage(reader.response(), None)
    assert reader.response().content


@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
def test_each_end_of_a_response_has_its_usage(end: str) -> None:
    reader = reader_of(RESPONSES)
    usage = {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3}
    read(reader, events({"type": f"response.{end}", "response": {"usage": usage}}))
    assert has_usage(reader.response(), usage)


def test_a_blocked_prompt_ends_a_stream_of_google() -> None:
    reader = reader_of(STREAM)
    usage = {"promptTokenCount": 3, "totalTokenCount": 3}
    read(reader, events({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": usage}))
    assert has_usage(reader.response(), usage)


def test_all_usage_of_a_message_is_read() -> None:
    reader = reader_of(MESSAGES)
    read(reader, events(*MESSAGE_STREAM))
    usage = read_usage(reader.response().usage)
    assert (usage.status, usage.total, usage.cached) == ("measured", 18, 5)


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (CHAT, {"choices": [{"message": {"content": "a"}}], "usage": CHAT_USAGE}, "a"),
        (EMBEDDINGS, {"data": [{"embedding": [0.5]}], "usage": CHAT_USAGE}, ""),
        (GENERATE, {**GOOGLE_STREAM[1], "usageMetadata": CHAT_USAGE}, "Grüße"),
    ],
)
def test_a_whole_answer_is_read_at_its_end(path: str, body: dict[str, Any], text: str) -> None:
    data = json.dumps(body).encode()
    reader = format_at(path).reader(LlmRequest("", []), "application/json")
    assert reader.feed(data[:7]) + reader.feed(data[7:]) == [Piece(data[:7]), Piece(data[7:])]
    assert reader.report is None
    assert reader.end() == []
    assert reader.response().content == text
    assert has_usage(reader.response(), CHAT_USAGE)
    assert reader.report is reader.response().usage


def test_a_stream_of_google_may_be_one_list() -> None:
    reader = format_at(STREAM).reader(LlmRequest("", []), "application/json")
    read(reader, json.dumps(GOOGLE_STREAM).encode())
    assert reader.response().content == "Hm. Grüße!"
    assert has_usage(reader.response(), GOOGLE_USAGE)
    cut = format_at(STREAM).reader(LlmRequest("", []), "application/json")
    read(cut, json.dumps(GOOGLE_STREAM[:2]).encode())
    assert has_usage(cut.response(), None)


@pytest.mark.parametrize("data", [b"", b"<html>", b"[1]", b"null", b"[" * 100_000, b'{"usage": 5}'])
@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, GENERATE, EMBEDDINGS])
def test_an_answer_of_another_form_has_no_usage(path: str, data: bytes) -> None:
    for kind in ("application/json", SSE):
        reader = format_at(path).reader(LlmRequest("", []), kind)
        framed = b"data: " + data + b"\n\n" if kind == SSE else data
        assert raw(read(reader, framed)) == framed
        assert has_usage(reader.response(), None)


@given(
    st.lists(st.binary(max_size=40), max_size=12), st.sampled_from([path for path, *_ in STREAMS])
)
@examples(200)
def test_any_bytes_are_passed_on_as_they_are(parts: list[bytes], path: str) -> None:
    assert raw(read(reader_of(path), *parts)) == b"".join(parts)


@given(st.data(), st.sampled_from(STREAMS))
@examples(200)
def test_a_stream_in_pieces_of_any_size_says_the_same(data: st.DataObject, stream: Any) -> None:
    path, whole, text, usage, _ = stream
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    parts = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    reader = reader_of(path)
    assert raw(read(reader, *parts)) == whole
    assert reader.response().content == text
    assert has_usage(reader.response(), usage)


def test_the_text_of_a_stream_is_that_of_its_pieces() -> None:
    reader = reader_of(CHAT)
    assert "".join(piece.text for piece in read(reader, events(*CHAT_STREAM))) == CHAT_TEXT
