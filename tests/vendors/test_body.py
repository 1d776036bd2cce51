"""Bodies are decoded once, in time in proportion to their size, and refused if they are unclear."""

import asyncio
import json
import pickle
import threading
import time
import tracemalloc
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_core.usage_estimate import estimate_tokens
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.http import attempt
from budget_cpython.adapters.http.client import budgeted_http_client
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.vendors.body import LARGE, MAX_DEPTH, decode
from budget_cpython.vendors.format import WireBody
from budget_cpython.vendors.request import UnreadableRequestError
from tests.properties import examples
from tests.vendors.vectors import CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, admit, format_at

TEXTS = st.text(st.sampled_from('ab"\\\n{[,:]} é模\U0001f600\ud83d'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


def encoded(value: Any, is_ascii: bool = True) -> bytes:
    return json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")


def read(data: bytes) -> Any:
    """Return what a body has, `None` if it is refused."""
    try:
        return decode(data)
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


@given(VALUES, TEXTS, st.booleans())
@examples(100)
def test_a_body_is_read_as_by_a_parser_of_json(value: Any, text: str, is_ascii: bool) -> None:
    data = encoded({"many": [value] * 300, "long": text * 20_000, "more": [value]}, is_ascii)
    assert read(data) == expected(data)


@given(VALUES, st.floats(0, 1), st.sampled_from(list(b'",:[]{}\\ a1')), st.booleans())
@examples(200)
def test_a_body_is_refused_if_a_parser_refuses_it(
    value: Any, at: float, byte: int, inserted: bool
) -> None:
    data = bytearray(encoded({"many": [value] * 50, "n": 1}))
    place = int(at * (len(data) - 1))
    data[place : place + (not inserted)] = [byte]
    assert read(bytes(data)) == expected(bytes(data))


LIST = b"[" + b'"a tomato", ' * 40_000 + b"1]"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b'{"a": ' + LIST[:-2] + b"]}",
        b'{"a": ' + LIST + b",}",
        b'{"a": ' + LIST,
        b'{"a": ' + LIST + b'}, {"b": 1}',
        b'{"a": ' + LIST + b', "a": 1}',
        b'{"b": 1, "a": ' + LIST + b', "b": 1}',
        b'{"a": [{"b": ' + LIST + b', "b": 1}]}',
        b'{"a": 1, "\\u0061": 1}',
        b'{"model": "m", "mode\\u006c": "dear"}',
        b'{"a": "' + b"a" * 200_000 + b'\xff"}',
        '{"a": 1}'.encode("utf-16"),
        LIST,
    ],
)
def test_what_is_no_object_or_has_a_key_twice_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableRequestError):
        decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": ' + b"[" * 200_000,
        b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"a": ' * 200_000 + b"1" + b"}" * 200_000,
        encoded({"a": json.loads("[" * MAX_DEPTH + "]" * MAX_DEPTH)}),
        b"{" + b",".join(b'"%d": 1' % i for i in range(100_000)) + b', "99999": 1}',
        b'{"a": [' + b"{}," * 5_000_000 + b"1]}",
        b'{"a": "' + b'\\"' * 8_000_000 + b'"',
        b'{"a": "' + b"\\\\,:[{" * 3_000_000 + b'", "a": 1}',
        encoded({"Model": "m", "messages": [{"role": "user"}] * 100_000}),
    ],
    ids=["open", "deep", "objects", "depth", "twice", "values", "quotes", "marks", "spelling"],
)
def test_a_hostile_body_is_refused_in_linear_time(data: bytes) -> None:
    began = time.process_time()
    with pytest.raises(UnreadableRequestError):
        decode(data)
    assert time.process_time() - began < 5


def test_a_text_with_many_marks_is_no_body_of_many_values() -> None:
    text = 'a, b: [c] {d} \\" "' * 200_000
    assert decode(encoded({"a": text})) == {"a": text}


def admitted(body: WireBody, **changes: Any) -> bytes:
    request = pickle.loads(pickle.dumps(body.read()))  # noqa: S301 - as another process gets it
    return body.write(pickle.loads(pickle.dumps(admit(request, **changes))), request)  # noqa: S301


