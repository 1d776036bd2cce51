"""Tokens that tell a piece of work to stop."""

from budget_core.checks import NoLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from budget_core._types import Lock, TimedBudget
    from budget_core.deadline import Deadline


class DeadlineToken:
    """Tells one piece of work when to stop: at its deadline, or when it is cancelled.

    Work that asks `is_expired()` now and then can end early with what it has.
    """

    LOCK: "Callable[[], Lock]" = NoLock
    _cancelled = False

    def __init__(self, deadline: "Deadline", lock: "Lock | None" = None) -> None:
        self.deadline = deadline
        self._callbacks: list[Callable[[], object]] = []
        self.lock = lock or self.LOCK()

    @classmethod
    def from_budget(cls, budget: "TimedBudget", cap_s: float | None = None) -> "Self":
        """Return a token that expires with the turn, or in `cap_s` seconds if that is earlier."""
        return cls(budget.deadline_within(cap_s))

    def is_expired(self) -> bool:
        """Tell whether it is time to stop."""
        return self._cancelled or self.deadline.is_expired()

    def remaining_s(self) -> float:
        """Return the seconds left: 0 when it is time to stop, infinity where there is no limit."""
        return 0.0 if self._cancelled else self.deadline.remaining_seconds()

    def cancel(self) -> None:
        """Tell the work to stop now, for good; every callback is called, once.

        An error that a callback raises is raised when all have been called, the first one.
        """
        with self.lock:
            self._cancelled = True
            callbacks, self._callbacks = self._callbacks, []
        errors = []
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - the others are to be called as well
                errors.append(error)
        if errors:
            raise errors[0]

    def on_cancel(self, callback: "Callable[[], object]") -> None:
        """Have `callback()` called when the token is cancelled, or now if it is already.

        No lock is held meanwhile. A deadline that passes does not call it.
        """
        with self.lock:
            if not self._cancelled:
                self._callbacks.append(callback)
                return
        callback()
