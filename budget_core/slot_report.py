"""Say in a word what each slot of a store is."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def words(slots: "list[Any]") -> "list[str]":
    """Return newest, older, empty, damaged, unreadable or missing for each slot.

    A slot is its state with its number `seq`, the error of reading it, "missing", or another word
    for damage.
    """
    newest = max([slot["seq"] for slot in slots if isinstance(slot, dict)] + [0])
    found = []
    for slot in slots:
        if isinstance(slot, dict):
            word = "newest" if slot["seq"] == newest else "older"
            found.append(word if slot["seq"] else "empty")
        elif isinstance(slot, OSError):
            found.append("unreadable")
        else:
            found.append("missing" if slot == "missing" else "damaged")
    return found
