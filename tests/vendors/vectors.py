"""Requests, answers and streams as each vendor's API has them."""

import json
from typing import Any

from budget_core.provider import ChatResponse
from budget_core.usage import Usage, read_usage
from budget_cpython.vendors.format import WireFormat
from budget_cpython.vendors.registry import find_format
from budget_cpython.vendors.request import Admitted, LlmRequest

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
EMBEDDINGS = "/v1/embeddings"
MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
GENERATE = "/v1beta/models/gemini-2.5-pro:generateContent"
STREAM = "/v1beta/models/gemini-2.5-pro:streamGenerateContent"
NOTICE = "[Budget notice] Finish soon."


def format_at(path: str) -> WireFormat:
    found = find_format("POST", path)
    assert found is not None
    return found


def has_usage(answer: ChatResponse, report: dict[str, Any] | None) -> bool:
    """Tell whether an answer's usage is what a report says; `None` for no report."""
    usage, read = answer.usage, read_usage(report or None)
    assert isinstance(usage, Usage)
    parts = ("input", "output", "total", "cached", "cache_written", "reasoning", "status")
    return all(getattr(usage, name) == getattr(read, name) for name in parts)


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {}}}


def events(*data: Any, ends: str = "\n", named: bool = False) -> bytes:
    """Return server-sent events; a text is sent as it is."""
    lines = []
    for one in data:
        if named:
            lines.append(f"event: {one['type']}{ends}")
        text = one if isinstance(one, str) else json.dumps(one)
        lines.append(f"data: {text}{ends}{ends}")
    return "".join(lines).encode()


def admit(request: LlmRequest, **changes: Any) -> Admitted:
    """Return a request's admission as it was asked, but for some changes."""
    as_asked: dict[str, Any] = {
        "model": request.model,
        "notices": (),
        "tools": request.tools,
        "max_tokens": request.max_tokens,
    }
    return Admitted(**{**as_asked, **changes})


def sent(path: str, body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return what is sent in place of a body that is admitted with some changes.

    The caller's body stays as it was.
    """
    wire, before = format_at(path), json.dumps(body)
    request = wire.read(body)
    if "offered" in changes:
        names = changes.pop("offered")
        changes["tools"] = [tool for tool in request.tools or () if tool["name"] in names] or None
    new = wire.write(body, admit(request, **changes), request)
    assert json.dumps(body) == before
    return new


def chunk(*deltas: dict[str, Any], **more: Any) -> dict[str, Any]:
    choices = [{"index": index, "delta": delta} for index, delta in enumerate(deltas)]
    return {"object": "chat.completion.chunk", "choices": choices, **more}


CHAT_USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
CHAT_EXTRA = {"object": "chat.completion.chunk", "choices": [], "usage": CHAT_USAGE}
CHAT_STREAM: tuple[Any, ...] = (
    chunk({"role": "assistant", "content": ""}, service_tier="flex"),
    chunk({"reasoning_content": "Hm. "}),
    chunk({"content": "Grüße, "}),
    chunk({"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"a":1}'}}]}),
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    CHAT_EXTRA,
    "[DONE]",
)
CHAT_TEXT = 'Hm. Grüße, look{"a":1}'

COMPLETION_STREAM: tuple[Any, ...] = (
    {"choices": [{"text": "Grüße", "finish_reason": None}]},
    {"choices": [{"text": "!", "finish_reason": "stop"}]},
    {"choices": [], "usage": CHAT_USAGE},
    "[DONE]",
)

RESPONSE_USAGE = {
    "input_tokens": 9,
    "input_tokens_details": {"cached_tokens": 2},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 1},
    "total_tokens": 13,
}
RESPONSE_STREAM: tuple[Any, ...] = (
    {"type": "response.created", "response": {"service_tier": "auto", "usage": None}},
    {"type": "response.reasoning_summary_text.delta", "delta": "Hm. "},
    {"type": "response.output_text.delta", "delta": "Grüße"},
    {"type": "response.audio.delta", "delta": "UklGRg=="},
    {"type": "response.function_call_arguments.delta", "delta": '{"a":1}'},
    {
        "type": "response.completed",
        "response": {"service_tier": "default", "usage": RESPONSE_USAGE},
    },
)

MESSAGE_STREAM: tuple[Any, ...] = (
    {
        "type": "message_start",
        "message": {
            "usage": {"input_tokens": 9, "cache_read_input_tokens": 5, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {"type": "ping"},
    {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "Hm. "}},
    {"type": "content_block_delta", "delta": {"type": "signature_delta", "signature": "x"}},
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Grüße"}},
    {"type": "content_block_start", "content_block": {"type": "tool_use", "name": "look"}},
    {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 4, "input_tokens": None},
    },
    {"type": "message_stop"},
)
MESSAGE_USAGE = {"input_tokens": 9, "cache_read_input_tokens": 5, "output_tokens": 4}

GOOGLE_USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 4, "totalTokenCount": 13}
GOOGLE_STREAM: tuple[Any, ...] = (
    {
        "candidates": [{"content": {"parts": [{"text": "Hm. ", "thought": True}]}}],
        "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9},
    },
    {"candidates": [{"content": {"parts": [{"text": "Grüße"}]}}]},
    {
        "candidates": [{"content": {"parts": [{"text": "!"}]}, "finishReason": "STOP"}],
        "usageMetadata": GOOGLE_USAGE,
    },
)

# path, events, the text in them, the usage, the tier
STREAMS: list[tuple[str, bytes, str, dict[str, Any], str | None]] = [
    (CHAT, events(*CHAT_STREAM), CHAT_TEXT, CHAT_USAGE, "flex"),
    (COMPLETIONS, events(*COMPLETION_STREAM), "Grüße!", CHAT_USAGE, None),
    (
        RESPONSES,
        events(*RESPONSE_STREAM, named=True),
        'Hm. Grüße{"a":1}',
        RESPONSE_USAGE,
        "default",
    ),
    (MESSAGES, events(*MESSAGE_STREAM, named=True), "Hm. Grüßelook{}", MESSAGE_USAGE, None),
    (STREAM, events(*GOOGLE_STREAM, ends="\r\n"), "Hm. Grüße!", GOOGLE_USAGE, None),
]
