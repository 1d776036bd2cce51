"""Check an endpoint's answer: it may be cut short, malformed or hostile."""

import json

from budget_core.errors import ProviderError
from budget_core.provider import ChatResponse, ToolCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MAX_DEPTH = 32


def parse_answer(body: bytes, framed: bool = True) -> ChatResponse:
    """Return the answer in a completion object; `ProviderError` if it is malformed.

    Where `framed` is false, the end of the connection was the only sign of the body's end.
    """
    try:
        if not framed and not _is_whole(body.decode()):
            raise ValueError
        data = parse_json(body)
    except ValueError:
        raise ProviderError(200, "the answer is not JSON, or broke off")
    try:
        choice = data["choices"][0]
        message = choice["message"]
        content = message.get("content")
        calls = [
            ToolCall(call["id"], call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or ()
        ]
        return make_answer(content, calls, choice.get("finish_reason"), data.get("usage"))
    except (AttributeError, IndexError, KeyError, TypeError):
        raise ProviderError(200, "the answer is not a chat completion")


def make_answer(
    content: "Any", calls: "list[ToolCall]", finish_reason: "Any", usage: "Any"
) -> ChatResponse:
    """Return a response from the parts of an answer, each checked.

    `calls` come with their arguments as the model wrote them.
    """
    for call in calls:
        if not isinstance(call.id, str) or not isinstance(call.name, str):
            raise ProviderError(200, "the answer calls a tool without id or name")
        call.arguments = parse_object(call.arguments)
    if not isinstance(content, str):
        content = None
    if not isinstance(finish_reason, str):
        finish_reason = "tool_calls" if calls else "stop"
    return ChatResponse(content, calls, finish_reason, usage)


def parse_object(text: "Any") -> "dict[str, Any] | None":
    """Return the JSON object in `text`, or `None` where it holds anything else or only a part."""
    if not isinstance(text, str) or not _is_whole(text):
        return None
    try:
        value = parse_json(text.encode())
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_json(data: bytes) -> "Any":
    """Return the value in `data`, its strings fit to be printed and sent; `ValueError` if none.

    MicroPython leaves a character that was escaped as a surrogate pair in its two halves.
    """
    try:
        value = json.loads(data)
        return _repaired(value) if b"\\ud" in data or b"\\uD" in data else value
    except RuntimeError:
        raise ValueError("nested too deeply")


def complaint(body: bytes) -> str:
    """Return what an endpoint says is wrong, in any of the usual shapes."""
    try:
        data = parse_json(body)
        error = data.get("error") or data.get("message") or data.get("detail")
        text = error.get("message") if isinstance(error, dict) else error
    except (AttributeError, ValueError):
        text = None
    return text if text and isinstance(text, str) else "the endpoint refused the request"


def _is_whole(text: str) -> bool:
    """Tell whether every bracket is closed, nothing is nested too deeply, and no `NaN` is in it.

    MicroPython 1.25 loads what is cut short and cannot write what is deep; CPython loads `NaN`.
    """
    depth = 0
    quoted = escaped = False
    for char in text:
        if quoted:
            quoted = escaped or char != '"'
            escaped = char == "\\" and not escaped
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
        if depth > _MAX_DEPTH or (char in "NI" and not quoted):
            return False
    return depth == 0 and not quoted


def _repaired(value: "Any") -> "Any":
    if isinstance(value, str):
        return _joined(value)
    if isinstance(value, list):
        return [_repaired(item) for item in value]
    if isinstance(value, dict):
        return {_joined(name): _repaired(item) for name, item in value.items()}
    return value


def _joined(text: str) -> str:
    """Return `text` with pairs of surrogates joined, and a replacement for each that is alone."""
    codes: list[int] = []
    for char in text:
        code = ord(char)
        if 0xDC00 <= code < 0xE000 and codes and 0xD800 <= codes[-1] < 0xDC00:
            codes[-1] = 0x10000 + ((codes[-1] & 0x3FF) << 10) + (code & 0x3FF)
        else:
            codes.append(code)
    return "".join([chr(0xFFFD if 0xD800 <= code < 0xE000 else code) for code in codes])
