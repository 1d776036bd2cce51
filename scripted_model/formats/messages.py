"""Anthropic's messages: `POST /v1/messages`, and `POST /v1/messages/count_tokens`."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from scripted_model.calls import Answer, Asked, ScriptedUsage
from scripted_model.checks import (
    ApiError,
    Count,
    Json,
    check_turns,
    match,
    parse_object,
    rule,
)
from scripted_model.formats.sse import event, pieces
from scripted_model.formats.vendors import ANTHROPIC

MIN_THINKING: Final = 1024

_BLOCK: Final = {"type": str, "text?": str, "id?": str, "name?": str, "tool_use_id?": str}
_THINKING: Final = {"type": ("enabled", "disabled", "adaptive"), "budget_tokens?": int}
_CHOICE: Final = {"type": ("auto", "any", "tool", "none"), "name?": str}
_REQUEST: Final = {
    "model": re.compile(".+"),
    "messages": [{"role": ("user", "assistant", "system")}],
    "tools?": [{"name": str, "type?": str, "input_schema?": dict}, ...],
    "tool_choice?": _CHOICE,
    "stream?": bool,
    "thinking?": _THINKING,
}
_STOPS: Final = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def read(body: Json, path: str) -> Asked:
    """Check a request, and return what it asks for."""
    match(body, {**_REQUEST, "max_tokens": Count(1)})
    asked = _read(body)
    return replace(
        asked,
        max_tokens=body["max_tokens"],
        stream=bool(body.get("stream")),
        thinking=_thinking(body.get("thinking") or {}, body["max_tokens"]),
    )


def read_count(body: Json, path: str) -> Asked:
    """Check a request to count tokens."""
    match(body, _REQUEST)
    return replace(_read(body), answers=0, cacheable=0)


def whole_count(answer: Answer) -> Json:
    """Return the prompt's length."""
    return {"input_tokens": answer.usage.prompt if answer.usage else 0}


def whole(answer: Answer) -> Json:
    """Return the finished message."""
    stop = _STOPS[answer.reply.finish_reason]
    used = {} if answer.usage is None else {"usage": _usage(answer.usage)}
    content = [
        {**block, "input": parse_object(block["input"])} if "input" in block else block
        for block in _blocks(answer)
    ]
    return {**_head(answer), "content": content, "stop_reason": stop, **used}


def events(answer: Answer) -> Iterator[str]:
    """Yield the events of a streamed message, with usage at the start and, in total, at the end."""
    return (event({"type": name, **data}, name) for name, data in _events(answer))


def failure(refusal: ApiError, number: int) -> str:
    """Return the event that ends a stream with an error."""
    return event(ANTHROPIC.error(refusal), "error")


def _events(answer: Answer) -> Iterator[tuple[str, Json]]:
    used = answer.usage
    start = {} if used is None else {"usage": _usage(used._replace(completion=1, reasoning=0))}
    yield "message_start", {"message": {**_head(answer), **start}}
    for index, block in enumerate(_blocks(answer)):
        yield "content_block_start", {"index": index, "content_block": _emptied(block)}
        if not index:
            yield "ping", {}
        for delta in _deltas(block):
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    stop = {"stop_reason": _STOPS[answer.reply.finish_reason], "stop_sequence": None}
    end: Json = {} if used is None else {"usage": _total(used)}
    yield "message_delta", {"delta": stop, **end}
    yield "message_stop", {}


def _emptied(block: Json) -> Json:
    empty: Json = {"text": "", "thinking": "", "signature": "", "input": {}}
    return {**block, **{key: empty[key] for key in block if key in empty}}


def _deltas(block: Json) -> Iterator[Json]:
    kind = block["type"]
    if kind == "tool_use":
        yield {"type": "input_json_delta", "partial_json": ""}
        for piece in pieces(block["input"]):
            yield {"type": "input_json_delta", "partial_json": piece}
        return
    for piece in pieces(block[kind]):
        yield {"type": f"{kind}_delta", kind: piece}
    if kind == "thinking":
        yield {"type": "signature_delta", "signature": block["signature"]}


