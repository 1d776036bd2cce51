"""Read a request's body within bounds, so that no body costs much more than its size."""

import json
from itertools import accumulate
from typing import Any, Final

from budget_core.usage_estimate import bytes_in
from budget_cpython.adapters.wire.refusals import UnreadableRequestError

LARGE: Final = 65_536  # bytes: an event loop has a larger body read in a thread
MAX_VALUES: Final = 500_000  # embeddings take 300,000 tokens a request
MAX_DEPTH: Final = 100
# Fields whose text is not read as text: what is attached, and what only a vendor can read.
_NO_TEXT: Final = frozenset(
    [
        "data",
        "file_data",
        "base64",
        "b64_json",
        "blob",
        "result",  # an image that a tool of the vendor's has made
        "url",
        "image_url",
        "file_url",
        "fileUri",
        "file_uri",
        "signature",
        "thoughtSignature",
        "thought_signature",
        "encrypted_content",
    ]
)
_A_NUMBER: Final = 4  # bytes: a token
_STEPS: Final = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_OTHERS: Final = bytes(set(range(256)) - _STEPS.keys())


def read_body(data: bytes) -> dict[str, Any]:
    """Return the JSON object in a body.

    Raises `UnreadableRequestError` for any other body, for more than `MAX_VALUES` values, and for
    lists and objects that are nested more than `MAX_DEPTH` deep.
    """
    _check_size(data)
    try:
        body = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise UnreadableRequestError("the request's body is not a JSON object")
    return body


def text_bytes(body: dict[str, Any]) -> int:
    """Return the bytes of all texts in a body but what is attached, wherever they are."""
    size = 0
    waiting: list[Any] = [body]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            size += bytes_in(item)
        elif isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += [
                value
                for name, value in item.items()
                if name not in _NO_TEXT or not isinstance(value, str)
            ]
        elif type(item) in (int, float):
            size += _A_NUMBER
    return size


def _check_size(data: bytes) -> None:
    """Count values and depth before the body is parsed: a value takes far more than its bytes."""
    marks = data.replace(rb"\\", b"").replace(rb"\"", b"")
    if marks.count(b'"') > 2 * MAX_VALUES:
        raise _too_many()
    marks = b"".join(marks.split(b'"')[::2])  # outside of texts
    if sum(map(marks.count, (b",", b":", b"[", b"{"))) > MAX_VALUES:
        raise _too_many()
    brackets = marks.translate(None, _OTHERS)
    if max(accumulate(map(_STEPS.__getitem__, brackets)), default=0) > MAX_DEPTH:
        raise UnreadableRequestError(
            f"the request's body is nested more than {MAX_DEPTH} levels deep"
        )


def _too_many() -> UnreadableRequestError:
    return UnreadableRequestError(f"the request's body has more than {MAX_VALUES:,} values")
