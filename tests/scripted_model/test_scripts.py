"""Models with manners of their own, and replies that a test prepares."""

import http.client
import json
import threading
from contextlib import closing
from typing import Any

import openai
import pytest

from scripted_model import (
    ApiError,
    Asked,
    Reply,
    ScriptedEndpoint,
    ScriptedToolCall,
    ScriptedUsage,
)
from scripted_model.scripts import LONG_TOKENS

from .support import HELLO, PATIENCE, connect, events, plus, sdk, send, start, tool

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GENERATE = "/v1beta/models/{model}:generateContent"
STREAM = "/v1beta/models/{model}:streamGenerateContent?alt=sse"
USER: Any = [{"role": "user", "content": "Hi"}]
BODIES: dict[str, Any] = {
    CHAT: {"messages": USER},
    RESPONSES: {"input": "Hi"},
    MESSAGES: {"messages": USER, "max_tokens": 100},
    GENERATE: {"contents": [{"parts": [{"text": "Hi"}]}]},
}
USED = ScriptedUsage(1000, 200, cached=512, written=128, reasoning=40)


def ask(endpoint: ScriptedEndpoint, path: str, model: str) -> tuple[int, Any]:
    body = {"model": model, **BODIES[path]}
    response, answer = send(endpoint, body, path=path.format(model=model))
    return response.status, answer


def test_long_answers_fill_their_limit(client: openai.OpenAI) -> None:
    for limit in (None, 7, 3000):
        made = client.chat.completions.create(model="long", messages=HELLO, max_tokens=limit)
        assert made.usage is not None
        assert made.usage.completion_tokens == (limit or LONG_TOKENS)
        assert made.choices[0].finish_reason == ("stop" if limit is None else "length")


def test_parallel_calls_every_tool_at_once_then_answers(client: openai.OpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "how": {"enum": ["fast"]}, "why": {}},
        "required": ["n", "how", "why"],
    }
    tools: Any = [tool("read_file"), tool("grow")]
    tools[1]["function"]["parameters"] = schema
    messages: Any = list(HELLO)
    made = client.chat.completions.create(model="parallel", messages=messages, tools=tools)
    message = made.choices[0].message
    calls: Any = message.tool_calls
    assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [
        ("read_file", {}),
        ("grow", {"n": 1, "how": "fast", "why": "tomato"}),
    ]
    messages.append(message.model_dump(exclude_none=True))
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "done"} for call in calls]
    last = client.chat.completions.create(model="parallel", messages=messages, tools=tools)
    assert last.choices[0].finish_reason == "stop"
    assert last.choices[0].message.content


def test_a_prepared_reply_comes_in_each_format() -> None:
    calls = (ScriptedToolCall("water", '{"litres": 2}'), ScriptedToolCall("sow", "{}"))
    reply = Reply("Soon.", calls, usage=USED)
    with ScriptedEndpoint(scripts={"garden": reply}) as endpoint:
        answers = {path: ask(endpoint, path, "garden")[1] for path in BODIES}
        with sdk(endpoint) as client:
            assert "garden" in {model.id for model in client.models.list()}
    message = answers[CHAT]["choices"][0]["message"]
    assert message["content"] == "Soon."
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["water", "sow"]
    assert [item["type"] for item in answers[RESPONSES]["output"]] == [
        "message",
        "function_call",
        "function_call",
    ]
    assert [block.get("input") for block in answers[MESSAGES]["content"]] == [
        None,
        {"litres": 2},
        {},
    ]
    parts = answers[GENERATE]["candidates"][0]["content"]["parts"]
    assert [part.get("functionCall", {}).get("args") for part in parts] == [None, {"litres": 2}, {}]


