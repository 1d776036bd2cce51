"""Anthropic's messages, over a socket."""

import json
from typing import Any

import pytest

from scripted_model import ScriptedEndpoint
from scripted_model.faults import CONTEXT_TOKENS
from scripted_model.usage import CACHE_STEP

from .support import FILES, LISTING, events, send

PATH = "/v1/messages"
HELLO: Any = [{"role": "user", "content": "How do tomatoes grow?"}]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS: Any = [
    {"name": "list_files", "input_schema": {"type": "object"}},
    {"name": "read_file", "input_schema": SCHEMA},
]
NOTICE = {"type": "text", "text": "[Budget notice] 80% is used. Wrap up."}


def plus(**more: Any) -> Any:
    return {"model": "m", "max_tokens": 2000, "messages": HELLO, **more}


def ask(endpoint: ScriptedEndpoint, **more: Any) -> Any:
    response, message = send(endpoint, plus(**more), path=PATH)
    assert response.status == 200, message
    return message


def step(endpoint: ScriptedEndpoint, messages: Any, **more: Any) -> list[str]:
    """Make one model call, answer its tool calls, and return what it called."""
    content = ask(endpoint, messages=messages, tools=TOOLS, **more)["content"]
    messages.append({"role": "assistant", "content": content})
    calls = [block for block in content if block["type"] == "tool_use"]
    results = []
    for call in calls:
        path = call["input"].get("path")
        text = FILES.get(path, f"Error: no file {path}") if path else LISTING
        result = {"type": "tool_result", "tool_use_id": call["id"]}
        results.append({**result, "content": [{"type": "text", "text": text}]})
    messages.append({"role": "user", "content": results})
    return [call["input"].get("path", call["name"]) for call in calls]


def test_a_message_is_answered_with_its_usage(endpoint: ScriptedEndpoint) -> None:
    message = ask(endpoint, system="Be kind.")
    (block,) = message["content"]
    assert (message["type"], message["role"], message["model"]) == ("message", "assistant", "m")
    assert block == {"type": "text", "text": 'You said: "How do tomatoes grow?".'}
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    assert message["usage"]["output_tokens"] == -(-len(block["text"]) // 4)
    assert message["usage"]["input_tokens"] > ask(endpoint)["usage"]["input_tokens"]


def test_the_model_calls_tools_until_a_notice(endpoint: ScriptedEndpoint) -> None:
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "What?"}]}]
    asked = [step(endpoint, messages) for _ in range(4)]
    assert asked == [["list_files"], ["notes.md"], ["gone.md"], ["todo.txt"]]
    messages[-1]["content"].append(NOTICE)
    (block,) = ask(endpoint, messages=messages, tools=TOOLS)["content"]
    assert "- notes.md: Garden notes" in block["text"]
    assert "budget notice" in block["text"]


def test_a_notice_after_the_question_is_no_question(endpoint: ScriptedEndpoint) -> None:
    question = [{"type": "text", "text": "What?"}, NOTICE]
    message = ask(endpoint, messages=[{"role": "user", "content": question}], tools=TOOLS)
    assert message["content"][0]["text"].startswith('You said: "What?".')


def test_system_messages_are_no_questions(endpoint: ScriptedEndpoint) -> None:
    system: Any = {"role": "system", "content": "Be kind."}
    assert ask(endpoint, messages=[*HELLO, system])["content"] == ask(endpoint)["content"]


def test_the_choice_of_tools_counts(endpoint: ScriptedEndpoint) -> None:
    notice: Any = [*HELLO, {"role": "user", "content": [NOTICE]}]
    assert step(endpoint, list(HELLO), tool_choice={"type": "none"}) == []
    assert step(endpoint, list(notice), tool_choice={"type": "any"}) == ["list_files"]
    assert step(endpoint, list(HELLO), tool_choice={"type": "tool", "name": "read_file"}) == []


def test_a_limit_cuts_the_answer(endpoint: ScriptedEndpoint) -> None:
    message = ask(endpoint, model="long", max_tokens=5)
    assert message["stop_reason"] == "max_tokens"
    assert message["usage"]["output_tokens"] == 5
    assert len(message["content"][0]["text"]) == 20


def test_a_tool_call_that_was_cut_has_no_input(endpoint: ScriptedEndpoint) -> None:
    message = ask(endpoint, model="parallel", tools=TOOLS[1:], max_tokens=4)
    assert message["stop_reason"] == "max_tokens"
    assert message["content"][0]["input"] == {}


