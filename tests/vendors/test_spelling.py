"""Keys that only their case keeps from being read are refused."""

import json
from typing import Any

import pytest

from budget_cpython.vendors.body import check_spelling, decode
from budget_cpython.vendors.request import UnreadableRequestError

PLAIN: Any = {
    "model": "m",
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": {"Text": 1}}]},
        {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"Data": 1}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"URL": ""}}}]},
    ],
    "stream_options": {"include_usage": True},
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"Model": {}}}}],
    "metadata": {"Model": "x", "N": "y"},
}


def test_keys_as_they_are_written_pass() -> None:
    check_spelling(PLAIN)
    assert decode(json.dumps(PLAIN).encode()) == PLAIN
    check_spelling({"generationConfig": {"maxOutputTokens": 5, "max_output_tokens": 5}})


@pytest.mark.parametrize(
    "more",
    [
        {"Model": "m"},
        {"MAX_TOKENS": 5},
        {"Stream": True},
        {"me\u017f\u017fages": []},
        {"stream_options": {"Include_Usage": True}},
        {"messages": [{"role": "user", "Content": "Hi"}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "TEXT": "Hi"}]}]},
        {"generationConfig": {"MaxOutputTokens": 5}},
        {"generationConfig": {"thinkingConfig": {"ThinkingBudget": 5}}},
        {"contents": {"parts": [{"Text": "Hi"}]}},
        {"contents": [{"parts": [{"inlineData": {"MimeType": "audio/wav", "data": ""}}]}]},
        {"messages": [{"content": [{"type": "image_url", "image_url": {"Detail": "high"}}]}]},
        {"messages": [{"content": [{"type": "file", "file": {"File_Data": "", "file_data": ""}}]}]},
        {"messages": [{"content": [{"type": "image", "source": {"Data": "", "data": ""}}]}]},
        {"messages": [{"tool_calls": [{"function": {"name": "f", "Arguments": "{}"}}]}]},
    ],
)
def test_a_key_in_another_case_is_refused(more: Any) -> None:
    with pytest.raises(UnreadableRequestError, match="write it as"):
        decode(json.dumps({**PLAIN, **more}).encode())