def test_prepared_usage_is_reported_in_each_format() -> None:
    with ScriptedEndpoint(scripts={"garden": Reply("Soon.", usage=USED)}) as endpoint:
        answers = {path: ask(endpoint, path, "garden")[1] for path in BODIES}
    chat, responses = answers[CHAT]["usage"], answers[RESPONSES]["usage"]
    messages, generate = answers[MESSAGES]["usage"], answers[GENERATE]["usageMetadata"]
    assert (chat["prompt_tokens"], chat["completion_tokens"]) == (1000, 200)
    assert chat["prompt_tokens_details"]["cached_tokens"] == 512
    assert chat["prompt_tokens_details"]["cache_write_tokens"] == 128
    assert chat["completion_tokens_details"]["reasoning_tokens"] == 40
    assert (responses["input_tokens"], responses["output_tokens"]) == (1000, 200)
    assert responses["input_tokens_details"]["cached_tokens"] == 512
    assert responses["output_tokens_details"]["reasoning_tokens"] == 40
    assert (messages["input_tokens"], messages["output_tokens"]) == (360, 200)
    assert messages["cache_read_input_tokens"] == 512
    assert messages["cache_creation_input_tokens"] == 128
    assert (generate["promptTokenCount"], generate["candidatesTokenCount"]) == (1000, 160)
    assert generate["thoughtsTokenCount"] == 40
    assert generate["cachedContentTokenCount"] == 512


def test_a_function_decides_by_what_is_asked(endpoint: ScriptedEndpoint) -> None:
    def decide(asked: Asked) -> Reply:
        if asked.max_tokens is None:
            raise ApiError(503, "Name a limit.", headers={"x-should-retry": "false"})
        return Reply(f"{asked.max_tokens} for {', '.join(asked.tools)}")

    endpoint.scripts["careful"] = decide
    response, body = send(endpoint, {**plus(tools=[tool("sow")]), "model": "careful"})
    assert (response.status, response.headers["x-should-retry"]) == (503, "false")
    assert body["error"]["message"] == "Name a limit."
    _, body = send(endpoint, {**plus(tools=[tool("sow")], max_tokens=50), "model": "careful"})
    assert body["choices"][0]["message"]["content"] == "50 for sow"


def test_a_prepared_reply_is_cut_at_the_limit(endpoint: ScriptedEndpoint) -> None:
    endpoint.scripts["wordy"] = Reply("tomato " * 100, thinking="seeds " * 2)
    _, body = send(endpoint, {**plus(max_tokens=5), "model": "wordy"})
    assert body["choices"][0]["message"]["content"] == "tomato t"
    assert body["choices"][0]["finish_reason"] == "length"


def test_the_second_half_of_a_stream_waits(endpoint: ScriptedEndpoint) -> None:
    middle, rest = threading.Event(), threading.Event()

    def halfway() -> None:
        middle.set()
        assert rest.wait(PATIENCE)

    endpoint.scripts["slow"] = Reply("tomato " * 10, halfway=halfway)
    with closing(start(endpoint, "slow", stream=True)) as connection:
        response = connection.getresponse()
        first = response.readline() + response.readline() + response.readline()
        assert b'"content": "tomato' in first
        assert middle.wait(PATIENCE)
        rest.set()
        assert response.read().endswith(b"[DONE]\n\n")


@pytest.mark.parametrize("count", [1, 3])
def test_several_answers_are_sent_and_counted_together(
    endpoint: ScriptedEndpoint, client: openai.OpenAI, count: int
) -> None:
    made = client.chat.completions.create(model="m", messages=HELLO, n=count, max_tokens=3)
    assert [choice.index for choice in made.choices] == list(range(count))
    assert made.usage is not None
    assert made.usage.completion_tokens == 3 * count
    body = {**plus(n=count, max_tokens=3, stream=True), "stream_options": {"include_usage": True}}
    with closing(connect(endpoint)) as connection:
        connection.request("POST", CHAT, json.dumps(body))
        lines = connection.getresponse().read().decode().split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
    ended = [c["choices"][0]["index"] for c in chunks[:-1] if c["choices"][0]["finish_reason"]]
    assert ended == list(range(count))
    assert chunks[-1]["usage"]["completion_tokens"] == 3 * count


