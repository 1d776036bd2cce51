"""Put together the scripts that the server runs."""

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha1
from importlib.resources import files

_HOLDS = ("past", "settle")
_WITH = {  # `shared`, and
    "again": _HOLDS,
    "commit": _HOLDS,
    "expire": _HOLDS,
    "extend": _HOLDS,
    "history": ("past",),
    "hold": _HOLDS,
    "move": ("past", "follow"),
    "release": _HOLDS,
    "set_limits": ("past", "follow"),
}
_NUMBERS = re.compile(r"^local ([A-Z_, ]+) = ([0-9, ]+)$", re.MULTILINE)
_CAPITALS = re.compile(r"\b[A-Z][A-Z_]+\b")


@dataclass(frozen=True)
class Script:
    """The text of a script with what it shares, and the name that the server knows it by."""

    text: str
    sha: str


@cache
def script(name: str) -> Script:
    """Return the script of that name."""
    folder = files(__package__)
    parts = ("shared", *_WITH.get(name, ()), name)
    text = _with_numbers("\n".join((folder / f"{part}.lua").read_text("utf-8") for part in parts))
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def _with_numbers(text: str) -> str:
    """Put numbers in the places of the names in capitals that stand for them.

    Lua sets aside memory for each local that a function takes from outside, at each run.
    """
    numbers: dict[str, str] = {}
    for names, values in _NUMBERS.findall(text):
        numbers.update(zip(names.split(", "), values.split(", "), strict=True))
    return _CAPITALS.sub(lambda word: numbers.get(word[0], word[0]), _NUMBERS.sub("", text))
