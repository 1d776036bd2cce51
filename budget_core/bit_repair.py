"""Repair a stored state in which one bit of flash has flipped."""

from budget_core.checksum import decode
from budget_core.errors import StateCorruptError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def repaired(data: bytes) -> "dict[str, Any] | None":
    """Return the state that `data` holds but for one flipped bit, or `None`.

    Up to 370 bytes any two texts with their CRC-32 differ in at least five bits (Koopman, 32-Bit
    Cyclic Redundancy Codes for Internet Applications), so there is at most one answer.
    """
    work = bytearray(data)
    for place in range(len(work)):
        for bit in range(8):
            work[place] ^= 1 << bit
            try:
                return decode(bytes(work))
            except StateCorruptError:
                work[place] ^= 1 << bit
    return None
