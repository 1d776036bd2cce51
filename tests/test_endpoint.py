"""The embedded endpoint over real sockets: the protocol, the modes and the scripted model."""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import openai
import pytest

from budget_cpython.endpoint import (
    CACHE_STEP,
    MAX_BODY,
    MAX_RECORDED,
    MODES,
    ScriptedEndpoint,
    main,
)
from budget_cpython.scripted_model import MAX_CALLS, count_tokens

ROOT = Path(__file__).resolve().parents[1]
PATIENCE = 30.0
HELLO: Any = [{"role": "user", "content": "How do tomatoes grow on a balcony?"}]
ASK: Any = [
    {"role": "system", "content": "You read the files of a folder."},
    {"role": "user", "content": "What do the files say?"},
]
NOTICE: Any = {"role": "user", "content": "[Budget notice] 80% is used. Wrap up."}
FILES = {
    "notes.md": "Kept since May.\n\n## Garden notes\nWater twice.",
    "todo.txt": "\n\n  Buy seeds\n# not a heading here\n",
}
LISTING = "notes.md\t44\ngone.md\t7\ntodo.txt\n"


def tool(name: str) -> Any:
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS: Any = [tool("list_files"), tool("read_file")]
CALL: Any = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.fixture
def endpoint() -> Iterator[ScriptedEndpoint]:
    with ScriptedEndpoint() as endpoint:
        yield endpoint


@pytest.fixture
def client(endpoint: ScriptedEndpoint) -> Iterator[openai.OpenAI]:
    with sdk(endpoint) as client:
        yield client


def sdk(endpoint: ScriptedEndpoint, key: str = "any") -> openai.OpenAI:
    return openai.OpenAI(
        api_key=key,
        base_url=endpoint.base_url,
        max_retries=0,
        timeout=PATIENCE,
        http_client=openai.DefaultHttpxClient(trust_env=False),
    )


def connect(endpoint: ScriptedEndpoint) -> http.client.HTTPConnection:
    address = urlsplit(endpoint.base_url)
    assert address.hostname is not None
    return http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE)


def send(
    endpoint: ScriptedEndpoint, body: Any, method: str = "POST", path: str = "/v1/chat/completions"
) -> tuple[http.client.HTTPResponse, Any]:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with closing(connect(endpoint)) as connection:
        connection.request(method, path, raw)
        response = connection.getresponse()
        return response, json.loads(response.read())


def start(endpoint: ScriptedEndpoint, model: str, **more: Any) -> http.client.HTTPConnection:
    connection = connect(endpoint)
    body = json.dumps({"model": model, "messages": HELLO, **more})
    connection.request("POST", "/v1/chat/completions", body)
    return connection


def raw_exchange(endpoint: ScriptedEndpoint, request: bytes) -> bytes:
    """Send bytes as they are and return everything that comes back until the server closes."""
    address = urlsplit(endpoint.base_url)
    with socket.create_connection((address.hostname, address.port), PATIENCE) as connection:
        connection.sendall(request)
        with connection.makefile("rb") as answer:
            return answer.read()


def run_tool(call: Any) -> Any:
    if call.function.name == "list_files":
        text = LISTING
    else:
        path = json.loads(call.function.arguments)["path"]
        text = FILES.get(path, f"Error: no such file: {path}")
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def step(client: openai.OpenAI, messages: Any, **more: Any) -> Any:
    """Make one model call, run the tools it asks for, and return its choice."""
    choice = client.chat.completions.create(model="scripted", messages=messages, **more).choices[0]
    messages.append(choice.message.model_dump(exclude_none=True))
    messages.extend(run_tool(call) for call in choice.message.tool_calls or ())
    return choice


def steps(client: openai.OpenAI, messages: Any, count: int) -> list[str]:
    """Make `count` model calls with the tools on offer and name the tool and path of each."""
    asked = []
    for _ in range(count):
        (call,) = step(client, messages, tools=TOOLS).message.tool_calls
        asked.append(json.loads(call.function.arguments).get("path", call.function.name))
    return asked


# The protocol, through the SDK


def test_a_plain_answer_speaks_of_the_question_and_stops(client: openai.OpenAI) -> None:
    completion = client.chat.completions.create(model="any-name", messages=HELLO)
    (choice,) = completion.choices
    assert completion.object == "chat.completion"
    assert completion.model == "any-name"
    assert choice.finish_reason == "stop"
    assert choice.message.role == "assistant"
    assert choice.message.tool_calls is None
    assert "How do tomatoes grow on a balcony?" in (choice.message.content or "")


