"""A scripted model: it reads a chat request the way a model would and decides what to say next.

The scenario is an agent that reads the files of a folder through two tools, `list_files` (one
path a line, a tab before anything else on the line) and `read_file` (`{"path": …}`). With both on
offer the model is a runaway: it goes on reading, round after round, up to `MAX_CALLS` calls a
turn. A budget notice (a user message that starts with `NOTICE_MARK` after the last real user
message), or tools that are no longer offered, make it answer with what it has read.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

Json = dict[str, Any]

NOTICE_MARK: Final = "[Budget"
LIST_FILES: Final = "list_files"
READ_FILE: Final = "read_file"
MAX_CALLS: Final = 200
CHARS_PER_TOKEN: Final = 4
QUOTE_CHARS: Final = 80

_ROLES = ("developer", "system", "user", "assistant", "tool", "function")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_FAILED = re.compile(r'\w*error\s*[:(]|traceback \(|\{\s*"error"|\[(errno|budget)\b', re.IGNORECASE)
_HEADING = re.compile(r"#{1,6}\s+(\S.*)")


class BadRequest(ValueError):
    """A chat request that breaks the protocol; `param` names the place, `code` the rule."""

    def __init__(self, message: str, param: str | None, code: str | None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class ToolCall(NamedTuple):
    """A tool the model wants called; `arguments` is JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """What the model says: words, the tools it wants called, and why it stopped."""

    content: str
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = "stop"

    @property
    def chars(self) -> int:
        """Count the characters generated: the words, the tool names and their arguments."""
        return len(self.content) + sum(len(part) for call in self.calls for part in call)


@dataclass
class _Turn:
    """What happened since the last real user message."""

    question: str = ""
    noticed: bool = False
    calls: int = 0
    files: list[str] = field(default_factory=list)
    reads: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)


