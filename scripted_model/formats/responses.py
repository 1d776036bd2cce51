"""Responses: `POST /v1/responses`."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from scripted_model.calls import Answer, Asked, ScriptedUsage
from scripted_model.checks import ApiError, Count, Json, check_turns, match
from scripted_model.formats.sse import event, pieces
from scripted_model.formats.vendors import TIERS, reasoning_tokens, service_tier

MIN_OUTPUT: Final = 16

_ITEM: Final = {"role?": ("user", "assistant", "system", "developer"), "type?": str}
_REQUEST: Final = {
    "model": re.compile(".+"),
    "instructions?": str,
    "tools?": [{"type": str, "name?": str, "parameters?": dict}, ...],
    "stream?": bool,
    "max_output_tokens?": Count(MIN_OUTPUT),
    "reasoning?": {"effort?": str, "summary?": str},
    "service_tier?": TIERS,
}

_ADDED: Final[Json] = {"status": "in_progress", "content": [], "summary": [], "arguments": ""}


def read(body: Json, path: str) -> Asked:
    """Check a request, and return what it asks for."""
    match(body, _REQUEST)
    given = body.get("input")
    items: Any = [{"role": "user", "content": given}] if isinstance(given, str) else given
    match(items, [_ITEM], "input")
    instructions = body.get("instructions")
    start = [{"role": "system", "content": instructions}] if instructions else []
    messages = start + _messages(items)
    check_turns(messages, "input")
    choice = body.get("tool_choice")
    parts = [*(body.get("tools") or ()), *start, *items]
    return Asked(
        body["model"],
        messages,
        body,
        [json.dumps(part, ensure_ascii=False) for part in parts],
        cacheable=len(parts),
        tools=_offered(body.get("tools") or (), choice),
        forced=isinstance(choice, dict) or choice == "required",
        max_tokens=body.get("max_output_tokens"),
        stream=bool(body.get("stream")),
        thinking=reasoning_tokens((body.get("reasoning") or {}).get("effort")),
    )


def whole(answer: Answer) -> Json:
    """Return the finished `response` object."""
    cut = answer.reply.cut
    return {
        **_head(answer),
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "output": _items(answer),
        "usage": None if answer.usage is None else _usage(answer.usage),
    }


def events(answer: Answer) -> Iterator[str]:
    """Yield the events of a streamed response, numbered from 0."""
    for number, (name, data) in enumerate(_events(answer)):
        name = f"response.{name}"
        yield event({"type": name, "sequence_number": number, **data}, name)


def failure(refusal: ApiError, number: int) -> str:
    """Return the event that ends a stream with an error."""
    details = {"code": refusal.code, "message": refusal.message, "param": refusal.param}
    return event({"type": "error", "sequence_number": number, **details}, "error")


def _events(answer: Answer) -> Iterator[tuple[str, Json]]:
    yield "created", {"response": _head(answer)}
    yield "in_progress", {"response": _head(answer)}
    for index, item in enumerate(_items(answer)):
        added = {**item, **{key: empty for key, empty in _ADDED.items() if key in item}}
        yield "output_item.added", {"output_index": index, "item": added}
        yield from _inside(item, {"item_id": item["id"], "output_index": index})
        yield "output_item.done", {"output_index": index, "item": item}
    response = whole(answer)
    yield response["status"], {"response": response}


def _inside(item: Json, place: Json) -> Iterator[tuple[str, Json]]:
    if item["type"] == "function_call":
        for piece in pieces(item["arguments"]):
            yield "function_call_arguments.delta", {**place, "delta": piece}
        done = {"name": item["name"], "arguments": item["arguments"]}
        yield "function_call_arguments.done", {**place, **done}
    for index, part in enumerate(item.get("summary", ())):
        yield from _text({**place, "summary_index": index}, part, "reasoning_summary", {})
    for index, part in enumerate(item.get("content", ())):
        yield from _text({**place, "content_index": index}, part, "output", {"logprobs": []})


def _text(place: Json, part: Json, kind: str, more: Json) -> Iterator[tuple[str, Json]]:
    part_name = "content_part" if kind == "output" else f"{kind}_part"
    yield f"{part_name}.added", {**place, "part": {**part, "text": ""}}
    for piece in pieces(part["text"]):
        yield f"{kind}_text.delta", {**place, "delta": piece, **more}
    yield f"{kind}_text.done", {**place, "text": part["text"], **more}
    yield f"{part_name}.done", {**place, "part": part}


def _items(answer: Answer) -> list[Json]:
    """Return the output: reasoning, a message, and tool calls."""
    reply, number = answer.reply, answer.number
    status = "incomplete" if reply.cut else "completed"
    items: list[Json] = []
    if reply.thinking:
        asks = (answer.asked.body.get("reasoning") or {}).get("summary")
        summary = [{"type": "summary_text", "text": reply.thinking}] if asks else []
        items.append({"id": f"rs_{number}", "type": "reasoning", "summary": summary})
    if reply.content or not (items or reply.calls):
        part = {"type": "output_text", "text": reply.content, "annotations": [], "logprobs": []}
        message = {"id": f"msg_{number}", "type": "message", "role": "assistant"}
        items.append({**message, "status": status, "content": [part]})
    for index, call in enumerate(reply.calls):
        ids = {"id": f"fc_{number}_{index}", "call_id": f"call_{number}_{index}"}
        items.append({**ids, "type": "function_call", "status": status, **call._asdict()})
    return items


def _head(answer: Answer) -> Json:
    """Return a `response` object in progress, with the request's options."""
    body = answer.asked.body
    options: dict[str, Any] = {
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": True,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "user": None,
    }
    options |= {name: body[name] for name in options if body.get(name) is not None}
    head = {"id": f"resp_{answer.number}", "object": "response", "created_at": int(time.time())}
    state: Json = {
        "model": answer.asked.model,
        "status": "in_progress",
        "output": [],
        "usage": None,
    }
    return {**head, **options, **state, **service_tier(body)}


