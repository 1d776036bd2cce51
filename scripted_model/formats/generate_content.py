"""Google's `generateContent`, `streamGenerateContent` (as events) and `countTokens`."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from scripted_model.calls import Answer, Asked, ScriptedUsage
from scripted_model.checks import ApiError, Count, Json, check_turns, match, parse_object
from scripted_model.formats.sse import event, pieces
from scripted_model.formats.vendors import GOOGLE

MAX_ANSWERS: Final = 8
FREE_THINKING: Final = 1024  # with a budget of -1, the model decides

_PART: Final = {
    "text?": str,
    "functionCall?": {"name": str, "args?": dict, "id?": str},
    "functionResponse?": {"name": str, "response?": dict, "id?": str},
}
_CONTENT: Final = {"role?": ("user", "model", "function"), "parts": [_PART]}
_CONFIG: Final = {
    "maxOutputTokens?": Count(1),
    "candidateCount?": Count(1, MAX_ANSWERS),
    "thinkingConfig?": {"thinkingBudget?": int, "includeThoughts?": bool},
}
_REQUEST: Final = {
    "contents": [_CONTENT],
    "systemInstruction?": {"parts": [_PART]},
    "tools?": [{"functionDeclarations?": [{"name": str}, ...]}, ...],
    "toolConfig?": {"functionCallingConfig?": {"mode?": str}},
    "generationConfig?": _CONFIG,
}

_FREE: Final = ("args", "response", "parameters", "parametersJsonSchema")


def read(body: Json, path: str) -> Asked:
    """Check a request, and return what it asks for; the path names the model.

    Field names may be in camel case or have underscores, as in the real service.
    """
    body = _camel_case(body)
    match(body, _REQUEST)
    config = body.get("generationConfig") or {}
    system = body.get("systemInstruction")
    messages = _messages(body["contents"])
    check_turns(messages, "contents")
    parts = [*(body.get("tools") or ()), *([system] if system else ()), *body["contents"]]
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    model, _, method = path.rpartition("/")[2].partition(":")
    return Asked(
        model,
        messages,
        body,
        [json.dumps(part, ensure_ascii=False) for part in parts],
        cacheable=len(parts),
        tools=_offered(body.get("tools") or (), calling),
        forced=calling.get("mode") == "ANY",
        max_tokens=config.get("maxOutputTokens"),
        answers=config.get("candidateCount") or 1,
        stream=method == "streamGenerateContent",
        thinking=_thinking(config.get("thinkingConfig") or {}),
    )


def read_count(body: Json, path: str) -> Asked:
    """Check a request to count tokens; it may hold a whole request to generate."""
    asked = read(_camel_case(body).get("generateContentRequest") or body, path)
    return replace(asked, answers=0, cacheable=0)


def whole_count(answer: Answer) -> Json:
    """Return the prompt's length."""
    tokens = answer.usage.prompt if answer.usage else 0
    return {"totalTokens": tokens, "promptTokensDetails": _details(tokens)}


def whole(answer: Answer) -> Json:
    """Return the response with all candidates."""
    parts = [*_spoken(answer, [answer.reply.thinking], [answer.reply.content]), *_calls(answer)]
    candidates = [
        _candidate(index, parts, _reason(answer)) for index in range(answer.asked.answers)
    ]
    return _response(answer, candidates)


def events(answer: Answer) -> Iterator[str]:
    """Yield the events of a streamed response; each has the usage so far, the last all of it."""
    parts: list[tuple[int, Json, str | None]] = []
    for index in range(answer.asked.answers):
        spoken = _spoken(answer, pieces(answer.reply.thinking), pieces(answer.reply.content))
        parts += [(index, part, None) for part in (*spoken, *_calls(answer))]
        parts.append((index, {"text": ""}, _reason(answer)))
    for number, (index, part, reason) in enumerate(parts, 1):
        so_far = replace(answer, usage=_so_far(answer.usage, number, len(parts)))
        yield _written(_response(so_far, [_candidate(index, [part], reason)]))


def failure(refusal: ApiError, number: int) -> str:
    """Return the event that ends a stream with an error."""
    return _written(GOOGLE.error(refusal))


def _written(data: Json) -> str:
    return event(data).replace("\n", "\r\n")


def _so_far(used: ScriptedUsage | None, number: int, count: int) -> ScriptedUsage | None:
    if used is None:
        return None
    completion = used.completion * number // count
    return used._replace(completion=completion, reasoning=min(used.reasoning, completion))


def _spoken(answer: Answer, thoughts: Any, words: Any) -> Iterator[Json]:
    config = answer.asked.body.get("generationConfig") or {}
    if (config.get("thinkingConfig") or {}).get("includeThoughts"):
        yield from ({"text": text, "thought": True} for text in thoughts if text)
    yield from ({"text": text} for text in words if text)


