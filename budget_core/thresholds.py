"""The thresholds of budgets: when a model is warned, where that goes, and which tools it keeps.

Turns, days, envelopes and accounts of a ledger take part alike, as axes: an axis is a tuple
`(scope, unit, used, cap, kept)`, where `kept` of the cap is reserved for the final answer. Shares
are parts per million of what may be used before that, compared as whole numbers.
"""

from budget_core.config import WHOLE, in_ppm

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import Axis, Messages, Tools


def kept_of(cap: int | None, share: float | None) -> int:
    """Return the part of a cap that a share keeps for a final call; at least 1 is left."""
    return min(cap - 1, cap * in_ppm(share) // WHOLE) if cap and share else 0


def kept_calls(cap: int | None, share: float | None) -> int:
    """Return the calls reserved for the final answer: 1, or 0 if the cap is 1."""
    return int(share is not None and (cap or 0) > 1)


def nearest(axes: "Sequence[Axis]") -> "Axis":
    """Return the axis that is nearest to its end; of equal ones the first."""
    found = axes[0]
    most, least = _figures(found)
    for axis in axes[1:]:
        used, room = _figures(axis)
        if used * least > most * room:
            found, most, least = axis, used, room
    return found


def _figures(axis: "Axis") -> "tuple[int, int]":
    """Return `(used, available)`; `(-1, 1)` without a cap."""
    _, _, used, cap, kept = axis
    if cap is None:
        return -1, 1
    return (used, cap - kept) if cap > kept else (used + 1, used + 1)


def is_reached(axis: "Axis", ppm: int) -> bool:
    """Tell whether that share of an axis is used; without a cap that is a share of 0 only."""
    used, room = _figures(axis)
    return max(0, used) * WHOLE >= room * ppm


def newly_reached(axis: "Axis", thresholds: "Sequence[int]", lowest: int) -> int | None:
    """Return the highest of the thresholds that is reached, if it is `lowest` or above."""
    reached = [ppm for ppm in thresholds if ppm >= lowest and is_reached(axis, ppm)]
    return max(reached) if reached else None


def as_messages(notices: "Sequence[str | None]") -> "Messages":
    """Return notices as messages of the user, which go last in one call and are never kept."""
    return [{"role": "user", "content": notice} for notice in notices if notice]


def withdraw(
    tools: "Tools", axis: "Axis", stages: "Sequence[tuple[int | None, Callable[[str], bool]]]"
) -> "tuple[Tools, tuple[str, ...]]":
    """Return the tools that a call still offers, and the names of those that it does not.

    `stages` are shares from which only tools that a function of their name accepts are offered, the
    highest share first.
    """
    for ppm, keeps in stages:
        if ppm is not None and is_reached(axis, ppm):
            kept = [tool for tool in tools if keeps(_name(tool))]
            return kept, tuple([_name(tool) for tool in tools if tool not in kept])
    return tools, ()


def _name(tool: "Any") -> str:
    """Return a tool's name in OpenAI's shape (`function.name`) or a flat one (`name`)."""
    if not isinstance(tool, dict):
        return ""
    function = tool.get("function")
    return str((isinstance(function, dict) and function.get("name")) or tool.get("name") or "")
