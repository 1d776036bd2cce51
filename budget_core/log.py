"""Log what happens to budgets: denials, damage, outages, errors of hooks."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    _logger: "Any" = __import__("logging").getLogger("microbudget")
except (ImportError, AttributeError):  # MicroPython has it only where it was installed
    _logger = None

_is_printable: "Any" = getattr(str, "isprintable", lambda one: " " <= one < "\x7f" or one > "\x9f")


def printable(text: str) -> str:
    """Return a text on one line, without what moves a terminal's cursor: that is escaped."""
    return "".join([one if _is_printable(one) else repr(one)[1:-1] for one in text])


def log(level: str, text: str) -> None:
    """Log a line as `microbudget`; without `logging`, print errors to `sys.stderr`.

    `level` is debug, info, warning or error. No line has a key, a prompt or an answer in it.
    """
    if _logger is not None:
        getattr(_logger, level)("%s", printable(text))
    elif level == "error":
        import sys

        print("microbudget: " + printable(text), file=sys.stderr)
