"""The size of an image, the length of a sound and the pages of a file, read from its bytes."""

import binascii
import re
import string
from collections.abc import Iterator
from math import ceil
from typing import Any, Final

from budget_core.usage_estimate import bytes_in

_PIECE: Final = 65_536  # characters, or bytes, that are read at once
_HEADER: Final = 1 << 19  # bytes in which an image says its size
_NO_DIGITS: Final = bytes(
    set(range(256)) - set(string.ascii_letters.encode() + string.digits.encode() + b"+/")
)
_PAGE_HEAD: Final = 32  # bytes that may be in two pieces
_FILM_HEAD: Final = 64
_PAGE: Final = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_PAGE_COUNT: Final = re.compile(rb"/Count\s+(\d{1,6})")
_PAGE_BYTES: Final = 256  # of the shortest page
_SLOWEST: Final = 1_000  # bytes a second of sound: 8 kbit/s
_MP3_FRAME: Final = re.compile(rb"\xff([\xe2\xe3\xf2\xf3\xfa\xfb])([\x10-\xef])")
_MP3_KBITS: Final = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)  # MPEG 2, layer 3
_MP3_KBITS_1: Final = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320)


class Inline:
    """Attached content: base64 in `text` after `skipped` characters, or `data`.

    `length` is in bytes.
    """

    def __init__(
        self, text: str, length: int | None = None, data: bytes | None = None, skipped: int = 0
    ) -> None:
        self._text = text
        self._data = data
        self._skipped = skipped
        self.length = (bytes_in(text) - skipped) * 3 // 4 if length is None else length

    @classmethod
    def of_url(cls, url: Any) -> "Inline | None":
        """Return the content of a `data:` URL, or of base64 alone; `None` for other addresses."""
        begin = url[:_PIECE] if isinstance(url, str) else ""
        if re.match("(?:https?|gs|s3|file):", begin):
            return None
        skipped = len(begin.partition(",")[0]) + 1 if begin.startswith("data:") else 0
        return cls(url, skipped=skipped) if skipped < bytes_in(url) else None

    @classmethod
    def of_bytes(cls, data: bytes) -> "Inline":
        """Return content that is not in base64."""
        return cls("", len(data), data)

    def size(self) -> tuple[int, int] | None:
        """Return an image's width and height in pixels, if they can be read."""
        data = self._bytes(64)
        if data[:8] == b"\x89PNG\r\n\x1a\n":
            found = _pair(data, 16, 4, "big")
        elif data[:6] in (b"GIF87a", b"GIF89a"):
            found = _pair(data, 6, 2, "little")
        elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            found = _webp(data)
        elif data[:2] == b"\xff\xd8":
            found = _jpeg(self._bytes(_HEADER))
        else:
            return None
        return found if min(found) > 0 else None

    def seconds(self) -> int:
        """Return the longest time that a sound or a film may last, in whole seconds."""
        data = self._bytes(1 << 12)
        if data[4:8] == b"ftyp":
            found = next(filter(None, map(_of_film, self._windows(_FILM_HEAD))), None)
            if found is not None:
                return found
        rate = _wave_rate(data) or _mp3_rate(self._bytes(_HEADER)) or _SLOWEST
        return ceil(self.length / rate)

    def pages(self, most: int) -> int | None:
        """Return the pages of a PDF, at most `most`; `None` if it is not a PDF."""
        if b"%PDF-" not in self._bytes(1 << 11):
            return None
        pages = most_said = 0
        for data in self._windows(_PAGE_HEAD):
            ends = (found.end() for found in _PAGE.finditer(data))
            pages += sum(end > _PAGE_HEAD for end in ends)
            most_said = max([most_said, *map(int, _PAGE_COUNT.findall(data))])
        return min(most, max(pages, most_said) or ceil(self.length / _PAGE_BYTES))

    def _bytes(self, most: int) -> bytes:
        """Return the first `most` bytes, or all if there are fewer."""
        found = bytearray()
        for piece in self._pieces():
            found += piece
            if len(found) >= most:
                break
        return bytes(found[:most])

    def _windows(self, before: int) -> Iterator[bytes]:
        """Yield all bytes piece by piece, each after the `before` bytes that precede it."""
        last = b" " * before
        for piece in self._pieces():
            yield last + piece
            last = (last + piece)[-before:]

    def _pieces(self) -> Iterator[bytes]:
        """Yield the bytes; what is not base64 is left out."""
        if self._data is not None:
            for start in range(0, len(self._data), _PIECE):
                yield self._data[start : start + _PIECE]
            return
        rest = b""
        for start in range(self._skipped, len(self._text), _PIECE):
            part = self._text[start : start + _PIECE].encode("ascii", "ignore")
            digits = rest + part.translate(None, _NO_DIGITS)
            whole = len(digits) & ~3
            rest = digits[whole:]
            yield binascii.a2b_base64(digits[:whole])
        if len(rest) > 1:
            yield binascii.a2b_base64(rest + b"==")


def _pair(data: bytes, place: int, each: int, order: Any) -> tuple[int, int]:
    first, second = data[place : place + each], data[place + each : place + 2 * each]
    return int.from_bytes(first, order), int.from_bytes(second, order)


def _webp(data: bytes) -> tuple[int, int]:
    if data[12:16] == b"VP8X":
        width, height = _pair(data, 24, 3, "little")
        return width + 1, height + 1
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = _pair(data, 26, 2, "little")
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(data: bytes) -> tuple[int, int]:
    """Return the size in the first frame header of a JPEG; zeros without one."""
    place = 2
    while place + 9 <= len(data) and data[place] == 0xFF:
        kind = data[place + 1]
        if 0xC0 <= kind <= 0xCF and kind not in (0xC4, 0xC8, 0xCC):
            height, width = _pair(data, place + 5, 2, "big")
            return width, height
        length = int.from_bytes(data[place + 2 : place + 4], "big")
        place += 1 if kind == 0xFF else 2 + max(2, length)
    return 0, 0


def _wave_rate(data: bytes) -> int:
    """Return the bytes a second of a WAV file, 0 for anything else."""
    place = data.find(b"fmt ", 12) if data[:4] == b"RIFF" and data[8:12] == b"WAVE" else -1
    if place < 0:
        return 0
    said = int.from_bytes(data[place + 16 : place + 20], "little")
    samples, _ = _pair(data, place + 12, 4, "little")
    each, _ = _pair(data, place + 20, 2, "little")
    return min(said, samples * each)  # decoders go by the samples


def _mp3_rate(data: bytes) -> int:
    """Return the bytes a second of an MP3 file by its first frame, 0 for anything else."""
    tag = 0
    if data[:3] == b"ID3":
        tag = 10 + sum((byte & 0x7F) << (21 - 7 * place) for place, byte in enumerate(data[6:10]))
    found = _MP3_FRAME.match(data, tag)
    if found is None:
        return 0
    table = _MP3_KBITS_1 if found[1] >= b"\xfa" else _MP3_KBITS
    return table[(found[2][0] >> 4) - 1] * 125


def _of_film(data: bytes) -> int | None:
    """Return the seconds that an MP4 file says it lasts; a file in fragments says 0."""
    place = data.find(b"mvhd")
    if place < 0:
        return None
    wide = data[place + 4] == 1 if place + 4 < len(data) else False
    start, each = (24, 8) if wide else (16, 4)
    scale = int.from_bytes(data[place + start : place + start + 4], "big")
    length = int.from_bytes(data[place + start + 4 : place + start + 4 + each], "big")
    return ceil(length / scale) if scale and length else None
