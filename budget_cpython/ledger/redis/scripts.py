"""Put together the scripts that the server runs."""

import re
from functools import cache
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


@cache
def script(name: str) -> str:
    """Return the text of the script of that name, with the functions it shares with others."""
    folder = files(__package__)
    parts = ("shared", *_WITH.get(name, ()), name)
    return _with_numbers("\n".join((folder / f"{part}.lua").read_text("utf-8") for part in parts))


def _with_numbers(text: str) -> str:
    """Replace the names in capitals by the numbers they stand for.

    Lua allocates memory for each local that a function takes from outside, at each run.
    """
    numbers: dict[str, str] = {}
    for names, values in _NUMBERS.findall(text):
        numbers.update(zip(names.split(", "), values.split(", "), strict=True))
    return _CAPITALS.sub(lambda word: numbers.get(word[0], word[0]), _NUMBERS.sub("", text))
