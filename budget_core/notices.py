"""Fill the texts that a budget puts in front of a model."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import Axis


WARNING = (
    "[Budget notice] {pct}% of your {scope} budget is used ({used} of {cap} {unit}{reserved}). "
    "Finish what you are doing and answer the user soon."
)
CUTOFF = (
    "[Budget exhausted] The {scope} budget is spent ({used} of {cap} {unit}). "
    "Work stops here; a smaller task may fit."
)
FALLBACK = (
    "[Budget exhausted] The {scope} budget is spent ({used} of {cap} {unit}). "
    "A cheaper model takes over until it resets."
)
TOOL_STRIP = (
    "[Budget critical] {pct}% of your {scope} budget is used ({used} of {cap} {unit}{reserved}). "
    "{disallow_clause} for this answer: sum up and reply to the user now."
)
LAST_CALL = (
    "[Budget exhausted] {reason}. This is your last answer and there are no tools any more: tell "
    "the user what you have found, what you have done, and what is missing."
)
UNAVAILABLE = "[Budget unavailable] The budget's state cannot be read or written now."
DAMAGED = (
    "[Budget unavailable] The stored state of the daily budget is damaged, so the day counts as "
    "spent. It begins again tomorrow; to go on today, the owner restores or removes the state."
)


def fill(template: str, axis: "Axis", tools: "Sequence[str]" = ()) -> str:
    """Return `template` with an axis' figures in place of their names.

    The names are `{scope} {pct} {used} {cap} {unit} {reserved} {disallow_clause}`. `{cap}` is what
    may be used before the final answer, `{pct}` the whole percent of it that is used. Money is
    shown in dollars, without a unit.
    """
    scope, axis_unit, used, cap, kept = axis
    if cap is not None and used > cap - kept:
        kept = 0  # it is used, too
    show, unit = show_on(axis_unit)
    room = 0 if cap is None else cap - kept
    values = {
        "scope": scope,
        "pct": 100 * used // room if room else 100 if cap is not None else 0,
        "used": show(used),
        "cap": "unlimited" if cap is None else show(room),
        "unit": axis_unit,
        "reserved": reserved(kept, show),
        "disallow_clause": disallow_clause(tools),
    }
    if show is not str:
        template = template.replace(" {unit}", unit)
    return substitute(template, values)


def warning(template: str | None, axis: "Axis") -> str:
    """Return the warning of an axis that nears its end; `None` is the standard text."""
    return fill(template or WARNING, axis)


def tools_off(template: str | None, axis: "Axis", tools: "Sequence[str]") -> str:
    """Return the notice that these tools are off, all without names; `None` is as above."""
    return fill(template or TOOL_STRIP, axis, tools)


def last_call(template: str | None, reason: str) -> str:
    """Return the notice of a final call; `None` is as above."""
    return substitute(template or LAST_CALL, {"reason": reason})


def figures(axis: "Axis") -> str:
    """Return what is used of an axis, as in `7 of 9 turns, and one reserved for the answer`."""
    _, unit, used, cap, kept = axis
    show, unit = show_on(unit)
    limit = cap or 0
    kept = 0 if used > limit - kept else kept  # past it, it is used too
    return f"{show(used)} of {show(limit - kept)}{unit}{reserved(kept, show)}"


def reserved(kept: int, show: "Callable[[int], str]" = str) -> str:
    """Return the clause that says what is reserved for the final answer, after the figures."""
    return f", and {'one' if kept == 1 else show(kept)} reserved for the answer" if kept else ""


def substitute(template: str, values: "dict[str, Any]") -> str:
    """Return `template` with each known `{name}` replaced by its value, the rest left as it is.

    Literal substitution in one pass: `{0.__class__}` and `{x:>99}` are plain text, and no value is
    searched for names.
    """
    parts = template.split("{")
    text = parts[0]
    for part in parts[1:]:
        name, brace, rest = part.partition("}")
        text += f"{values[name]}{rest}" if brace and name in values else "{" + part
    return text


def show_on(axis: str) -> "tuple[Callable[[int], str], str]":
    """Return what shows an amount on an axis, and the unit that follows: money is in dollars."""
    if not axis.startswith("nano_usd"):
        return str, " " + axis
    from budget_core.money import dollars  # loaded for the first amount of money

    return dollars, axis[8:]


def disallow_clause(tools: "Sequence[str]") -> str:
    """Return the clause that says which tools are off; no names means all of them."""
    if not tools:
        return "Tools are disabled"
    if len(tools) == 1:
        return f"Tool {tools[0]} is disabled"
    last = ", and " if len(tools) > 2 else " and "
    return "Tools " + ", ".join(tools[:-1]) + last + tools[-1] + " are disabled"
