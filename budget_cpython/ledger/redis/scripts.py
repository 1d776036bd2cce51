"""Put together the scripts that the server runs."""

from functools import cache
from importlib.resources import files

_HOLDS = ("past", "settle")
_WITH = {  # `shared`, and
    "again": _HOLDS,
    "balances": ("past", "follow"),
    "commit": _HOLDS,
    "expire": _HOLDS,
    "extend": _HOLDS,
    "history": ("past",),
    "hold": _HOLDS,
    "move": ("past", "follow"),
    "release": _HOLDS,
    "renew": (*_HOLDS, "admit"),
    "reserve": ("admit",),
    "set_limits": ("past", "follow"),
}


@cache
def script(name: str) -> str:
    """Return the text of the script of that name, with the functions it shares with others."""
    folder = files(__package__)
    parts = ("shared", *_WITH.get(name, ()), name)
    return "\n".join((folder / f"{part}.lua").read_text("utf-8") for part in parts)
