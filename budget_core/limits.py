"""Accept or refuse configured values: what a limit, a share and a text may be.

Each check returns the value, or raises a `ValueError` that names the field, the rule and the value.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *


def check_limit(name: str, value: "Any") -> int | None:
    """Accept a limit: `None` is unlimited, `0` is nothing, else a whole number."""
    return None if value is None else check_count(name, value)


def check_count(name: str, value: "Any") -> int:
    """Accept a whole number >= 0 and below 2**60; booleans, floats and strings are none."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 60:
        raise ValueError(f"{name} must be a whole number >= 0, not {shown(value)}")
    return value


def check_share(name: str, value: "Any", most: int = 1, optional: bool = False) -> "Any":
    """Accept a number from 0 to `most`, or `None` where `optional`; NaN is none."""
    if value is None and optional:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a number from 0 to {most}, not {shown(value)}")
    return value


def check_text(name: str, value: "Any", optional: bool = False) -> "Any":
    """Accept a string that is not empty, or `None` where `optional`."""
    if not (value is None and optional) and (not isinstance(value, str) or not value):
        raise ValueError(f"{name} must be a string that is not empty, not {shown(value)}")
    return value


def check_each(name: str, values: "Any", check: "Callable[[str, Any], Any]") -> "tuple[Any, ...]":
    """Accept a tuple or list whose every element `check` accepts; a lone string is neither."""
    if not isinstance(values, (tuple, list)):
        raise ValueError(f"{name} must be a tuple, not {values!r}")
    return tuple([check(name, value) for value in values])


def shown(value: object) -> str:
    """Return a value as an error message shows it; CPython refuses to print a huge number."""
    if isinstance(value, int) and abs(value) > 1 << 64:
        return "a huge number"
    return repr(value)
