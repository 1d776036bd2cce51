"""Say in a word what each slot of a store is."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def words_for(slots: "list[Any]") -> "list[str]":
    """Return newest, older, empty, damaged, unreadable or missing for each.

    A slot is its state with its number `seq`, "missing", another word for what is wrong with it,
    or `None` where it could not be read.
    """
    newest = max([slot["seq"] for slot in slots if isinstance(slot, dict)] + [0])
    return [_word(slot, newest) for slot in slots]


def _word(slot: "Any", newest: int) -> str:
    if slot is None:
        return "unreadable"
    if not isinstance(slot, dict):
        return "missing" if slot == "missing" else "damaged"
    if not slot["seq"]:
        return "empty"
    return "newest" if slot["seq"] == newest else "older"