def test_text_parts_are_read_like_a_string(client: openai.OpenAI) -> None:
    parts: Any = [{"type": "text", "text": "tomatoes "}, {"type": "text", "text": "on a balcony"}]
    completion = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": parts}]
    )
    assert "tomatoes on a balcony" in (completion.choices[0].message.content or "")


def test_parts_that_are_no_text_are_passed_over(client: openai.OpenAI) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    parts: Any = [image, {"type": "text", "text": "tomatoes"}]
    completion = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": parts}]
    )
    assert '"tomatoes"' in (completion.choices[0].message.content or "")


@pytest.mark.parametrize(("chars", "tokens"), [(0, 1), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_a_begun_token_counts_and_there_is_at_least_one(chars: int, tokens: int) -> None:
    assert count_tokens(chars) == tokens


def test_usage_counts_four_characters_a_token(client: openai.OpenAI) -> None:
    short = client.chat.completions.create(model="m", messages=HELLO)
    longer: Any = [{"role": "user", "content": HELLO[0]["content"] + "x" * 40}]
    long = client.chat.completions.create(model="m", messages=longer)
    assert short.usage is not None
    assert long.usage is not None
    assert long.usage.prompt_tokens == short.usage.prompt_tokens + 10
    content = short.choices[0].message.content or ""
    assert short.usage.completion_tokens == -(-len(content) // 4)
    assert short.usage.total_tokens == short.usage.prompt_tokens + short.usage.completion_tokens


def test_every_completion_and_every_call_has_its_own_id(client: openai.OpenAI) -> None:
    made = [client.chat.completions.create(model="m", messages=ASK, tools=TOOLS) for _ in range(3)]
    calls = [completion.choices[0].message.tool_calls for completion in made]
    assert len({completion.id for completion in made}) == 3
    assert len({call.id for some in calls for call in some or ()}) == 3


def cached(client: openai.OpenAI, messages: Any, **more: Any) -> tuple[int, int]:
    usage = client.chat.completions.create(model="m", messages=messages, **more).usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    return usage.prompt_tokens_details.cached_tokens or 0, usage.prompt_tokens


def test_the_prefix_of_the_previous_call_is_reported_as_cached(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "a" * 4000}]
    first, sent_before = cached(client, messages)
    messages += [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c" * 4000}]
    second, sent = cached(client, messages)
    assert first == 0
    assert second % CACHE_STEP == 0
    assert sent_before - CACHE_STEP < second <= sent_before < sent


def test_another_conversation_has_nothing_cached(client: openai.OpenAI) -> None:
    cached(client, [{"role": "user", "content": "a" * 4000}])
    assert cached(client, [{"role": "user", "content": "b" + "a" * 4000}])[0] == 0


def test_another_conversation_in_between_loses_no_cached_prefix(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "a" * 4000}]
    cached(client, messages)
    cached(client, HELLO)
    assert cached(client, messages)[0] > 0


def test_withdrawing_the_tools_loses_the_cached_prefix(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "a" * 4000}]
    cached(client, messages, tools=TOOLS)
    assert cached(client, messages, tools=TOOLS)[0] > 0
    assert cached(client, messages)[0] == 0


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_a_token_limit_cuts_the_answer(client: openai.OpenAI, name: str) -> None:
    whole = client.chat.completions.create(model="m", messages=HELLO)
    limits: Any = {name: 3}
    short = client.chat.completions.create(model="m", messages=HELLO, **limits)
    assert short.choices[0].finish_reason == "length"
    assert short.choices[0].message.content == (whole.choices[0].message.content or "")[:12]
    assert short.usage is not None
    assert short.usage.completion_tokens == 3


def test_a_limit_that_the_answer_just_meets_cuts_nothing(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="m", messages=HELLO)
    assert whole.usage is not None
    exact = whole.usage.completion_tokens
    same = client.chat.completions.create(model="m", messages=HELLO, max_tokens=exact)
    less = client.chat.completions.create(model="m", messages=HELLO, max_tokens=exact - 1)
    assert same.choices[0] == whole.choices[0]
    assert less.choices[0].finish_reason == "length"


def test_a_token_limit_cuts_a_tool_call_in_its_arguments(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    choice: Any = client.chat.completions.create(
        model="m", messages=messages, tools=TOOLS, max_tokens=9
    ).choices[0]
    (call,) = choice.message.tool_calls
    assert choice.finish_reason == "length"
    assert call.function.name == "read_file"
    assert call.function.arguments == '{"path": "'


def test_a_tool_call_whose_name_does_not_fit_is_left_out(client: openai.OpenAI) -> None:
    choice = client.chat.completions.create(
        model="m", messages=ASK, tools=TOOLS, max_tokens=1
    ).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls is None


# Streams


def test_a_stream_brings_the_role_then_the_plain_answer_in_pieces(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(model="m", messages=HELLO).choices[0]
    chunks = list(client.chat.completions.create(model="m", messages=HELLO, stream=True))
    deltas = [chunk.choices[0].delta for chunk in chunks]
    pieces = [delta.content for delta in deltas if delta.content]
    assert {chunk.object for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk.id for chunk in chunks}) == 1
    assert [delta.role for delta in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    assert len(pieces) > 2
    assert "".join(pieces) == whole.message.content
    reasons = [chunk.choices[0].finish_reason for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["stop"]


def test_a_streamed_tool_call_adds_up_to_the_plain_one(client: openai.OpenAI) -> None:
    messages = list(ASK)
    step(client, messages, tools=TOOLS)
    chunks = list(
        client.chat.completions.create(model="m", messages=messages, tools=TOOLS, stream=True)
    )
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    functions = [call.function for call in calls if call.function is not None]
    assert {call.index for call in calls} == {0}
    assert [bool(call.id) for call in calls] == [True] + [False] * (len(calls) - 1)
    assert functions[0].name == "read_file"
    assert functions[0].arguments == ""
    assert len(functions) > 2
    assert "".join(function.arguments or "" for function in functions) == '{"path": "notes.md"}'
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def stream_lines(endpoint: ScriptedEndpoint, **more: Any) -> list[Any]:
    """Return the parsed events of a stream, after checking that it ends with [DONE]."""
    with closing(start(endpoint, more.pop("model", "m"), stream=True, **more)) as connection:
        response = connection.getresponse()
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Transfer-Encoding"] == "chunked"
        events = response.read().decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def test_a_stream_brings_usage_only_when_asked(
    endpoint: ScriptedEndpoint, client: openai.OpenAI
) -> None:
    plain = client.chat.completions.create(model="m", messages=HELLO).usage
    without = stream_lines(endpoint)
    having = stream_lines(endpoint, stream_options={"include_usage": True})
    assert plain is not None
    assert not any("usage" in chunk for chunk in without)
    assert all(chunk["choices"] for chunk in without)
    assert [chunk["usage"] for chunk in having[:-1]] == [None] * len(without)
    assert having[-1]["choices"] == []
    assert having[-1]["usage"] == plain.model_dump(exclude_none=True)


def test_the_sdk_reads_usage_from_the_last_chunk(client: openai.OpenAI) -> None:
    chunks = list(
        client.chat.completions.create(
            model="m", messages=HELLO, stream=True, stream_options={"include_usage": True}
        )
    )
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


def test_a_client_of_http_1_0_gets_its_stream_unchunked(endpoint: ScriptedEndpoint) -> None:
    body = json.dumps({"model": "m", "messages": HELLO, "stream": True}).encode()
    head = b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = raw_exchange(endpoint, head + body)
    headers, _, events = answer.partition(b"\r\n\r\n")
    assert b"chunked" not in headers
    assert events.startswith(b"data: {")
    assert events.endswith(b"data: [DONE]\n\n")


# Refusals


@pytest.mark.parametrize(
    ("model", "error"),
    [
        ("error-400", openai.BadRequestError),
        ("error-401", openai.AuthenticationError),
        ("error-429", openai.RateLimitError),
        ("error-500", openai.InternalServerError),
        ("error-777", openai.NotFoundError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_model_raises_the_sdks_own_error(
    client: openai.OpenAI, model: str, error: type[openai.APIStatusError], stream: bool
) -> None:
    with pytest.raises(error) as caught:
        client.chat.completions.create(model=model, messages=HELLO, stream=stream)
    assert model in caught.value.message


def test_a_rate_limit_says_when_to_retry(client: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model="error-429", messages=HELLO)
    assert caught.value.response.headers["Retry-After"] == "1"
    assert caught.value.code == "rate_limit_exceeded"


def test_a_key_is_checked_when_the_endpoint_has_one() -> None:
    with ScriptedEndpoint(api_key="right") as endpoint:
        with sdk(endpoint, "right") as client:
            assert client.chat.completions.create(model="m", messages=HELLO).choices
            assert client.models.list().data
        with sdk(endpoint, "wrong") as client:
            with pytest.raises(openai.AuthenticationError):
                client.chat.completions.create(model="m", messages=HELLO)
            with pytest.raises(openai.AuthenticationError):
                client.models.list()
        response, body = send(endpoint, {"model": "m", "messages": HELLO})
        assert response.status == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert body["error"]["code"] == "invalid_api_key"
        assert len(endpoint.requests) == 1


def test_a_key_under_another_scheme_is_refused() -> None:
    with ScriptedEndpoint(api_key="right") as endpoint, closing(connect(endpoint)) as connection:
        connection.request("GET", "/v1/models", headers={"Authorization": "Basic right"})
        assert connection.getresponse().status == 401


def test_the_models_list_names_the_modes(client: openai.OpenAI) -> None:
    assert {model.id for model in client.models.list()} == {"scripted", *MODES}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "could not parse"),
        (b"{", "could not parse"),
        (b"\xff\xfe\xfd", "could not parse"),
        (b"[1]", "must be an object"),
        (b"[" * 200_000, "nested too deeply"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(
    endpoint: ScriptedEndpoint, raw: bytes, words: str
) -> None:
    response, body = send(endpoint, raw)
    assert response.status == 400
    assert words in body["error"]["message"]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["type"] == "invalid_request_error"
    assert endpoint.requests == []


def said(**message: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [message]}


def with_tool(**function: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": function}]
    return {"model": "m", "messages": HELLO, "tools": tools}


def plus(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": HELLO, **more}


CALLING: Any = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: Any = {"role": "tool", "tool_call_id": "c1", "content": "done"}

MALFORMED: list[tuple[str, Any]] = [
    ("model", {"messages": HELLO}),
    ("model", {"model": None, "messages": HELLO}),
    ("model", {"model": 5, "messages": HELLO}),
    ("model", {"model": "", "messages": HELLO}),
    ("messages", {"model": "m"}),
    ("messages", {"model": "m", "messages": "hello"}),
    ("messages", {"model": "m", "messages": []}),
    ("messages[0]", {"model": "m", "messages": ["hello"]}),
    ("messages[0].role", said(content="hello")),
    ("messages[0].role", said(role="robot", content="hello")),
    ("messages[0].role", said(role=["user"], content="hello")),
    ("messages[0].content", said(role="user")),
    ("messages[0].content", said(role="user", content=None)),
    ("messages[0].content", said(role="user", content=5)),
    ("messages[0].content", said(role="user", content=[])),
    ("messages[0].content", said(role="assistant")),
    ("messages[0].content[0]", said(role="user", content=["hello"])),
    ("messages[0].content[0].type", said(role="user", content=[{"text": "hello"}])),
    ("messages[0].content[0].text", said(role="user", content=[{"type": "text"}])),
    ("messages[0].tool_call_id", said(role="tool", content="done")),
    ("messages[0].tool_call_id", {"model": "m", "messages": [RESULT, *HELLO]}),
    (
        "messages[1].tool_call_id",
        {"model": "m", "messages": [CALLING, {**RESULT, "tool_call_id": "c2"}]},
    ),
    ("messages[2].tool_call_id", {"model": "m", "messages": [CALLING, RESULT, RESULT]}),
    ("messages[1]", {"model": "m", "messages": [CALLING, *HELLO]}),
    ("messages", {"model": "m", "messages": [CALLING]}),
    ("messages[0].tool_calls", said(role="user", content="hello", tool_calls=[CALL])),
    ("messages[0].tool_calls", said(role="assistant", content="hello", tool_calls=[])),
    ("messages[0].tool_calls[0].id", said(role="assistant", tool_calls=[{**CALL, "id": None}])),
    (
        "messages[0].tool_calls[0].type",
        said(role="assistant", tool_calls=[{**CALL, "type": "robot"}]),
    ),
    (
        "messages[0].tool_calls[0].function.arguments",
        said(role="assistant", tool_calls=[{**CALL, "function": {"name": "f", "arguments": {}}}]),
    ),
    ("tools", plus(tools={})),
    ("tools", plus(tools=[])),
    ("tools[0]", plus(tools=["list_files"])),
    ("tools[0].type", plus(tools=[{"function": {"name": "f"}}])),
    ("tools[0].function", plus(tools=[{"type": "function"}])),
    ("tools[0].function", plus(tools=[{"type": "function", "function": "f"}])),
    ("tools[0].function.name", with_tool(description="reads")),
    ("tools[0].function.name", with_tool(name="read file")),
    ("tools[0].function.name", with_tool(name="f" * 65)),
    ("tools[0].function.description", with_tool(name="f", description=5)),
    ("tools[0].function.parameters", with_tool(name="f", parameters=[1])),
    ("tool_choice", plus(tool_choice="auto")),
    ("tool_choice", plus(tools=TOOLS, tool_choice="sometimes")),
    ("tool_choice.function", plus(tools=TOOLS, tool_choice={"type": "function"})),
    ("stream", plus(stream="yes")),
    ("stream_options", plus(stream_options={"include_usage": True})),
    ("stream_options", plus(stream=True, stream_options=True)),
    ("n", plus(n=2)),
    ("max_tokens", plus(max_tokens=0)),
    ("max_tokens", plus(max_tokens=True)),
    ("max_completion_tokens", plus(max_completion_tokens="9")),
    ("max_completion_tokens", plus(max_completion_tokens=1.5)),
    ("max_tokens", plus(max_tokens=9, max_completion_tokens=9)),
]


@pytest.mark.parametrize(("param", "body"), MALFORMED)
def test_a_malformed_request_is_refused_by_the_place_of_its_fault(
    endpoint: ScriptedEndpoint, param: str, body: Any
) -> None:
    response, answer = send(endpoint, body)
    assert response.status == 400
    assert answer["error"]["param"] == param
    assert f"'{param}'" in answer["error"]["message"]
    assert answer["error"]["code"]
    assert endpoint.requests == [body]


def test_nulls_stand_for_options_that_are_absent(endpoint: ScriptedEndpoint) -> None:
    names = ("tools", "tool_choice", "stream", "stream_options", "max_tokens", "n")
    response, _ = send(endpoint, plus(max_completion_tokens=9, **dict.fromkeys(names)))
    assert response.status == 200


def test_parallel_calls_may_be_answered_in_any_order(endpoint: ScriptedEndpoint) -> None:
    calling = {**CALLING, "tool_calls": [CALL, {**CALL, "id": "c2"}]}
    messages = [calling, {**RESULT, "tool_call_id": "c2"}, RESULT]
    response, _ = send(endpoint, {"model": "m", "messages": messages})
    assert response.status == 200


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/completions", "/v1/chat/completions/"])
def test_another_path_is_not_found(endpoint: ScriptedEndpoint, path: str) -> None:
    response, body = send(endpoint, plus(), path=path)
    assert response.status == 404
    assert path in body["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/chat/completions", "POST"),
        ("PUT", "/v1/chat/completions", "POST"),
        ("DELETE", "/v1/models", "GET"),
        ("POST", "/v1/models", "GET"),
    ],
)
def test_another_method_is_not_allowed(
    endpoint: ScriptedEndpoint, method: str, path: str, allowed: str
) -> None:
    response, body = send(endpoint, plus(), method, path)
    assert response.status == 405
    assert response.headers["Allow"] == allowed
    assert method in body["error"]["message"]


def test_an_invented_method_is_refused_in_the_same_shape(endpoint: ScriptedEndpoint) -> None:
    response, body = send(endpoint, b"", "BREW", "/v1/models")
    assert response.status == 501
    assert "BREW" in body["error"]["message"]


def test_a_refusal_of_head_has_no_body(endpoint: ScriptedEndpoint) -> None:
    with closing(connect(endpoint)) as connection:
        connection.request("HEAD", "/v1/models")
        assert connection.getresponse().read() == b""
        connection.request("GET", "/v1/models")
        assert connection.getresponse().status == 200


def test_a_query_is_no_part_of_the_path(endpoint: ScriptedEndpoint) -> None:
    response, _ = send(endpoint, plus(), path="/v1/chat/completions?api-version=1")
    assert response.status == 200


def test_one_connection_serves_on_after_a_refusal(endpoint: ScriptedEndpoint) -> None:
    with closing(connect(endpoint)) as connection:
        statuses = []
        for body in ("{", json.dumps(plus(stream=True)), json.dumps(plus())):
            connection.request("POST", "/v1/chat/completions", body)
            held = connection.sock
            response = connection.getresponse()
            response.read()
            statuses.append((response.status, connection.sock is held))
    assert statuses == [(400, True), (200, True), (200, True)]


def test_a_body_beyond_the_bound_is_refused_with_an_answer(endpoint: ScriptedEndpoint) -> None:
    response, body = send(endpoint, b" " * (MAX_BODY + 1))
    assert response.status == 413
    assert str(MAX_BODY) in body["error"]["message"]


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (b"Content-Length: 99999999999999999999", b"413"),
        (b"Content-Length: -1", b"400"),
        (b"Content-Length: ten", b"400"),
        (b"Transfer-Encoding: chunked", b"411"),
    ],
)
def test_a_body_of_unusable_length_is_refused_before_it_is_read(
    endpoint: ScriptedEndpoint, header: bytes, status: bytes
) -> None:
    with closing(connect(endpoint)) as connection:
        connection.connect()
        connection.sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n" + header + b"\r\n\r\n")
        with connection.sock.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
    assert head.split()[1] == status
    assert b"Connection: close" in head
    assert json.loads(body)["error"]["type"] == "invalid_request_error"


def test_requests_are_kept_up_to_a_bound(endpoint: ScriptedEndpoint) -> None:
    for number in range(MAX_RECORDED + 2):
        endpoint.record({"n": number})
    assert len(endpoint.requests) == MAX_RECORDED
    assert endpoint.requests[0] == {"n": 2}
    assert endpoint.requests[-1] == {"n": MAX_RECORDED + 1}


# The modes that misbehave


def test_hang_never_answers(client: openai.OpenAI, endpoint: ScriptedEndpoint) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.2).chat.completions.create(model="hang", messages=HELLO)
    assert client.chat.completions.create(model="m", messages=HELLO).choices


def test_closing_ends_hung_dripping_and_idle_clients() -> None:
    endpoint = ScriptedEndpoint()
    clients = [start(endpoint, model) for model in ("hang", "drip", "huge")]
    clients.append(connect(endpoint))
    clients[-1].request("GET", "/v1/models")
    clients[-1].getresponse().read()
    deadline = time.monotonic() + PATIENCE
    while len(endpoint.requests) < 3:
        assert time.monotonic() < deadline, "the requests never arrived"
    closer = threading.Thread(target=endpoint.close, daemon=True)
    closer.start()
    closer.join(PATIENCE)
    assert not closer.is_alive()
    for connection in clients:
        with closing(connection):
            while connection.sock.recv(1 << 20):
                pass
    with pytest.raises(ConnectionRefusedError):
        connect(endpoint).connect()
    endpoint.close()


def test_drip_sends_blanks_without_a_length_or_an_end(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "drip")) as connection:
        response = connection.getresponse()
        assert response.length is None
        assert response.read(3) == b"   "


def test_huge_goes_on_beyond_any_answer(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "huge")) as connection:
        response = connection.getresponse()
        assert response.length is None
        assert len(response.read(4 << 20)) == 4 << 20


def test_truncated_sends_less_than_it_announced(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "truncated")) as connection:
        response = connection.getresponse()
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
    assert caught.value.partial.startswith(b'{"id"')
    assert caught.value.expected


def test_not_json_answers_200_with_a_page(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "not-json")) as connection:
        response = connection.getresponse()
        assert response.status == 200
        assert response.read().startswith(b"<html>")


