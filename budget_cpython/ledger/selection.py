"""Select a path and all below it."""

from budget_core.ledger.checks import check_path


def is_below(path: str, selected: str) -> bool:
    """Tell whether a path is the selected one or below it; an empty one selects all."""
    return not selected or path == selected or path.startswith(selected + "/")


def check_selected(path: str) -> str:
    """Accept a path, or an empty one for all; raise `ValueError` for a malformed one."""
    return "" if path == "" else check_path(path)
