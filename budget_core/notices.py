"""Fill the texts that a budget puts in front of a model."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Tracker


UNAVAILABLE = "[Budget unavailable] The budget's state cannot be read or written now."


def fill(template: str, tracker: "Tracker", share: float) -> str:
    """Return `template` with a tracker's figures in place of their names.

    The names are `{scope} {pct} {used} {cap} {unit} {disallow_clause}`.
    """
    used, cap, unit = tracker.dominant_axis()
    values = {
        "scope": tracker.SCOPE,
        "pct": int(share * 100 + 0.5),
        "used": used,
        "cap": "unlimited" if cap is None else cap,
        "unit": unit,
        "disallow_clause": disallow_clause(tracker.config.tool_strip_disallow),
    }
    return substitute(template, values)


def substitute(template: str, values: "dict[str, Any]") -> str:
    """Return `template` with each known `{name}` replaced by its value, the rest left as it is.

    Literal substitution in one pass: `{0.__class__}` and `{x:>99}` are plain text, and no value is
    searched for names. Money is shown in dollars, without a unit.
    """
    show, unit = show_on(values.get("unit", ""))
    if show is not str:
        values = dict(values, used=show(values["used"]), cap=show(values["cap"]))
        template = template.replace(" {unit}", unit)
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


def last_words(tracker: "Tracker", enforcement: str) -> str:
    """Return the text that ends a turn, after a warning that the exhausting call left unsaid."""
    warning = tracker.consume_threshold_warning(True)
    text = tracker.at_limit_message(enforcement)
    return f"{warning}\n\n{text}" if warning else text


def disallow_clause(tools: "tuple[str, ...]") -> str:
    """Return the clause that says which tools are off; no names means all of them."""
    if not tools:
        return "Tools are disabled"
    if len(tools) == 1:
        return f"Tool {tools[0]} is disabled"
    last = ", and " if len(tools) > 2 else " and "
    return "Tools " + ", ".join(tools[:-1]) + last + tools[-1] + " are disabled"
