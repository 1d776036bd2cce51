"""Write the arguments of scripts: the first lines of each script say what it takes."""

from typing import Any

Arguments = dict[str, Any]


def of_operation(operation: str, arguments: Arguments) -> list[Any]:
    """Return the arguments of an operation on a path."""
    found = common(arguments)
    if operation in ("reserve", "renew", "charge", "extend"):
        found.append(arguments.get("ttl_ms", 0))
    used = _pairs(arguments.get("actual"))
    if operation == "renew":
        found += (arguments["former"], len(found) + 2 + len(used))
    found += used + _pairs(arguments.get("amounts"))
    for axis in arguments.get("unbounded", ()):
        found += (axis, -1)
    for axis in arguments.get("counted", ()):
        found += (axis, -2)
    return found


def _pairs(amounts: dict[str, int] | None) -> list[Any]:
    return [one for pair in (amounts or {}).items() for one in pair]


def common(arguments: Arguments, *own: Any) -> list[Any]:
    """Return the arguments that every script takes first, and a script's own."""
    now = "" if arguments["now"] is None else arguments["now"]
    keep_ms = arguments["keep_ms"] or 1
    return [now, keep_ms, arguments["path"], arguments.get("id", ""), *own]


def limits(arguments: Arguments, listed: bool) -> list[Any]:
    """Return the further arguments of `set_limits`."""
    caps = ["" if one is None else one for row in arguments["limits"] for one in row]
    return [bounds(arguments), int(listed), *caps]


def bounds(arguments: Arguments) -> str:
    """Return the bounds of the known windows, as lines of name, first, start and end."""
    known = arguments["bounds"].items()
    return "\n" + "".join([f"{name}\t{a}\t{b}\t{c}\n" for name, (a, b, c) in known])
