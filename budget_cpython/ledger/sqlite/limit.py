"""One limit of an account in a file."""

from collections.abc import Callable

from budget_core.ledger.bucket import Cell, CountedLimit
from budget_core.ledger.window import Window


class StoredLimit(CountedLimit):
    """A limit in the file; the windows that are over are read when they are first asked for."""

    __slots__ = ("_past", "_read_past", "first", "id")

    def __init__(
        self,
        read_past: "Callable[[StoredLimit], list[Cell]]",
        id: int,
        account: str,
        axis: str,
        window: Window,
        cell: Cell,
    ) -> None:
        self._read_past = read_past
        self.id = id
        self._past: list[Cell] | None = None
        self.account = account
        self.axis = axis
        self.window = window
        self.cell = self.first = cell
        cell.limit = self

    @property
    def past(self) -> list[Cell]:
        """The cells of windows that are over, the last left first."""
        if self._past is None:
            self._past = self._read_past(self)
        return self._past

    @past.setter
    def past(self, cells: list[Cell]) -> None:
        self._past = cells
