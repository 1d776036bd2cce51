"""The `with`s around this code: those of its context, and of the generators that run.

A `with` in a generator is around the generator's own code, from any thread or context that
iterates it: it is entered while the generator's frame is on the stack. Any other `with` is entered
in the context, which tasks copy.
"""

import sys
from contextvars import ContextVar
from functools import wraps
from itertools import count

from budget_cpython.context.process_state import FRAME_OWNERS, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import FrameType
    from typing import Any

# What iterates a generator as the two halves of a `with` or of a fixture around other code.
_DRIVERS = ("contextlib", "_pytest", "pytest_asyncio")
# What enters a `with` in the place of its caller: these functions of any class, and modules.
_METHODS = ("__enter__", "__exit__", "__aenter__", "__aexit__")
_ENTERING = (
    "contextlib",
    "budget_cpython.adapters.block",
    "budget_cpython.adapters.current",
    "budget_cpython.context.deadline",
    __name__,
)
# What calls a function in a thread, in a context that ends with it.
_POOLS = ("anyio._backends", "concurrent.futures.thread", "multiprocessing.pool")
# The flags of code, as the module `inspect` has them, which is slow to import.
_GENERATOR, _ITERABLE_COROUTINE, _ASYNC_GENERATOR = 0x20, 0x100, 0x200
_NUMBERS = count()


class WithEntry:
    """One entry into a `with`: what is drawn on inside, and the deadline, each of them or `None`.

    `owner` is of the generator that entered, `None` for a context; it lives as long as the entry.
    `counts_clients` says whether clients that are not wrapped draw on the blocks around.
    """

    counts_clients = False

    def __init__(self, account: "Any", deadline: "Any") -> None:
        self.account = account
        self.deadline = deadline
        self.number = next(_NUMBERS)
        self.owner: FrameOwner | None = None


class FrameOwner:
    """A frame, and the entries that hold while it is on the stack."""

    def __init__(self, frame: "FrameType", entries: "Iterable[WithEntry]" = ()) -> None:
        self.frame = frame
        self.entries = list(entries)
        FRAME_OWNERS[id(frame)] = self

    def remove(self, entry: WithEntry) -> None:
        """Have left an entry; after the last one the frame is forgotten."""
        self.entries.remove(entry)
        if not self.entries:
            self.end()

    def end(self) -> None:
        """Forget the frame."""
        FRAME_OWNERS.pop(id(self.frame), None)
        del self.frame


_ENTERED: "ContextVar[tuple[WithEntry, ...] | None]" = ContextVar("microbudget.entered", default=())


def enter(account: "Any", deadline: "Any") -> WithEntry:
    """Enter a `with` around its caller's code; who keeps the entry keeps it entered."""
    entry = WithEntry(account, deadline)
    frame = _generator()
    if frame is None:
        _check_has_code()
        _ENTERED.set((*(_ENTERED.get() or ()), entry))
        return entry
    _hand_on_in_loops()
    owner = entry.owner = FRAME_OWNERS.get(id(frame)) or FrameOwner(frame)
    owner.entries.append(entry)
    return entry


def leave(entry: WithEntry) -> None:
    """Leave a `with`; in another context than it was entered in, nothing happens."""
    if entry.owner is None:
        _ENTERED.set(tuple(one for one in _ENTERED.get() or () if one is not entry))
    elif entry in entry.owner.entries:
        entry.owner.remove(entry)


def last_entry(account: "Any") -> WithEntry | None:
    """Return the last entry of an account here: of the same generator or context, or else any."""
    frame = _generator()
    owner = None if frame is None else FRAME_OWNERS.get(id(frame))
    near = () if owner is None else owner.entries
    for entries in (near, _ENTERED.get() or (), entered()):
        for entry in reversed(entries):
            if entry.account is account:
                return entry
    return None


def entered() -> tuple[WithEntry, ...]:
    """Return the entries around this code, the first one first."""
    found = _ENTERED.get()
    if found is None or not FRAME_OWNERS:
        return found or ()
    entries = set(found)
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        owner = FRAME_OWNERS.get(id(frame))
        if owner is not None:
            entries.update(owner.entries)
        frame = frame.f_back
    return tuple(sorted(entries, key=lambda entry: entry.number))


