"""Chat completions: `POST /v1/chat/completions`."""

import json
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from scripted_model.calls import Answer, Asked, ScriptedUsage
from scripted_model.checks import ApiError, Count, Json, check_turns, match, rule
from scripted_model.formats.sse import event, pieces
from scripted_model.formats.vendors import OPENAI, TIERS, reasoning_tokens, service_tier

MAX_ANSWERS: Final = 128

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
    "n?": Count(1, MAX_ANSWERS),
    "max_tokens?": Count(1),
    "max_completion_tokens?": Count(1),
    "reasoning_effort?": str,
    "service_tier?": TIERS,
}
_PART: Final = {"type": str, "text?": str}
_CHOICE: Final = {"type": ("function",), "function": {"name": str}}
_CHOICES: Final = ("none", "auto", "required")


def read(body: Json, path: str) -> Asked:
    """Check a request, and return what it asks for.

    Tools come first in the prompt, as in the real service: withdrawing them breaks the cached
    prefix.
    """
    _check(body)
    choice = body.get("tool_choice")
    tools = {
        tool["function"]["name"]: tool["function"].get("parameters") or {}
        for tool in body.get("tools") or ()
    }
    chosen = choice["function"]["name"] if isinstance(choice, dict) else None
    if chosen or choice == "none":
        tools = {name: schema for name, schema in tools.items() if name == chosen}
    parts = [*(body.get("tools") or ()), *body["messages"]]
    return Asked(
        body["model"],
        body["messages"],
        body,
        [json.dumps(part, ensure_ascii=False) for part in parts],
        cacheable=len(parts),
        tools=tools,
        forced=bool(chosen) or choice == "required",
        max_tokens=body.get("max_tokens") or body.get("max_completion_tokens"),
        answers=body.get("n") or 1,
        stream=bool(body.get("stream")),
        thinking=reasoning_tokens(body.get("reasoning_effort")),
    )


def whole(answer: Answer) -> Json:
    """Return the `chat.completion` object."""
    message: Json = {"role": "assistant", "content": answer.reply.content, "refusal": None}
    if answer.reply.calls:
        message["tool_calls"] = [
            {"id": f"call_{answer.number}_{index}", "type": "function", "function": call._asdict()}
            for index, call in enumerate(answer.reply.calls)
        ]
    reason = answer.reply.finish_reason
    completion = {
        **_head(answer, "chat.completion"),
        "choices": [
            _choice(index, "message", message, reason) for index in range(answer.asked.answers)
        ],
    }
    if answer.usage is not None:
        completion["usage"] = _usage(answer.usage)
    return completion


def events(answer: Answer) -> Iterator[str]:
    """Yield the `chat.completion.chunk` events; usage comes last, if it was asked for."""
    include_usage = bool((answer.asked.body.get("stream_options") or {}).get("include_usage"))
    ends = {"usage": None} if include_usage else {}
    head = _head(answer, "chat.completion.chunk")
    for choice in whole(answer)["choices"]:
        for delta, reason in _deltas(choice):
            yield event(
                {**head, "choices": [_choice(choice["index"], "delta", delta, reason)], **ends}
            )
    if include_usage and answer.usage is not None:
        yield event({**head, "choices": [], "usage": _usage(answer.usage)})
    yield event("[DONE]")


def failure(refusal: ApiError, number: int) -> str:
    """Return the event that ends a stream with an error."""
    return event(OPENAI.error(refusal))


def _check(body: Json) -> None:
    match(body, _REQUEST)
    for index, message in enumerate(body["messages"]):
        _check_content(message, f"messages[{index}].content")
    check_turns(body["messages"])
    choice = body.get("tool_choice")
    if choice is not None:
        rule(body.get("tools"), "tool_choice", "is only allowed with 'tools'.")
        match(choice, _CHOICE if isinstance(choice, dict) else _CHOICES, "tool_choice")
    streams = body.get("stream") or body.get("stream_options") is None
    rule(streams, "stream_options", "is only allowed with 'stream'.")
    both = body.get("max_tokens") and body.get("max_completion_tokens")
    rule(not both, "max_tokens", "excludes 'max_completion_tokens'.")


def _check_content(message: Json, place: str) -> None:
    content = message.get("content")
    if isinstance(content, list):
        match(content, [_PART], place)
        for index, part in enumerate(content):
            rule(part["type"] != "text" or "text" in part, f"{place}[{index}].text", "is required.")
    elif content is not None or message["role"] != "assistant" or not message.get("tool_calls"):
        match(content, str, place)


def _head(answer: Answer, kind: str) -> Json:
    head: Json = {"id": f"chatcmpl-{answer.number}", "object": kind, "created": int(time.time())}
    return {**head, "model": answer.asked.model, **service_tier(answer.asked.body)}


def _usage(used: ScriptedUsage) -> Json:
    prompt_details: dict[str, Any] = {"cached_tokens": used.cached, "audio_tokens": 0}
    if used.written:
        prompt_details["cache_write_tokens"] = used.written
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.prompt + used.completion,
        "prompt_tokens_details": prompt_details,
        "completion_tokens_details": {"reasoning_tokens": used.reasoning, "audio_tokens": 0},
    }


def _deltas(choice: Json) -> Iterator[tuple[Json, str | None]]:
    message = choice["message"]
    yield {"role": "assistant", "content": ""}, None
    for piece in pieces(message["content"]):
        yield {"content": piece}, None
    for index, call in enumerate(message.get("tool_calls", ())):
        opening = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": opening}]}, None
        for piece in pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, choice["finish_reason"]


def _choice(index: int, name: str, content: Json, reason: str | None) -> Json:
    return {"index": index, name: content, "logprobs": None, "finish_reason": reason}
