"""Locks for the core's objects: none, or the port's own if it has threads."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core._types import Lock


class NoLock:
    """A context manager that locks nothing, for one thread."""

    def __exit__(self, *error: object) -> None:
        return None

    __enter__ = __exit__


def thread_lock() -> "Lock | None":
    """Return a new lock of the port's own, for trackers and envelopes that threads share.

    `None` on a port without threads. A thread that takes such a lock twice waits forever.
    """
    try:
        from _thread import allocate_lock
    except ImportError:
        return None
    return allocate_lock()
