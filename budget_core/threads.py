"""The port's own locks, for what threads share."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core._types import Lock


def thread_lock() -> "Lock | None":
    """Return a new lock of the port's own, for trackers and envelopes that threads share.

    `None` on a port without threads. A thread that takes such a lock twice waits forever.
    """
    try:
        from _thread import allocate_lock
    except ImportError:
        return None
    return allocate_lock()
