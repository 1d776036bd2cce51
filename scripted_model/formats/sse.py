"""Server-sent events, and the pieces that a text is streamed in."""

import json
from collections.abc import Iterator
from typing import Final

from scripted_model.checks import Json

PIECE_CHARS: Final = 12


def event(data: Json | str, name: str | None = None) -> str:
    """Return one event: its name, if it has one, and its data as JSON."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n"


def pieces(text: str) -> Iterator[str]:
    """Yield a text in pieces, as a model generates it."""
    return (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))
