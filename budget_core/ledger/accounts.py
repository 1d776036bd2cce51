"""Keep the accounts of a ledger: which limits there are, and which windows they count in."""

from budget_core.checks import check_count
from budget_core.errors import refuse
from budget_core.ledger.bucket import CountedLimit
from budget_core.ledger.errors import LedgerFullError, UnknownAccountError
from budget_core.ledger.limit import MAX_LIMITS, Limit, chain, check_axis, check_path
from budget_core.locks import NoLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger.bucket import Cell
    from budget_core.ledger.window import Window

MAX_WINDOWS = 64  # that are remembered; others are read again


class LimitReader:
    """Reads limits: `windows` reads the names of windows, `axes` are all there may be, if given."""

    def __init__(self, windows: "Callable[[Any], Window]", axes: "Sequence[str] | None") -> None:
        self._read_window = windows
        self._windows: dict[str, Window] = {}  # each read once
        self._axes = None if axes is None else [check_axis(axis) for axis in axes]

    def _read_limits(self, limits: "Any") -> "list[tuple[str, Window, int | None]]":
        found: dict[tuple[str, str], tuple[str, Window, int | None]] = {}
        for limit in limits if isinstance(limits, (list, tuple)) else (limits,):
            if not isinstance(limit, Limit):
                refuse("limits", "a list of Limits", limit)
            window = self._window(limit.window)
            self._check_axis(limit.axis)
            if (limit.axis, window.name) in found:
                raise ValueError(f"limits must differ: two are on {limit.axis} per {window.name}")
            found[limit.axis, window.name] = (limit.axis, window, limit.cap)
        if len(found) > MAX_LIMITS:
            raise ValueError(f"an account has at most {MAX_LIMITS} limits, not {len(found)}")
        return [found[key] for key in sorted(found)]

    def _window(self, name: str) -> "Window":
        window = self._windows.get(name)
        if window is None:
            window = self._read_window(name)
            if len(self._windows) >= MAX_WINDOWS:
                self._windows.clear()  # which other threads may do as well
            self._windows[name] = window
        return window

    def _check_axis(self, axis: str) -> None:
        if self._axes is not None and axis not in self._axes:
            refuse("axis", "one of " + ", ".join(self._axes), axis)


class Accounts(LimitReader):
    """Paths that were given limits, by name; `Ledger` says what its arguments are."""

    def __init__(
        self,
        clock: "Callable[[], float]",
        lock: "Lock | None",
        windows: "Callable[[Any], Window]",
        axes: "Sequence[str] | None",
        max_accounts: int,
    ) -> None:
        super().__init__(windows, axes)
        self._clock = clock
        self._lock = lock or NoLock()
        self._max_accounts = check_count("max_accounts", max_accounts)
        self._accounts: dict[str, _Account] = {}
        self._version = 0

    def set_limits(self, path: str, limits: "Sequence[Limit]") -> None:
        """Give an account these limits and no others, now; with none it is an account no more.

        What a limit on the same axis and window has counted stays counted: one below what is spent
        denies until its window ends. Holds that were taken go on. A window that has not begun
        yet, because a clock was wrong, is gone back from.

        Raises `ValueError` for two limits on one axis and window, for more than 16, and for what is
        no path, axis or window; `LedgerFullError` for an account too many.
        """
        path = check_path(path)
        wanted = self._read_limits(limits)
        with self._lock:
            now = self._now()
            for _, window, _ in wanted:
                window.bounds(now)  # which may raise: nothing has changed yet
            own = self._account(path)
            if own is None and wanted and self._count_accounts() >= self._max_accounts:
                text = f"the ledger has its {self._max_accounts} accounts: raise max_accounts"
                raise LedgerFullError(text)
            before = {(one.axis, one.window.name): one for one in (own.limits if own else ())}
            counted = []
            for axis, window, cap in wanted:
                one = before.get((axis, window.name)) or CountedLimit(path, axis, window)
                one.change(cap, now)
                counted.append(one)
            self._version += 1
            if counted:
                self._put(path, counted)
            elif own is not None:
                del self._accounts[path]

    def limits(self, path: str) -> "list[Limit]":
        """Return an account's own limits, none for a path that is no account."""
        check_path(path)
        with self._lock:
            own = self._account(path)
            return [one.limit() for one in own.limits] if own else []

    def accounts(self) -> "list[str]":
        """Return the paths of all accounts, sorted."""
        with self._lock:
            return sorted(self._accounts)

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _account(self, path: str) -> "_Account | None":
        return self._accounts.get(path)

    def _count_accounts(self) -> int:
        return len(self._accounts)

    def _put(self, path: str, limits: "list[CountedLimit]") -> None:
        self._accounts[path] = _Account(path, limits)

    def _limits_of(self, path: str) -> "Sequence[CountedLimit]":
        own = self._accounts.get(path)
        return own.limits if own else ()

    def _open(self, path: str, now: int) -> "dict[str, tuple[Cell, ...]]":
        """Return the cells of now, by axis, of the path and of all above it."""
        try:
            account = self._accounts[path]
        except KeyError:
            account = self._nearest(check_path(path))
        if account.version != self._version or now >= account.until:
            self._refresh(account, now)
        return account.cells

    def _nearest(self, path: str) -> "_Account":
        for above in reversed(chain(path)):
            if above in self._accounts:
                return self._accounts[above]
        raise UnknownAccountError(path)

    def _refresh(self, account: "_Account", now: int) -> None:
        limits = [one for place in chain(account.path) for one in self._limits_of(place)]
        for one in limits:
            if now >= one.cell.end:
                one.follow(now)
                self._version += 1
        cells: dict[str, Any] = {}
        for one in limits:
            cells[one.axis] = cells.get(one.axis, ()) + (one.cell,)
        account.cells = cells
        account.until = min([one.cell.end for one in limits])
        account.version = self._version

    def _uncounted(self, axis: str) -> "tuple[()]":
        self._check_axis(check_axis(axis))
        return ()

    def _check_uncounted(self, amounts: "dict[str, int]", cells: "dict[str, Any]") -> None:
        for axis in amounts:
            if axis not in cells:
                self._uncounted(axis)


class _Account:
    """The limits of one path, and the cells of it and of all above it, as they last were."""

    __slots__ = ("cells", "limits", "path", "until", "version")

    def __init__(self, path: str, limits: "list[CountedLimit]") -> None:
        self.path = path
        self.limits = limits
        self.cells: dict[str, tuple[Cell, ...]] = {}
        self.until = 0
        self.version = -1
