"""A reply as JSON objects: a completion, its usage, and a stream's chunks."""

import itertools
import json
import time
from collections.abc import Iterator
from typing import Final

from budget_cpython.endpoint.model import CHARS_PER_TOKEN, Reply, ToolCall, count_tokens
from budget_cpython.endpoint.protocol import Json

CACHE_STEP: Final = 128
PIECE_CHARS: Final = 12


def prompt_parts(body: Json) -> list[str]:
    """Return the model's input, in the pieces that a cache compares.

    Tools come first, as in the real service: withdrawing them breaks the cached prefix.
    """
    parts = [*(body.get("tools") or ()), *body["messages"]]
    return [json.dumps(part, ensure_ascii=False) for part in parts]


def shared_chars(before: list[str], prompt: list[str]) -> int:
    """Return the length in characters of the prefix that two prompts share."""
    pairs = zip(before, prompt, strict=False)
    return sum(len(new) for _, new in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def completion(model: str, number: int, reply: Reply, usage: Json) -> Json:
    """Return the `chat.completion` object of a reply."""
    message: Json = {"role": "assistant", "content": reply.content, "refusal": None}
    if reply.calls:
        message["tool_calls"] = [
            _call(call, f"call_{number}_{index}") for index, call in enumerate(reply.calls)
        ]
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [_choice("message", message, reply.finish_reason)],
        "usage": usage,
    }


def usage(prompt_chars: int, seen_chars: int, reply_chars: int) -> Json:
    """Return the usage of a call; of the shared prefix, whole cache steps are cached."""
    prompt, completion = count_tokens(prompt_chars), count_tokens(reply_chars)
    cached = seen_chars // CHARS_PER_TOKEN // CACHE_STEP * CACHE_STEP
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0},
    }


def chunks(completion: Json, include_usage: bool) -> Iterator[Json]:
    """Yield the `chat.completion.chunk` objects of a completion."""
    head = {**completion, "object": "chat.completion.chunk", "choices": []}
    used = head.pop("usage", None)
    ends = {"usage": None} if include_usage else {}
    for delta, reason in _deltas(completion["choices"][0]):
        yield {**head, "choices": [_choice("delta", delta, reason)], **ends}
    if include_usage and used:
        yield {**head, "usage": used}


def _deltas(choice: Json) -> Iterator[tuple[Json, str | None]]:
    message = choice["message"]
    yield {"role": "assistant", "content": ""}, None
    for piece in _pieces(message["content"]):
        yield {"content": piece}, None
    for index, call in enumerate(message.get("tool_calls", ())):
        opening = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": index, **call, "function": opening}]}, None
        for piece in _pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}, None
    yield {}, choice["finish_reason"]


def _pieces(text: str) -> Iterator[str]:
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))


def _choice(name: str, content: Json, reason: str | None) -> Json:
    return {"index": 0, name: content, "logprobs": None, "finish_reason": reason}


def _call(call: ToolCall, call_id: str) -> Json:
    return {"id": call_id, "type": "function", "function": call._asdict()}
