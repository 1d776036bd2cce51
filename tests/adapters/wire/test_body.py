"""Bodies that are read and written piece by piece: as one parser reads them, in small steps."""

import asyncio
import base64
import json
import sys
import threading
from itertools import count
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_core.usage_estimate import bytes_in
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http.client import budgeted_http_client
from budget_cpython.adapters.wire import UnreadableRequestError, long_text, pieces
from budget_cpython.adapters.wire.attachments import attached_tokens
from budget_cpython.adapters.wire.body import LARGE, Body
from budget_cpython.adapters.wire.long_text import PIECE, LongText, parts_of, size_of, unpacked
from budget_cpython.ledger.limit_parser import parse_limits
from tests.adapters.wire.test_attachments import jpeg, mp4, png, wav
from tests.adapters.wire.vectors import (
    CHAT,
    GENERATE,
    MESSAGES,
    RESPONSES,
    format_at,
)
from tests.properties import examples

TEXTS = st.text(st.sampled_from('ab"\\\n{[,:]} é模\U0001f600\ud83d'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def whole(value: Any) -> Any:
    """Return a value with each long or packed text as a plain one."""
    if isinstance(value, LongText):
        return "".join(parts_of(value))
    if isinstance(value, bytes):
        return unpacked(value)
    if isinstance(value, list):
        return [whole(one) for one in value]
    if isinstance(value, dict):
        return {name: whole(one) for name, one in value.items()}
    return value


def encoded(value: Any, is_ascii: bool = True) -> bytes:
    return json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")


def read(data: bytes) -> Any:
    """Return what a body has, `None` if it is refused."""
    try:
        return whole(Body(data).fields)
    except UnreadableRequestError:
        return None


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("twice")
    return dict(pairs)


def expected(data: bytes) -> Any:
    try:
        found = json.loads(data.decode(), object_pairs_hook=once)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@given(VALUES, TEXTS, st.integers(0, 90), st.booleans())
@examples(100)
def test_a_large_body_is_read_as_by_one_parser(
    value: Any, text: str, shift: int, is_ascii: bool
) -> None:
    each = max(1, len(encoded(value)))
    many = [value] * min(4_000, 3 * PIECE // each)
    body = {"a": " " * shift, "many": many, "long": (text or "x") * 20_000, "more": [many, value]}
    data = encoded(body, is_ascii)
    assert read(data) == expected(data)


@given(VALUES, st.floats(0, 1), st.sampled_from(list(b'",:[]{}\\ a1')), st.booleans())
@examples(200)
def test_a_large_body_is_refused_if_one_parser_refuses_it(
    value: Any, at: float, byte: int, inserted: bool
) -> None:
    each = max(1, len(encoded(value)))
    data = bytearray(encoded({"many": [value] * min(4_000, 2 * PIECE // each), "n": 1}))
    place = int(at * (len(data) - 1))
    data[place : place + (not inserted)] = [byte]
    assert read(bytes(data)) == expected(bytes(data))


LIST = b"[" + b'"a tomato", ' * 40_000 + b"1]"


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": ' + LIST[:-2] + b"]}",
        b'{"a": ' + LIST + b",}",
        b'{, "a": ' + LIST + b"}",
        b'{"a": ' + LIST,
        b'{"a": ' + LIST + b"}]",
        b'{"a": ' + LIST + b'}, {"b": 1}',
        b'{"a": ' + LIST + b', "a": 1}',
        b'{"b": 1, "a": ' + LIST + b', "b": 1}',
        b'{"a": [{"b": ' + LIST + b', "b": 1}]}',
        b'{"a": "' + b"a" * 200_000,
        b'{"a": "' + b"a" * 200_000 + b'\n"}',
        b'{"a": "' + b"a" * 200_000 + b'\\x"}',
        b'{"a": "' + b"a" * 200_000 + b'\xff"}',
        b'{"a": ' + b" " * 1_000_000 + b"1}",
        LIST,
    ],
)
def test_what_is_no_object_or_has_a_key_twice_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableRequestError):
        Body(data)


def test_a_body_whose_fields_stay_is_the_same_bytes() -> None:
    for text in ('{"a" : [1.0, "\\u00e9 é"]}', '{"a" : [1.0, "\\u00e9 %s"]}' % ("é" * LARGE)):
        body = Body(text.encode())
        assert body.with_fields(dict(body.fields)) is body.data


@pytest.mark.parametrize("size", [1, LARGE])
def test_of_a_body_whose_fields_differ_the_rest_stays(size: int) -> None:
    long = 'é\\u00e9\\ud83d\\ude00\\"\\\\' * size
    data = f'{{"model": "m", "messages": [{{"content": "{long}"}}, "a"], "x": 1e3}}'.encode()
    body = Body(data)
    new = body.with_fields({**body.fields, "messages": [*body.fields["messages"], "b"], "n": 1})
    want = json.loads(data)
    assert json.loads(new) == {**want, "messages": [*want["messages"], "b"], "n": 1}
    assert (long.encode() in new) == (size == LARGE)


def test_a_long_text_has_its_size_and_its_parts() -> None:
    text = 'a"\\\n é模\U0001f600\ud83d' * 20_000
    for is_ascii in (True, False):
        data = encoded({"a": text}, is_ascii)
        if not is_ascii:
            data = data.replace("\ud83d".encode("utf-8", "surrogatepass"), rb"\ud83d")
        found = Body(data).fields["a"]
        assert isinstance(found, LongText)
        assert "".join(parts_of(found)) == text
        assert size_of(found) == bytes_in(text)
        assert max(map(len, parts_of(found))) <= PIECE


PDF = b"%PDF-1.4 " + (b"/Type /Page " + b" " * 9_000) * 30 + b"/Count 31 "


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": png(640, 480) + bytes(300_000)}},
        {"type": "image_url", "image_url": {"url": jpeg(640, 480) + bytes(300_000)}},
        {"type": "file", "file": {"file_data": PDF}},
        {"type": "file", "file": {"file_data": bytes(200_000)}},
        {"type": "video_url", "video_url": {"data": mp4(70) + bytes(300_000)}},
        {"type": "video_url", "video_url": {"data": mp4(70)[:30] + bytes(300_000) + mp4(7)[30:]}},
        {"type": "input_audio", "input_audio": {"data": wav(20)}},
        {"type": "document", "source": {"type": "text", "data": "a tomato " * 20_000}},
    ],
)
def test_what_is_attached_counts_alike_in_a_large_body(part: Any) -> None:
    for fields in part.values():
        if isinstance(fields, dict):
            for name, value in fields.items():
                if isinstance(value, bytes):
                    text = base64.encodebytes(value).decode()  # with line breaks
                    fields[name] = ("data:a/b;base64," if name == "url" else "") + text
    data = encoded({"content": [part]})
    large = Body(data).fields
    assert len(data) > LARGE
    for model in ("gpt-4o", "claude-opus-4-1", "gemini-2.5-pro"):
        assert 0 < attached_tokens(large, model) == attached_tokens(json.loads(data), model)


