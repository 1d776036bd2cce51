"""Check an endpoint's answer: it may be cut short, malformed or hostile."""

import json

from budget_core.errors import ProviderError
from budget_core.provider import ChatResponse, ToolCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_DEPTH = 32


def parse_answer(body: bytes) -> ChatResponse:
    """Return the answer in a completion object; `ProviderError` if it is malformed."""
    data: Any = parse_object(body)
    if data is None:
        raise ProviderError(200, "the answer is not JSON, or broke off")
    try:
        choice = data["choices"][0]
        message = choice["message"]
        content = message.get("content")
        calls = [
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]
        usage, tier, model = data.get("usage"), data.get("service_tier"), data.get("model")
        return make_answer(content, calls, choice.get("finish_reason"), usage, tier, model)
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ProviderError(200, "the answer is not a chat completion")


def make_answer(
    content: "Any",
    calls: "list[ToolCall]",
    finish_reason: "Any",
    usage: "Any",
    tier: "Any",
    model: "Any",
) -> ChatResponse:
    """Return a response from the parts of an answer, each checked.

    `calls` come with their arguments as the model wrote them.
    """
    for call in calls:
        if not isinstance(call.id, str) or not isinstance(call.name, str):
            raise ProviderError(200, "the answer calls a tool without id or name")
        call.arguments = parse_object(call.arguments)
    if not isinstance(content, str):
        content = text_of_parts(content) or None
    if not isinstance(finish_reason, str):
        finish_reason = "tool_calls" if calls else "stop"
    response = ChatResponse(content, calls, finish_reason, usage)
    cost = usage.get("cost") if isinstance(usage, dict) else None
    if isinstance(cost, (int, float)) and not isinstance(cost, bool):
        response.cost = cost
    if isinstance(tier, str):
        response.service_tier = tier
    if isinstance(model, str):
        response.model = model
    return response


def text_of_parts(content: "Any") -> str:
    """Return the text of an answer's content, which some models send in parts."""
    text = ""
    for part in content if isinstance(content, list) else ():
        value = part.get("text") if isinstance(part, dict) else part
        text += value if isinstance(value, str) else text_of_parts(value)
    return text


def parse_object(text: "Any") -> "dict[str, Any] | None":
    """Return the JSON object in a text or its bytes; `None` for a part of one or anything else.

    MicroPython 1.25 loads JSON that is cut short, and cannot write what is nested deeply; CPython
    loads `NaN`.
    """
    try:
        data = text if isinstance(text, bytes) else text.encode()
    except (AttributeError, ValueError):
        return None
    depth = 0
    quoted = escaped = False
    for byte in data:
        if quoted:
            quoted = escaped or byte not in b'"'
            escaped = not escaped and byte in b"\\"
        elif byte in b'"':
            quoted = True
        elif byte in b"{[":
            depth += 1
        elif byte in b"}]":
            depth -= 1
        if depth > _MAX_DEPTH or (byte in b"NI" and not quoted):
            return None
    try:
        value = None if depth or quoted else parse_json(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_json(data: bytes) -> "Any":
    """Return the value in `data`, its strings fit to be printed and sent; `ValueError` if none.

    MicroPython leaves a character that was escaped as a surrogate pair in its two halves.
    """
    try:
        value = json.loads(data)
        if b"\\ud" in data or b"\\uD" in data:
            from budget_core.chat.surrogates import joined  # loaded for the first such character

            return joined(value)
        return value
    except RuntimeError:
        raise ValueError("nested too deeply")
