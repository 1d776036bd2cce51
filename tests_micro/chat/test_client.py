"""What the chat client sends, and what it makes of every answer."""

import json

from budget_core.chat.client import ChatClient
from budget_core.chat.completion import parse_object
from budget_core.errors import ProviderError
from tests_micro.support import raises, raises_async
from tests_micro.wire import DEEP, HELLO, KEY, URL, Client, Wire, answer, chunked, in_single_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.provider import ChatResponse


def message(**fields: "Any") -> "dict[str, Any]":
    """Return a completion object with that message."""
    return {"choices": [{"message": fields, "finish_reason": "stop"}], "usage": {"total_tokens": 7}}


def calling(*arguments: "Any") -> "dict[str, Any]":
    """Return a completion object that calls a tool once with each of the arguments."""
    calls = [
        {"id": f"c{index}", "type": "function", "function": {"name": "f", "arguments": text}}
        for index, text in enumerate(arguments)
    ]
    return message(content=None, tool_calls=calls)


async def ask(data: "Any", status: str = "200 OK", **options: "Any") -> "ChatResponse":
    """Return what comes of an answer with that body: bytes, or an object to be made JSON."""
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return await Client(URL, "small", KEY).ask(Wire(answer(body, status)), **options)


async def refused(data: "Any", status: str = "200 OK") -> ProviderError:
    """Return the error that comes of an answer with that body; the key is never in it."""
    error = await raises_async(ProviderError, ask, data, status)
    assert KEY not in str(error)
    assert KEY not in error.message
    assert KEY not in repr(error)
    return error


def test_a_key_that_could_break_out_of_its_header_is_refused_without_being_shown() -> None:
    for char in "\r\n\t \0\x7f\xe9\u2028":
        for key in (f"sk-hidden{char}", f"{char}sk-hidden", f"sk-hid{char}X-Evil: hidden"):
            error = raises(ValueError, ChatClient, URL, "m", key)
            assert "hid" not in str(error), key
            assert "the key must be" in str(error), key


def test_the_key_is_in_no_repr() -> None:
    client = ChatClient(URL, "small", KEY)
    for shown in (repr(client), str(client), f"{[client]}"):
        assert KEY not in shown
        assert "small" in shown


def test_a_bound_that_bounds_nothing_is_refused_by_name() -> None:
    for seconds in (0, -1, float("nan"), float("inf"), 86_401):
        error = raises(ValueError, ChatClient, URL, "m", timeout_s=seconds)
        assert "timeout_s" in str(error)
    for size in (0, -1):
        error = raises(ValueError, ChatClient, URL, "m", max_response_bytes=size)
        assert "max_response_bytes" in str(error)


def test_a_wrong_url_is_refused_before_anything_is_sent() -> None:
    for url in ("", "host/v1", "http://me:hunter2@host/v1", "http://host/v1\r\nX: y"):
        raises(ValueError, ChatClient, url, "m")


async def test_a_request_goes_to_the_chat_path_below_the_base() -> None:
    for base in (URL, URL + "/", URL + "//"):
        wire = Wire(answer(json.dumps(message(content="hi")).encode()))
        await Client(base, "small").ask(wire)
        assert wire.sent.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n"), base
        assert b"\r\nContent-Type: application/json\r\n" in wire.sent


async def test_the_key_is_sent_as_a_bearer_token_and_none_is_sent_without_one() -> None:
    for key in (KEY, None, ""):
        wire = Wire(answer(json.dumps(message(content="hi")).encode()))
        await Client(URL, "small", key).ask(wire)
        assert (f"\r\nAuthorization: Bearer {KEY}\r\n".encode() in wire.sent) is (key == KEY)
        assert (b"Authorization" in wire.sent) is (key == KEY)


async def sent(**options: "Any") -> "dict[str, Any]":
    """Return the request body that goes out with these options."""
    done = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    body = done if "on_delta" in options else json.dumps(message(content="hi")).encode()
    wire = Wire(answer(body))
    await Client(URL, "small").ask(wire, **options)
    head, _, body = wire.sent.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    request: dict[str, Any] = json.loads(body)
    return request


