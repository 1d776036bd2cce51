"""Keep a tracker's state: the shape of a store, and the one in memory."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    class BudgetStateStore(Protocol):
        """Where a tracker's state survives: a flat dict of whole numbers, strings and `None`.

        One tracker, in one process, writes to a store. A store may have an attribute `on_corrupt`:
        `"deny"` (taken where there is none) or `"fresh"`, what an untrusted state stands for.
        """

        def load(self) -> dict[str, Any] | None:
            """Return the last state saved, or `None` where there is none.

            Raises `StateCorruptError` for a state that exists but cannot be trusted, any other
            error where the store cannot be read now.
            """

        def save(self, state: dict[str, Any]) -> None:
            """Keep `state` whole, or raise and keep the last one."""

        def clear(self) -> None:
            """Forget the state, for an operator."""


class InMemoryBudgetStore:
    """A store that forgets at restart. It keeps copies: no caller's dict is shared."""

    def __init__(self) -> None:
        self._state: dict[str, Any] | None = None

    def load(self) -> "dict[str, Any] | None":
        """Return a copy of the last state saved, or `None`."""
        return None if self._state is None else dict(self._state)

    def save(self, state: "dict[str, Any]") -> None:
        """Keep a copy of `state`."""
        self._state = dict(state)

    def clear(self) -> None:
        """Forget the state."""
        self._state = None
