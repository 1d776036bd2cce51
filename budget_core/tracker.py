"""Count what is used of one budget: what every tracker shares."""

from budget_core.config import Enforcement, TurnBudgetConfig
from budget_core.usage import ESTIMATED, INVALID, MEASURED, MISSING, read_usage, weigh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger._types import LedgerProtocol

NEVER = 1 << 100
WHOLE = 1_000_000

# What has been told of the limit, as bits: to the model, to the limit's hook, and to the other hook
# of a threshold crossed with it. Shifted by OUTAGE, the same of a limit that is the store's doing.
_WARNED = 1
_CROSSED = 2
_HEARD = 4
OUTAGE = 3


class Count:
    """What a budget has used along its two axes, and from where on somebody wants to look.

    `alert` is `False` only while there is nothing to warn about, strip or stop, so that a call well
    within its budget asks nothing else. `expires` tells whether the window can end by itself,
    `by_model` whether models count differently, `saves_from` at how many tokens a record is stored.
    `lock` is any context manager; where none is given the count stands in, and locks nothing.
    """

    def __init__(
        self, iteration_cap: int | None, token_cap: int | None, lock: "Lock | None"
    ) -> None:
        self.iteration_cap = iteration_cap
        self.token_cap = token_cap
        self.lock = lock or self
        self.enter = self.lock.__enter__
        self.leave = self.lock.__exit__
        self.iterations = self.tokens = 0
        self.iteration_alarm = self.token_alarm = NEVER
        self.alert = False
        self.by_model = False
        self.saves_from = NEVER
        self.expires = True

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        return None