# Models that misbehave do so in each format


@pytest.mark.parametrize("path", BODIES)
def test_busy_refuses_the_first_request_in_each_format(
    endpoint: ScriptedEndpoint, path: str
) -> None:
    assert [ask(endpoint, path, "busy")[0] for _ in range(2)] == [429, 200]


def test_only_openai_has_another_name_for_the_limit(endpoint: ScriptedEndpoint) -> None:
    assert ask(endpoint, MESSAGES, "other-limit")[0] == 200


@pytest.mark.parametrize("path", BODIES)
def test_usage_is_left_out_in_each_format(endpoint: ScriptedEndpoint, path: str) -> None:
    status, body = ask(endpoint, path, "no-usage")
    assert status == 200
    assert not body.get("usage")
    assert not body.get("usageMetadata")


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, STREAM])
@pytest.mark.parametrize("model", ["stream-cut", "stream-hang"])
def test_half_a_stream_comes_in_each_format(path: str, model: str) -> None:
    body = {"model": model, "stream": True, **BODIES.get(path, BODIES[GENERATE])}
    with ScriptedEndpoint() as endpoint, closing(connect(endpoint)) as connection:
        connection.request("POST", path.format(model=model), json.dumps(body))
        response = connection.getresponse()
        assert response.readline().strip()
        if model == "stream-hang":
            endpoint.close()
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
    assert caught.value.partial
    assert b"[DONE]" not in caught.value.partial
    assert b"_stop" not in caught.value.partial.rpartition(b"content_block_stop")[2]


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, STREAM])
def test_a_stream_ends_with_an_error_in_each_format(endpoint: ScriptedEndpoint, path: str) -> None:
    body = {"stream": True, **BODIES.get(path, BODIES[GENERATE]), "model": "stream-error"}
    seen = events(endpoint, path.format(model="stream-error"), body)
    assert len(seen) > 1
    assert not any("error" in event for event in seen[:-1])
    last = seen[-1]
    assert "stream-error" in last.get("error", last)["message"]
    response, _ = send(endpoint, {**plus(), "model": "stream-error"})
    assert response.status == 503


def test_the_sdk_raises_the_error_of_a_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(model="stream-error", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError, match="stream-error"):
        list(stream)


def test_tools_may_be_an_empty_list_but_in_chat_completions(endpoint: ScriptedEndpoint) -> None:
    statuses = {
        path: send(endpoint, {"model": "m", "tools": [], **body}, path=path.format(model="m"))[0]
        for path, body in BODIES.items()
    }
    assert [statuses[path].status for path in BODIES] == [400, 200, 200, 200]


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES])
def test_the_answers_are_kept_with_their_usage(endpoint: ScriptedEndpoint, path: str) -> None:
    status, _ = ask(endpoint, path, "error-500")
    reported = ask(endpoint, path, "m")[1]["usage"]
    failed, answered = endpoint.answers
    assert (status, failed.asked.model, answered.asked.model) == (500, "error-500", "m")
    assert answered.reply.content == 'You said: "Hi".'
    assert answered.usage is not None
    assert answered.usage.prompt == reported.get("prompt_tokens", reported.get("input_tokens"))


@pytest.mark.parametrize("path", [RESPONSES, MESSAGES])
def test_a_streams_usage_is_that_of_the_whole_answer(endpoint: ScriptedEndpoint, path: str) -> None:
    whole = ask(endpoint, path, "m")[1]["usage"]
    last = [
        event.get("usage") or event.get("response", {}).get("usage")
        for event in events(endpoint, path, {"model": "m", "stream": True, **BODIES[path]})
    ]
    assert next(used for used in reversed(last) if used)["output_tokens"] == whole["output_tokens"]
