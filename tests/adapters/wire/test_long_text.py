"""Texts of a large body: they count like those of a small one, and take no more than letters."""

import json
import tracemalloc
from typing import Any

import pytest

from budget_core.usage_estimate import estimate_tokens
from budget_cpython.adapters.wire import text_bytes
from tests.adapters.wire.vectors import (
    CHAT,
    COMPLETIONS,
    EMBEDDINGS,
    GENERATE,
    MESSAGES,
    RESPONSES,
    format_at,
)


def of_texts(text: str, count: int) -> dict[str, dict[str, Any]]:
    part = {"type": "text", "text": text}
    tool = {"type": "function", "name": text, "function": {"name": text, "description": text}}
    call = {"id": "1", "function": {"name": text, "arguments": text}}
    message = {"role": "user", "content": [part, text], "tool_calls": [call]}
    result = {"type": "tool_result", "content": [part], "input": {"a": [text]}}
    made = {"text": text, "functionResponse": {"name": text, "response": {"a": [text]}}}
    item = {"type": "function_call", "name": text, "arguments": text}
    return {
        CHAT: {"messages": [message] * count, "tools": [tool]},
        COMPLETIONS: {"prompt": [text] * (2 * count)},
        EMBEDDINGS: {"input": [[text], text, "a"] * count},
        RESPONSES: {"input": [message, item] * count, "instructions": text, "tools": [tool]},
        MESSAGES: {"messages": [{"content": [part, result]}] * count, "system": [part]},
        GENERATE: {"contents": [{"parts": [made]}] * count, "systemInstruction": {"parts": [part]}},
    }


@pytest.mark.parametrize("text", ["a tomato", "é", "模型", "a tomato \U0001f600", "\ud83d"])
@pytest.mark.parametrize("path", of_texts("", 0))
def test_texts_in_any_letters_count_alike_in_a_large_body(path: str, text: str) -> None:
    body = {"model": text, **of_texts(text, 3_000)[path]}
    wire = format_at(path)
    fields = wire.parse(json.dumps(body).encode())
    large, small = wire.read(fields), wire.read(body)
    for one in (estimate_tokens, len):
        assert one(large.messages) == one(small.messages)
    assert estimate_tokens([], large.tools) == estimate_tokens([], small.tools)
    assert large.model == small.model
    assert [one["name"] for one in large.tools or ()] == [one["name"] for one in small.tools or ()]
    assert json.loads(wire.content({**fields, "seed": 5})) == {**body, "seed": 5}


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, EMBEDDINGS, MESSAGES, GENERATE])
def test_an_emoji_in_each_short_text_takes_no_more_memory_than_letters(path: str) -> None:
    text = "a" * 180 + "\U0001f600"
    part = {"text": text}
    bodies: dict[str, dict[str, Any]] = {
        CHAT: {"messages": [{"content": [part] * 20_000}]},
        COMPLETIONS: {"prompt": [text] * 20_000},
        EMBEDDINGS: {"input": [[text] * 20] * 1_000},
        MESSAGES: {"messages": [{"content": [part] * 20_000}]},
        GENERATE: {"contents": [{"parts": [part] * 20_000}]},
    }
    content = json.dumps({"model": "m", **bodies[path]}).encode()
    wire = format_at(path)
    tracemalloc.start()
    try:
        fields = wire.parse(content)
        wire.read(fields).counted(*text_bytes(fields))
        wire.content({**fields, "max_tokens": 5})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most <= 3.5 * len(content)  # beside the content itself