@pytest.mark.parametrize("field", ["max_tokens", "n", "max_completion_tokens"])
def test_a_number_that_is_a_long_text_is_refused(field: str) -> None:
    wire = format_at(CHAT)
    body = wire.parse(encoded({"max_tokens": 5, field: "0" * 2 * LARGE + "5"}))
    with pytest.raises(UnreadableRequestError):
        wire.read(body)


def test_a_long_text_for_speech_counts_its_characters() -> None:
    wire = format_at("/v1/audio/speech")
    body = wire.parse(encoded({"model": "m", "input": "é" * LARGE}, is_ascii=False))
    assert dict(wire.read(body).candidates.units) == {"input_characters": LARGE}


STEPS = "budget_cpython.adapters.wire.steps"


def kinds(size: int) -> dict[str, tuple[str, Any]]:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * size}}
    return {
        "text": (CHAT, {"messages": [{"role": "user", "content": "a tomato\n" * (size // 9)}]}),
        "image": (CHAT, {"messages": [{"role": "user", "content": [image]}]}),
        "prompts": ("/v1/completions", {"prompt": ["a tomato"] * (size // 12)}),
        "tokens": ("/v1/embeddings", {"input": [list(range(300))] * (size // 1_500)}),
        "messages": (CHAT, {"messages": [{"role": "user", "content": "hi"}] * (size // 34)}),
        "parts": (GENERATE, {"contents": [{"parts": [{"text": "a"}] * (size // 15)}]}),
        "items": (RESPONSES, {"input": [{"content": "a"}] * (size // 18)}),
        "blocks": (MESSAGES, {"messages": [{"content": [{"text": "a"}] * (size // 15)}]}),
    }


@pytest.mark.parametrize("kind", ["text", "image", "prompts", "tokens", "blocks"])
def test_no_step_of_a_large_body_is_large_and_none_is_on_the_event_loop(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body = kinds(20 * PIECE)[kind]
    content = encoded({"model": "m", "max_tokens": 5, "stream": True, **body})
    steps: list[tuple[int, bool]] = []
    pauses: list[float] = []
    clock = count(1)
    loads = json.loads

    class Seen:
        dumps, JSONEncoder = json.dumps, json.JSONEncoder

        @staticmethod
        def loads(text: str, **options: Any) -> Any:
            steps.append((len(text), threading.current_thread() is threading.main_thread()))
            return loads(text, **options)

    for module in (pieces, long_text):
        monkeypatch.setattr(module, "json", Seen)
    monkeypatch.setattr(f"{STEPS}.time.sleep", pauses.append)
    monkeypatch.setattr(f"{STEPS}.time.thread_time", lambda: next(clock) / 1000)
    sent: list[bytes] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        sent.append(await request.aread())
        assert max([len(piece) async for piece in request.stream]) <= PIECE  # type: ignore[union-attr]
        return httpx.Response(200, json={})

    account = BudgetAccount(parse_limits("9 calls"))
    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    budgeted = budgeted_http_client(client, [account])
    said = asyncio.run(budgeted.post("https://api.openai.com" + path, content=content))
    assert said.status_code == 200
    assert {**loads(sent[0]), "stream_options": None} == {**loads(content), "stream_options": None}
    assert sum(size for size, _ in steps) >= len(content)
    assert max(size for size, _ in steps) <= 2 * PIECE
    assert not any(on_loop for _, on_loop in steps)
    assert len(pauses) >= len(content) // PIECE


@pytest.mark.parametrize("kind", kinds(1))
def test_python_runs_few_lines_between_two_pauses(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body = kinds(4 * PIECE)[kind]
    content = encoded({"model": "m", "stream": path != GENERATE, **body})
    clock = count(1)
    pauses: list[float] = []
    lines = [0]

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        lines.append(0)

    def trace(frame: Any, event: str, argument: Any) -> Any:
        lines[-1] += event == "line"
        return trace

    monkeypatch.setattr(f"{STEPS}.time.sleep", sleep)
    monkeypatch.setattr(f"{STEPS}.time.thread_time", lambda: next(clock) / 1000)
    client = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200)))
    budgeted = budgeted_http_client(client, [BudgetAccount(parse_limits("9 calls"))])
    said = []

    def post() -> None:
        sys.settrace(trace)
        said.append(budgeted.post("https://api.openai.com" + path, content=content))

    thread = threading.Thread(target=post)
    thread.start()
    thread.join()
    assert said[0].status_code == 200
    assert {round(seconds, 6) for seconds in pauses} == {0.001}  # as long as each step
    assert max(lines) <= PIECE