class BudgetTracker:
    """Counts what was used of one budget, and says when to warn and when to stop.

    Two axes are used up side by side: iterations (LLM calls) and tokens; the one nearer to
    exhaustion speaks. A subclass with limits of its own sets `ALWAYS_ASK`; else it is asked near
    the caps only.
    """

    SCOPE = ""
    ALWAYS_ASK = False
    ledger_account: "Any" = None  # what counts on a ledger's account for this one, if anything
    store_error: "Exception | None" = None
    _weight: "Callable[[object], float | None]"

    def __init__(self, config: "Any", count: Count) -> None:
        self.config = config
        self.count = count
        self.fallback_model: str | None = config.fallback_model
        self._forget()
        self._arm()

    @property
    def iterations_seen(self) -> int:
        """LLM calls counted in this window."""
        return self.count.iterations

    @property
    def total_tokens(self) -> int:
        """Tokens charged to this window, weights applied."""
        return self.count.tokens

    @property
    def usage_seen(self) -> "dict[str, int]":
        """Calls counted in this window, by how well known is what they used.

        The keys are `measured`, `estimated`, `invalid` and `missing`.
        """
        poor = sum(self._unclear.values())
        return dict(self._unclear, measured=self.count.iterations - poor)

    def record(self, usage: object, model: object = None) -> None:
        """Count one LLM call with what it reported; never raises, never lowers a count."""
        count = self.count
        used = read_usage(usage)
        charge = used.total
        if used.cached:
            charge += weigh(used.cached, self.config.cached_token_weight) - used.cached
        if count.by_model:
            weight = self._weight(model)
            if weight is None:
                return
            charge = weigh(charge, weight)
        count.enter()  # `with`, spelt out: this runs on every call
        try:
            count.iterations = iterations = count.iterations + 1
            count.tokens = tokens = count.tokens + charge
            if tokens >= count.token_alarm or iterations >= count.iteration_alarm:
                count.alert = True
            if used.status is not MEASURED:
                self._unclear[used.status] += 1
            if tokens >= count.saves_from:
                self._save()
        finally:
            count.leave(None, None, None)

    def reset(self) -> None:
        """Begin again at zero, with every warning and hook armed."""
        with self.count.lock:
            self._forget()
            self._changed()

    def maybe_auto_reset(self) -> None:
        """Begin again if the window is over; a turn ends when its policy says so.

        With a ledger, read what is left there.
        """
        if self.ledger_account is not None:
            with self.count.lock:
                self.ledger_account.read()
                self._arm()

    def _save(self, ahead: int | None = None) -> None:
        self.ledger_account.charge()

    def _forget(self) -> None:
        self.count.iterations = self.count.tokens = self._warned_ppm = self._told = 0
        self._unclear = {ESTIMATED: 0, INVALID: 0, MISSING: 0}
        self.last_consumed_threshold: float | None = None

    def _changed(self) -> None:
        try:
            if self.count.saves_from < NEVER:
                self._save()
        finally:
            self._arm()

    def _arm(self) -> None:
        """Note from which counts on something is due: a threshold, the tools, the limit."""
        config = self.config
        strip = config.tool_strip_threshold
        share = WHOLE if strip is None else int(strip * WHOLE)
        for threshold in config.warning_thresholds:
            if self._warned_ppm <= int(threshold * WHOLE) < share:
                share = int(threshold * WHOLE)
        count = self.count
        count.iteration_alarm = _part(count.iteration_cap, share)
        count.token_alarm = _part(count.token_cap, share)
        count.alert = (
            count.tokens >= count.token_alarm
            or count.iterations >= count.iteration_alarm
            or self.is_at_limit()
            or share == 0
            or self.ALWAYS_ASK
        )

    def dominant_axis(self) -> "tuple[int, int | None, str]":
        """Return `(used, cap, unit)` of the axis nearest to exhaustion; on a tie, iterations."""
        count = self.count
        iterations = (count.iterations, count.iteration_cap, "iterations")
        tokens = (count.tokens, count.token_cap, "tokens")
        return tokens if _nearness(tokens) > _nearness(iterations) else iterations

    def utilization(self) -> float:
        """Return the share used of the axis nearest to exhaustion; above 1 past the cap."""
        return max(0.0, _nearness(self.dominant_axis()))

    def is_at_limit(self) -> bool:
        """Tell whether an axis is spent, or a store or ledger that a limit depends on fails."""
        return self._is_spent() or self._fails()

    def _fails(self) -> bool:
        limited = self.ledger_account is not None or self.count.token_cap is not None
        return limited and self.store_error is not None

    def _is_spent(self) -> bool:
        count = self.count
        return count.tokens >= _part(count.token_cap) or (
            count.iterations >= _part(count.iteration_cap)
        )

    def consume_threshold_warning(self, force: bool = False) -> str | None:
        """Return the warning for the highest threshold newly crossed, once; else `None`.

        Lower thresholds crossed at the same time count as warned about. Silent at the limit, where
        the limit's own message speaks, unless `force`.
        """
        share = self.consume_threshold_crossing(force)
        return None if share is None else self.threshold_message(share)

    def consume_threshold_crossing(self, force: bool = False) -> float | None:
        """Return the threshold that `consume_threshold_warning` would speak of, in its place."""
        with self.count.lock:
            share = self._newly_crossed(force)
            if share is not None:
                self.last_consumed_threshold = share
                self._warned_ppm = int(share * WHOLE) + 1
                self._changed()
            return share

    def consume_stranded_crossing(self) -> float | None:
        """Return the threshold crossed by the very call that exhausted the budget, once.

        Its warning is still to be consumed, by whoever ends the turn.
        """
        with self.count.lock:
            share = self._newly_crossed(True)
            return share if share is not None and self._tell(_HEARD) else None

    def _newly_crossed(self, force: bool) -> float | None:
        if self.is_at_limit() and not (force and self._is_spent()):
            return None
        used = self.utilization()
        highest: float | None = None
        for share in self.config.warning_thresholds:
            if share <= used and share >= (highest or 0) and int(share * WHOLE) >= self._warned_ppm:
                highest = share
        return highest

    def threshold_message(self, share: float) -> str:
        """Return the warning at a share of the budget."""
        return self._message(self.config.warning_template, share)

    def consume_at_limit_warning(self, enforcement: str | None = None) -> str | None:
        """Return the limit's message once, when it is first reached; else `None`."""
        with self.count.lock:
            return self.at_limit_message(enforcement) if self._tell(_WARNED) else None

    def consume_limit_crossing(self) -> bool:
        """Return `True` once for each time the limit is reached, also across restarts."""
        with self.count.lock:
            return self._tell(_CROSSED)

    def _tell(self, bit: int) -> bool:
        if not self._is_spent():
            bit <<= OUTAGE  # at the limit for another reason, which uses up no warning of this
        if self._told & bit or not self.is_at_limit():
            return False
        self._told |= bit
        self._changed()
        return True

    def at_limit_message(self, enforcement: str | None = None) -> str:
        """Return what to say at the limit; `enforcement` is the configured mode unless given."""
        if self._fails():
            from budget_core.notices import UNAVAILABLE  # loaded for the first notice

            return UNAVAILABLE
        config = self.config
        fallback = (enforcement or config.enforcement) == Enforcement.FALLBACK
        return self._message(config.fallback_template if fallback else config.cutoff_template, 1)

    def should_strip_tools(self) -> bool:
        """Tell whether the configuration has a `tool_strip_threshold`, and it is reached."""
        strip = self.config.tool_strip_threshold
        return strip is not None and self.utilization() >= strip

    def tool_strip_message(self) -> str:
        """Return the notice that tools are off, and which."""
        config = self.config
        return self._message(config.tool_strip_template, config.tool_strip_threshold or 0)

    def _message(self, template: str, share: float) -> str:
        from budget_core.notices import fill  # loaded for the first notice

        return fill(template, self, share)


class TurnBudgetTracker(BudgetTracker):
    """What one turn has used of its iterations and tokens.

    Somebody who sees turns begin calls `reset()`: `TurnBudgetPolicy` does. Shared with the loops
    of sub-agents, one tracker bounds a turn and all that it spawns. With a `ledger` that blocks and
    the path of an `account` in it, what turns use is charged to that, and what is left there bounds
    them too. Source: seed 001.
    """

    SCOPE = "turn"
    config: TurnBudgetConfig

    def __init__(
        self,
        config: TurnBudgetConfig | None = None,
        lock: "Lock | None" = None,
        *,
        ledger: "LedgerProtocol | None" = None,
        account: str | None = None,
    ) -> None:
        config = config or TurnBudgetConfig()
        super().__init__(config, Count(config.iteration_budget, config.token_budget, lock))
        self.count.by_model = bool(config.model_weights)
        self.count.expires = False
        if ledger is not None or account is not None:
            from budget_core.ledger.for_tracker import LedgerTurn  # loaded for the first ledger

            self.ledger_account = LedgerTurn(self, ledger, account)
            self.ledger_account.begin()

    def _weight(self, model: object) -> float | None:
        return self.config.model_weights.get(model, 1) if isinstance(model, str) else 1


def _part(cap: int | None, millionths: int = WHOLE) -> int:
    return NEVER if cap is None else cap * millionths // WHOLE


def _nearness(axis: "tuple[int, int | None, str]") -> float:
    used, cap, _ = axis
    if cap is None:
        return -1.0
    return used / cap if cap else 1.0
