"""A cap and a count: the primitive beneath whatever is claimed one by one."""

from budget_core.limits import check_count, check_limit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *


class NoLock:
    """A context manager that locks nothing, where there is only one thread."""

    def __exit__(self, *error: object) -> None:
        return None

    __enter__ = __exit__


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
