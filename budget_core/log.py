"""Log what happens to budgets: denials, damage, outages, errors of hooks."""

try:
    import logging
except ImportError:  # MicroPython has it only where it was installed
    logging = None  # type: ignore[assignment]


def log(level: str, text: str) -> None:
    """Log a line as `microbudget`; without `logging`, print errors to `sys.stderr`.

    `level` is debug, info, warning or error. No line has a key, a prompt or an answer in it.
    """
    if logging is not None:
        getattr(logging.getLogger("microbudget"), level)("%s", text)
    elif level == "error":
        import sys

        print("microbudget: " + text, file=sys.stderr)