def test_thinking_comes_first_and_is_counted(endpoint: ScriptedEndpoint) -> None:
    for thinking in ({"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}):
        message = ask(endpoint, thinking=thinking)
        assert [block["type"] for block in message["content"]] == ["thinking", "text"]
        assert "tomatoes" in message["content"][0]["thinking"]
        thought = message["usage"]["output_tokens_details"]["thinking_tokens"]
        assert 0 < thought < message["usage"]["output_tokens"]
    assert len(ask(endpoint, thinking={"type": "disabled"})["content"]) == 1


@pytest.mark.parametrize(("budget", "limit"), [(1023, 2000), (2000, 2000), (1024, 1024)])
def test_a_thinking_budget_must_be_below_the_limit(
    endpoint: ScriptedEndpoint, budget: int, limit: int
) -> None:
    thinking = {"type": "enabled", "budget_tokens": budget}
    response, body = send(endpoint, plus(thinking=thinking, max_tokens=limit), path=PATH)
    assert response.status == 400
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert "thinking.budget_tokens" in body["error"]["message"]


def test_only_a_marked_prefix_is_cached(endpoint: ScriptedEndpoint) -> None:
    marked = {"type": "text", "text": "a" * 4000, "cache_control": {"type": "ephemeral"}}
    first = {"role": "user", "content": [marked]}
    second: Any = {"role": "user", "content": "b" * 400}
    plain = ask(endpoint, messages=[second])["usage"]
    written = ask(endpoint, messages=[first, second])["usage"]
    read = ask(endpoint, messages=[first, second])["usage"]
    names = ("cache_creation_input_tokens", "cache_read_input_tokens")
    assert [plain[name] for name in names] == [0, 0]
    whole = written["cache_creation_input_tokens"]
    assert whole >= 4000 // 4 - CACHE_STEP
    assert written["cache_creation"]["ephemeral_5m_input_tokens"] == whole
    assert [read[name] for name in names] == [0, whole]
    assert read["input_tokens"] == written["input_tokens"] >= 100


def test_a_cache_mark_may_move(endpoint: ScriptedEndpoint) -> None:
    text = {"type": "text", "text": "a" * 4000}
    mark = {"cache_control": {"type": "ephemeral"}}
    ask(endpoint, messages=[{"role": "user", "content": [{**text, **mark}]}])
    last = {"role": "user", "content": [{"type": "text", "text": "b" * 4000, **mark}]}
    used = ask(endpoint, messages=[{"role": "user", "content": [text]}, last])["usage"]
    assert used["cache_read_input_tokens"] >= 4000 // 4 - CACHE_STEP
    assert used["cache_creation_input_tokens"] >= 4000 // 4 - CACHE_STEP


def test_tokens_are_counted_as_they_would_be_used(endpoint: ScriptedEndpoint) -> None:
    body = {"model": "m", "messages": HELLO, "tools": TOOLS, "system": "Be kind."}
    _, counted = send(endpoint, body, path=f"{PATH}/count_tokens")
    used = ask(endpoint, tools=TOOLS, system="Be kind.")["usage"]
    assert counted == {"input_tokens": used["input_tokens"]}


# Streams


def test_a_stream_brings_each_block_in_pieces_between_its_events(
    endpoint: ScriptedEndpoint,
) -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    seen = events(endpoint, PATH, plus(stream=True, tools=TOOLS, thinking=thinking))
    types = [event["type"] for event in seen]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    first = [block[0], "ping", *block[1:]]
    assert [name for index, name in enumerate(types) if name != types[index - 1]] == [
        "message_start",
        *first,
        *block,
        *block,
        "message_delta",
        "message_stop",
    ]
    deltas = [event["delta"] for event in seen if event["type"] == "content_block_delta"]
    told: dict[str, str] = {}
    for delta in deltas:
        (value,) = (value for name, value in delta.items() if name != "type")
        told[delta["type"]] = told.get(delta["type"], "") + value
    assert "tomatoes" in told["thinking_delta"]
    assert told["signature_delta"]
    assert told["text_delta"] == "Let me look around."
    assert told["input_json_delta"] == "{}"
    starts = [event["content_block"] for event in seen if event["type"] == block[0]]
    assert [start["type"] for start in starts] == ["thinking", "text", "tool_use"]
    assert starts[2]["input"] == {}
    assert starts[2]["name"] == "list_files"
    assert next(event for event in seen if "delta" in event and "stop_reason" in event["delta"])[
        "delta"
    ] == {"stop_reason": "tool_use", "stop_sequence": None}


def test_a_stream_has_usage_at_its_start_and_in_total_at_its_end(
    endpoint: ScriptedEndpoint,
) -> None:
    whole = ask(endpoint)["usage"]
    seen = events(endpoint, PATH, plus(stream=True))
    start, end = seen[0]["message"]["usage"], seen[-2]["usage"]
    assert (start["input_tokens"], start["output_tokens"]) == (whole["input_tokens"], 1)
    assert (end["input_tokens"], end["output_tokens"]) == (
        whole["input_tokens"],
        whole["output_tokens"],
    )


def test_without_usage_a_stream_has_none(endpoint: ScriptedEndpoint) -> None:
    seen = events(endpoint, PATH, plus(model="no-usage", stream=True))
    assert "usage" not in seen[0]["message"]
    assert "usage" not in seen[-2]


# Refusals


@pytest.mark.parametrize(
    ("model", "status", "kind"),
    [
        ("error-400", 400, "invalid_request_error"),
        ("error-401", 401, "authentication_error"),
        ("error-429", 429, "rate_limit_error"),
        ("error-500", 500, "api_error"),
        ("error-777", 404, "not_found_error"),
        ("busy", 429, "rate_limit_error"),
    ],
)
def test_an_error_has_anthropics_shape(
    endpoint: ScriptedEndpoint, model: str, status: int, kind: str
) -> None:
    response, body = send(endpoint, plus(model=model), path=PATH)
    assert (response.status, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert body["error"]["message"]


def test_a_long_prompt_is_refused_in_anthropics_words(endpoint: ScriptedEndpoint) -> None:
    long = [{"role": "user", "content": "tomato " * 200}]
    response, body = send(endpoint, plus(model="small-context", messages=long), path=PATH)
    assert response.status == 400
    assert body["error"]["message"].startswith("prompt is too long: ")
    assert str(CONTEXT_TOKENS) in body["error"]["message"]


def test_bad_arguments_arrive_as_input(endpoint: ScriptedEndpoint) -> None:
    message = ask(endpoint, model="bad-arguments", tools=TOOLS)
    assert message["content"][1]["input"] == ["not an object"]


def test_the_key_may_be_a_header_of_its_own_or_a_bearer_token() -> None:
    with ScriptedEndpoint(api_key="right") as endpoint:
        for headers, status in [
            ({"x-api-key": "right"}, 200),
            ({"Authorization": "Bearer right"}, 200),
            ({"x-api-key": "wrong"}, 401),
            ({}, 401),
        ]:
            response, body = send(endpoint, plus(), path=PATH, headers=headers)
            assert response.status == status
        assert body["error"]["type"] == "authentication_error"


def test_the_models_have_anthropics_shape_for_its_clients(endpoint: ScriptedEndpoint) -> None:
    headers = {"anthropic-version": "2023-06-01"}
    _, listed = send(endpoint, b"", "GET", "/v1/models", headers=headers)
    assert listed["has_more"] is False
    assert (listed["first_id"], listed["data"][0]["type"]) == ("scripted", "model")
    _, one = send(endpoint, b"", "GET", "/v1/models/garden", headers=headers)
    assert one["id"] == "garden"


CALLED: Any = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}],
}
DONE: Any = {"type": "tool_result", "tool_use_id": "t1"}
LOST: Any = {"role": "user", "content": [{**DONE, "tool_use_id": "t2"}]}


