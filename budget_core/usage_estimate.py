"""Estimate tokens that were not counted."""

from budget_core.usage import Usage, read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Messages, Tools

_A_MESSAGE = 4  # tokens: its role, and the marks around it
_MOST_TOKENS = 1 << 30
_MOST_JSON = 262_144  # bytes: a structure that contains itself has no end


def estimate_tokens(messages: "Messages", tools: "Tools | None" = None) -> int:
    """Return an estimate of the prompt tokens that messages and tools come to.

    It is a token for every four UTF-8 bytes, rounded up, of all texts (contents, names and
    arguments of tool calls, the JSON of `tools`), and four tokens a message. Images and other parts
    that are not text count the `tokens` that they have, else nothing. Never raises.
    """
    size = marks = 0
    for message in messages if isinstance(messages, (list, tuple)) else ():
        marks += _A_MESSAGE
        size += message_bytes(message)
    try:
        size += 0 if tools is None else _json_bytes(tools)
    except Exception:  # noqa: BLE001, S110 - an unreadable part counts nothing
        pass
    return tokens_in(size) + marks


def estimated(prompt: int, completion: int) -> Usage:
    """Return the usage of a call whose prompt and answer are estimated at so many tokens."""
    usage = Usage()
    usage.input = prompt
    usage.output = completion
    usage.total = prompt + completion
    usage.status = Usage.ESTIMATED
    return usage


def at_least_estimated(report: "Any", response: "Any", messages: "Any", tools: "Any") -> Usage:
    """Return the usage in a report, or an estimate where it is unclear and not above the estimate.

    The estimate is of the prompt and of the answer; `response` is `None` where there was none.
    """
    usage = read_usage(report)
    if usage.status not in usage.UNCLEAR:
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
    estimate = estimated(estimate_tokens(messages, tools), completion)
    return estimate if estimate.total >= usage.total else usage


def as_report(usage: Usage) -> "dict[str, Any]":
    """Return an estimate as a usage report in OpenAI's form that says it is one."""
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "estimated": True,
    }


def tokens_in(size: int) -> int:
    """Return an estimate of the tokens in `size` bytes of text."""
    return (size + 3) // 4


def bytes_in(text: "Any") -> int:
    """Return how many UTF-8 bytes a text has, encoded or not; 0 for any other value."""
    if isinstance(text, bytes):
        return len(text)
    return len(text.encode("utf-8", "surrogatepass")) if isinstance(text, str) else 0


def message_bytes(message: "Any") -> int:
    """Return how many bytes of text an estimate counts for a message; never raises."""
    if not isinstance(message, dict):
        return 0
    try:
        content, calls = message.get("content"), message.get("tool_calls")
        size = 0
        if not isinstance(content, (list, tuple)):
            content = (content,)
        for part in content:
            if not isinstance(part, dict):
                size += bytes_in(part)
                continue
            size += bytes_in(part.get("text"))
            tokens = part.get("tokens")  # of an image, as an adapter has counted it
            if type(tokens) is int and 0 < tokens < _MOST_TOKENS:
                size += 4 * tokens
        return size + _calls_bytes(calls) if calls else size
    except Exception:  # noqa: BLE001 - an unreadable part counts nothing
        return 0


def _calls_bytes(calls: "Any") -> int:
    """Return how many bytes the names and arguments of tool calls have."""
    size = 0
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

    It is not built to be measured, and the two runtimes' JSON differ in length.
    """
    size = 0
    waiting = [value]
    while waiting and size < _MOST_JSON:
        item = waiting.pop()
        if isinstance(item, (str, bytes)):
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