@pytest.mark.parametrize("size", [1, LARGE])
def test_a_body_whose_fields_stay_is_the_same_bytes(size: int) -> None:
    text = '{"model" : "m", "messages": [], "x": [1.0, "\\u00e9 %s"]}' % ("é" * size)
    content = text.encode()
    assert admitted(WireBody(format_at(CHAT), content)) is content


@pytest.mark.parametrize("size", [1, LARGE])
def test_of_a_body_whose_fields_differ_the_rest_stays(size: int) -> None:
    long = 'é\\u00e9\\ud83d\\ude00\\ud83d\\"\\\\' * size
    number = "1e400" if size == 1 else "123456789012345678901234567890"
    text = f'{{"model": "m", "messages": [{{"content": "{long}"}}, "a"], "x": {number}}}'
    new = admitted(WireBody(format_at(CHAT), text.encode()), notices=("b",), max_tokens=1)
    want = json.loads(text)
    notice = {"role": "user", "content": "b"}
    more = {"messages": [*want["messages"], notice], "max_completion_tokens": 1}
    assert json.loads(new) == {**want, **more}


@pytest.mark.parametrize("field", ["max_tokens", "n", "max_completion_tokens"])
def test_a_number_that_is_a_long_text_is_refused(field: str) -> None:
    content = encoded({"max_tokens": 5, field: "0" * 2 * LARGE + "5"})
    with pytest.raises(UnreadableRequestError):
        WireBody(format_at(CHAT), content).read()


def test_a_limit_of_many_digits_is_no_limit() -> None:
    content = encoded({"model": "m", "messages": [], "max_tokens": "1" * 1_500})
    assert WireBody(format_at(CHAT), content).read().max_tokens is None


def test_a_long_text_for_speech_counts_its_characters() -> None:
    content = encoded({"model": "m", "input": "é" * LARGE}, is_ascii=False)
    request = WireBody(format_at("/v1/audio/speech"), content).read()
    assert dict(request.units) == {"input_characters": LARGE}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES])
def test_texts_that_no_format_reads_count_in_a_large_body(path: str) -> None:
    small = WireBody(format_at(path), encoded({"model": "m", "other": "a" * 400})).read()
    large = WireBody(format_at(path), encoded({"model": "m", "other": "a" * 400_000})).read()
    assert estimate_tokens(small.messages) < 10
    assert 100_000 <= estimate_tokens(large.messages) < 100_010


def test_what_is_attached_counts_beside_texts_that_no_format_reads() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    body = {"model": "gpt-4o", "messages": [{"role": "user", "content": [image]}]}
    alone = WireBody(format_at(CHAT), encoded(body)).read()
    beside = WireBody(format_at(CHAT), encoded({**body, "other": "a" * 400_000})).read()
    assert alone.attached > 1_000
    assert estimate_tokens(beside.messages) >= 100_000 + alone.attached


def test_an_event_loop_reads_a_large_body_in_a_thread_and_sends_it_in_pieces() -> None:
    on_loop: list[bool] = []

    class Seen(WireBody):
        def read(self) -> Any:
            on_loop.append(threading.current_thread() is threading.main_thread())
            return super().read()

        def write(self, admitted: Any, request: Any) -> bytes:
            on_loop.append(threading.current_thread() is threading.main_thread())
            return super().write(admitted, request)

    async def answer(request: httpx.Request) -> httpx.Response:
        assert json.loads(await request.aread()) == body
        assert max([len(piece) async for piece in request.stream]) <= LARGE  # type: ignore[union-attr]
        return httpx.Response(200, json={})

    body = {"model": "m", "messages": [{"role": "user", "content": "a" * 4 * LARGE}]}
    account = BudgetAccount(parse_limits("9 calls"))
    terms = attempt.Terms([account], body=Seen)
    client = budgeted_http_client(httpx.AsyncClient(transport=httpx.MockTransport(answer)))
    url = "https://api.openai.com" + CHAT
    said = asyncio.run(client.post(url, json=body, extensions={"microbudget": terms}))
    assert said.status_code == 200
    assert on_loop == [False, False]


@pytest.mark.parametrize("text", ["a" * 180, "a" * 180 + "é", "模" * 60])
def test_a_large_body_takes_few_times_its_size_of_memory(text: str) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": text}] * 20_000}
    content = encoded(body, is_ascii=False)
    tracemalloc.start()
    try:
        admitted(WireBody(format_at(CHAT), content), max_tokens=5)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= 4 * len(content)  # beside the content itself
