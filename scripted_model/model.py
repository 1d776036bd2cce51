"""A scripted model: it reads a request as a model would, and decides its reply.

The scenario is an agent that reads the files of a folder through two tools, `list_files` (one
path a line, a tab before anything else on the line) and `read_file` (`{"path": …}`). With both on
offer the model is a runaway: it reads round after round, up to `MAX_CALLS` calls a
turn. A budget notice (a user message that starts with `NOTICE_MARK` after the last real user
message), or tools that are no longer offered, make it answer with what it has read. A tool result
that starts with `FAILURE_MARK` is a failure.
"""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

from scripted_model.calls import (
    CHARS_PER_TOKEN,
    Asked,
    Reply,
    ScriptedToolCall,
    count_tokens,
)
from scripted_model.checks import Json, parse_object

NOTICE_MARK: Final = "[Budget"
FAILURE_MARK: Final = "Error:"
LIST_FILES: Final = "list_files"
READ_FILE: Final = "read_file"
MAX_CALLS: Final = 200
QUOTE_CHARS: Final = 80


@dataclass
class _Turn:
    """What happened since the last real user message."""

    question: str = ""
    noticed: bool = False
    calls: int = 0
    files: list[str] = field(default_factory=list)
    reads: Counter[str] = field(default_factory=Counter)
    texts: dict[str, str] = field(default_factory=dict)


def next_reply(asked: Asked) -> Reply:
    """Return the reply to a checked request; `cut_reply` applies its token limit."""
    turn = _read_turn(asked.messages)
    call = None if turn.noticed and not asked.forced else _next_call(turn)
    thinking = ""
    if asked.thinking:
        thinking = f"What is asked: {turn.question}"[: asked.thinking * CHARS_PER_TOKEN]
    if call is not None and call.name in asked.tools:
        return Reply(_beside(call, turn), (call,), thinking)
    return Reply(_answer(turn), thinking=thinking)


def cut_reply(reply: Reply, max_tokens: int | None) -> Reply:
    """Cut a reply to a limit: a call loses the end of its arguments, or is left out."""
    if max_tokens is None or count_tokens(reply.chars) <= max_tokens:
        return reply
    left = max_tokens * CHARS_PER_TOKEN
    thinking = reply.thinking[:left]
    content = reply.content[: left - len(thinking)]
    left -= len(thinking) + len(content)
    calls = [
        ScriptedToolCall(name, arguments[: left - len(name)])
        for name, arguments in reply.calls
        if len(name) <= left
    ]
    return replace(reply, thinking=thinking, content=content, calls=tuple(calls), cut=True)


def _read_turn(messages: list[Json]) -> _Turn:
    turn = _Turn()
    asked: dict[str, tuple[str, str]] = {}
    for message in messages:
        texts = _texts(message)
        text = "".join(texts)
        if message["role"] == "user":
            words = [text for text in texts if not text.startswith(NOTICE_MARK)]
            if words or not texts:
                turn = _Turn(question="".join(words))
            turn.noticed = turn.noticed or len(words) < len(texts)
        elif message["role"] == "tool" and not text.startswith(FAILURE_MARK):
            _note_result(turn, *asked[message["tool_call_id"]], text)
        for call in message.get("tool_calls") or ():
            path = _path(call["function"]["arguments"])
            asked[call["id"]] = call["function"]["name"], path
            turn.calls += 1
            if call["function"]["name"] == READ_FILE and path:
                turn.reads[path] += 1
    return turn


def _texts(message: Json) -> list[str]:
    content = message.get("content") or ""
    if isinstance(content, list):
        return [part["text"] for part in content if part["type"] == "text"]
    return [content]


def _path(arguments: str) -> str:
    given = parse_object(arguments)
    return str(given.get("path", "")) if isinstance(given, dict) else ""


def _note_result(turn: _Turn, name: str, path: str, text: str) -> None:
    if name == LIST_FILES:
        paths = (line.split("\t")[0].strip() for line in text.splitlines())
        turn.files = list(dict.fromkeys(path for path in paths if path))
    elif name == READ_FILE:
        turn.texts.setdefault(path, text)


def _next_call(turn: _Turn) -> ScriptedToolCall | None:
    if turn.calls >= MAX_CALLS:
        return None
    if not turn.files:
        return ScriptedToolCall(LIST_FILES, "{}")
    path = min(turn.files, key=lambda name: turn.reads[name])
    return ScriptedToolCall(READ_FILE, json.dumps({"path": path}))


def _beside(call: ScriptedToolCall, turn: _Turn) -> str:
    if call.name == LIST_FILES:
        return "Let me look again which files there are." if turn.calls else "Let me look around."
    path = _path(call.arguments)
    rounds = turn.reads[path]
    again = f" again, to be thorough (round {rounds + 1})" if rounds else ""
    return f"Reading {path}{again}."


def _answer(turn: _Turn) -> str:
    if not turn.calls:
        lines = [f'You said: "{_shorten(turn.question, 400)}".']
    else:
        lines = [f"I read {len(turn.texts)} of {len(turn.files)} files."]
        lines += [f"- {path}: {_first_words(path, text)}" for path, text in turn.texts.items()]
        if unread := [path for path in turn.reads if path not in turn.texts]:
            lines.append("Could not be read: " + ", ".join(unread) + ".")
    if turn.noticed:
        lines.append("I wrapped up here because of the budget notice.")
    elif turn.calls >= MAX_CALLS:
        lines.append(f"I stopped at my own cap of {MAX_CALLS} tool calls.")
    return "\n".join(lines)


def _first_words(path: str, text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if path.endswith(".md"):
        headings = [line.lstrip("# ") for line in lines if line.startswith("#")]
        lines = headings or lines
    return _shorten(lines[0], QUOTE_CHARS) if lines else "(empty)"


def _shorten(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
