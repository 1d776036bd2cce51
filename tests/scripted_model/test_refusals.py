"""What the endpoint refuses, and how it says so."""

import json
from contextlib import closing
from typing import Any

import openai
import pytest

from scripted_model import ScriptedEndpoint
from scripted_model.faults import FAULTS
from scripted_model.scripts import SCRIPTS

from .support import CALL, CALLING, HELLO, RESULT, TOOLS, connect, plus, sdk, send


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


def test_the_models_list_names_the_modes(client: openai.OpenAI) -> None:
    assert {model.id for model in client.models.list()} == {"scripted", *SCRIPTS, *FAULTS}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "could not parse"),
        (b"{", "could not parse"),
        (b"\xff\xfe\xfd", "could not parse"),
        (b"[1]", "must be an object"),
    ],
)
def test_a_body_that_is_not_a_json_object_is_refused(
    endpoint: ScriptedEndpoint, raw: bytes, words: str
) -> None:
    response, body = send(endpoint, raw)
    assert response.status == 400
    assert words in body["error"]["message"]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["type"] == "invalid_request_error"
    assert [request.body for request in endpoint.requests] == [{}]


def said(**message: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [message]}


def with_tool(**function: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": function}]
    return {"model": "m", "messages": HELLO, "tools": tools}


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
    ("n", plus(n=0)),
    ("n", plus(n=129)),
    ("n", plus(n="2")),
    ("max_tokens", plus(max_tokens=0)),
    ("max_tokens", plus(max_tokens=True)),
    ("max_completion_tokens", plus(max_completion_tokens="9")),
    ("max_completion_tokens", plus(max_completion_tokens=1.5)),
    ("max_tokens", plus(max_tokens=9, max_completion_tokens=9)),
]


@pytest.mark.parametrize(("param", "body"), MALFORMED)
def test_a_malformed_request_is_refused_with_the_invalid_field(
    endpoint: ScriptedEndpoint, param: str, body: Any
) -> None:
    response, answer = send(endpoint, body)
    assert response.status == 400
    assert answer["error"]["param"] == param
    assert f"'{param}'" in answer["error"]["message"]
    assert answer["error"]["code"]
    assert [request.body for request in endpoint.requests] == [body]


def test_nulls_stand_for_options_that_are_absent(endpoint: ScriptedEndpoint) -> None:
    names = ("tools", "tool_choice", "stream", "stream_options", "max_tokens", "n")
    response, _ = send(endpoint, plus(max_completion_tokens=9, **dict.fromkeys(names)))
    assert response.status == 200


def test_parallel_calls_may_be_answered_in_any_order(endpoint: ScriptedEndpoint) -> None:
    calling = {**CALLING, "tool_calls": [CALL, {**CALL, "id": "c2"}]}
    messages = [calling, {**RESULT, "tool_call_id": "c2"}, RESULT]
    response, _ = send(endpoint, {"model": "m", "messages": messages})
    assert response.status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("POST", "/v1/completions"),
        ("POST", "/v1/chat/completions/"),
        ("POST", "/v1/models"),
        ("GET", "/v1/chat/completions"),
    ],
)
def test_another_path_or_method_is_not_found(
    endpoint: ScriptedEndpoint, method: str, path: str
) -> None:
    response, body = send(endpoint, plus(), method, path)
    assert response.status == 404
    assert f"{method} {path}" in body["error"]["message"]


def test_the_query_is_ignored(endpoint: ScriptedEndpoint) -> None:
    response, _ = send(endpoint, plus(), path="/v1/chat/completions?api-version=1")
    assert response.status == 200


def test_a_connection_serves_again_after_a_refusal(endpoint: ScriptedEndpoint) -> None:
    with closing(connect(endpoint)) as connection:
        statuses = []
        for body in ("{", json.dumps(plus(stream=True)), json.dumps(plus())):
            connection.request("POST", "/v1/chat/completions", body)
            held = connection.sock
            response = connection.getresponse()
            response.read()
            statuses.append((response.status, connection.sock is held))
    assert statuses == [(400, True), (200, True), (200, True)]


def test_requests_are_kept_up_to_a_bound() -> None:
    with ScriptedEndpoint(keep=3) as endpoint:
        for number in range(5):
            send(endpoint, plus(user=str(number)))
        assert [request.body["user"] for request in endpoint.requests] == ["2", "3", "4"]


def test_a_request_is_kept_as_it_came(endpoint: ScriptedEndpoint) -> None:
    send(endpoint, plus(), path="/v1/chat/completions?a=1")
    send(endpoint, b"", "GET", "/nowhere")
    chat, lost = endpoint.requests
    assert chat[:3] == ("POST", "/v1/chat/completions", {"a": "1"})
    assert chat.headers["content-length"] == str(len(json.dumps(plus())))
    assert chat.body == plus()
    assert (lost.method, lost.path, lost.body) == ("GET", "/nowhere", {})
