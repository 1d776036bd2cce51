"""What is sent in place of a request, in its vendor's form."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_cpython.vendors.request import TooLittleLeftError
from tests.properties import examples
from tests.vendors.vectors import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    GENERATE,
    MESSAGES,
    NOTICE,
    RESPONSES,
    admit,
    format_at,
    function,
    sent,
)

HELLO = {"role": "user", "content": "Hello"}
PARTS = {"role": "user", "parts": [{"text": "Hello"}]}
BODIES: dict[str, dict[str, Any]] = {
    CHAT: {"model": "m", "messages": [HELLO]},
    COMPLETIONS: {"model": "m", "prompt": "Hello", "max_tokens": 5},
    RESPONSES: {"model": "m", "input": "Hello"},
    EMBEDDINGS: {"model": "m", "input": "Hello"},
    MESSAGES: {"model": "m", "messages": [HELLO], "max_tokens": 5},
    GENERATE: {"contents": [PARTS]},
}


@pytest.mark.parametrize("path", BODIES)
def test_a_request_that_is_admitted_as_asked_is_sent_as_it_is(path: str) -> None:
    assert sent(path, {**BODIES[path], "other": 1}) == {**BODIES[path], "other": 1}


@pytest.mark.parametrize(
    ("path", "field", "last"),
    [
        (CHAT, "messages", {"role": "user", "content": NOTICE}),
        (RESPONSES, "input", {"role": "user", "content": NOTICE}),
        (MESSAGES, "messages", {"role": "user", "content": NOTICE}),
        (GENERATE, "contents", {"role": "user", "parts": [{"text": NOTICE}]}),
    ],
)
def test_notices_are_the_last_messages(path: str, field: str, last: dict[str, Any]) -> None:
    new = sent(path, BODIES[path], notices=(NOTICE, NOTICE))
    assert new[field][1:] == [last, last]
    again = sent(path, new, notices=(NOTICE,))
    assert again[field] == [*new[field], last]


def test_an_input_that_is_a_text_becomes_a_message_before_the_notices() -> None:
    assert sent(RESPONSES, BODIES[RESPONSES], notices=(NOTICE,))["input"][0] == HELLO
    only = sent(RESPONSES, {"prompt": {"id": "p"}}, notices=(NOTICE,))["input"]
    assert only == [{"role": "user", "content": NOTICE}]


def test_the_results_of_tools_stay_next_to_their_calls() -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look"}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}
    body = {**BODIES[MESSAGES], "messages": [HELLO, call, result]}
    new = sent(MESSAGES, body, notices=(NOTICE,))
    assert new["messages"] == [HELLO, call, result, {"role": "user", "content": NOTICE}]


def test_an_answer_that_the_caller_began_stays_last() -> None:
    begun = {"role": "assistant", "content": "The answer is"}
    body = {**BODIES[MESSAGES], "messages": [HELLO, begun]}
    new = sent(MESSAGES, body, notices=(NOTICE,))
    assert new["messages"] == [HELLO, {"role": "user", "content": NOTICE}, begun]


@pytest.mark.parametrize("path", [COMPLETIONS, EMBEDDINGS])
def test_a_request_without_messages_takes_no_notice(path: str) -> None:
    assert sent(path, BODIES[path], notices=(NOTICE,)) == BODIES[path]


@pytest.mark.parametrize("path", [path for path in BODIES if path not in (GENERATE, EMBEDDINGS)])
def test_the_fallback_model_is_named_instead(path: str) -> None:
    assert sent(path, BODIES[path], model="cheap")["model"] == "cheap"


def test_embeddings_take_no_fallback() -> None:
    wire = format_at(EMBEDDINGS)
    request = wire.read(BODIES[EMBEDDINGS])
    wire.check(admit(request, max_tokens=5), request)
    with pytest.raises(TooLittleLeftError, match="no embeddings of m"):
        wire.check(admit(request, model="cheap"), request)


@pytest.mark.parametrize(
    ("path", "asked", "most", "fits"),
    [
        (RESPONSES, None, 16, True),
        (RESPONSES, None, 15, False),
        (RESPONSES, 16, 15, False),
        (RESPONSES, 15, 15, True),
        (RESPONSES, 500, None, True),
        (CHAT, 500, 1, True),
        (MESSAGES, 500, 1, True),
    ],
)
def test_a_limit_below_the_least_that_the_api_takes_does_not_fit(
    path: str, asked: int | None, most: int | None, fits: bool
) -> None:
    wire = format_at(path)
    field = "max_output_tokens" if path == RESPONSES else "max_tokens"
    request = wire.read({**BODIES[path], field: asked})
    if fits:
        wire.check(admit(request, max_tokens=most), request)
        return
    with pytest.raises(TooLittleLeftError, match="16 or more"):
        wire.check(admit(request, max_tokens=most), request)


CHAT_TOOLS = [function("look"), function("run"), {"type": "custom", "custom": {"name": "calc"}}]
RESPONSE_TOOLS = [
    {"type": "function", "name": "look"},
    {"type": "function", "name": "run"},
    {"type": "web_search"},
    {"type": "mcp", "server_label": "docs"},
]
ALLOWED = {"type": "allowed_tools", "mode": "auto"}


def chat_choice(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name}}


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        ("required", True),
        ("none", True),
        (chat_choice("look"), True),
        (chat_choice("run"), False),
        ({"type": "custom", "custom": {"name": "calc"}}, False),
        ({**ALLOWED, "allowed_tools": {"tools": [chat_choice("look")]}}, True),
        ({**ALLOWED, "allowed_tools": {"tools": [chat_choice("run")]}}, False),
    ],
)
def test_a_chat_names_no_tool_that_is_not_offered(choice: Any, kept: bool) -> None:
    more = {"tools": CHAT_TOOLS, "tool_choice": choice, "parallel_tool_calls": False}
    body = {**BODIES[CHAT], **more}
    assert sent(CHAT, body) == body
    new = sent(CHAT, body, offered=["look"])
    assert new["tools"] == [function("look")]
    assert new.get("tool_choice") == (choice if kept else None)
    assert sent(CHAT, body, tools=None) == BODIES[CHAT]


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        ("required", True),
        ({"type": "function", "name": "look"}, True),
        ({"type": "function", "name": "run"}, False),
        ({"type": "web_search"}, True),
        ({"type": "file_search"}, False),
        ({"type": "mcp", "server_label": "docs", "name": "read"}, False),
        ({**ALLOWED, "tools": [{"type": "web_search"}]}, True),
        ({**ALLOWED, "tools": [{"type": "function", "name": "run"}]}, False),
    ],
)
def test_a_response_names_no_tool_that_is_not_offered(choice: Any, kept: bool) -> None:
    more = {"tools": RESPONSE_TOOLS, "tool_choice": choice, "max_tool_calls": 3}
    body = {**BODIES[RESPONSES], **more}
    assert sent(RESPONSES, body) == body
    new = sent(RESPONSES, body, offered=["look", "web_search"])
    assert new["tools"] == [RESPONSE_TOOLS[0], RESPONSE_TOOLS[2]]
    assert new.get("tool_choice") == (choice if kept else None)
    assert sent(RESPONSES, body, tools=None) == BODIES[RESPONSES]


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_a_conversation_that_the_server_keeps_is_told_in_its_instructions(field: str) -> None:
    body = {**BODIES[RESPONSES], "instructions": "Be brief.", field: "one"}
    new = sent(RESPONSES, body, notices=(NOTICE, NOTICE))
    assert new == {**body, "instructions": f"Be brief.\n\n{NOTICE}\n\n{NOTICE}"}
    del body["instructions"]
    assert sent(RESPONSES, body, notices=(NOTICE,)) == {**body, "instructions": NOTICE}


@pytest.mark.parametrize("model", ["claude-haiku-4-5", "anthropic/claude-haiku-4-5", "gpt-4o"])
def test_a_chat_of_claude_with_calls_of_tools_keeps_them_but_may_not_call_them(model: str) -> None:
    result = {"role": "tool", "tool_call_id": "1", "content": "a tomato"}
    body = {**BODIES[CHAT], "model": model, "messages": [HELLO, result]}
    more = {"tools": CHAT_TOOLS, "tool_choice": "required"}
    kept = {"tools": CHAT_TOOLS, "tool_choice": "none"} if "claude" in model else {}
    assert sent(CHAT, {**body, **more}, tools=None) == {**body, **kept}
    asked = {**body, "messages": [HELLO]}
    assert sent(CHAT, {**asked, **more}, tools=None) == asked


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        ({"type": "any"}, True),
        ({"type": "tool", "name": "look"}, True),
        ({"type": "tool", "name": "run"}, False),
    ],
)
def test_a_message_names_no_tool_that_is_not_offered(choice: Any, kept: bool) -> None:
    body = {**BODIES[MESSAGES], "tools": [{"name": "look"}, {"name": "run"}], "tool_choice": choice}
    new = sent(MESSAGES, body, offered=["look"])
    assert new["tools"] == [{"name": "look"}]
    assert new.get("tool_choice") == (choice if kept else None)
    assert sent(MESSAGES, body, tools=None) == BODIES[MESSAGES]


def test_messages_with_calls_of_tools_keep_the_tools_but_may_not_call_them() -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look"}]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1"}]}
    messages = {**BODIES[MESSAGES], "messages": [HELLO, call, result]}
    body = {**messages, "tools": [{"name": "look"}], "tool_choice": {"type": "any"}}
    new = sent(MESSAGES, body, tools=None)
    assert new == {**messages, "tools": [{"name": "look"}], "tool_choice": {"type": "none"}}


@pytest.mark.parametrize(
    ("names", "offered", "kept"),
    [
        (["look"], ["look"], True),
        (["run"], ["look"], False),
        (["look"], ["look", "googleSearch"], True),
        (["look"], ["googleSearch"], False),
    ],
)
def test_a_content_names_no_function_that_is_not_offered(
    names: list[str], offered: list[str], kept: bool
) -> None:
    config = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": names}}
    functions = [{"name": "look"}, {"name": "run"}]
    tools = [{"functionDeclarations": functions[:1], "googleSearch": {}}]
    tools.append({"functionDeclarations": functions[1:]})
    body = {**BODIES[GENERATE], "tools": tools, "toolConfig": config}
    assert sent(GENERATE, body) == body
    new = sent(GENERATE, body, offered=offered)
    look = [{"functionDeclarations": functions[:1]}] if "look" in offered else []
    assert new["tools"] == look + [{"googleSearch": {}}] * ("googleSearch" in offered)
    assert ("toolConfig" in new) == kept
    assert sent(GENERATE, body, tools=None) == BODIES[GENERATE]


@pytest.mark.parametrize(
    ("path", "limits", "most", "lowered"),
    [
        (CHAT, {}, 10, {"max_completion_tokens": 10}),
        (CHAT, {"max_tokens": 50}, 10, {"max_tokens": 10}),
        (CHAT, {"max_completion_tokens": 50}, 10, {"max_completion_tokens": 10}),
        (CHAT, {"max_tokens": 5}, 10, {"max_tokens": 5}),
        (CHAT, {"max_tokens": 50, "n": 3}, 10, {"max_tokens": 3, "n": 3}),
        (CHAT, {"n": 10}, 10, {"max_completion_tokens": 1, "n": 10}),
        (CHAT, {"n": "5"}, 10, {"max_completion_tokens": 2, "n": "5"}),
        (CHAT, {"max_tokens": 50.0, "n": 5.0}, 10, {"max_tokens": 2, "n": 5.0}),
        (
            CHAT,
            {"max_tokens": 50, "max_completion_tokens": 1},
            10,
            {"max_tokens": 10, "max_completion_tokens": 1},
        ),
        (
            COMPLETIONS,
            {"max_completion_tokens": 1},
            10,
            {"max_completion_tokens": 1, "max_tokens": 10},
        ),
        (CHAT, {"max_tokens": None}, 10, {"max_tokens": None, "max_completion_tokens": 10}),
        (COMPLETIONS, {"max_tokens": 50, "best_of": 5}, 10, {"max_tokens": 2, "best_of": 5}),
        (RESPONSES, {}, 10, {"max_output_tokens": 10}),
        (RESPONSES, {"max_output_tokens": 50}, 10, {"max_output_tokens": 10}),
        (MESSAGES, {"max_tokens": 50}, 10, {"max_tokens": 10}),
        (MESSAGES, {"max_tokens": 5}, 10, {"max_tokens": 5}),
    ],
)
def test_the_limit_is_lowered_in_the_field_that_was_used(
    path: str, limits: dict[str, Any], most: int, lowered: dict[str, Any]
) -> None:
    base = {name: value for name, value in BODIES[path].items() if not name.startswith("max_")}
    assert sent(path, {**base, **limits}, max_tokens=most) == {**base, **lowered}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"n": 11}),
        (CHAT, {"n": 10_000, "max_tokens": 1}),
        (COMPLETIONS, {"prompt": ["a"] * 11, "max_tokens": 5}),
        (GENERATE, {"generationConfig": {"candidateCount": 11}}),
        (GENERATE, {"generationConfig": None, "generation_config": {"candidateCount": 11}}),
    ],
)
def test_more_answers_than_tokens_are_not_sent(path: str, body: dict[str, Any]) -> None:
    with pytest.raises(TooLittleLeftError, match="10 tokens, fewer than the answers"):
        sent(path, {**BODIES[path], **body}, max_tokens=10)


def test_a_limit_of_nothing_stays_for_any_number_of_answers() -> None:
    body = {**BODIES[COMPLETIONS], "prompt": ["a"] * 11, "max_tokens": 0}
    assert sent(COMPLETIONS, body, max_tokens=0) == body


@pytest.mark.parametrize(
    ("path", "field"),
    [(CHAT, "max_tokens"), (COMPLETIONS, "max_tokens"), (RESPONSES, "max_output_tokens")],
)
def test_a_limit_that_is_a_text_is_sent_as_the_number_that_is_held(path: str, field: str) -> None:
    for text, held in (("1_000", 1_000), (" 20 ", 20), ("2e1", 20)):
        body = {**BODIES[path], field: text}
        assert sent(path, body) == {**body, field: held}


def test_a_limit_of_google_that_is_given_twice_is_sent_once() -> None:
    twice = {"maxOutputTokens": 50, "max_output_tokens": 90}
    body = {**BODIES[GENERATE], "generationConfig": twice, "generation_config": {"a": 1}}
    new = sent(GENERATE, body, max_tokens=10)
    assert new["generationConfig"] == {"maxOutputTokens": 10}
    assert "generation_config" not in new


def test_a_limit_stays_where_none_is_admitted() -> None:
    for path, body in BODIES.items():
        assert sent(path, body, max_tokens=None) == body


def test_embeddings_have_no_limit() -> None:
    assert sent(EMBEDDINGS, BODIES[EMBEDDINGS], max_tokens=5) == BODIES[EMBEDDINGS]


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_a_stream_asks_for_its_usage(path: str) -> None:
    body = {**BODIES[path], "stream": True}
    usage = {"include_usage": True}
    assert sent(path, body)["stream_options"] == usage
    options = {"include_usage": False, "include_obfuscation": False}
    new = sent(path, {**body, "stream_options": options})
    assert new["stream_options"] == {**options, **usage}


@pytest.mark.parametrize(
    ("budget", "asked", "most", "left"),
    [
        (4_000, 8_000, 4_000, 2_000),
        (1_024, 8_000, 1_100, 1_024),
        (7_999, 8_000, 1_025, 1_024),
        (9_000, 8_000, 4_000, 3_999),
        (4_000, 8_000, 1_024, None),
        (4_000, 8_000, 8_000, 4_000),
    ],
)
def test_what_may_be_thought_stays_below_the_limit(
    budget: int, asked: int, most: int, left: int | None
) -> None:
    thinking = {"type": "enabled", "budget_tokens": budget}
    body = {**BODIES[MESSAGES], "max_tokens": asked, "thinking": thinking}
    new = sent(MESSAGES, body, max_tokens=most)
    assert new["max_tokens"] == most
    assert new.get("thinking") == (None if left is None else {**thinking, "budget_tokens": left})


@given(st.integers(1_024, 9_000), st.integers(1_025, 9_000), st.integers(1, 9_000))
@examples(200)
def test_thinking_is_valid_at_any_lower_limit(budget: int, asked: int, most: int) -> None:
    thinking = {"type": "enabled", "budget_tokens": min(budget, asked - 1)}
    body = {**BODIES[MESSAGES], "max_tokens": asked, "thinking": thinking}
    new = sent(MESSAGES, body, max_tokens=most)
    assert new["max_tokens"] == min(asked, most)
    if "thinking" in new:
        assert 1_024 <= new["thinking"]["budget_tokens"] < new["max_tokens"]
    else:
        assert new["max_tokens"] <= 1_024


def test_thinking_without_a_number_stays() -> None:
    body = {**BODIES[MESSAGES], "max_tokens": 50, "thinking": {"type": "adaptive"}}
    assert sent(MESSAGES, body, max_tokens=10)["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("config", "most", "lowered"),
    [
        ({}, 10, {"maxOutputTokens": 10}),
        ({"maxOutputTokens": 50, "topK": 1}, 10, {"maxOutputTokens": 10, "topK": 1}),
        ({"max_output_tokens": 50}, 10, {"max_output_tokens": 10}),
        ({"maxOutputTokens": 50, "candidateCount": 2}, 10, {"maxOutputTokens": 5}),
        ({"maxOutputTokens": 5}, 10, {"maxOutputTokens": 5}),
        (
            {"maxOutputTokens": 8_000, "thinkingConfig": {"thinkingBudget": 4_000}},
            4_000,
            {"maxOutputTokens": 4_000, "thinkingConfig": {"thinkingBudget": 2_000}},
        ),
        (
            {"maxOutputTokens": 8_000, "thinkingConfig": {"thinkingBudget": 4_000}},
            600,
            {"maxOutputTokens": 600, "thinkingConfig": {"thinkingBudget": 512}},
        ),
        (
            {"thinkingConfig": {"thinkingBudget": 4_000, "includeThoughts": True}},
            500,
            {"maxOutputTokens": 500, "thinkingConfig": {"includeThoughts": True}},
        ),
        (
            {"thinkingConfig": {"thinkingBudget": 4_000}},
            4_096,
            {"maxOutputTokens": 4_096, "thinkingConfig": {"thinkingBudget": 2_048}},
        ),
        (
            {"thinkingConfig": {"thinkingBudget": -1}},
            500,
            {"maxOutputTokens": 500, "thinkingConfig": {"thinkingBudget": -1}},
        ),
    ],
)
def test_the_limit_of_google_is_lowered_with_what_may_be_thought(
    config: dict[str, Any], most: int, lowered: dict[str, Any]
) -> None:
    body = {**BODIES[GENERATE], "generationConfig": config}
    new = sent(GENERATE, body, max_tokens=most)["generationConfig"]
    assert new == {
        **{name: config[name] for name in ("candidateCount",) if name in config},
        **lowered,
    }
    snake = sent(GENERATE, {**BODIES[GENERATE], "generation_config": config}, max_tokens=most)
    assert snake["generation_config"] == new