@pytest.mark.parametrize("stream", [False, True])
def test_bad_arguments_are_json_but_no_object(endpoint: ScriptedEndpoint, stream: bool) -> None:
    if stream:
        events = stream_lines(endpoint, model="bad-arguments", tools=TOOLS)
        deltas = [event["choices"][0]["delta"] for event in events]
        parts = [call for delta in deltas for call in delta.get("tool_calls", ())]
        arguments = "".join(part["function"]["arguments"] for part in parts)
    else:
        _, body = send(endpoint, {**plus(tools=TOOLS), "model": "bad-arguments"})
        (call,) = body["choices"][0]["message"]["tool_calls"]
        arguments = call["function"]["arguments"]
    assert not isinstance(json.loads(arguments), dict)


def test_no_usage_leaves_the_usage_out(endpoint: ScriptedEndpoint) -> None:
    _, body = send(endpoint, {**plus(), "model": "no-usage"})
    events = stream_lines(endpoint, model="no-usage", stream_options={"include_usage": True})
    assert "usage" not in body
    assert body["choices"]
    assert not any(event["usage"] for event in events)
    assert all(event["choices"] for event in events)


def test_stream_cut_drops_the_connection_after_some_words(endpoint: ScriptedEndpoint) -> None:
    with closing(start(endpoint, "stream-cut", stream=True)) as connection:
        response = connection.getresponse()
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
    events = caught.value.partial.decode().split("\n\n")[:-1]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert chunks[1]["choices"][0]["delta"]["content"]
    assert not any(chunk["choices"][0]["finish_reason"] for chunk in chunks)


