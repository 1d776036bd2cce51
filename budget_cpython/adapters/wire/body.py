"""Read a request's body within bounds, and write it with some of its fields changed."""

import json
import re
from io import BytesIO
from itertools import islice
from typing import Any, Final

from budget_core.usage_estimate import bytes_in
from budget_cpython.adapters.wire.long_text import PIECE, bytes_of, size_of, unpacked
from budget_cpython.adapters.wire.pieces import Pieces
from budget_cpython.adapters.wire.refusals import UnreadableRequestError
from budget_cpython.adapters.wire.steps import pause, slices, taken

LARGE: Final = PIECE  # bytes: an event loop has a larger body read in a thread
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
_CHUNKS: Final = 1_000  # of an encoder, that are written at once


class Body:
    """A body of JSON: its `fields`; those of a large body have `LongText`s and `packed` texts.

    Raises `UnreadableRequestError` if it is not a JSON object, as `Pieces` does, and for a key that
    comes twice, as servers read different ones.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        try:
            self._pieces = Pieces(data.removeprefix(b"\xef\xbb\xbf"))
        except ValueError:
            raise _no_object() from None
        self.fields: dict[str, Any] = self._pieces.value
        if not isinstance(self.fields, dict):
            raise _no_object()

    def with_fields(self, new: dict[str, Any]) -> bytes:
        """Return the body with other fields; it is the same bytes if none differs."""
        if new == self.fields:
            return self.data
        if len(self.data) <= LARGE:
            return json.dumps(new).encode()
        written = BytesIO()  # never a second time in memory, as a list that is joined
        chunks = json.JSONEncoder(default=unpacked).iterencode(new)
        marks = re.compile(f'"({self._pieces.mark} [0-9]+)"')
        while text := "".join(islice(chunks, _CHUNKS)):
            pause()
            for index, part in enumerate(marks.split(text)):
                if index % 2 == 0:
                    written.write(part.encode())
                else:
                    raw = self._pieces.texts[part].raw
                    written.write(b'"')
                    for cut in range(0, len(raw), PIECE):
                        written.write(raw[cut : cut + PIECE])
                    written.write(b'"')
        return written.getvalue()


def _no_object() -> UnreadableRequestError:
    return UnreadableRequestError("the request's body is not a JSON object")


def text_bytes(body: dict[str, Any]) -> tuple[int, int]:
    """Return the bytes of all texts in a body but what is attached, wherever they are.

    And those of them that are hidden behind the marks of long texts.
    """
    size = hidden = 0
    waiting: list[Any] = [body]
    for item in taken(waiting):
        if isinstance(item, (str, bytes)):
            size += size_of(item)
            hidden += size_of(item) - bytes_in(item)
        elif isinstance(item, list):
            for part in slices(item):
                kinds = set(map(type, part))
                if kinds <= {str, bytes}:
                    size += bytes_of(part)
                elif kinds <= {int, float}:
                    size += _A_NUMBER * len(part)
                else:
                    waiting += part
        elif isinstance(item, dict):
            waiting += [
                value
                for name, value in item.items()
                if name not in _NO_TEXT or not isinstance(value, (str, bytes))
            ]
        elif type(item) in (int, float):
            size += _A_NUMBER
    return size, hidden
