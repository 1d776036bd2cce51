"""Digest a value, to tell later whether another one is the same."""

import hashlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PIECE = 256
_MOST = 1 << 16  # values: a structure that contains itself has no end


def digest_of(value: "Any") -> bytes:
    """Return 16 bytes that equal values have in common, and no others.

    Texts, bytes, lists, dicts in any order, and what these contain, are compared by what they are;
    anything else by its `repr`.
    """
    digest = hashlib.sha256()
    waiting, count = [value], 0
    while waiting and count < _MOST:
        item = waiting.pop()
        count += 1
        if isinstance(item, dict):
            digest.update(b"{%d:" % len(item))
            for name in sorted(item, key=str):
                waiting.append(item[name])
                waiting.append(name)
        elif isinstance(item, (list, tuple)):
            digest.update(b"[%d:" % len(item))
            waiting.extend(item)
        elif isinstance(item, (bytes, bytearray)):
            digest.update(b"b%d:" % len(item))
            digest.update(item)
        else:
            _add_text(digest, item)
    return digest.digest()[:16]


def _add_text(digest: "Any", text: "Any") -> None:
    """Add a text piece by piece: a copy of all of it may be too much for a chip."""
    digest.update(b"t" if isinstance(text, str) else b"r")
    text = text if isinstance(text, str) else repr(text)
    digest.update(b"%d:" % len(text))
    for start in range(0, len(text), _PIECE):
        digest.update(text[start : start + _PIECE].encode("utf-8", "surrogatepass"))
