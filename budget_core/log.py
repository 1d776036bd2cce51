"""Log what happens to budgets: denials, damage, outages, errors of hooks."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    _logging: "Any" = __import__("logging")
except ImportError:  # MicroPython has it only where it was installed
    _logging = None


def log(level: str, text: str) -> None:
    """Log a line as `microbudget`; without `logging`, print errors to `sys.stderr`.

    `level` is debug, info, warning or error. No line has a key, a prompt or an answer in it.
    """
    if _logging is not None:
        getattr(_logging.getLogger("microbudget"), level)("%s", text)
    elif level == "error":
        import sys

        print("microbudget: " + text, file=sys.stderr)
