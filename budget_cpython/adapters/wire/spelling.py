"""Refuse keys that a server might read, and that are not read here: `Max_Tokens`, `MODEL`."""

from typing import Any, Final

from budget_cpython.adapters.wire.refusals import UnreadableRequestError
from budget_cpython.adapters.wire.steps import in_steps, taken

# What the formats read of a body, of the objects in it, of its messages, and of their parts.
_LISTS: Final = {"messages", "contents", "input", "output", "content", "parts", "tool_calls"}
_OBJECTS: Final = {
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
}
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
    for found in taken(waiting):
        for name, value in in_steps(found.items()):
            if name not in _READ:
                _check_name(name)
            elif isinstance(value, dict) and name in _OBJECTS:
                waiting.append(value)
            elif isinstance(value, list) and name in _LISTS:
                waiting += [item for item in in_steps(value) if isinstance(item, dict)]


def _check_name(name: str) -> None:
    right = _FOLDED.get(name.casefold())
    if right is not None:
        raise UnreadableRequestError(
            f"the request has the key {name[:_MOST_NAME]!r}: write it as {right!r}"
        )