def _calls(answer: Answer) -> Iterator[Json]:
    for index, call in enumerate(answer.reply.calls):
        ids = {"id": f"call_{answer.number}_{index}", "name": call.name}
        yield {"functionCall": {**ids, "args": parse_object(call.arguments)}}


def _reason(answer: Answer) -> str:
    return "MAX_TOKENS" if answer.reply.cut else "STOP"


def _candidate(index: int, parts: list[Json], reason: str | None = None) -> Json:
    ends = {"finishReason": reason} if reason else {}
    return {"content": {"parts": parts, "role": "model"}, "index": index, **ends}


def _response(answer: Answer, candidates: list[Json]) -> Json:
    used = {} if answer.usage is None else {"usageMetadata": _usage(answer.usage)}
    ids = {"modelVersion": answer.asked.model, "responseId": f"response-{answer.number}"}
    return {"candidates": candidates, **used, **ids}


def _usage(used: ScriptedUsage) -> Json:
    counts = {
        "promptTokenCount": used.prompt,
        "candidatesTokenCount": used.completion - used.reasoning,
        "totalTokenCount": used.prompt + used.completion,
        "promptTokensDetails": _details(used.prompt),
    }
    if used.cached:
        counts["cachedContentTokenCount"] = used.cached
        counts["cacheTokensDetails"] = _details(used.cached)
    if used.reasoning:
        counts["thoughtsTokenCount"] = used.reasoning
    return counts


def _details(tokens: int) -> list[Json]:
    return [{"modality": "TEXT", "tokenCount": tokens}]


def _offered(tools: Any, calling: Json) -> dict[str, Json]:
    declared = [one for tool in tools for one in tool.get("functionDeclarations") or ()]
    offered = {
        one["name"]: one.get("parameters") or one.get("parametersJsonSchema") or {}
        for one in declared
    }
    if calling.get("mode") == "NONE":
        return {}
    allowed = calling.get("allowedFunctionNames") or offered
    return {name: schema for name, schema in offered.items() if name in allowed}


def _thinking(config: Json) -> int | None:
    tokens: int | None = config.get("thinkingBudget")
    if tokens is None and not config.get("includeThoughts"):
        return None
    return FREE_THINKING if tokens is None or tokens < 0 else tokens


def _camel_case(value: Any) -> Any:
    """Return a request with the names of its fields in camel case; tools' own names stay."""
    if isinstance(value, list):
        return [_camel_case(one) for one in value]
    if not isinstance(value, dict):
        return value
    named = {re.sub("_([a-z])", lambda found: found[1].upper(), key): key for key in value}
    return {
        name: value[key] if name in _FREE else _camel_case(value[key])
        for name, key in named.items()
    }


def _messages(contents: list[Json]) -> list[Json]:
    """Return the contents as messages of chat completions; calls without an id get one."""
    messages: list[Json] = []
    open_calls: list[tuple[str, str]] = []
    for index, content in enumerate(contents):
        calls = [part["functionCall"] for part in content["parts"] if part.get("functionCall")]
        if calls:
            open_calls = [
                (call["name"], call.get("id") or f"contents[{index}].{number}")
                for number, call in enumerate(calls)
            ]
        results = [
            part["functionResponse"] for part in content["parts"] if part.get("functionResponse")
        ]
        messages += [_result(result, open_calls) for result in results]
        texts = [
            {"type": "text", "text": part["text"]} for part in content["parts"] if "text" in part
        ]
        is_model = content.get("role") == "model"
        if is_model and not calls and not any(text["text"] for text in texts):
            continue  # the end of a stream, which clients send back
        message: Json = {"role": "assistant" if is_model else "user", "content": texts}
        if calls:
            named = zip(calls, open_calls, strict=True)
            message["tool_calls"] = [_call(call, call_id) for call, (_, call_id) in named]
        if texts or calls or not results:
            messages.append(message)
    return messages


def _call(call: Json, call_id: str) -> Json:
    function = {"name": call["name"], "arguments": json.dumps(call.get("args") or {})}
    return {"id": call_id, "type": "function", "function": function}


def _result(result: Json, open_calls: list[tuple[str, str]]) -> Json:
    """Return a tool result; without an id, it answers the first open call of its name."""
    found = [call_id for name, call_id in open_calls if name == result["name"]]
    call_id = result.get("id") or (found[0] if found else "")
    open_calls[:] = [call for call in open_calls if call[1] != call_id]
    response = result.get("response") or {}
    text = response.get("result", response.get("output", response.get("error", response)))
    said = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": call_id, "content": said}
