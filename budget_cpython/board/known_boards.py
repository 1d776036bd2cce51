"""Find the boards that come with the package, and a user's own."""

from pathlib import Path

from budget_cpython.board.errors import UsageError

_HERE = Path(__file__).resolve()
_IN_WHEEL = _HERE.parents[1] / "boards"
_IN_CHECKOUT = _HERE.parents[2] / "boards"
_MARK = "settings.py"


def known_boards() -> dict[str, Path]:
    """Return the folders of the boards that come with the package, by name."""
    home = _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CHECKOUT
    return {path.parent.name: path.parent for path in sorted(home.glob(f"*/{_MARK}"))}


def find_board(name: str) -> Path:
    """Return the folder of a board, by its name or by a path that contains a slash."""
    if "/" in name or "\\" in name:
        folder = Path(name).resolve()
        if not (folder / _MARK).is_file():
            raise UsageError(f"{name} is not a board: it has no {_MARK}")
        return folder
    boards = known_boards()
    if name not in boards:
        names = ", ".join(boards)
        raise UsageError(f"there is no board {name!r}; boards: {names}, or the path of a folder")
    return boards[name]