async def test_an_option_that_is_none_is_not_sent() -> None:
    nothing = dict.fromkeys(("tools", "model", "max_tokens", "temperature"))
    for options in ({}, nothing, {"reasoning_effort": None, "response_format": None}):
        request = await sent(**options)
        assert sorted(request) == ["messages", "model"]
        assert request["model"] == "small"


async def test_an_option_that_is_zero_or_empty_is_sent() -> None:
    request = await sent(temperature=0, max_tokens=0, tools=[], model="big")
    assert (request["temperature"], request["max_tokens"], request["tools"]) == (0, 0, [])
    assert request["model"] == "big"


async def test_every_option_is_sent_under_its_own_name() -> None:
    request = await sent(reasoning_effort="low", response_format={"type": "json_object"}, top_p=1)
    assert (request["reasoning_effort"], request["top_p"]) == ("low", 1)
    assert request["response_format"] == {"type": "json_object"}


async def test_only_a_streamed_call_asks_for_a_stream_and_its_usage() -> None:
    assert "stream" not in await sent()
    request = await sent(on_delta=print)
    assert request["stream"] is True
    assert request["stream_options"] == {"include_usage": True}


async def test_text_beyond_ascii_is_sent_as_it_is() -> None:
    wire = Wire(answer(json.dumps(message(content="hi")).encode()))
    await Client(URL, "small").ask(wire)
    body = wire.sent.partition(b"\r\n\r\n")[2]
    assert body.decode()
    assert json.dumps(HELLO).encode() in body


async def test_an_answer_is_text_reason_and_usage() -> None:
    response = await ask(message(content="Hello."))
    assert (response.content, response.finish_reason) == ("Hello.", "stop")
    assert response.usage == {"total_tokens": 7}
    assert not response.has_tool_calls


async def test_an_answer_may_come_in_any_framing_and_any_pieces() -> None:
    body = json.dumps(message(content="Grüße 😀")).encode()
    closed = b"HTTP/1.1 200 OK\r\n\r\n" + body
    for raw in (answer(body), chunked(body[:30], body[30:]), closed):
        for pieces in ([raw], in_single_bytes(raw)):
            response = await Client(URL, "small").ask(Wire(*pieces))
            assert response.content == "Grüße 😀", raw


async def test_a_body_that_ends_with_the_connection_is_refused_wherever_it_was_cut() -> None:
    body = json.dumps(message(content="hi {[", tool_calls=[])).encode()
    for cut in range(len(body)):
        wire = Wire(b"HTTP/1.1 200 OK\r\n\r\n" + body[:cut])
        await raises_async(ProviderError, Client(URL, "small").ask, wire)


async def test_a_character_escaped_as_two_halves_is_one_character() -> None:
    for escaped in (b"\\ud83d\\ude00", b"\\uD83D\\uDE00"):
        response = await ask(b'{"choices":[{"message":{"content":"a' + escaped + b'b"}}]}')
        assert response.content == "a😀b"
        assert response.content.encode() == b"a\xf0\x9f\x98\x80b"


async def test_half_a_character_is_replaced_so_that_text_can_be_sent_and_printed() -> None:
    for escaped in (b"\\ud83d", b"\\ude00", b"\\ude00\\ud83d", b"\\ud83d-\\ude00"):
        response = await ask(b'{"choices":[{"message":{"content":"' + escaped + b'"}}]}')
        assert response.content is not None
        assert "\ufffd" in response.content
        response.content.encode().decode()


async def test_an_escaped_backslash_before_u_stays_as_it_is() -> None:
    response = await ask(message(content="\\ud83d\\ude00"))
    assert response.content == "\\ud83d\\ude00"


async def test_escaped_halves_in_arguments_are_joined_in_names_and_values() -> None:
    text = '{"a\\ud83d\\ude00": ["\\uD83D\\uDE00", {"b": "\\ud83d"}]}'
    response = await ask(calling(text))
    assert response.tool_calls[0].arguments == {"a😀": ["😀", {"b": "\ufffd"}]}


