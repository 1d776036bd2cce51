"""Help tests that run on MicroPython and on CPython."""

import os
import sys
from binascii import hexlify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType
    from typing import Any, TypeVar

    E = TypeVar("E", bound=BaseException)

SLOW = sys.platform == "mps2"  # an emulated chip: of long series it runs a part
_FLOATS = (1.0, 2.5, float("nan"), float("inf"), -float("inf"))
NO_LIMITS: "tuple[Any, ...]" = (-1, -5, True, False, "6", b"6", [6], 1 << 60) + _FLOATS
NO_COUNTS: "tuple[Any, ...]" = NO_LIMITS + (None,)


def raises(
    error: "type[E]", function: "Callable[..., object]", *args: "Any", **kwargs: "Any"
) -> "E":
    """Call the function and return the error of that type which it raises."""
    try:
        function(*args, **kwargs)
    except error as caught:
        return caught
    raise AssertionError(error.__name__ + " was not raised")


async def raises_async(
    error: "type[E]", function: "Callable[..., Awaitable[object]]", *args: "Any", **kwargs: "Any"
) -> "E":
    """Await the call of the function and return the error of that type which it raises."""
    try:
        await function(*args, **kwargs)
    except error as caught:
        return caught
    raise AssertionError(error.__name__ + " was not raised")


class FakeClock:
    """A clock that stands still until a test moves it; the unit is the test's own.

    Call it for the time. `advance` takes the place of a sleep, `sleep` that of an async one.
    """

    def __init__(self, now: float = 0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, by: float) -> None:
        """Let time pass."""
        self.now += by

    async def sleep(self, by: float) -> None:
        """Let time pass, awaited."""
        self.now += by


def stopped_clock(now_ms: int = 1000) -> "tuple[Any, Any]":
    """Return a fake clock of milliseconds, and the monotonic clock that reads it."""
    # not an import statement: this file is checked where there is no such module, too
    monotonic = __import__("budget_core.monotonic", None, None, ("MonotonicClock",))
    fake = FakeClock(now_ms)
    return fake, monotonic.MonotonicClock(fake)


class RecordingLock:
    """A lock that counts how often it is taken, knows whether it is held, and is not re-entrant."""

    def __init__(self) -> None:
        self.held = False
        self.taken = 0

    def __enter__(self) -> None:
        assert not self.held, "this thread would wait for itself"
        self.held = True
        self.taken += 1

    def __exit__(self, *error: object) -> None:
        self.held = False


class SkippedError(Exception):
    """A test needs what this runtime lacks, which the text names; the runner counts it apart."""

    def __init__(self, lacks: str) -> None:
        super().__init__(lacks)
        self.lacks = lacks


def module_or_skip(*names: str) -> "Any":
    """Return the first of these modules that there is, or skip the test."""
    for name in names:
        try:
            return __import__(name)
        except ImportError:
            pass
    raise SkippedError("no " + " or ".join(names))


class temp_folder:  # noqa: N801 - used like a function: `with temp_folder() as path`
    """A new, empty folder, removed at the end of the `with` block with all that is in it."""

    def __init__(self) -> None:
        getenv: Any = getattr(os, "getenv", None)  # a chip has neither variables nor /tmp
        parent = "" if getenv is None else getenv("TMPDIR") or "/tmp"  # noqa: S108 - random below
        self.path = parent + "/microbudget-" + hexlify(os.urandom(8)).decode()

    def __enter__(self) -> str:
        os.mkdir(self.path)
        return self.path

    def __exit__(
        self,
        kind: "type[BaseException] | None",
        error: "BaseException | None",
        trace: "TracebackType | None",
    ) -> None:
        remove(self.path)


def remove(path: str) -> None:
    """Remove a file, or a folder with all that is in it."""
    try:
        os.remove(path)
    except OSError:
        for name in os.listdir(path):
            remove(path + "/" + name)
        os.rmdir(path)


def unclear(tracker: "Any") -> "dict[str, int]":
    """Return how many calls a tracker saw whose usage was missing or invalid."""
    seen = tracker.usage_seen
    return {"missing": seen["missing"], "invalid": seen["invalid"]}
