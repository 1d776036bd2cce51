"""Keep a tracker's state in memory."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class InMemoryBudgetStore:
    """A store that forgets at restart. It keeps copies: no caller's dict is shared."""

    _state: "dict[str, Any] | None" = None

    def load(self) -> "dict[str, Any] | None":
        """Return a copy of the last state saved, or `None`."""
        return None if self._state is None else dict(self._state)

    def save(self, state: "dict[str, Any]") -> None:
        """Keep a copy of `state`."""
        self._state = dict(state)

    def clear(self) -> None:
        """Forget the state."""
        self._state = None
