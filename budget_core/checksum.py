"""Put a checksum in front of a state, and refuse a state that does not match its own."""

from binascii import crc32

from budget_core.errors import StateCorruptError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HEAD = 12  # `["01234567",`


def encode(state: "dict[str, Any]", size: int, fill: bool = False) -> bytes:
    """Return `state` as a JSON list of its text's CRC-32 and itself, in at most `size` bytes.

    With `fill` blanks make it exactly that long. Raises `StoreError` for a larger state.
    """
    import json  # late: on CPython it takes as long as the rest of a tracker

    text = json.dumps(state, separators=(",", ":")).encode()
    room = size - _HEAD - 1 - len(text)
    if room < 0:
        raise StoreError(f"a state of {len(text)} bytes does not fit into {size - _HEAD - 1}")
    return framed(text + b" " * room if fill else text)


def decode(data: bytes) -> "dict[str, Any]":
    """Return the state in `data`; raise `StateCorruptError` if there is none."""
    text = data[_HEAD:-1]
    if data != framed(text):
        raise StateCorruptError("stored state is damaged or was edited: its CRC does not match")
    import json  # late: on CPython it takes as long as the rest of a tracker

    try:
        state = json.loads(text)
    except (ValueError, RuntimeError) as error:
        raise StateCorruptError("stored state is not JSON", error)
    if not isinstance(state, dict):
        raise StateCorruptError("stored state is not a JSON object")
    return state


def framed(text: bytes) -> bytes:
    """Return `text` with its checksum in front."""
    return b'["%08x",' % (crc32(text) & 0xFFFFFFFF) + text + b"]"
