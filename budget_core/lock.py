"""Stand in for a lock where there is only one thread."""


class NoLock:
    """A context manager that locks nothing."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        return None
