"""Checks of configured values: what a limit, a count, a text and a lock may be.

Each check returns the value, or raises a `ValueError` that names the field, the rule and the value.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NoLock:
    """What stands in for a lock where none is given: a context manager that locks nothing."""

    def __exit__(self, *error: object) -> None:
        return None

    __enter__ = __exit__


def check_limit(name: str, value: "Any") -> int | None:
    """Accept a limit: `None` is unlimited, `0` is nothing, else a whole number."""
    return None if value is None else check_count(name, value)


def check_count(name: str, value: "Any") -> int:
    """Accept a whole number >= 0 and below 2**60; booleans, floats and strings are none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 60:
        from budget_core.errors import refuse

        refuse(name, "a whole number >= 0", value)
    return value


def check_kind(name: str, value: "Any", kind: "Any") -> "Any":
    """Accept an instance of a class."""
    if not isinstance(value, kind):
        from budget_core.errors import refuse

        refuse(name, "a " + kind.__name__, value)
    return value


def check_text(name: str, value: "Any", optional: bool = False) -> "Any":
    """Accept a string that is not empty, or `None` where `optional`."""
    if value is None and optional:
        return None
    if not isinstance(value, str) or not value:
        from budget_core.errors import refuse

        refuse(name, "a string that is not empty", value)
    return value
