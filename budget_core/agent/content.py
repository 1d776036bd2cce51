"""Read the text of an answer whose content is of another kind."""

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def text_in(content: "Any") -> str:
    """Return the text of bytes, of a list's parts, or of any other value as JSON; never raises."""
    if isinstance(content, (bytes, bytearray)):
        try:
            return bytes(content).decode()
        except ValueError:
            return str(content)
    if isinstance(content, (list, tuple)):
        parts = [part.get("text") if isinstance(part, dict) else part for part in content]
        text = "".join([part for part in parts if isinstance(part, str)])
        if text or not content:
            return text
    for write in (json.dumps, str):
        try:
            return write(content)
        except Exception:  # noqa: BLE001, S110 - what contains itself, or a foreign object's error
            pass
    return ""
