"""Say what scripts are given after the arguments that all of them take: see their first lines."""

from typing import Any

from budget_core.ledger.limit import MOST

Arguments = dict[str, Any]


def own(operation: str, arguments: Arguments) -> list[Any]:
    """Return what the script of an operation on a path takes."""
    if operation == "commit":
        amounts, found = arguments["actual"] or {}, []
    elif operation in ("reserve", "charge"):
        amounts, found = arguments["amounts"], [arguments.get("ttl_ms", 0)]
    else:
        return [arguments["ttl_ms"]] if "ttl_ms" in arguments else []
    found.append(len(amounts))
    for axis in amounts:
        found += (axis, amounts[axis])
    return found


def limits(arguments: Arguments, noted: bool) -> list[Any]:
    """Return what `set_limits` takes."""
    caps = [MOST if one is None else one for row in arguments["limits"] for one in row]
    return [bounds(arguments), int(noted), *caps]


def bounds(arguments: Arguments) -> str:
    """Return the bounds of windows that are known, as lines of name, first, start and end."""
    known = arguments["bounds"].items()
    return "\n" + "".join([f"{name}\t{a}\t{b}\t{c}\n" for name, (a, b, c) in known])