def test_stream_cut_surfaces_as_an_error_in_the_sdk(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(model="stream-cut", messages=HELLO, stream=True)
    assert next(stream).choices[0].delta.role == "assistant"
    with pytest.raises(openai.APIConnectionError):
        list(stream)


# The scripted model


def test_the_model_lists_the_files_then_reads_them_one_a_call(client: openai.OpenAI) -> None:
    messages = list(ASK)
    assert steps(client, messages, 4) == ["list_files", "notes.md", "gone.md", "todo.txt"]
    spoken = [m["content"] for m in messages if m["role"] == "assistant"]
    assert all(spoken)
    assert "notes.md" in spoken[1]


def test_without_a_notice_the_model_runs_away_until_its_cap(endpoint: ScriptedEndpoint) -> None:
    messages = list(ASK)
    asked = []
    for _ in range(MAX_CALLS):
        _, body = send(endpoint, {"model": "m", "messages": messages, "tools": TOOLS})
        message = body["choices"][0]["message"]
        (call,) = message["tool_calls"]
        asked.append(json.loads(call["function"]["arguments"]).get("path"))
        listed = LISTING if asked[-1] is None else "A first line."
        result = {"role": "tool", "tool_call_id": call["id"], "content": listed}
        messages += [message, result]
    assert asked == [None, *(["notes.md", "gone.md", "todo.txt"] * MAX_CALLS)[: MAX_CALLS - 1]]
    _, body = send(endpoint, {"model": "m", "messages": messages, "tools": TOOLS})
    assert body["choices"][0]["finish_reason"] == "stop"
    assert str(MAX_CALLS) in body["choices"][0]["message"]["content"]


def test_a_notice_makes_the_model_answer_with_what_it_read(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 6)
    choice = step(client, [*messages, NOTICE], tools=TOOLS)
    assert choice.finish_reason == "stop"
    assert choice.message.content.splitlines() == [
        "I read 2 of 3 files.",
        "- notes.md: Garden notes",
        "- todo.txt: Buy seeds",
        "Could not be read: gone.md.",
        "I wrapped up here because of the budget notice.",
    ]


def test_a_notice_counts_for_its_own_call_only(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    assert not step(client, [*messages, NOTICE], tools=TOOLS).message.tool_calls
    assert steps(client, messages, 1) == ["notes.md"]


def test_a_notice_before_tool_results_still_counts(client: openai.OpenAI) -> None:
    messages = [*ASK, NOTICE]
    call = {"id": "c1", "type": "function", "function": {"name": "list_files", "arguments": "{}"}}
    messages += [{"role": "assistant", "tool_calls": [call]}, {**RESULT, "content": LISTING}]
    choice = step(client, messages, tools=TOOLS)
    assert "budget notice" in choice.message.content


def test_a_notice_of_an_earlier_turn_is_over(client: openai.OpenAI) -> None:
    messages = [*ASK, NOTICE, {"role": "assistant", "content": "Done."}, *HELLO]
    assert steps(client, messages, 1) == ["list_files"]


def test_a_notice_at_the_start_is_answered_without_any_tool(client: openai.OpenAI) -> None:
    choice = step(client, [*ASK, NOTICE], tools=TOOLS)
    assert ASK[-1]["content"] in choice.message.content
    assert "budget notice" in choice.message.content


@pytest.mark.parametrize("more", [{}, {"tools": TOOLS, "tool_choice": "none"}])
def test_the_model_answers_when_tools_are_withdrawn(client: openai.OpenAI, more: Any) -> None:
    messages = list(ASK)
    steps(client, messages, 2)
    choice = step(client, messages, **more)
    assert choice.finish_reason == "stop"
    assert "- notes.md: Garden notes" in choice.message.content
    assert "budget notice" not in choice.message.content


def test_a_required_tool_call_is_made_in_spite_of_a_notice(client: openai.OpenAI) -> None:
    choice = step(client, [*ASK, NOTICE], tools=TOOLS, tool_choice="required")
    assert choice.finish_reason == "tool_calls"


def test_a_tool_that_was_not_chosen_is_not_called(client: openai.OpenAI) -> None:
    other: Any = {"type": "function", "function": {"name": "read_file"}}
    assert step(client, list(ASK), tools=TOOLS, tool_choice=other).finish_reason == "stop"


def test_unknown_tools_are_never_called(client: openai.OpenAI) -> None:
    choice = step(client, list(ASK), tools=[tool("erase_disk")])
    assert choice.finish_reason == "stop"
    assert ASK[-1]["content"] in choice.message.content


def test_a_listing_that_failed_is_asked_for_again(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    messages[-1]["content"] = "Error: no such folder"
    assert steps(client, messages, 1) == ["list_files"]


def test_blank_and_repeated_lines_of_a_listing_count_once(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    messages[-1]["content"] = "\nnotes.md\t44\n\n  \ntodo.txt\nnotes.md\n"
    assert steps(client, messages, 3) == ["notes.md", "todo.txt", "notes.md"]
    assert step(client, messages).message.content.startswith("I read 2 of 2 files.")


@pytest.mark.parametrize("arguments", ["", '{"path": ', '["notes.md"]', "null"])
def test_earlier_calls_with_unreadable_arguments_are_passed_over(
    client: openai.OpenAI, arguments: str
) -> None:
    messages = list(ASK)
    steps(client, messages, 1)
    call = {"id": "c1", "type": "function"}
    function = {"name": "read_file", "arguments": arguments}
    messages.append({"role": "assistant", "tool_calls": [{**call, "function": function}]})
    messages.append({**RESULT, "content": "Error: no path given"})
    assert steps(client, messages, 1) == ["notes.md"]


def test_long_lines_are_not_quoted_in_full(client: openai.OpenAI) -> None:
    messages = list(ASK)
    steps(client, messages, 2)
    messages[-1]["content"] = "# " + "word " * 1000
    answer = step(client, messages).message.content
    assert "word word" in answer
    assert len(answer) < 200


# The command line


@contextmanager
def command(*options: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the command line, for as long as the tests are patient."""
    process = subprocess.Popen(
        [sys.executable, "-m", "budget_cpython.endpoint", *options],
        cwd=ROOT,
        # Unbuffered output would hide that the address was never flushed.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    limit = threading.Timer(PATIENCE, process.kill)
    limit.start()
    try:
        with process:
            yield process
    finally:
        limit.cancel()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_and_serves_until_a_signal(number: signal.Signals) -> None:
    with command("--api-key", "right") as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        address = urlsplit(url)
        connection = http.client.HTTPConnection("127.0.0.1", address.port, timeout=PATIENCE)
        with closing(connection):
            connection.request("GET", "/v1/models", headers={"Authorization": "Bearer right"})
            assert connection.getresponse().status == 200
            process.send_signal(number)
            _, err = process.communicate()
    assert url == f"http://127.0.0.1:{address.port}/v1"
    assert process.returncode == 0
    assert err == ""


def test_a_port_in_use_is_one_clear_line_and_exit_code_1(endpoint: ScriptedEndpoint) -> None:
    port = str(urlsplit(endpoint.base_url).port)
    with command("--port", port) as process:
        out, err = process.communicate()
    assert process.returncode == 1
    assert out == ""
    assert len(err.splitlines()) == 1
    assert f"127.0.0.1:{port}" in err
    assert "in use" in err


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_a_usage_error(
    port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([f"--port={port}"])
    assert caught.value.code == 2
    assert "0 to 65535" in capsys.readouterr().err


def test_help_lists_every_mode(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert all(f"{name} " in text and mode.says in text for name, mode in MODES.items())
