"""Count what is used of one thing, and refuse what its cap does not allow."""

from budget_core.checks import NoLock, check_count, check_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core._types import Lock

MAX_REPAIR_ATTEMPTS = 2


class Allowance:
    """So many of something, and how many of them are used.

    `cap` is a whole number, `None` for unlimited, `0` for nothing; `name` says in errors what it
    is. `lock` is any context manager; where none is given, one thread at a time may ask.
    """

    def __init__(self, name: str, cap: int | None, lock: "Lock | None" = None) -> None:
        self.cap = check_limit(name, cap)
        self.used = 0
        self.lock = lock or NoLock()

    def claim(self) -> bool:
        """Use one and return `True`, or return `False` where none is left."""
        with self.lock:
            if self.cap is not None and self.used >= self.cap:
                return False
            self.used += 1
            return True

    def charge(self, count: int = 1) -> None:
        """Record what was used without asking, also past the cap."""
        check_count("count", count)
        with self.lock:
            self.used += count


def claim_repair(attempts: "dict[str, int]", id: str) -> bool:
    """Count one attempt to repair a call's arguments, or return `False` if it had two."""
    if attempts.get(id, 0) >= MAX_REPAIR_ATTEMPTS:
        return False
    attempts[id] = attempts.get(id, 0) + 1
    return True