def count_tokens(chars: int) -> int:
    """Return the tokens that `chars` characters make: one for every four begun, at least one."""
    return max(1, -(-chars // CHARS_PER_TOKEN))


def next_reply(body: Json) -> Reply:
    """Return what the model says to a request that `check_request` has accepted."""
    turn = _read_turn(body["messages"])
    offered, forced = _offered(body)
    call = None if turn.noticed and not forced else _next_call(turn, offered)
    if call is not None:
        return Reply(_beside(call, turn), (call,), "tool_calls")
    said = _summary(turn) if turn.calls else f'You said: "{_shorten(turn.question, 400)}".'
    return Reply(said + _why_now(turn))


def cut(reply: Reply, max_tokens: int | None) -> Reply:
    """Return `reply` cut to `max_tokens`; a tool call that no longer fits loses its arguments' end.

    A call whose very name does not fit is left out. `None` cuts nothing.
    """
    if max_tokens is None or count_tokens(reply.chars) <= max_tokens:
        return reply
    left = max_tokens * CHARS_PER_TOKEN
    content = reply.content[:left]
    left -= len(content)
    calls = []
    for name, arguments in reply.calls:
        if len(name) > left:
            break
        calls.append(ToolCall(name, arguments[: left - len(name)]))
        left -= len(name) + len(calls[-1].arguments)
    return replace(reply, content=content, calls=tuple(calls), finish_reason="length")


def message_text(message: Json) -> str:
    """Return a message's text, with the text parts of a content list joined."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def _read_turn(messages: list[Json]) -> _Turn:
    turn = _Turn()
    asked: dict[str, Json] = {}
    for message in messages:
        text = message_text(message)
        if message["role"] == "user" and text.startswith(NOTICE_MARK):
            turn.noticed = True
        elif message["role"] == "user":
            turn = _Turn(question=text)
        elif message["role"] == "tool":
            _note_result(turn, asked[message["tool_call_id"]], text)
        for call in message.get("tool_calls") or ():
            asked[call["id"]] = call["function"]
            turn.calls += 1
            if call["function"]["name"] == READ_FILE and (path := _path(call["function"])):
                turn.reads[path] = turn.reads.get(path, 0) + 1
    return turn


def _note_result(turn: _Turn, function: Json, text: str) -> None:
    if _FAILED.match(text.lstrip()):
        return
    if function["name"] == LIST_FILES:
        paths = (line.split("\t")[0].strip() for line in text.splitlines())
        turn.files = list(dict.fromkeys(path for path in paths if path))
    elif function["name"] == READ_FILE:
        turn.texts.setdefault(_path(function), text)


def _path(function: Json) -> str:
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        return ""
    return str(arguments.get("path", "")) if isinstance(arguments, dict) else ""


def _offered(body: Json) -> tuple[set[str], bool]:
    choice = body.get("tool_choice")
    names = {tool["function"]["name"] for tool in body.get("tools") or ()}
    if choice == "none":
        return set(), False
    if isinstance(choice, dict):
        return names & {choice["function"]["name"]}, True
    return names, choice == "required"


def _next_call(turn: _Turn, offered: set[str]) -> ToolCall | None:
    if turn.calls >= MAX_CALLS:
        return None
    if turn.files:
        path = min(turn.files, key=lambda name: turn.reads.get(name, 0))
        call = ToolCall(READ_FILE, json.dumps({"path": path}))
    else:
        call = ToolCall(LIST_FILES, "{}")
    return call if call.name in offered else None


def _beside(call: ToolCall, turn: _Turn) -> str:
    if call.name == LIST_FILES:
        return "Let me look again which files there are." if turn.calls else "Let me look around."
    path = json.loads(call.arguments)["path"]
    rounds = turn.reads.get(path, 0)
    again = f" again, to be thorough (round {rounds + 1})" if rounds else ""
    return f"Reading {path}{again}."


def _summary(turn: _Turn) -> str:
    unread = [path for path in turn.reads if path not in turn.texts]
    lines = [f"I read {len(turn.texts)} of {len(turn.files)} files."]
    lines += [f"- {path}: {_first_words(path, text)}" for path, text in turn.texts.items()]
    if unread:
        lines.append("Could not be read: " + ", ".join(unread) + ".")
    return "\n".join(lines)


def _why_now(turn: _Turn) -> str:
    if turn.noticed:
        return "\nI wrapped up here because of the budget notice."
    if turn.calls >= MAX_CALLS:
        return f"\nI stopped at my own cap of {MAX_CALLS} tool calls."
    return ""


def _first_words(path: str, text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if path.endswith(".md"):
        headings = [match[1] for line in lines if (match := _HEADING.match(line))]
        lines = headings or lines
    return _shorten(lines[0], QUOTE_CHARS) if lines else "(empty)"


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def check_request(body: Json) -> None:
    """Raise `BadRequest` unless `body` is a chat-completions request this model can read."""
    model = _required(body, "model")
    _expect(isinstance(model, str) and model != "", "model", "a non-empty string")
    _check_messages(_required(body, "messages"))
    _check_tools(body)
    _check_options(body)


def _check_options(body: Json) -> None:
    stream, options = body.get("stream"), body.get("stream_options")
    _expect(stream is None or isinstance(stream, bool), "stream", "a boolean")
    _expect(options is None or isinstance(options, dict), "stream_options", "an object")
    _rule(options is None or stream is True, "stream_options", "is only allowed with 'stream'.")
    _rule(body.get("n") in (None, 1), "n", "must be 1: this model gives one answer.")
    for name in ("max_tokens", "max_completion_tokens"):
        limit = body.get(name, 1)
        _expect(limit is None or type(limit) is int, name, "an integer")
        _rule(limit is None or limit >= 1, name, "must be 1 or more.", "integer_below_min_value")
    both = body.get("max_tokens") and body.get("max_completion_tokens")
    _rule(not both, "max_tokens", "excludes 'max_completion_tokens'.")


def _check_tools(body: Json) -> None:
    tools, choice = body.get("tools"), body.get("tool_choice")
    _rule(choice is None or tools is not None, "tool_choice", "is only allowed with 'tools'.")
    if tools is None:
        return
    _check_list(tools, "tools")
    for where, tool in _items(tools, "tools"):
        function, place = _function(tool, where), f"{where}.function"
        named = _TOOL_NAME.fullmatch(function["name"]) is not None
        _rule(named, f"{place}.name", "must be 1 to 64 letters, digits, '_' or '-'.")
        described = isinstance(function.get("description") or "", str)
        _expect(described, f"{place}.description", "a string")
        described = isinstance(function.get("parameters") or {}, dict)
        _expect(described, f"{place}.parameters", "an object")
    if isinstance(choice, dict):
        _function(choice, "tool_choice")
    else:
        known = choice in (None, "none", "auto", "required")
        _rule(known, "tool_choice", "must be 'none', 'auto', 'required' or an object.")


def _check_messages(messages: Any) -> None:
    _check_list(messages, "messages")
    pending: set[str] = set()
    for where, message in _items(messages, "messages"):
        role = _required(message, "role", where)
        _rule(role in _ROLES, f"{where}.role", f"must be one of: {', '.join(_ROLES)}.")
        _check_content(message, where)
        if role == "tool":
            answered = _string(message, "tool_call_id", where)
            asked = answered in pending
            _rule(asked, f"{where}.tool_call_id", "must answer one of the preceding 'tool_calls'.")
            pending.discard(answered)
            continue
        _rule(not pending, where, f"must be tool results for: {', '.join(sorted(pending))}.")
        if message.get("tool_calls") is not None:
            pending = _check_calls(message, where)
    _rule(not pending, "messages", f"lack tool results for: {', '.join(sorted(pending))}.")


def _check_content(message: Json, where: str) -> None:
    content = message.get("content")
    if content is None:
        silent = message["role"] == "assistant" and message.get("tool_calls")
        _expect(bool(silent), f"{where}.content", "a string or an array of parts")
    elif not isinstance(content, str):
        _check_list(content, f"{where}.content")
        for place, part in _items(content, f"{where}.content"):
            if _string(part, "type", place) == "text":
                _string(part, "text", place)


def _check_calls(message: Json, where: str) -> set[str]:
    _rule(message["role"] == "assistant", f"{where}.tool_calls", "belong to role 'assistant'.")
    _check_list(message["tool_calls"], f"{where}.tool_calls")
    ids = set()
    for place, call in _items(message["tool_calls"], f"{where}.tool_calls"):
        ids.add(_string(call, "id", place))
        _string(_function(call, place), "arguments", f"{place}.function")
    return ids


def _function(holder: Json, where: str) -> Json:
    _rule(_required(holder, "type", where) == "function", f"{where}.type", "must be 'function'.")
    function = _required(holder, "function", where)
    _expect(isinstance(function, dict), f"{where}.function", "an object")
    _string(function, "name", f"{where}.function")
    return dict(function)


def _items(values: list[Any], where: str) -> Iterator[tuple[str, Json]]:
    for index, value in enumerate(values):
        _expect(isinstance(value, dict), f"{where}[{index}]", "an object")
        yield f"{where}[{index}]", value


def _check_list(value: Any, where: str) -> None:
    _expect(isinstance(value, list), where, "an array")
    _rule(len(value) > 0, where, "must not be an empty array.", "empty_array")


def _string(holder: Json, name: str, where: str) -> str:
    value = _required(holder, name, where)
    _expect(isinstance(value, str), f"{where}.{name}", "a string")
    return str(value)


def _required(holder: Json, name: str, where: str = "") -> Any:
    param = f"{where}.{name}" if where else name
    if holder.get(name) is None:
        message = f"Missing required parameter: '{param}'."
        raise BadRequest(message, param, "missing_required_parameter")
    return holder[name]


def _expect(holds: bool, param: str, kind: str) -> None:
    if not holds:
        raise BadRequest(f"Invalid type for '{param}': expected {kind}.", param, "invalid_type")


def _rule(holds: bool, param: str, rule: str, code: str = "invalid_value") -> None:
    if not holds:
        raise BadRequest(f"Invalid request: '{param}' {rule}", param, code)
