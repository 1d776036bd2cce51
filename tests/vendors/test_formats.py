"""Which format a request has, what it asks for, and what an answer says."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budget_core.usage import Usage
from budget_core.usage_estimate import estimate_tokens
from budget_cpython.vendors.registry import find_format
from budget_cpython.vendors.request import TooLittleLeftError
from tests.properties import examples
from tests.vendors.vectors import (
    CHAT,
    CHAT_USAGE,
    COMPLETIONS,
    COUNT,
    EMBEDDINGS,
    GENERATE,
    GOOGLE_USAGE,
    MESSAGE_USAGE,
    MESSAGES,
    RESPONSE_USAGE,
    RESPONSES,
    STREAM,
    admit,
    format_at,
    function,
    has_usage,
)

PATHS = (CHAT, COMPLETIONS, RESPONSES, EMBEDDINGS, MESSAGES, COUNT, GENERATE, STREAM)


@pytest.mark.parametrize(
    ("path", "vendor"),
    [
        (CHAT, "openai"),
        ("/api/v1/chat/completions/", "openai"),
        ("/openai/deployments/my%2Fmodel/chat/completions", "openai"),
        (COMPLETIONS, "openai"),
        (RESPONSES, "openai"),
        (EMBEDDINGS, "openai"),
        (MESSAGES, "anthropic"),
        ("/anthropic/v1/messages", "anthropic"),
        (COUNT, "anthropic"),
        (GENERATE, "google"),
        (STREAM, "google"),
        ("/v1/projects/p/locations/l/publishers/google/models/m:generateContent", "google"),
        ("/v1beta/models/m:countTokens", "google"),
        ("/v1beta/tunedModels/m:generateContent", "google"),
        ("/v1/projects/p/locations/l/endpoints/1:streamGenerateContent", "google"),
        ("/v1beta/models/m%3AgenerateContent", "google"),
        ("/v1beta/models/a%3ab%3astreamGenerateContent", "google"),
    ],
)
def test_a_path_says_which_format_a_request_has(path: str, vendor: str) -> None:
    assert format_at(path).vendor == vendor
    assert find_format("get", path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/models",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/v1/threads/t/messages",
        "/v1/chat/completions/c",
        "/v1beta/models/m",
    ],
)
def test_other_paths_have_none(path: str) -> None:
    assert find_format("POST", path) is None


def test_counting_tokens_is_not_held() -> None:
    free = [path for path in (*PATHS, "/v1/models/m:countTokens") if not format_at(path).held]
    assert free == [COUNT, "/v1/models/m:countTokens"]


def test_a_chat_request_is_read() -> None:
    tools = [function("look"), {"type": "custom", "custom": {"name": "run"}}]
    messages = [{"role": "user", "content": "Hello"}]
    body = {"model": "m", "messages": messages, "tools": tools, "service_tier": "flex"}
    request = format_at(CHAT).read({**body, "max_completion_tokens": 7, "n": 3, "stream": True})
    assert (request.model, request.service_tier) == ("m", "flex")
    assert estimate_tokens(request.messages) == estimate_tokens(messages)
    assert request.tools == [
        {"name": "look", "native": tools[0]},
        {"name": "run", "native": tools[1]},
    ]
    assert (request.max_tokens, request.stream) == (21, True)
    assert format_at(CHAT).read({"max_tokens": 5}).max_tokens == 5
    assert format_at(CHAT).read({"max_tokens": 5, "max_completion_tokens": 1}).max_tokens == 5
    assert format_at(CHAT).read({"max_tokens": "5", "n": 2.0}).max_tokens == 10
    assert format_at(CHAT).read({"max_tokens": "many", "n": "two"}).max_tokens is None
    assert format_at(CHAT).read({"max_tokens": 1.5, "n": float("inf")}).max_tokens is None
    assert format_at(CHAT).read({}).max_tokens is None


def test_the_deployment_of_azure_answers_whatever_model_the_body_names() -> None:
    path = "/openai/deployments/gpt%2Fx/chat/completions"
    assert format_at(path).read({}).model == "gpt/x"
    assert format_at(path).read({"model": "m"}).model == "gpt/x"
    in_capitals = "/OpenAI/Deployments/gpt%2Fx/chat/completions"
    assert format_at(in_capitals).read({"model": "m"}).model == "gpt/x"
    assert format_at(path).path_for("a/b") == "/openai/deployments/a%2Fb/chat/completions"
    assert format_at(CHAT).path_for("a") == CHAT


def test_a_legacy_completion_is_read() -> None:
    request = format_at(COMPLETIONS).read({"model": "m", "prompt": ["a", "b"], "best_of": 3})
    assert request.max_tokens is None
    assert estimate_tokens(request.messages) == 1 + 2 * estimate_tokens([{}])
    body = {"prompt": "a", "max_tokens": 5, "n": 2}
    assert format_at(COMPLETIONS).read(body).max_tokens == 10


def test_all_of_a_responses_input_is_estimated() -> None:
    long = "x" * 400
    request = format_at(RESPONSES).read(
        {
            "model": "m",
            "instructions": long,
            "max_output_tokens": 9,
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": long}]},
                {"type": "function_call", "name": "look", "arguments": long},
                {"type": "function_call_output", "output": long},
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": long}]},
                "not an item",
            ],
        }
    )
    assert (request.model, request.max_tokens, request.stream) == ("m", 9, False)
    assert 500 < estimate_tokens(request.messages) < 550
    said = format_at(RESPONSES).read({"input": long, "instructions": long}).messages
    assert estimate_tokens(said) == 208


def test_the_tools_of_responses_have_their_name_or_their_type() -> None:
    tools = [{"type": "function", "name": "look"}, {"type": "web_search"}]
    tools.append({"type": "mcp", "server_label": "docs"})
    request = format_at(RESPONSES).read({"tools": tools})
    assert [tool["name"] for tool in request.tools or ()] == ["look", "web_search", "docs"]


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("x" * 40, 14), (["x" * 40] * 2, 28), ([7] * 10, 14), ([[7] * 10] * 2, 28), (None, 0)],
)
def test_the_input_of_embeddings_is_text_or_tokens(prompt: Any, tokens: int) -> None:
    request = format_at(EMBEDDINGS).read({"model": "m", "input": prompt})
    assert (request.max_tokens, estimate_tokens(request.messages)) == (0, tokens)


def test_all_of_a_message_of_anthropic_is_estimated() -> None:
    long = "x" * 400
    call = {"type": "tool_use", "id": "1", "name": "look", "input": {"a": long}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": long}
    results = {"type": "tool_result", "content": [{"type": "text", "text": long}]}
    request = format_at(MESSAGES).read(
        {
            "model": "m",
            "max_tokens": 9,
            "system": [{"type": "text", "text": long}],
            "messages": [
                {"role": "user", "content": long},
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result, results]},
            ],
            "tools": [{"name": "look"}, {"type": "web_search_20250305", "name": "web_search"}],
            "service_tier": "standard_only",
        }
    )
    assert (request.model, request.max_tokens, request.service_tier) == ("m", 9, None)
    assert 500 < estimate_tokens(request.messages) < 540
    assert [tool["name"] for tool in request.tools or ()] == ["look", "web_search"]


@pytest.mark.parametrize("snake", [False, True])
def test_a_request_of_google_is_read_by_either_name_of_its_fields(snake: bool) -> None:
    long = {"parts": [{"text": "x" * 400}]}
    functions = [{"name": "look"}, {"name": "run"}]
    if snake:
        tools: list[Any] = [{"function_declarations": functions, "google_search": {}}]
        config = {"max_output_tokens": 9, "candidate_count": 2}
        body = {"system_instruction": long, "generation_config": config}
    else:
        tools = [{"functionDeclarations": functions, "googleSearch": {}}]
        config = {"maxOutputTokens": 9, "candidateCount": 2}
        body = {"systemInstruction": long, "generationConfig": config}
    contents = [{"role": "user", **long}, {"parts": [{"functionResponse": {"x": "y" * 400}}]}]
    request = format_at(STREAM).read({**body, "contents": contents, "tools": tools})
    assert (request.model, request.max_tokens, request.stream) == ("gemini-2.5-pro", 18, True)
    assert 300 < estimate_tokens(request.messages) < 330
    names = ["look", "run", "google_search" if snake else "googleSearch"]
    assert [tool["name"] for tool in request.tools or ()] == names
    assert not format_at(GENERATE).read({}).stream


def test_the_model_of_google_is_in_the_path() -> None:
    assert format_at("/v1/models/a%20b:generateContent").read({}).model == "a b"
    tuned = format_at("/v1beta/tunedModels/mine:generateContent")
    assert tuned.read({}).model == "mine"
    assert tuned.path_for("x") == "/v1beta/models/x:generateContent"
    endpoint = format_at("/v1/projects/p/locations/l/endpoints/1:generateContent")
    assert endpoint.read({}).model == "1"
    place = "/v1/projects/p/locations/l/publishers/google/models"
    assert endpoint.path_for("x") == f"{place}/x:generateContent"
    encoded = format_at("/v1/models/a%3Ab%3AgenerateContent")
    assert encoded.read({}).model == "a:b"
    assert encoded.path_for("x") == "/v1/models/x:generateContent"
    assert format_at(STREAM).path_for("x") == "/v1beta/models/x:streamGenerateContent"


@pytest.mark.parametrize(
    ("path", "body", "text", "usage", "tier"),
    [
        (
            CHAT,
            {
                "choices": [
                    {"message": {"content": "a", "reasoning_content": "Hm", "refusal": None}},
                    {"message": {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}},
                ],
                "usage": CHAT_USAGE,
                "service_tier": "flex",
            },
            "aHmf{}",
            CHAT_USAGE,
            "flex",
        ),
        (COMPLETIONS, {"choices": [{"text": "a"}], "usage": CHAT_USAGE}, "a", CHAT_USAGE, None),
        (
            RESPONSES,
            {
                "output": [
                    {"type": "reasoning", "summary": [{"text": "Hm"}]},
                    {"type": "message", "content": [{"type": "output_text", "text": "a"}]},
                    {"type": "function_call", "name": "f", "arguments": "{}"},
                ],
                "usage": RESPONSE_USAGE,
                "service_tier": "default",
            },
            "Hmaf{}",
            RESPONSE_USAGE,
            "default",
        ),
        (RESPONSES, {"status": "queued", "output": [], "usage": None}, "", {}, None),
        (
            MESSAGES,
            {
                "content": [
                    {"type": "thinking", "thinking": "Hm"},
                    {"type": "text", "text": "a"},
                    {"type": "tool_use", "name": "f", "input": {"b": 1}},
                ],
                "usage": MESSAGE_USAGE,
            },
            "Hmaf{'b': 1}",
            MESSAGE_USAGE,
            None,
        ),
        (
            GENERATE,
            {
                "candidates": [{"content": {"parts": [{"text": "a"}]}}],
                "usageMetadata": GOOGLE_USAGE,
            },
            "a",
            GOOGLE_USAGE,
            None,
        ),
    ],
)
def test_an_answer_is_read(
    path: str, body: dict[str, Any], text: str, usage: dict[str, Any], tier: str | None
) -> None:
    answer = format_at(path).answer(body)
    assert (answer.content, answer.service_tier) == (text, tier)
    assert has_usage(answer, usage)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=10,
)
NAMES = """
model messages tools max_tokens max_completion_tokens max_output_tokens n stream content
stream_options input instructions system thinking tool_choice contents generationConfig
usage choices output candidates usageMetadata parts function name prompt delta type
service_tier functionDeclarations toolConfig response message
"""
BODIES = st.recursive(
    JSON,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(NAMES.split()), BODIES), BODIES, st.sampled_from(PATHS))
@examples(200)
def test_json_of_any_form_is_read_and_written(body: Any, answer: Any, path: str) -> None:
    wire = format_at(path)
    request = wire.read(body)
    admitted = admit(request, model="other", notices=("[Budget]",), tools=None, max_tokens=9)
    with suppress(TooLittleLeftError):  # as for ten answers in nine tokens
        wire.write(body, admitted, request)
    wire.write(body, admit(request), request)
    estimate_tokens(request.messages, request.tools)
    assert isinstance(wire.answer(answer).usage, Usage)
    reader = wire.stream_reader(request)
    for event in (body, answer if isinstance(answer, dict) else {}):
        text, _ = reader.take(event)
        assert isinstance(text, str)


SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}


@pytest.mark.parametrize(
    ("path", "body", "found"),
    [
        (CHAT, {}, {"is_free": True, "is_structured": False, "hosted": (), "answers": 1}),
        (CHAT, {"tools": [function("f")], "tool_choice": "auto"}, {"is_free": True, "hosted": ()}),
        (CHAT, {"tools": [function("f")], "tool_choice": "required"}, {"is_free": False}),
        (CHAT, {"tools": [function("f")], "tool_choice": function("f")}, {"is_free": False}),
        (
            CHAT,
            {
                "tools": [function("f")],
                "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}},
            },
            {"is_free": True},
        ),
        (
            CHAT,
            {"web_search_options": {}, "n": 3},
            {"hosted": (("web_search", None),), "answers": 3},
        ),
        (CHAT, {"response_format": SCHEMA}, {"is_structured": True}),
        (CHAT, {"response_format": {"type": "text"}}, {"is_structured": False}),
        (CHAT, {"stream_options": {"include_usage": True}}, {"wants_usage": True}),
        (CHAT, {"model": "a", "models": ["b", "c"]}, {"models": ("a", "b", "c")}),
        (
            RESPONSES,
            {
                "tools": [{"type": "web_search"}, {"type": "function", "name": "f"}],
                "max_tool_calls": 2,
            },
            {"hosted": (("web_search", 2),), "is_free": True},
        ),
        (
            RESPONSES,
            {"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}},
            {"hosted": (("web_search", None),), "is_free": False},
        ),
        (RESPONSES, {"text": {"format": {"type": "json_schema"}}}, {"is_structured": True}),
        (
            MESSAGES,
            {"tools": [SEARCH, {"name": "f"}], "speed": "fast", "inference_geo": "us"},
            {"hosted": (("web_search_20250305", 3),), "speed": "fast", "region": "us"},
        ),
        (MESSAGES, {"tools": [SEARCH], "tool_choice": {"type": "any"}}, {"is_free": False}),
        (MESSAGES, {"output_config": {"format": SCHEMA}}, {"is_structured": True}),
        (
            GENERATE,
            {
                "tools": [{"googleSearch": {}, "functionDeclarations": [{"name": "f"}]}],
                "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
                "generationConfig": {"responseMimeType": "application/json", "candidateCount": 2},
            },
            {
                "hosted": (("googleSearch", None),),
                "is_free": False,
                "is_structured": True,
                "answers": 2,
            },
        ),
        (GENERATE, {"service_tier": "flex"}, {"service_tier": "flex", "is_free": True}),
    ],
)
def test_a_request_says_what_its_price_and_its_changes_hang_on(
    path: str, body: dict[str, Any], found: dict[str, Any]
) -> None:
    request = format_at(path).read(body)
    assert {name: getattr(request, name) for name in found} == found
