"""Parse JSON in pieces, so that no step of a large body takes long."""

import json
import re
import secrets
from typing import Any, Final

from budget_cpython.adapters.wire.long_text import (
    PIECE,
    LongText,
    end_of_escapes,
    packed,
    without_escapes,
)
from budget_cpython.adapters.wire.refusals import UnreadableRequestError
from budget_cpython.adapters.wire.steps import pause, taken

MAX_VALUES: Final = 500_000  # embeddings take 300,000 tokens a request
MAX_DEPTH: Final = 100
LONG: Final = 16_384  # bytes: a longer text of a large body is not taken out of it
_MOST_UNCUT: Final = 8 * PIECE  # from a comma to the next one, without long texts
_MOST_TRIES: Final = 8
_TEXT: Final = re.compile(rb'"[^"]*+"')
_NEXT_LONG: Final = re.compile(
    rb'(?:[^"]*+"[^"]{0,%d}+")*+[^"]*+"([^"]{%d,}+)("?)' % (LONG - 1, LONG)
)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


class Pieces:
    """JSON that is cut at commas, and parsed piece by piece.

    Each piece gets the brackets that are open where it begins and where it ends. What it holds is
    then added to the containers that were open. `value` is the whole, with a `LongText` for each
    long text if the JSON is larger than a piece, and its other texts are `packed` then; `texts` are
    the long ones by their marks.

    Raises `UnreadableRequestError` for more than `MAX_VALUES` values, for more than `MAX_DEPTH`
    levels and for a key that comes twice, and `ValueError` for malformed JSON.
    """

    def __init__(self, data: bytes) -> None:
        self.value: Any = None
        self.texts: dict[str, LongText] = {}
        self.mark = f"microbudget {secrets.token_hex(8)}"  # no client can know it
        self._data = data
        self._open = bytearray()  # brackets
        self._spine: list[Any] = []  # the containers that are open where the next piece begins
        self._pending: list[bytes] = []
        self._uncut = self._values = self._added = 0
        place = 0
        while place < len(data):
            place = self._read(place)
            if place < len(data):
                pause()
        if self._open:
            raise ValueError("a bracket is not closed")
        self._add()

    def _read(self, place: int) -> int:
        """Read on from a place outside of texts, and return the next one."""
        data = self._data
        piece = data[place : place + PIECE]
        if place + len(piece) < len(data):
            piece = piece[: end_of_escapes(piece)]
        marks = without_escapes(piece)
        begin = 0
        while len(data) > PIECE and (found := _NEXT_LONG.match(marks, begin)):
            self._take(piece[begin : found.start(1) - 1], marks[begin : found.start(1) - 1])
            begin, end = found.end(), place + found.end(1)
            if not found[2]:
                end = self._end_of_text(end)
                begin = end + 1 - place
            self._keep(place + found.start(1), end)
        if begin >= len(marks):
            return place + begin
        end = len(marks) if marks.count(b'"', begin) % 2 == 0 else marks.rfind(b'"')
        if end == begin:
            if place + len(marks) == len(data):
                raise ValueError("a text has no end")
            return place + begin
        self._take(piece[begin:end], marks[begin:end])
        return place + end

    def _end_of_text(self, place: int) -> int:
        """Return where the text ends that goes on at a place."""
        while place < len(self._data):
            piece = self._data[place : place + PIECE]
            piece = piece[: end_of_escapes(piece) or len(piece)]
            found = without_escapes(piece).find(b'"')
            if found >= 0:
                return place + found
            place += len(piece)
            pause()
        raise ValueError("a text has no end")

    def _keep(self, start: int, end: int) -> None:
        """Have a long text stay in the data."""
        mark = f"{self.mark} {len(self.texts)}"
        self.texts[mark] = LongText(mark, memoryview(self._data)[start:end])
        self._pending.append(b'"%s"' % mark.encode())

    def _take(self, piece: bytes, marks: bytes) -> None:
        """Take a piece with whole texts; add what is pending if it is enough."""
        outside = _TEXT.sub(b"", marks)
        self._values += sum(map(outside.count, (b",", b":", b"[", b"{")))
        self._uncut += len(piece)
        if self._values > MAX_VALUES:
            raise UnreadableRequestError(f"the request's body has more than {MAX_VALUES:,} values")
        cut = _last_comma(marks) if self._uncut > PIECE // 2 else -1
        if cut >= 0:
            self._follow(_TEXT.sub(b"", marks[:cut]))
            self._pending.append(piece[:cut])
            if not self._open:
                raise ValueError("there is more than one value")
            self._add()
            piece, outside = piece[cut + 1 :], _TEXT.sub(b"", marks[cut + 1 :])
            self._uncut = len(piece)
        if self._uncut > _MOST_UNCUT:
            raise ValueError("there are no commas")
        self._follow(outside)
        self._pending.append(piece)

    def _follow(self, outside: bytes) -> None:
        """Note which brackets are open after some JSON without its texts."""
        for bracket in outside.translate(None, _NO_BRACKETS):
            if bracket in b"[{":
                self._open.append(bracket)
                if len(self._open) > MAX_DEPTH:
                    text = f"the request's body is nested more than {MAX_DEPTH} levels deep"
                    raise UnreadableRequestError(text)
            elif not self._open:
                raise ValueError("a bracket is closed that is not open")
            else:
                self._open.pop()

    def _add(self) -> None:
        """Parse the pending text, and add its values to the open containers."""
        text = b"".join(self._pending)
        self._pending.clear()
        if self._spine and text.lstrip()[:1] in b"]}":
            raise ValueError("nothing follows a comma")
        if self._open and text.rstrip()[-1:] in b"[{":
            raise ValueError("nothing precedes a comma")
        name = json.dumps(self.mark).encode() + b":"
        opened = [b"[" if isinstance(one, list) else b"{" + name for one in self._spine]
        before = b"".join(opened).removesuffix(name)
        after = bytes(self._open[::-1]).translate(bytes.maketrans(b"[{", b"]}"))
        found = json.loads((before + text + after).decode(), object_pairs_hook=_with_keys_once)
        is_plain = len(self._data) <= PIECE or (text.isascii() and b"\\u" not in text)
        if len(self.texts) > self._added or not is_plain:
            found = self._with_texts(found)
            self._added = len(self.texts)
        if self._spine:
            self._merge(found)
        else:
            self.value = found
        self._spine = [self.value][: len(self._open)]
        while len(self._spine) < len(self._open):
            last = self._spine[-1]
            self._spine.append(last[-1] if isinstance(last, list) else last[next(reversed(last))])

    def _merge(self, found: Any) -> None:
        """Add what a piece holds to the open containers; their first entries lead on."""
        for container in self._spine:
            within = None
            if isinstance(container, list):
                if container is not self._spine[-1]:
                    within = found.pop(0)
                container += found
            else:
                within = found.pop(self.mark, None)
                if not container.keys().isdisjoint(found):
                    raise _twice(next(iter(container.keys() & found.keys())))
                container.update(found)
            found = within

    def _with_texts(self, found: Any) -> Any:
        """Return a value with its long texts in place of their marks, and the others packed."""
        whole = [found]
        waiting: list[Any] = [whole]
        for item in taken(waiting):
            for key, value in enumerate(item) if isinstance(item, list) else item.items():
                if isinstance(value, str):
                    item[key] = self.texts.get(value) or packed(value)
                elif isinstance(value, (list, dict)):
                    waiting.append(value)
        return whole[0]


def _with_keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _twice(next(name for name in names if names.count(name) > 1))
    return found


def _twice(name: str) -> UnreadableRequestError:
    return UnreadableRequestError(f"the request's body has the key {name[:60]!r} twice")


def _last_comma(marks: bytes) -> int:
    """Return where the last comma outside of texts is; -1 if it is not found in some tries."""
    end = len(marks)
    for _ in range(_MOST_TRIES):
        comma = marks.rfind(b",", 0, end)
        if comma < 0 or marks.count(b'"', comma, end) % 2 == 0:
            return comma
        end = marks.rfind(b'"', 0, comma)
    return -1
