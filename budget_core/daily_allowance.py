"""Daily limits of what tools do and use."""

from budget_core.checks import NoLock, check_count, check_limit, check_text
from budget_core.day import OVER, STAYS, DayWindow, check_hour
from budget_core.errors import BudgetError
from budget_core.until import until
from budget_core.wall_clock import WALL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from budget_core._types import BudgetStateStore, Lock

_KEPT = ("day", "behind", "seq")


class DailyLimitError(BudgetError):
    """A day does not allow what was asked for; nothing was used of it.

    `axis` is what there is too little of, `asked` how much was asked for, `left` how much there is
    today, and `resets_at` the Unix time at which the day ends. The message says the same to a
    model.
    """

    def __init__(self, message: str, axis: str, asked: int, left: int, resets_at: int) -> None:
        super().__init__(message)
        self.axis = axis
        self.asked = asked
        self.left = left
        self.resets_at = resets_at


class DailyAllowance:
    """So much of some things a day (UTC, from `reset_hour_utc`): a tool's calls, seconds of water.

    `caps` has the limits by name, as in `{"calls": 4, "seconds": 120}`: whole numbers, `None` for
    unlimited, `0` for nothing. `name` says in messages what they are limits of.

    `store` remembers the day after a restart; it has the count before `claim` returns, so that a
    power cut during the use gives nothing back. A store that fails refuses, `store_error` says why,
    and the next call tries it again. A stored state that is damaged counts as a day spent;
    `state_error` says why until the next day. `clock` returns Unix seconds; the default is `WALL`.
    `lock` is any context manager. Raises `ValueError` naming what is wrong.
    """

    def __init__(
        self,
        name: str,
        caps: "Mapping[str, int | None]",
        store: "BudgetStateStore | None" = None,
        reset_hour_utc: int = 0,
        clock: "Callable[[], float] | None" = None,
        lock: "Lock | None" = None,
    ) -> None:
        self.name = check_text("name", name)
        self.caps = {axis: check_limit(axis, caps[axis]) for axis in caps}
        for axis in _KEPT:
            if axis in self.caps:
                raise ValueError(f"caps may not have the name {axis!r}")
        self.store = store
        self.lock = lock or NoLock()
        self.state_error: Exception | None = None
        self.store_error: Exception | None = None
        self._used = dict.fromkeys(self.caps, 0)
        self._window = DayWindow(clock or WALL, check_hour("reset_hour_utc", reset_hour_utc))
        self._is_read = store is None
        self._read()

    @property
    def resets_at(self) -> int:
        """The Unix time at which the day that is counted ends."""
        return self._window.end

    def left(self) -> "dict[str, int | None]":
        """Return the amount left today by name; nothing while the store fails."""
        with self.lock:
            self._follow()
            return {axis: self._left(axis) for axis in self.caps}

    def claim(self, **counts: int) -> None:
        """Use so much of each, as in `claim(calls=1, seconds=20)`, or of none.

        Raises `DailyLimitError` if there is too little of one, or if the store does not take the
        count. A claim of nothing is never refused.
        """
        for axis in counts:
            check_count(axis, counts[axis])
            if axis not in self.caps:
                names = ", ".join(sorted(self.caps))
                raise ValueError(f"{self.name} has no limit of {axis}; its limits: {names}")
        counts = {axis: counts[axis] for axis in sorted(counts) if counts[axis]}
        if not counts:
            return
        with self.lock:
            self._follow()
            for axis in counts:
                left = self._left(axis)
                if left is not None and counts[axis] > left:
                    raise self._refusal(axis, counts[axis], left)
            before = dict(self._used)
            for axis in counts:
                self._used[axis] += counts[axis]
            if not self._save():
                self._used = before
                axis = min(counts)
                raise self._refusal(axis, counts[axis], 0)

    def _left(self, axis: str) -> int | None:
        if self.store_error is not None:
            return 0
        cap = self.caps[axis]
        return None if cap is None else max(0, cap - self._used[axis])

    def _refusal(self, axis: str, asked: int, left: int) -> DailyLimitError:
        now = int(self._window.clock())
        end = f"until {until(self.resets_at, now)}" if now else "and the date is not known"
        why = f"{left} of {self.caps[axis]} are left today"
        error = self.store_error or self.state_error
        if error is not None:
            why = f"the day counts as spent, because {error}"
        text = f"{self.name}: {asked} {axis} refused, {why}, {end}"
        return DailyLimitError(text, axis, asked, left, self.resets_at)

    def _follow(self) -> None:
        self._read()
        moved = self._window.follow(self._window.clock())
        if moved == OVER:
            self._used = dict.fromkeys(self.caps, 0)
            self.state_error = None
        if self._is_read and (moved != STAYS or self.store_error is not None):
            self._save()

    def _read(self) -> None:
        if self._is_read or self.store is None:
            return
        used, self.state_error, self.store_error = self._window.load(self.store, list(self.caps), 1)
        if self.store_error is not None:
            return
        self._is_read = True
        if used is not None:
            self._used.update(used)
        elif self.state_error is not None:
            self._used = {axis: self.caps[axis] or 0 for axis in self.caps}
            self._save()

    def _save(self) -> bool:
        """Store the day; return whether it is stored."""
        if self.store is None:
            return True
        try:
            self._window.save(self.store, self._used, self.state_error)
            self.store_error = None
        except Exception as error:  # noqa: BLE001 - whatever a store raises, the limit holds
            self.store_error = error
        return self.store_error is None