@pytest.mark.parametrize(
    ("place", "more"),
    [
        ("model", {"model": None}),
        ("max_tokens", {"max_tokens": None}),
        ("max_tokens", {"max_tokens": 0}),
        ("messages", {"messages": []}),
        ("messages[0].role", {"messages": [{"role": "developer", "content": "Hi"}]}),
        ("messages[0].content", {"messages": [{"role": "user", "content": []}]}),
        ("messages", {"messages": [CALLED]}),
        ("messages[1]", {"messages": [CALLED, *HELLO]}),
        ("messages[1].tool_call_id", {"messages": [CALLED, LOST]}),
        (
            "messages[1].content.content[0].type",
            {"messages": [CALLED, {"role": "user", "content": [{**DONE, "content": [{}]}]}]},
        ),
        ("tools[0].name", {"tools": [{"input_schema": {}}]}),
        ("tool_choice.type", {"tools": TOOLS, "tool_choice": {"type": "required"}}),
        ("thinking.budget_tokens", {"thinking": {"type": "enabled"}}),
    ],
)
def test_a_malformed_request_is_refused(endpoint: ScriptedEndpoint, place: str, more: Any) -> None:
    response, body = send(endpoint, plus(**more), path=PATH)
    assert response.status == 400
    assert f"'{place}'" in body["error"]["message"]
    assert json.dumps(body)
