"""A budget in use: what a run and all that it spawns have used of it."""

import sys

from budget_core.agent.bounds import Bounds
from budget_core.agent.budget import Budget
from budget_core.agent.stop import StopReason, in_words
from budget_core.checks import check_count
from budget_core.monotonic import MONOTONIC, in_ms
from budget_core.usage import read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

    from budget_core._types import Lock
    from budget_core.ledger._types import AnyLedger
    from budget_core.monotonic import MonotonicClock


class Envelope(Bounds):
    """A `Budget` that a run has opened: its counts, its clock, and whom it draws on.

    A `child` draws on its parent: whatever it uses is used above as well, and the tightest of its
    own and all limits above holds at every claim, however many run at once; what it leaves was
    never taken. One run at a time uses an envelope.

    - `turns` (also `steps`), `tokens`, `nano_usd`, `tool_calls`, `reflections`: a `Draw` each.
    - `estimated`, `missing`, `unpriced`: calls whose usage was estimated or is not known, and
      those whose price is not.
    - `name`: how reasons speak of it.
    - `stopped`: the reason it was stopped for, or `None`.
    - `pauses`: the declared ones, each a dict of `reason` and `ms`.
    - `queue`: the calls of the whole tree that wait for admission, the first to come first.
    - `in_use`: whether a run has begun with it and not ended.
    - `ledger`: the account that it draws on, or `None`.
    - `notes`: what stop conditions remember of the run.

    Times are the monotonic clock's; `lock` is any context manager, a child has its parent's.
    Sources: seeds 000 and 004.
    """

    @classmethod
    def open(
        cls,
        budget: Budget,
        clock: "MonotonicClock" = MONOTONIC,
        lock: "Lock | None" = None,
        *,
        ledger: "AnyLedger | None" = None,
        account: str | None = None,
        max_tokens: int | None = None,
        ttl: float | None = None,
    ) -> "Self":
        """Return a new envelope, whose time runs from now.

        With a `ledger` and the path of an `account` in it, every LLM call below draws on that too.
        Raises `ValueError` for a timeout that the clock cannot measure, and for what is no budget.
        """
        if not isinstance(budget, Budget):
            raise ValueError(f"budget must be a Budget, not {budget!r}")
        envelope = cls(budget, clock, lock)
        if (ledger, account, max_tokens, ttl) != (None, None, None, None):
            from budget_core.ledger.for_run import account_for  # loaded for the first ledger

            envelope.ledger = account_for(None, ledger, account, max_tokens, ttl)
        return envelope

    def child(self, budget: Budget | None = None, name: str = "", **limits: "Any") -> "Self":
        """Return an envelope that draws on this one, with a `Budget` or its fields as limits."""
        if budget is not None and not isinstance(budget, Budget):
            raise ValueError(f"budget must be a Budget, or limits by name, not {budget!r}")
        made = type(self.budget)(**limits) if budget is None else budget.replace(**limits)
        return type(self)(made, parent=self, name=name or self.name + "/child")

    def continuation(self, name: str = "") -> "Self":
        """Return an envelope for another run that goes on with all that is left of this one.

        It draws on this one, whose own run is over, and keeps a part back for a last call again.
        """
        with self.lock:
            self.stopped = None
            self.closing = False
            self._kept_ms = 0
            for _, draw in self._draws():
                draw.kept = draw.refused = 0
        rest: dict[str, Any] = {"max_" + axis: draw.room() for axis, draw in self._draws()}
        left = self._left_ms(True)
        rest["timeout"] = None if left is None else max(0, left) / 1000
        return self.child(self.budget, name or self.name, **rest)

    def begin_last_call(self) -> None:
        """Make what is kept back available, to this envelope and none below it."""
        with self.lock:
            self.closing = True
            for _, draw in self._draws():
                draw.closing = True

    def stop(self, reason: str = "", kind: str = StopReason.EXPLICIT_STOP) -> None:
        """End the run, and those below it, as soon as can be: calls in flight are cancelled.

        The first reason stays. May be called from another thread.
        """
        with self.lock:
            if self.stopped is None:
                self.stopped = StopReason(kind, reason, scope=self.name)
        self.changed()

    def extend(self, **more: "Any") -> None:
        """Raise limits while the run goes on, by so many each: `extend(max_tokens=1000)`.

        What is unlimited stays so; what is above holds as before, and no more is kept back. It
        undoes no stop. Raises `ValueError` for a name that is no limit of a run, and for what
        cannot be added; then nothing is changed.
        """
        known = {"max_" + axis: draw for axis, draw in self._draws()}
        with self.lock:
            ms = self._timeout_ms
            for name, amount in more.items():
                if name == "timeout":
                    added = in_ms(name, amount)
                    ms = None if ms is None or added is None else check_count(name, ms + added)
                elif name in known:
                    check_count(name, check_count(name, amount) + (known[name].cap or 0))
                else:
                    names = ", ".join(sorted(known))
                    raise ValueError(f"only {names} and timeout can be extended, not {name}")
            self._timeout_ms = ms
            for name, draw in known.items():
                if draw.cap is not None and more.get(name):
                    draw.cap += more[name]
                    draw.refused = 0
        self.changed()

    def paused(self, reason: str = "") -> "Pause":
        """Return a `with` whose time does not count against this envelope's timeout.

        It is for what waits before or between calls, such as an approval: what already runs keeps
        the time that it was given. Those above have their own time.
        """
        return Pause(self, reason)

    def usage(self) -> "dict[str, int]":
        """Return what is used, in whole numbers, children's use included."""
        with self.lock:
            seen = {axis: draw.used for axis, draw in self._draws()}
            seen["elapsed_ms"] = self.watch.elapsed_ms()
            for name in ("estimated", "missing", "unpriced"):
                seen[name] = getattr(self, name)
        return seen

    def charge_report(self, usage: "Any", nano_usd: "Any" = None) -> None:
        """Record what a report says was used outside this envelope's own calls, and what it cost.

        Where money is limited and the cost is not known, that shows in `unpriced`.
        """
        used = read_usage(usage)
        if isinstance(nano_usd, bool) or not isinstance(nano_usd, int) or nano_usd < 0:
            nano_usd = None
        limited = nano_usd is None and self.nano_usd.left() is not None
        clear = used.status not in (used.MISSING, used.INVALID)
        unclear = ("unpriced",) if limited and clear else ()
        self.book(used.total, nano_usd or 0, unclear)

    def book(
        self,
        tokens: int,
        nano_usd: int,
        unclear: "Sequence[str]" = (),
        held_tokens: int = 0,
        held_nano_usd: int = 0,
    ) -> None:
        """Record what was used, here and above, in the place of what was held for it.

        `unclear` names the counts of poorly known calls to add to.
        """
        with self.lock:
            self.tokens.move(tokens, -held_tokens)
            self.nano_usd.move(nano_usd, -held_nano_usd)
            for one in self.chain():
                for name in unclear:
                    setattr(one, name, getattr(one, name) + 1)
        self.changed()

    def remaining(self) -> "dict[str, int | None]":
        """Return what is left on each axis, here and above, less what is kept back.

        `time_ms` is the time's; `None` is unlimited.
        """
        with self.lock:
            left = {axis: draw.left() for axis, draw in self._draws()}
        left["time_ms"] = self.deadline.to_wire(0)
        return left

    def add_watcher(self, watcher: "Callable[[], object]") -> None:
        """Have `watcher()` called whenever a limit may have changed, in the whole tree."""
        self._watchers.append(watcher)

    def remove_watcher(self, watcher: "Callable[[], object]") -> None:
        """Call it no more."""
        self._watchers.remove(watcher)

    def changed(self) -> None:
        """Call all watchers; no lock is held. What one raises is printed, and changes nothing."""
        for watcher in list(self._watchers):
            try:
                watcher()
            except Exception as error:  # noqa: BLE001 - who watches an envelope cannot break it
                print("microbudget: a watcher raised " + in_words(error), file=sys.stderr)


class Pause:
    """What `Envelope.paused` returns."""

    def __init__(self, envelope: Envelope, reason: str) -> None:
        self._envelope = envelope
        self._reason = reason

    def __enter__(self) -> None:
        envelope = self._envelope
        with envelope.lock:
            envelope.watch.pause()
        self._since = envelope.watch.clock.read()
        envelope.changed()

    def __exit__(self, *error: object) -> None:
        envelope = self._envelope
        clock = envelope.watch.clock
        ms = max(0, clock.read() - self._since) // clock.per_ms
        with envelope.lock:
            envelope.watch.resume()
            envelope.pauses.append({"reason": self._reason, "ms": ms})
        envelope.changed()
