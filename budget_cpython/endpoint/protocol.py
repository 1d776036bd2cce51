"""Check a chat-completions request, and the error for an invalid one."""

import re
from typing import Any, Final

Json = dict[str, Any]

_FUNCTION: Final = {
    "name": re.compile(r"[A-Za-z0-9_-]{1,64}"),
    "description?": str,
    "parameters?": dict,
}
_CALL: Final = {"id": str, "type": ("function",), "function": {"name": str, "arguments": str}}
_MESSAGE: Final = {
    "role": ("developer", "system", "user", "assistant", "tool", "function"),
    "tool_calls?": [_CALL],
    "tool_call_id?": str,
}
_REQUEST: Final = {
    "model": re.compile(".+"),
    "messages": [_MESSAGE],
    "tools?": [{"type": ("function",), "function": _FUNCTION}],
    "stream?": bool,
    "stream_options?": dict,
    "n?": (1,),
    "max_tokens?": int,
    "max_completion_tokens?": int,
}
_PART: Final = {"type": str, "text?": str}
_CHOICE: Final = {"type": ("function",), "function": {"name": str}}
_CHOICES: Final = ("none", "auto", "required")
_KINDS: Final = {str: "a string", bool: "a boolean", int: "an integer", dict: "an object"}


class ApiError(Exception):
    """A refusal: a status, OpenAI's error body, extra headers."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}


def check_request(body: Json) -> None:
    """Raise a 400 that names the invalid field, if there is one."""
    _match(body, _REQUEST, "")
    _check_turns(body["messages"])
    choice = body.get("tool_choice")
    if choice is not None:
        _rule(body.get("tools"), "tool_choice", "is only allowed with 'tools'.")
        _match(choice, _CHOICE if isinstance(choice, dict) else _CHOICES, "tool_choice")
    streams = body.get("stream") or body.get("stream_options") is None
    _rule(streams, "stream_options", "is only allowed with 'stream'.")
    limits = [
        name for name in ("max_tokens", "max_completion_tokens") if body.get(name) is not None
    ]
    for name in limits:
        _rule(body[name] >= 1, name, "must be 1 or more.")
    _rule(len(limits) < 2, "max_tokens", "excludes 'max_completion_tokens'.")


def _check_turns(messages: list[Json]) -> None:
    """Check that each tool call is answered once, before any other message."""
    pending: set[str] = set()
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        _check_content(message, f"{place}.content")
        calls = message.get("tool_calls") or ()
        if message["role"] == "tool":
            rule = "must answer one of the preceding 'tool_calls'."
            _rule(message.get("tool_call_id") in pending, f"{place}.tool_call_id", rule)
            pending.remove(message["tool_call_id"])
        else:
            _rule(not pending, place, f"must be tool results for: {', '.join(sorted(pending))}.")
            pending = {call["id"] for call in calls}
        spoken = not calls or message["role"] == "assistant"
        _rule(spoken, f"{place}.tool_calls", "belong to role 'assistant'.")
    _rule(not pending, "messages", f"lack tool results for: {', '.join(sorted(pending))}.")


def _check_content(message: Json, place: str) -> None:
    content = message.get("content")
    if isinstance(content, list):
        _match(content, [_PART], place)
        for index, part in enumerate(content):
            _rule(
                part["type"] != "text" or "text" in part, f"{place}[{index}].text", "is required."
            )
    elif content is not None or message["role"] != "assistant" or not message.get("tool_calls"):
        _match(content, str, place)


def _match(value: Any, shape: Any, place: str) -> None:
    """Compare with a shape: a type, a pattern, a choice, a filled list or an object's fields."""
    if isinstance(shape, list):
        _rule(isinstance(value, list) and value, place, "must be an array that is not empty.")
        for index, item in enumerate(value):
            _match(item, shape[0], f"{place}[{index}]")
    elif isinstance(shape, tuple):
        _rule(value in shape, place, f"must be one of: {', '.join(map(str, shape))}.")
    elif isinstance(shape, re.Pattern):
        valid = isinstance(value, str) and shape.fullmatch(value)
        _rule(valid, place, f"must be a string like {shape.pattern}.")
    elif isinstance(shape, dict):
        _match(value, dict, place)
        for name, inner in shape.items():
            field = name.removesuffix("?")
            if value.get(field) is not None or field == name:
                _match(value.get(field), inner, f"{place}.{field}".lstrip("."))
    else:
        _rule(type(value) is shape, place, f"must be {_KINDS[shape]}.")  # a bool is not an integer


def _rule(holds: object, place: str, rule: str) -> None:
    if not holds:
        raise ApiError(400, f"Invalid request: '{place}' {rule}", param=place, code="invalid_value")
