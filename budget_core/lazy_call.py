"""Call a function in a module that is imported for the call only."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def lazy_call(module: str, function: str, *arguments: "Any") -> "Any":
    """Call a function; its module is imported for the call only, unless it is loaded already.

    A precompiled module is forgotten afterwards: a chip has its memory back, and loads it again in
    some milliseconds. Any other stays, because to compile it again takes more of both.
    """
    was_loaded = module in sys.modules
    loaded = __import__(module, None, None, (function,))
    if not was_loaded and getattr(loaded, "__file__", "").endswith(".mpy"):
        package, _, name = module.rpartition(".")
        del sys.modules[module]
        delattr(sys.modules[package], name)
    return getattr(loaded, function)(*arguments)
