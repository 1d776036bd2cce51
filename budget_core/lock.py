"""Give the core's objects a lock on the ports that have threads."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *


def thread_lock() -> "Lock | None":
    """Return a new lock of the port's own, for trackers and envelopes that threads share.

    `None` on a port without threads. A lock that a thread holds twice is waited for for ever.
    """
    try:
        from _thread import allocate_lock
    except ImportError:
        return None
    return allocate_lock()