def current_accounts() -> "tuple[Any, ...]":
    """Return the accounts of the blocks around this code, the outermost first."""
    entries = entered()
    return (
        tuple([entry.account for entry in entries if entry.account is not None]) if entries else ()
    )


def carried(function: "Callable[..., Any]", around: tuple[WithEntry, ...]) -> "Callable[..., Any]":
    """Return a function that runs inside these entries alone, in whatever thread."""

    def run(*given: "Any", **options: "Any") -> "Any":
        before = _ENTERED.get()
        _ENTERED.set(around)
        # A context that the function runs in may be older than the entry of a generator.
        of_generators = [entry for entry in around if entry.owner is not None]
        owner = FrameOwner(sys._getframe(), of_generators) if of_generators else None
        try:
            return function(*given, **options)
        finally:
            if owner is not None:
                owner.end()
            _ENTERED.set(before)

    return run


def handing_on(function: "Callable[..., Any]") -> "Callable[..., Any]":
    """Return a function whose copies of the context have what generators entered, too."""
    return _within(function, lambda: entered() if FRAME_OWNERS else _ENTERED.get())


def handing_on_nothing(function: "Callable[..., Any]") -> "Callable[..., Any]":
    """Return a function that is outside of all that is entered, as is what it starts."""
    return _within(function, lambda: None)


def _within(
    function: "Callable[..., Any]", entries: "Callable[[], tuple[WithEntry, ...] | None]"
) -> "Callable[..., Any]":
    @wraps(function)
    def run(*given: "Any", **options: "Any") -> "Any":
        around = entries()
        if around == _ENTERED.get():
            return function(*given, **options)
        token = _ENTERED.set(around)
        try:
            return function(*given, **options)
        finally:
            _ENTERED.reset(token)

    return run


def _generator() -> "FrameType | None":
    """Return the frame of the generator whose own code enters or leaves a `with`, if it is one."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if _is_generator(frame):
            driver = frame.f_back
            while driver is not None and _is_generator(driver):  # which delegates to it
                driver = driver.f_back
            if driver is None or not _is_of(driver, _DRIVERS):
                return frame
            frame = driver
        elif not _enters(frame):
            return None
        frame = frame.f_back
    return None


def _check_has_code() -> None:
    """Raise `RuntimeError` where a pool of threads enters a `with` itself: no code is inside then.

    So does FastAPI with a dependency that is a generator and not `async`.
    """
    frame: FrameType | None = sys._getframe()
    entering = ""
    while frame is not None and (_enters(frame) or _is_generator(frame)):
        if not _is_of(frame, (__name__,)):
            entering = frame.f_code.co_name
        frame = frame.f_back
    if frame is not None and entering in _METHODS and _is_of(frame, _POOLS):
        raise RuntimeError(
            "a thread of a pool enters this budget or deadline, and leaves it at once, so that no "
            "call would be inside: make the generator that enters it, such as a dependency of "
            "FastAPI, an `async def`, or enter it where the calls are made"
        )


def _enters(frame: "FrameType") -> bool:
    """Tell whether a frame enters or leaves a `with` in the place of its caller."""
    return frame.f_code.co_name in _METHODS or _is_of(frame, _ENTERING)


def _is_generator(frame: "FrameType") -> bool:
    flags = frame.f_code.co_flags
    is_coroutine = flags & _ITERABLE_COROUTINE
    return bool(flags & (_GENERATOR | _ASYNC_GENERATOR)) and not is_coroutine


def _is_of(frame: "FrameType", modules: tuple[str, ...]) -> bool:
    name = frame.f_globals.get("__name__", "")
    return any(name == module or name.startswith(module + ".") for module in modules)


def _hand_on_in_loops() -> None:
    """Have the tasks and callbacks that a generator makes be inside what it entered."""
    from asyncio import BaseEventLoop

    kinds: list[Any] = [BaseEventLoop]
    if "uvloop" in sys.modules:
        kinds.append(sys.modules["uvloop"].Loop)
    for kind in kinds:
        for name in ("create_task", "call_soon_threadsafe"):
            replace(kind, name, handing_on)
