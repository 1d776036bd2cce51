"""Repair text whose JSON escaped characters as surrogate pairs."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def joined(value: "Any") -> "Any":
    """Join the pairs of surrogates in every string of a value; replace each that is alone."""
    if isinstance(value, list):
        return [joined(item) for item in value]
    if isinstance(value, dict):
        return {joined(name): joined(item) for name, item in value.items()}
    if not isinstance(value, str):
        return value
    codes: list[int] = []
    for char in value:
        code = ord(char)
        if 0xDC00 <= code < 0xE000 and codes and 0xD800 <= codes[-1] < 0xDC00:
            codes[-1] = 0x10000 + ((codes[-1] & 0x3FF) << 10) + (code & 0x3FF)
        else:
            codes.append(code)
    return "".join([chr(0xFFFD if 0xD800 <= code < 0xE000 else code) for code in codes])