def _blocks(answer: Answer) -> list[Json]:
    """Return the content; the input of tools is text still."""
    reply, number = answer.reply, answer.number
    blocks: list[Json] = []
    if reply.thinking:
        signature = f"signed-{number}"
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": signature})
    if reply.content:
        blocks.append({"type": "text", "text": reply.content})
    for index, call in enumerate(reply.calls):
        ids = {"id": f"toolu_{number}_{index}", "name": call.name}
        blocks.append({"type": "tool_use", **ids, "input": call.arguments})
    return blocks


def _head(answer: Answer) -> Json:
    head = {"id": f"msg_{answer.number}", "type": "message", "role": "assistant"}
    stop = {"stop_reason": None, "stop_sequence": None}
    return {**head, "model": answer.asked.model, "content": [], **stop}


def _usage(used: ScriptedUsage) -> Json:
    lives = {"ephemeral_5m_input_tokens": used.written, "ephemeral_1h_input_tokens": 0}
    return {**_total(used), "cache_creation": lives, "service_tier": "standard"}


def _total(used: ScriptedUsage) -> Json:
    details = {"output_tokens_details": {"thinking_tokens": used.reasoning}}
    return {
        "input_tokens": used.prompt - used.cached - used.written,
        "cache_creation_input_tokens": used.written,
        "cache_read_input_tokens": used.cached,
        "output_tokens": used.completion,
        **(details if used.reasoning else {}),
    }


def _read(body: Json) -> Asked:
    system = body.get("system") or []
    blocks = [{"type": "text", "text": system}] if isinstance(system, str) else system
    parts = [*(body.get("tools") or ()), *blocks, *body["messages"]]
    texts = [json.dumps(part, ensure_ascii=False) for part in parts]
    marked = [index + 1 for index, text in enumerate(texts) if '"cache_control": {' in text]
    messages = _messages(body["messages"])
    check_turns(messages)
    choice = body.get("tool_choice") or {}
    tools = {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or ()}
    if choice.get("type") in ("tool", "none"):
        tools = {name: schema for name, schema in tools.items() if name == choice.get("name")}
    return Asked(
        body["model"],
        messages,
        body,
        [json.dumps(_unmarked(part), ensure_ascii=False) for part in parts],
        cacheable=len(parts) if body.get("cache_control") else max(marked, default=0),
        counts_writes=True,
        tools=tools,
        forced=choice.get("type") in ("any", "tool"),
    )


def _thinking(given: Json, max_tokens: int) -> int | None:
    if given.get("type") == "adaptive":
        return max_tokens
    if given.get("type") != "enabled":
        return None
    place = "thinking.budget_tokens"
    match(given.get("budget_tokens"), Count(MIN_THINKING), place)
    tokens: int = given["budget_tokens"]
    rule(tokens < max_tokens, place, f"must be less than 'max_tokens' ({max_tokens}).")
    return tokens


def _unmarked(part: Any) -> Any:
    """Return a part without its cache marks, which move from call to call."""
    if isinstance(part, dict):
        return {key: _unmarked(value) for key, value in part.items() if key != "cache_control"}
    return [_unmarked(one) for one in part] if isinstance(part, list) else part


def _messages(given: list[Json]) -> list[Json]:
    """Return the messages as those of chat completions; tool results come before the words."""
    messages: list[Json] = []
    for index, message in enumerate(given):
        content = message.get("content")
        place = f"messages[{index}].content"
        blocks: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content
        match(blocks, [_BLOCK], place)
        messages += [_result(block, place) for block in blocks if block["type"] == "tool_result"]
        texts = [block for block in blocks if block["type"] == "text"]
        calls = [_call(block, place) for block in blocks if block["type"] == "tool_use"]
        if calls:
            messages.append({"role": message["role"], "content": texts, "tool_calls": calls})
        elif texts or all(block["type"] != "tool_result" for block in blocks):
            messages.append({"role": message["role"], "content": texts})
    return messages


def _call(block: Json, place: str) -> Json:
    match(block, {"id": str, "name": str, "input": dict}, place)
    function = {"name": block["name"], "arguments": json.dumps(block["input"])}
    return {"id": block["id"], "type": "function", "function": function}


def _result(block: Json, place: str) -> Json:
    match(block, {"tool_use_id": str}, place)
    content = block.get("content") or ""
    if not isinstance(content, str):
        match(content, [_BLOCK], f"{place}.content")
    return {"role": "tool", "tool_call_id": block["tool_use_id"], "content": content}
