"""Refuse keys that a server might read, and that are not read here: `Max_Tokens`, `MODEL`."""

from typing import Any, Final

from budget_cpython.adapters.wire.refusals import UnreadableRequestError

# What the formats read of a body, of the objects in it, of its messages, and of their parts.
_LISTS: Final = ("messages", "contents", "input", "output", "content", "parts", "tool_calls")
_OBJECTS: Final = [
    "stream_options",
    "thinking",
    "generationConfig",
    "generation_config",
    "thinkingConfig",
    "thinking_config",
    "contents",
    "systemInstruction",
    "system_instruction",
    "function",
    "functionCall",
    "function_call",
    "functionResponse",
    "function_response",
    "inlineData",
    "inline_data",
    "fileData",
    "file_data",
    "image_url",
    "input_audio",
    "video_url",
    "file",
    "source",
]
_OTHERS: Final = [
    "model",
    "models",
    "prompt",
    "instructions",
    "system",
    "tools",
    "tool_choice",
    "toolConfig",
    "tool_config",
    "functions",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
    "n",
    "best_of",
    "candidateCount",
    "candidate_count",
    "stream",
    "include_usage",
    "service_tier",
    "serviceTier",
    "budget_tokens",
    "thinkingBudget",
    "thinking_budget",
    "role",
    "text",
    "type",
    "name",
    "arguments",
    "summary",
    "mimeType",
    "mime_type",
    "mediaResolution",
    "data",
    "base64",
    "url",
    "file_id",
    "file_url",
    "detail",
]
_READ: Final = {*_LISTS, *_OBJECTS, *_OTHERS}
_FOLDED: Final = {name.casefold(): name for name in _READ}
_MOST_NAME = 60


def check_spelling(fields: dict[str, Any]) -> None:
    """Raise `UnreadableRequestError` for a key of a body that only its case keeps from being read.

    The keys of a tool's own arguments and results are not looked at.
    """
    waiting = [fields]
    while waiting:
        found = waiting.pop()
        for name in found:
            if name not in _READ and name.casefold() in _FOLDED:
                right = _FOLDED[name.casefold()]
                raise UnreadableRequestError(
                    f"the request has the key {name[:_MOST_NAME]!r}: write it as {right!r}"
                )
        waiting += [found[name] for name in _OBJECTS if isinstance(found.get(name), dict)]
        for name in _LISTS:
            if isinstance(found.get(name), list):
                waiting += [item for item in found[name] if isinstance(item, dict)]
