"""Read a request's body once, within bounds, and refuse keys that a server might read otherwise."""

import json
import re
from io import BytesIO
from typing import Any, Final

from budget_core.usage_estimate import bytes_in
from budget_cpython.vendors.request import UnreadableRequestError

Json = dict[str, Any]

_write: Final = json.JSONEncoder(ensure_ascii=False).encode

LARGE: Final = 65_536  # bytes: an event loop has a larger body read elsewhere
MAX_VALUES: Final = 500_000  # embeddings take 300,000 tokens a request
MAX_DEPTH: Final = 100
_BOM: Final = b"\xef\xbb\xbf"
_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_A_NUMBER: Final = 4  # bytes: a token
_MOST_NAME: Final = 60
# Fields whose text is not read as text: what is attached, and what only a vendor can read.
_NO_TEXT: Final = frozenset(
    [
        "data",
        "file_data",
        "base64",
        "b64_json",
        "blob",
        "url",
        "image_url",
        "file_url",
        "fileUri",
        "file_uri",
        "signature",
        "thoughtSignature",
        "thought_signature",
        "encrypted_content",
        "result",
    ]  # an image that a tool of the vendor's has made
)
# What the formats read of a body, of the objects in it, of its messages, and of their parts.
_LISTS: Final = frozenset(
    ["messages", "contents", "input", "output", "content", "parts", "tool_calls"]
)
_OBJECTS: Final = frozenset(
    [
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
)
_READ: Final = (
    _LISTS
    | _OBJECTS
    | frozenset(
        [
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
    )
)
_FOLDED: Final = {name.casefold(): name for name in _READ}


def decode(content: bytes) -> Json:
    """Return the object of JSON that a body is.

    Raises `UnreadableRequestError` for any other body, for more than `MAX_VALUES` values or
    `MAX_DEPTH` levels, for a key that comes twice, and for one in another case than servers read.
    A bytearray is emptied meanwhile, to save memory.
    """
    data = content[len(_BOM) :] if content.startswith(_BOM) else content
    marks = data.count(b"[") + data.count(b"{")
    if len(data) > MAX_VALUES:
        _check_values(data)
    names: set[str] = set()

    def with_keys_once(pairs: list[tuple[str, Any]]) -> Json:
        found = dict(pairs)
        if len(found) < len(pairs):
            raise _twice(pairs)
        names.update(found)
        return found

    try:
        text = data.decode()
        if isinstance(content, bytearray):
            content.clear()
        body = json.loads(text, object_pairs_hook=with_keys_once)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        body = None
    if type(body) is not dict:
        raise UnreadableRequestError("the request's body is not a JSON object")
    if marks > MAX_DEPTH:
        text_bytes(body)  # which has a bound on levels
    for name in names - _READ:
        if name.casefold() in _FOLDED:
            check_spelling(body)
            break
    return body


def encode(body: Json) -> bytes:
    """Return the JSON of an object; each item of its lists is written by itself, to save memory."""
    written = BytesIO()
    mark = b"{"
    for name, value in body.items():
        written.write(mark + json.dumps(name).encode() + b": ")
        if isinstance(value, list) and value:
            inner = b"["
            for item in value:
                written.write(inner)
                written.write(_encoded(item))
                inner = b", "
            written.write(b"]")
        else:
            written.write(_encoded(value))
        mark = b", "
    written.write(b"}" if body else b"{}")
    return written.getvalue()


def _encoded(value: Any) -> bytes:
    try:
        return _write(value).encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which an escape may be
        return json.dumps(value).encode()


def _check_values(data: bytes) -> None:
    """Count values, before they take memory: all marks, then those that are in no text."""
    marks = (b",", b":", b"[", b"{")
    if sum(map(data.count, marks)) > MAX_VALUES:
        outside = _TEXT.sub(b"", data)
        if sum(map(outside.count, marks)) > MAX_VALUES:
            text = f"the request's body has more than {MAX_VALUES:,} values"
            raise UnreadableRequestError(text)


def text_bytes(body: Json) -> int:
    """Return the bytes of all texts in a body but what is attached, wherever they are.

    Raises `UnreadableRequestError` for more than `MAX_DEPTH` levels.
    """
    size, level = 0, [body]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            values: Any = item
            if type(item) is dict:
                values = [
                    value
                    for name, value in item.items()
                    if name not in _NO_TEXT or type(value) not in (str, bytes)
                ]
            for value in values:
                kind = type(value)
                if kind is str and value.isascii():
                    size += len(value)
                elif kind is dict or kind is list:
                    inner.append(value)
                elif kind is int or kind is float:
                    size += _A_NUMBER
                else:
                    size += bytes_in(value)
        if not inner:
            return size
        level = inner
    raise _too_deep()


def check_spelling(fields: Json) -> None:
    """Raise `UnreadableRequestError` for a key of a body that only its case keeps from being read.

    The keys of a tool's own arguments and results are not looked at.
    """
    waiting = [fields]
    for found in waiting:
        for name, value in found.items():
            if name not in _READ:
                right = _FOLDED.get(name.casefold())
                if right is not None:
                    raise UnreadableRequestError(
                        f"the request has the key {name[:_MOST_NAME]!r}: write it as {right!r}"
                    )
            elif isinstance(value, dict) and name in _OBJECTS:
                waiting.append(value)
            elif isinstance(value, list) and name in _LISTS:
                waiting += [item for item in value if isinstance(item, dict)]


def _twice(pairs: list[tuple[str, Any]]) -> UnreadableRequestError:
    seen: set[str] = set()
    name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    return UnreadableRequestError(f"the request's body has the key {name[:_MOST_NAME]!r} twice")


def _too_deep() -> UnreadableRequestError:
    return UnreadableRequestError(f"the request's body is nested more than {MAX_DEPTH} levels deep")
