"""Texts of a large body: long ones are read part by part, and never as a whole."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from budget_core.usage_estimate import bytes_in
from budget_cpython.adapters.wire.steps import pause

PIECE: Final = 65_536  # bytes of JSON, or characters, that are read at once
_ESCAPE: Final = 6  # bytes of the longest escape, as in \u00e9
_HIGH_SURROGATE: Final = re.compile(rb"\\u[dD][89abAB]..")
_CUT_CHARACTER: Final = re.compile(rb"[\xc0-\xff][\x80-\xbf]{0,3}\Z")


class LongText(str):
    """A long text that stays in its body as it came; as a `str` it is a mark in its place.

    `raw` is what the body has between the quotes, `size` the UTF-8 bytes of the text.
    Raises `ValueError` if `raw` is malformed.
    """

    __slots__ = ("raw", "size")
    raw: memoryview
    size: int

    def __new__(cls, mark: str, raw: memoryview) -> "LongText":
        """Read the text through, and keep its mark."""
        new = super().__new__(cls, mark)
        new.raw = raw
        new.size = sum(map(bytes_in, parts_of(new)))
        return new


def parts_of(text: str) -> Iterator[str]:
    """Yield a text in parts of at most `PIECE` characters."""
    if not isinstance(text, LongText):
        for start in range(0, len(text), PIECE):
            yield text[start : start + PIECE]
        return
    start = 0
    while start < len(text.raw):
        if start:
            pause()
        part = bytes(text.raw[start : start + PIECE])
        start += len(part)
        if start < len(text.raw):
            end = end_of_escapes(part)
            cut = _CUT_CHARACTER.search(part, max(0, end - 4), end)
            end = cut.start() if cut else end
            start -= len(part) - end
            part = part[:end]
        yield json.loads(f'"{part.decode()}"')


def packed(text: str) -> str | bytes:
    """Return a text in the least memory: an emoji would take four bytes for each character."""
    if text.isascii():
        return text
    # A copy, as `encode` makes room for four times as much, which stays lost between other objects.
    return bytes(memoryview(text.encode("utf-8", "surrogatepass")))


def unpacked(value: Any) -> Any:
    """Return the text of one that was `packed`, any other value as it is."""
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def all_unpacked(value: Any) -> Any:
    """Return a value of JSON with all its texts `unpacked`."""
    if isinstance(value, list):
        return [all_unpacked(one) for one in value]
    if isinstance(value, dict):
        return {name: all_unpacked(one) for name, one in value.items()}
    return unpacked(value)


def size_of(text: Any) -> int:
    """Return how many UTF-8 bytes a text has, 0 for any other value."""
    return text.size if isinstance(text, LongText) else bytes_in(text)


def bytes_of(texts: list[Any]) -> int:
    """Return how many UTF-8 bytes texts have, none of which is a `LongText`."""
    kinds = set(map(type, texts))
    if kinds == {bytes} or (kinds == {str} and all(map(str.isascii, texts))):
        return sum(map(len, texts))  # by far the fastest
    return sum(map(bytes_in, texts))


def without_escapes(piece: bytes) -> bytes:
    """Return JSON of the same length, with `__` for each backslash and quote that is escaped."""
    if b"\\" not in piece:  # by far the fastest to find
        return piece
    return piece.replace(rb"\\", b"__").replace(rb"\"", b"__")


def end_of_escapes(piece: bytes) -> int:
    """Return where JSON may be cut: in no escape, and in no pair of surrogates."""
    place = piece.rfind(b"\\", max(0, len(piece) - _ESCAPE))
    if place < 0:
        return len(piece)
    if not _begins_escape(piece, place):
        return place + 1
    before = max(0, place - _ESCAPE)
    is_pair = _HIGH_SURROGATE.match(piece, before) and _begins_escape(piece, before)
    return before if is_pair else place


def _begins_escape(piece: bytes, place: int) -> bool:
    """Tell whether the backslash at a place is not escaped itself."""
    before = piece[:place]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 0