def _usage(used: ScriptedUsage) -> Json:
    return {
        "input_tokens": used.prompt,
        "input_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": used.written},
        "output_tokens": used.completion,
        "output_tokens_details": {"reasoning_tokens": used.reasoning},
        "total_tokens": used.prompt + used.completion,
    }


def _messages(items: list[Json]) -> list[Json]:
    """Return the items as messages of chat completions; calls join the assistant's message."""
    messages: list[Json] = []
    for index, item in enumerate(items):
        kind = item.get("type") or "message"
        if kind == "function_call":
            match(item, {"call_id": str, "name": str, "arguments": str}, f"input[{index}]")
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant", "content": None})
            function = {"name": item["name"], "arguments": item["arguments"]}
            call = {"id": item["call_id"], "type": "function", "function": function}
            messages[-1].setdefault("tool_calls", []).append(call)
        elif kind == "function_call_output":
            match(item, {"call_id": str}, f"input[{index}]")
            content = _parts(item.get("output"), f"input[{index}].output")
            messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": content})
        elif kind == "message":
            match(item, {"role": str}, f"input[{index}]")
            content = _parts(item.get("content"), f"input[{index}].content")
            messages.append({"role": item["role"], "content": content})
    return messages


def _parts(content: Any, place: str) -> str | list[Json]:
    if not isinstance(content, list):
        match(content, str, place)
        return str(content)
    match(content, [{"type": str, "text?": str}, ...], place)
    return [{"type": "text", "text": part["text"]} for part in content if part.get("text")]


def _offered(tools: Any, choice: Any) -> dict[str, Json]:
    offered = {
        tool["name"]: tool.get("parameters") or {} for tool in tools if tool["type"] == "function"
    }
    if isinstance(choice, dict):
        return {name: schema for name, schema in offered.items() if name == choice.get("name")}
    return {} if choice == "none" else offered
