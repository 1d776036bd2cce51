"""A budget in use: what a run and all that it spawns have used of it, and what is left."""

from budget_core.agent.allowance_tree import SharedAllowance, smaller_limit
from budget_core.agent.budget import Budget
from budget_core.agent.stop import AXES, StopReason, at_limit, in_words
from budget_core.checks import NoLock, check_count
from budget_core.durations import in_ms, inf
from budget_core.monotonic import MONOTONIC
from budget_core.thresholds import kept_calls, kept_of
from budget_core.usage import read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Self

    from budget_core._types import Axis, Lock
    from budget_core.agent.pause import Pause
    from budget_core.deadline import Deadline
    from budget_core.ledger._types import AnyLedger
    from budget_core.monotonic import MonotonicClock


class Envelope:
    """A `Budget` that a run has opened: its counts, its clock, and the envelope it draws on.

    A `child` draws on its parent: what it uses is used above as well, and every claim is checked
    against its own limits and all those above, however many runs go on at once. What a child
    leaves unused was never taken. One run at a time uses an envelope.

    - `turns` (also `steps`), `tokens`, `nano_usd`, `tool_calls`, `reflections`: each a
      `SharedAllowance`.
    - `estimated`, `missing`, `unpriced`: calls whose usage was estimated, or is not known, and
      those whose price is not known, or not all of it. `retries`: attempts beyond the first of
      each call.
    - `max_tokens_per_turn`, `max_context_tokens`: the smallest here and above, or `None`.
    - `name`: the envelope's name in reasons.
    - `stopped`: the reason that was given to `stop`, or `None`.
    - `closing`: whether the final call has begun.
    - `pauses`: the declared ones, each a dict of `reason` and `ms`.
    - `queue`: the calls of the whole tree that wait for admission, the first to come first.
    - `in_use`: whether a run has begun with it and not ended.
    - `ledger`: the account that it draws on, or `None`.
    - `notes`: what stop conditions and the wind-down remember of the run.

    Times are the monotonic clock's. `lock` is any context manager; a child has its parent's.
    """

    LOCK: "Callable[[], Lock]" = NoLock
    DEADLINES = "budget_core.deadline"  # loaded for the first deadline that is asked for

    turns: SharedAllowance
    tokens: SharedAllowance
    nano_usd: SharedAllowance
    tool_calls: SharedAllowance
    reflections: SharedAllowance
    max_tokens_per_turn: int | None
    max_context_tokens: int | None
    clock: "MonotonicClock"
    lock: "Lock"

    def __init__(
        self,
        budget: Budget,
        clock: "MonotonicClock" = MONOTONIC,
        lock: "Lock | None" = None,
        parent: "Envelope | None" = None,
        name: str = "run",
    ) -> None:
        self.clock = clock if parent is None else parent.clock
        self.lock = (lock or self.LOCK()) if parent is None else parent.lock
        self.budget = budget
        self.parent = parent
        self.name = name
        above = budget if parent is None else parent
        self.max_tokens_per_turn = smaller_limit(
            budget.max_tokens_per_turn, above.max_tokens_per_turn
        )
        self.max_context_tokens = smaller_limit(budget.max_context_tokens, above.max_context_tokens)
        self.stopped: StopReason | None = None
        self.closing = self.in_use = False
        self.pauses: list[dict[str, Any]] = []
        self.estimated = self.missing = self.unpriced = self.retries = 0
        self.queue: list[Any] = [] if parent is None else parent.queue
        self.notes: dict[Any, Any] = {}
        self.ledger: Any = None if parent is None else parent.ledger
        self._watchers: list[Callable[[], object]] = [] if parent is None else parent._watchers
        self._timeout_ms = None if budget.timeout is None else in_ms("timeout", budget.timeout)
        if self._timeout_ms is not None and self._timeout_ms > self.clock.reach_ms:
            self._deadline_kind().from_wire(self._timeout_ms, self.clock)  # refuses it
        share = budget.last_call
        self._kept_ms = kept_of(self._timeout_ms, share)
        self._since = self.clock.read()
        self._paused = self._paused_since = self._pause_depth = 0
        for axis, kept in (
            ("turns", kept_calls(budget.max_turns, share)),
            ("tokens", kept_of(budget.max_tokens, share)),
            ("nano_usd", kept_of(budget.max_nano_usd, share)),
            ("tool_calls", 0),
            ("reflections", 0),
        ):
            cap = getattr(budget, "max_" + axis)
            drawn_on = None if parent is None else getattr(parent, axis)
            setattr(self, axis, SharedAllowance(name, cap, self.lock, drawn_on, kept))
        self.steps = self.turns
        self._calls: dict[str, SharedAllowance] = {}

    def __repr__(self) -> str:
        from budget_core.notices import show_on

        found = []
        for axis in ("turns", "tokens", "nano_usd", "tool_calls"):
            count = getattr(self, axis)
            if count.used or count.cap is not None:
                show, unit = show_on(AXES[axis][1])
                limit = "" if count.cap is None else f" of {show(count.cap)}"
                found.append(show(count.used) + limit + unit)
        return f"<{type(self).__name__} {self.name}: {', '.join(found) or 'unused, no limits'}>"

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
        wait: float | None = None,
        expect: int | str | None = None,
    ) -> "Self":
        """Return a new envelope, whose time runs from now.

        With a `ledger` and the path of an `account` in it, every LLM call draws on that too; the
        further options are those of a `LedgerAccount`. Raises `ValueError` if the clock cannot
        measure the timeout, and if `budget` is not a `Budget`.
        """
        if not isinstance(budget, Budget):
            raise ValueError(f"budget must be a Budget, not {budget!r}")
        envelope = cls(budget, clock, lock)
        envelope.draw_on(ledger, account, max_tokens, ttl, wait, expect)
        return envelope

    def draw_on(self, *account: "Any") -> bool:
        """Have every LLM call draw on an account too, and return `True`, if one is given.

        `account` is the `ledger`, the path, `max_tokens`, `ttl`, `wait` and `expect` of `open`.
        """
        if account.count(None) == len(account):
            return False
        from budget_core.ledger.run_account import account_for  # loaded for the first ledger

        self.ledger = account_for(self.ledger, *account)
        return True

    def child(self, budget: Budget | None = None, name: str = "", **limits: "Any") -> "Self":
        """Return an envelope that draws on this one, with a `Budget` or its fields as limits."""
        if budget is not None and not isinstance(budget, Budget):
            raise ValueError(f"budget must be a Budget, or limits by name, not {budget!r}")
        made = type(self.budget)(**limits) if budget is None else budget.replace(**limits)
        return type(self)(made, parent=self, name=name or self.name + "/child")

    def continuation(self, name: str = "") -> "Self":
        """Return an envelope for another run, with all that this one, whose run is over, has left.

        It draws on this one, and keeps a part back for a final call again.
        """
        rest: dict[str, Any] = {}
        with self.lock:
            self.stopped = None
            self.closing = False
            self._kept_ms = 0
            for axis, count in self._counts():
                count.kept = count.refused = 0
                rest["max_" + axis] = count.own_left()
        ms = self._timeout_ms
        rest["timeout"] = None if ms is None else max(0, ms - self.elapsed_ms()) / 1000
        return self.child(self.budget, name or self.name, **rest)

    def chain(self) -> "list[Envelope]":
        """Return this envelope and all above it, the nearest first."""
        return [self] if self.parent is None else [self] + self.parent.chain()

    # Time

    def elapsed_ms(self) -> int:
        """Return the whole milliseconds since it was opened, declared pauses left out."""
        now = self._paused_since if self._pause_depth else self.clock.read()
        return max(0, now - self._since - self._paused) // self.clock.per_ms

    def _first_end(self) -> "tuple[Envelope, float]":
        """Return whose time is over first, here or above, and when on the clock.

        What is kept for the final call is left out. The time of a paused envelope does not end.
        """
        owner, first = self, inf
        for envelope in self.chain():
            ms = envelope._timeout_ms
            if ms is not None and not envelope._pause_depth:
                if envelope is not self or not self.closing:
                    ms -= envelope._kept_ms
                end = envelope._since + envelope._paused + ms * self.clock.per_ms
                if end < first:
                    owner, first = envelope, end
        return owner, first

    @property
    def deadline(self) -> "Deadline":
        """When work is to be over, here and above, without what is kept for the final call."""
        made: Deadline = self._deadline_kind()(self._first_end()[1], self._since, self.clock)
        return made

    def _deadline_kind(self) -> "Any":
        return __import__(self.DEADLINES, None, None, ("Deadline",)).Deadline

    def deadline_within(self, cap_s: float | None = None) -> "Deadline":
        """Return the deadline, or the one `cap_s` seconds from now if that is earlier."""
        return self.deadline.within_ms(None if cap_s is None else in_ms("cap_s", cap_s))

    def is_expired(self) -> bool:
        """Tell whether the time is over, here or above."""
        return self.clock.read() >= self._first_end()[1]

    def remaining_s(self) -> float:
        """Return the seconds left: 0 when the time is over, infinity without a limit."""
        return max(0.0, (self._first_end()[1] - self.clock.read()) / (1000 * self.clock.per_ms))

    def out_of_time(self) -> StopReason:
        """Return the reason of a call that a deadline ended: whose it was, here or above."""
        owner = self._first_end()[0]
        kept = 0 if owner is self and self.closing else owner._kept_ms
        limit, used = owner._timeout_ms, owner.elapsed_ms()
        return StopReason(StopReason.TIMEOUT, "", "ms", used, limit, kept, owner.name)

    def paused(self, reason: str = "") -> "Pause":
        """Return a `with` whose time does not count against this envelope's timeout.

        It is for waiting before or between calls, such as for an approval. A call in flight keeps
        the time that it was given. The envelopes above have their own time.
        """
        from budget_core.agent.pause import Pause  # loaded for the first pause

        return Pause(self, reason)

    # Stopping

    def stop(self, reason: str = "", kind: str = StopReason.EXPLICIT_STOP) -> None:
        """End the run and those below it as soon as possible: calls in flight are cancelled.

        The first reason stays. Any thread may call it.
        """
        with self.lock:
            if self.stopped is None:
                self.stopped = StopReason(kind, reason, scope=self.name)
        self.changed()

    def why_stopped(self) -> StopReason | None:
        """Return the reason that was given to `stop`, here or above, or `None`."""
        for envelope in self.chain():
            if envelope.stopped is not None:
                return envelope.stopped
        return None

    def why_over(self) -> StopReason | None:
        """Return why work in flight has to end: it was stopped, or the time is over; or `None`."""
        return self.why_stopped() or (self.out_of_time() if self.is_expired() else None)

    def check(self) -> StopReason | None:
        """Return why no further LLM call is to be made, here or above, or `None`.

        Refused tool calls do not prevent the final call.
        """
        stopped = self.why_stopped()
        if stopped is not None:
            return stopped
        for envelope in self.chain():
            closing = self.closing and envelope is self
            for axis, cap, kept in envelope.limits():
                reason = at_limit(envelope, axis, cap, 0 if closing else kept)
                if reason is not None and not (self.closing and axis == "tool_calls"):
                    return reason
        return None

    # Counts

    def _counts(self) -> "list[tuple[str, SharedAllowance]]":
        axes = ("turns", "tokens", "nano_usd", "tool_calls", "reflections")
        return [(axis, getattr(self, axis)) for axis in axes]

    def limits(self) -> "list[tuple[str, int, int]]":
        """Return `(axis, cap, kept)` of this envelope's own limits that end a run."""
        found = [
            (axis, count.cap, count.kept)
            for axis, count in self._counts()
            if axis in AXES and count.cap is not None
        ]
        if self._timeout_ms is not None:
            found.append(("elapsed_ms", self._timeout_ms, self._kept_ms))
        return found

    def used(self, axis: str) -> int:
        """Return the usage of an axis; that of tool calls includes refused ones."""
        if axis == "elapsed_ms":
            return self.elapsed_ms()
        count: SharedAllowance = getattr(self, axis)
        return count.used + count.refused if axis == "tool_calls" else count.used

    def lacking(self, axis: str, text: str = "") -> StopReason:
        """Return the reason of a refusal: whose limit on an axis it was, here or above."""
        own = getattr(self, axis)
        tightest = own.tightest(False)[0]
        kept = 0 if tightest.closing and tightest is own else tightest.kept
        kind, unit = AXES[axis]
        return StopReason(kind, text, unit, tightest.used, tightest.cap, kept, tightest.scope)

    def axes(self) -> "list[Axis]":
        """Return `(scope, unit, used, cap, kept)` of each limit that ends a run, here and above.

        A limit of nothing is left out; without any other there are the turns, unlimited.
        """
        found: list[Axis] = []
        for envelope in self.chain():
            for axis, cap, kept in envelope.limits():
                if cap:
                    unit = AXES[axis][1]
                    found.append((envelope.name, unit, envelope.used(axis), cap, kept))
        return found or [(self.name, "turns", self.turns.used, None, 0)]

    def update(self, reason: StopReason) -> None:
        """Bring the figures of a reason up to now, if its limit is one of these, here or above."""
        for envelope in self.chain():
            for axis, cap, kept in envelope.limits():
                if (envelope.name, AXES[axis][1]) == (reason.scope, reason.axis):
                    reason.used, reason.limit = envelope.used(axis), cap
                    reason.kept = 0 if self.closing and envelope is self else kept
                    return

    def usage(self) -> "dict[str, int]":
        """Return the usage by axis in whole numbers, children's included."""
        with self.lock:
            seen = {axis: count.used for axis, count in self._counts()}
            seen["elapsed_ms"] = self.elapsed_ms()
            for name in ("estimated", "missing", "unpriced", "retries"):
                seen[name] = getattr(self, name)
        return seen

    def remaining(self) -> "dict[str, int | None]":
        """Return the amount left on each axis, here and above, without the reserve.

        `time_ms` is the time's; `None` is unlimited.
        """
        with self.lock:
            left = {axis: count.left() for axis, count in self._counts()}
        end, now = self._first_end()[1], self.clock.read()
        left["time_ms"] = None if end == inf else max(0, -int((now - end) // self.clock.per_ms))
        return left

    def claim_tool_call(self, name: str = "") -> bool:
        """Use one tool call, in all and of this tool, and return `True`; or `False`: none left."""
        counts = [self.tool_calls]
        with self.lock:
            if any(name in envelope.budget.max_calls for envelope in self.chain()):
                counts.append(self.calls(name))
            for count in counts:
                if not count.can_claim():
                    return False
            for count in counts:
                count.add(1)
        return True

    def calls(self, name: str) -> SharedAllowance:
        """Return the count of calls of one tool."""
        if name not in self._calls:
            above = None if self.parent is None else self.parent.calls(name)
            count = SharedAllowance(self.name, self.budget.max_calls.get(name), self.lock, above)
            self._calls.setdefault(name, count)  # another thread may have been first
        return self._calls[name]

    def charge_report(self, usage: "Any", nano_usd: "Any" = None) -> None:
        """Record what a report says was used outside this envelope's own calls, and what it cost.

        Where money is limited and the cost is not known, that counts in `unpriced`.
        """
        used = read_usage(usage)
        if isinstance(nano_usd, bool) or not isinstance(nano_usd, int) or nano_usd < 0:
            nano_usd = None
        limited = nano_usd is None and self.nano_usd.left() is not None
        unclear = ("unpriced",) if limited and used.status not in used.UNCLEAR else ()
        self.book(used.total, nano_usd or 0, unclear)

    def book(
        self,
        tokens: int,
        nano_usd: int,
        unclear: "Sequence[str]" = (),
        held_tokens: int = 0,
        held_nano_usd: int = 0,
    ) -> None:
        """Record what was used, here and above, in place of what was held for it.

        `unclear` names the counts of poorly known calls to add to.
        """
        with self.lock:
            self.tokens.add(tokens, -held_tokens)
            self.nano_usd.add(nano_usd, -held_nano_usd)
            for envelope in self.chain():
                for name in unclear:
                    setattr(envelope, name, getattr(envelope, name) + 1)
        self.changed()

    # Changes

    def begin_last_call(self) -> None:
        """Make the reserve available to this envelope, and to none below it."""
        with self.lock:
            self.closing = True
            for _, count in self._counts():
                count.closing = True

    def extend(self, **more: "Any") -> None:
        """Raise limits while the run goes on, each by an amount: `extend(max_tokens=1000)`.

        `max_usd` is in dollars.

        An unlimited axis stays unlimited, the limits above hold as before, and what is kept stays
        as it is. A stop is not undone. Raises `ValueError` for the name of no limit of a run, and
        for an amount that cannot be added; then nothing changes.
        """
        known = {"max_" + axis: count for axis, count in self._counts()}
        if "max_usd" in more:
            from budget_core.money import in_nano

            more["max_nano_usd"] = in_nano("max_usd", more.pop("max_usd"))
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
            for name, count in known.items():
                if count.cap is not None and more.get(name):
                    count.cap += more[name]
                    count.refused = 0
        self.changed()

    def add_watcher(self, watcher: "Callable[[], object]") -> None:
        """Have `watcher()` called whenever a limit may have changed, in the whole tree."""
        self._watchers.append(watcher)

    def remove_watcher(self, watcher: "Callable[[], object]") -> None:
        """Stop calling a watcher."""
        self._watchers.remove(watcher)

    def changed(self) -> None:
        """Call all watchers, with no lock held. An error of a watcher is logged and ignored."""
        for watcher in list(self._watchers):
            try:
                watcher()
            except Exception as error:  # noqa: BLE001 - a watcher cannot break the run
                from budget_core.log import log  # loaded for the first error

                log("error", "a watcher raised " + in_words(error))