async def test_a_refusal_carries_its_status_and_what_the_endpoint_says() -> None:
    for status in (201, 300, 301, 400, 401, 404, 429, 500, 503):
        error = await refused({"error": {"message": "Because."}}, f"{status} x")
        assert error.status == status
        assert error.message == "Because."
        assert str(error) == f"Because. (HTTP {status})"


async def test_a_complaint_is_found_in_all_the_usual_shapes() -> None:
    for body in (
        {"error": {"message": "Because."}},
        {"error": "Because."},
        {"message": "Because."},
        {"detail": "Because."},
        {"object": "error", "message": "Because.", "code": 40001},
    ):
        assert (await refused(body, "400 x")).message == "Because.", body


async def test_a_refusal_without_a_complaint_is_told_in_our_words() -> None:
    for body in (
        b"",
        b"<html><body>Bad gateway</body></html>",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"5",
        b'"text"',
        b"{}",
        b'{"error": null}',
        b'{"error": {}}',
        b'{"error": {"message": 5}}',
        b'{"error": {"message": ""}}',
        b'{"error": ["x"]}',
        b'{"detail": [{"loc": ["body"]}]}',
        DEEP.encode(),
    ):
        error = await refused(body, "502 x")
        assert error.status == 502, body
        assert error.message == "the endpoint refused the request", body


async def test_a_long_complaint_is_cut_to_a_line() -> None:
    error = await refused({"error": {"message": "no\n\x1b[2J\tway\r\n" + "x" * 5000}}, "400 x")
    assert len(error.message) == 300
    assert error.message.startswith("no  [2J way  xxx")
    assert all(char >= " " for char in str(error))


async def test_a_refusal_that_is_too_large_to_read_keeps_its_status() -> None:
    wire = Wire(answer(b"x" * 5000, "429 x"))
    client = Client(URL, "small", max_response_bytes=2000)
    error = await raises_async(ProviderError, client.ask, wire)
    assert error.status == 429
    assert "larger than 2000 bytes" in str(error)


async def test_a_refusal_that_breaks_off_keeps_its_status() -> None:
    wire = Wire(answer(b'{"error": "x"}', "401 x")[:-1])
    assert (await raises_async(ProviderError, Client(URL, "small").ask, wire)).status == 401


async def test_a_key_that_the_endpoint_repeats_is_struck_out() -> None:
    complaint = f"Incorrect API key provided: {KEY}. Again: {KEY}!"
    error = await refused({"error": {"message": complaint}}, "401 x")
    assert error.message == "Incorrect API key provided: [API key]. Again: [API key]!"


async def test_no_part_of_the_key_is_left_where_a_complaint_is_cut() -> None:
    for before in range(280, 300):
        error = await refused({"error": "." * before + KEY}, "401 x")
        assert "sk-" not in error.message, before


async def test_no_earlier_error_hangs_on_to_what_the_endpoint_said() -> None:
    for body, status in ((b'{"error": {"message": "%s"}}', "401 x"), (b"not JSON: %s", "200 OK")):
        error = await refused(body % KEY.encode(), status)
        assert getattr(error, "__context__", None) is None
        assert getattr(error, "__cause__", None) is None


async def test_what_is_not_json_is_refused() -> None:
    for body in (b"", b" ", b"<html></html>", b'{"choices": [', b"\xff\xfe\x00", b"{} x", b"\0"):
        error = await refused(body)
        assert error.status == 200, body
        assert "not JSON" in str(error), body


async def test_text_that_is_not_utf8_is_refused() -> None:
    for char in (b"\xff", b"\xc3", b"\x80"):
        await refused(b'{"choices":[{"message":{"content":"' + char + b'"}}]}')


async def test_json_of_another_shape_is_refused_at_every_level() -> None:
    values: list[Any] = [None, 5, "text", [], {}, True, ["x"], {"x": 1}, [[]], [None]]
    for value in values:
        for data in (
            value,
            {"choices": value},
            {"choices": [value]},
            {"choices": [{"message": value if value != {"x": 1} and value != {} else []}]},
            {"choices": [{"message": {"tool_calls": value or 5}}]},
            {"choices": [{"message": {"tool_calls": [value]}}]},
            {"choices": [{"message": {"tool_calls": [{"id": "c", "function": value}]}}]},
        ):
            assert (await refused(data)).status == 200, data


