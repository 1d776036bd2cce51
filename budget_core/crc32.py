"""Reckon a CRC-32 where the port has none."""


def crc32(data: bytes, value: int = 0) -> int:
    """Return the CRC-32 of `data`, as `binascii.crc32` does, bit by bit: no table in memory."""
    value ^= 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
    return value ^ 0xFFFFFFFF
