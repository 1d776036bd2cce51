"""Find the boards that come with the package, and a user's own."""

from pathlib import Path

from budget_cpython.board.errors import UsageError

_HERE = Path(__file__).resolve()
_IN_WHEEL = _HERE.parents[1] / "boards"
_IN_CHECKOUT = _HERE.parents[2] / "boards"
_SHARED = "shared"
_PARTS = ("settings.py", "boot.py", "main.py")


def known_boards() -> dict[str, Path]:
    """Return the folders of the boards that come with the package, by name."""
    return {path.parent.name: path.parent for path in sorted(_home().glob("*/main.py"))}


def find_board(name: str) -> Path:
    """Return the folder of a board, by its name or by a path that contains a slash."""
    if "/" in name or "\\" in name:
        folder = Path(name).resolve()
        files = board_files(folder)
        if missing := [part for part in _PARTS if part not in files]:
            raise UsageError(f"{name} is not a board: it has no {missing[0]}")
        return folder
    boards = known_boards()
    if name not in boards:
        names = ", ".join(boards)
        raise UsageError(f"there is no board {name!r}; boards: {names}, or the path of a folder")
    return boards[name]


def board_files(board: Path) -> dict[str, Path]:
    """Return the files of a board by name.

    A board of the package has from the folder `shared` what its own folder lacks. A user's board
    has its own files only.
    """
    folders = [board]
    if board in known_boards().values():
        folders.insert(0, _home() / _SHARED)
    paths = [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir())]
    return {path.name: path for path in paths if path.is_file()}


def _home() -> Path:
    return _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CHECKOUT