async def test_json_nested_without_end_is_refused() -> None:
    await refused(DEEP.encode())
    await refused(b'{"choices":[{"message":{"content":"hi"}}],"usage":' + DEEP.encode() + b"}")


async def test_parts_of_another_kind_are_taken_for_missing() -> None:
    for value in (None, 5, [{"x": 1}], {"x": 1}, True):
        response = await ask({"choices": [{"message": {"content": value}, "finish_reason": value}]})
        assert (response.content, response.finish_reason) == (None, "stop"), value
        assert response.tool_calls == []
        assert response.usage == {}


async def test_arguments_are_the_object_that_the_model_wrote() -> None:
    for text, value in (
        ("{}", {}),
        (' {"a": 1}\n', {"a": 1}),
        ('{"a": "}{][\\"\\\\"}', {"a": '}{]["\\'}),
        ('{"a": {"b": [1, null, true]}}', {"a": {"b": [1, None, True]}}),
        ('{"a": "NaN Infinity"}', {"a": "NaN Infinity"}),
        ('{"a": "é😀"}', {"a": "é😀"}),
    ):
        assert (await ask(calling(text))).tool_calls[0].arguments == value, text


async def test_arguments_that_are_no_object_are_none_and_the_call_is_kept() -> None:
    for text in ("", " ", "[]", '["a"]', "null", "5", '"{}"', "{", "}", "{}{}", "{} x", "{'a': 1}"):
        (call,) = (await ask(calling(text))).tool_calls
        assert (call.id, call.name, call.arguments) == ("c0", "f", None), text
    others: list[Any] = [None, 5, {}, {"a": 1}, []]
    for other in others:
        assert (await ask(calling(other))).tool_calls[0].arguments is None, other


def test_arguments_cut_short_anywhere_are_none() -> None:
    text = '{"path": "a}]\\"b", "lines": [1, {"x": null}], "n": 12}'
    for cut in range(len(text)):
        assert parse_object(text[:cut]) is None, text[:cut]
    assert parse_object(text) is not None


def test_numbers_that_json_does_not_have_are_no_arguments() -> None:
    for number in ("NaN", "Infinity", "-Infinity"):
        assert parse_object(f'{{"a": {number}}}') is None, number


def test_arguments_nested_too_deeply_to_be_sent_back_are_none() -> None:
    assert parse_object('{"a": ' + "[" * 31 + "]" * 31 + "}") is not None
    for text in ('{"a": ' + DEEP + "}", '{"a":' * 5000 + "1" + "}" * 5000):
        assert parse_object(text) is None


async def test_several_calls_come_in_order_with_a_bad_one_among_them() -> None:
    response = await ask(calling('{"a": 1}', "[1]", '{"a": 2}'))
    assert [call.id for call in response.tool_calls] == ["c0", "c1", "c2"]
    assert [call.arguments for call in response.tool_calls] == [{"a": 1}, None, {"a": 2}]


async def test_calls_with_the_same_id_are_both_kept() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "{}"}}
    response = await ask(message(content=None, tool_calls=[call, call]))
    assert [call.id for call in response.tool_calls] == ["c", "c"]


async def test_a_call_without_id_or_name_is_refused() -> None:
    function = {"name": "f", "arguments": "{}"}
    for call in (
        {"function": function},
        {"id": None, "function": function},
        {"id": 5, "function": function},
        {"id": "c", "function": {"arguments": "{}"}},
        {"id": "c", "function": {"name": None, "arguments": "{}"}},
        {"id": "c"},
    ):
        await refused(message(content=None, tool_calls=[call]))


async def test_content_in_parts_is_text() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    parts = [thought, {"type": "text", "text": "Hi"}, {"type": "text", "text": "."}]
    response = await ask({"choices": [{"message": {"content": parts}}]})
    assert response.content == "Hi."


async def test_a_missing_reason_is_told_from_the_answer() -> None:
    data = calling("{}")
    del data["choices"][0]["finish_reason"]
    assert (await ask(data)).finish_reason == "tool_calls"
