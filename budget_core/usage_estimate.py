"""Estimate tokens where nobody has counted them."""

from budget_core.errors import ProviderError
from budget_core.usage import INVALID, MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Messages, Tools

_A_MESSAGE = 4  # tokens: its role, and the marks around it
_MOST_JSON = 262_144  # bytes: a structure that contains itself has no end


def estimate_tokens(messages: "Messages", tools: "Tools | None" = None) -> int:
    """Return an estimate of the prompt tokens that messages and tools come to.

    It is a token for every four UTF-8 bytes, rounded up, of all texts (contents, names and
    arguments of tool calls, the JSON of `tools`), and four tokens a message. What is no text, as an
    image is none, counts nothing. Never raises, whatever it is given.
    """
    size = marks = 0
    for message in messages if isinstance(messages, (list, tuple)) else ():
        marks += _A_MESSAGE
        try:
            size += _message_bytes(message)
        except Exception:  # noqa: BLE001, S110 - what cannot be read is not counted
            pass
    try:
        size += 0 if tools is None else _json_bytes(tools)
    except Exception:  # noqa: BLE001, S110 - what cannot be read is not counted
        pass
    return tokens_in(size) + marks


def estimated_report(prompt: int, completion: int) -> "dict[str, Any]":
    """Return a usage report of so many tokens that says it is an estimate."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "estimated": True,
    }


def better_report(usage: "Any", response: "Any", messages: "Any", tools: "Any") -> "Any":
    """Return a call's usage report, or an estimate that is not lower where it says too little.

    The estimate is of the prompt and of the answer, which may be `None`.
    """
    from budget_core.usage_reports import (
        read_report,  # loaded for the first report that is not plain
    )

    tokens, _, status = read_report(usage)
    if status not in (INVALID, MISSING):
        return usage
    calls = getattr(response, "tool_calls", None)
    answer = {
        "content": getattr(response, "content", None),
        "tool_calls": [
            {"function": {name: getattr(call, name, None) for name in ("name", "arguments")}}
            for call in (calls if isinstance(calls, (list, tuple)) else ())
        ],
    }
    completion = 0 if response is None else estimate_tokens([answer])
    estimate = estimated_report(estimate_tokens(messages, tools), completion)
    return estimate if estimate["total_tokens"] >= tokens else usage


def is_billed(error: BaseException) -> bool:
    """Tell whether a call that failed may cost something: not if it was refused, or never sent."""
    if isinstance(error, ProviderError):
        return error.sent and error.status < 400
    return getattr(error, "sent", True)


def tokens_in(size: int) -> int:
    """Return an estimate of the tokens in `size` bytes of text."""
    return (size + 3) // 4


def bytes_in(text: "Any") -> int:
    """Return how many UTF-8 bytes a text has, 0 for what is no text."""
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0


def _message_bytes(message: "Any") -> int:
    content = _field(message, "content")
    size = bytes_in(content)
    for part in content if isinstance(content, (list, tuple)) else ():
        size += bytes_in(part) + bytes_in(_field(part, "text"))
    calls = _field(message, "tool_calls")
    for call in calls if isinstance(calls, (list, tuple)) else ():
        function = _field(call, "function")
        arguments = _field(function, "arguments")
        size += bytes_in(_field(function, "name")) + bytes_in(arguments)
        if isinstance(arguments, dict):
            size += _json_bytes(arguments)
    return size


def _field(value: "Any", name: str) -> "Any":
    return value.get(name) if isinstance(value, dict) else None


def _json_bytes(value: "Any") -> int:
    """Return about how long a value is as JSON: escapes are left out, a number counts as four.

    The runtimes' own JSON differs in length, and would be built only to be measured.
    """
    size = 0
    waiting = [value]
    while waiting and size < _MOST_JSON:
        item = waiting.pop()
        if isinstance(item, str):
            size += 2 + bytes_in(item)
        elif isinstance(item, dict):
            size += max(2, 4 * len(item))
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            size += max(2, 2 * len(item))
            waiting.extend(item)
        else:
            size += 4
    return size
