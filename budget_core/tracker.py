"""Count what is used of one budget: what every tracker shares."""

from budget_core.config import Enforcement, TurnBudgetConfig
from budget_core.locks import NoLock
from budget_core.usage import Usage, read_usage, weigh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Lock
    from budget_core.ledger._types import LedgerProtocol

NEVER = 1 << 100
_WHOLE = 1_000_000

# What was announced of the limit, as bits: to the model, to the limit's hook, and to the hook of a
# threshold crossed by the same call. Times OUTAGE, the same where the limit is a failing store.
_WARNED = 1
_HOOK_CALLED = 2
_STRANDED = 4
OUTAGE = 8


class BudgetTracker:
    """Counts what was used of one budget, and says when to warn and when to stop.

    Two axes are used up side by side: iterations (LLM calls) and tokens; the one nearer to its cap
    speaks. `iterations_seen` and `total_tokens` are what was counted in this window, weights
    applied; `iteration_cap` and `token_cap` the caps, `None` where there is none.

    `by_model` tells whether models count differently; `expires`, whether the window can end alone.
    `alert` is `False` only while there is nothing to warn about, strip or stop, so that a call well
    within its budget asks nothing else; a subclass with limits of its own sets `ALWAYS_ASK`.
    `lock` is any context manager; without one a single thread may use the tracker. The axes are
    plain numbers: one record moves both under one lock, and never refuses.
    """

    SCOPE = ""
    ALWAYS_ASK = False
    ledger_account: "Any" = None  # what counts on a ledger's account for this one, if anything
    state_error: "Exception | None" = None
    store_error: "Exception | None" = None

    iterations_seen: int
    total_tokens: int
    warned_ppm: int
    announced: int
    alert: bool
    _iteration_alarm: int
    _token_alarm: int
    _unclear: dict[str, int]

    def __init__(
        self,
        config: "Any",
        iteration_cap: int | None,
        token_cap: int | None,
        by_model: bool,
        lock: "Lock | None",
    ) -> None:
        self.config = config
        self.iteration_cap = iteration_cap
        self.token_cap = token_cap
        self.fallback_model: str | None = config.fallback_model
        self.lock = lock or NoLock()
        self.expires = True
        self.saves_from = NEVER  # at how many tokens a record is stored
        self.by_model = by_model
        self._forget()
        self._arm()

    @property
    def usage_seen(self) -> "dict[str, int]":
        """Calls counted in this window, by how well known is what they used.

        The keys are `measured`, `estimated`, `invalid` and `missing`.
        """
        unclear = sum(self._unclear.values())
        return dict(self._unclear, measured=self.iterations_seen - unclear)

    def record(self, usage: object, model: object = None) -> None:
        """Count one LLM call with what it reported; never raises, never lowers a count."""
        used = read_usage(usage)
        charge = used.total
        if used.cached:
            charge += weigh(used.cached, self.config.cached_token_weight) - used.cached
        if self.by_model:
            weight = self._weight(model)
            if weight is None:
                return
            charge = weigh(charge, weight)
        with self.lock:
            self.iterations_seen = iterations = self.iterations_seen + 1
            self.total_tokens = tokens = self.total_tokens + charge
            if tokens >= self._token_alarm or iterations >= self._iteration_alarm:
                self.alert = True
            if used.status in self._unclear:
                self._unclear[used.status] += 1
            if tokens >= self.saves_from:
                self._save()

    def _weight(self, model: object) -> float | None:
        """Return what a token of a model counts for, `None` for a model that is not counted."""
        raise NotImplementedError

    def reset(self) -> None:
        """Begin again at zero, with every warning and hook armed."""
        with self.lock:
            self._forget()
            self._changed()

    def maybe_auto_reset(self) -> None:
        """Begin again if the window is over; a turn ends when its policy says so.

        With a ledger, read what is left there.
        """
        if self.ledger_account is not None:
            with self.lock:
                self.ledger_account.read()
                self._arm()

    def _save(self) -> None:
        self.ledger_account.charge()

    def _forget(self) -> None:
        self.iterations_seen = self.total_tokens = self.warned_ppm = self.announced = 0
        self._unclear = {Usage.ESTIMATED: 0, Usage.INVALID: 0, Usage.MISSING: 0}
        self.last_consumed_threshold: float | None = None

    def _changed(self) -> None:
        try:
            if self.saves_from < NEVER:
                self._save()
        finally:
            self._arm()

    def _arm(self) -> None:
        """Note from which counts on something is due: a threshold, the tools, the limit."""
        config = self.config
        strip = config.tool_strip_threshold
        share = _WHOLE if strip is None else int(strip * _WHOLE)
        for threshold in config.warning_thresholds:
            if self.warned_ppm <= int(threshold * _WHOLE) < share:
                share = int(threshold * _WHOLE)
        self._iteration_alarm = _part(self.iteration_cap, share)
        self._token_alarm = _part(self.token_cap, share)
        self.alert = (
            self.total_tokens >= self._token_alarm
            or self.iterations_seen >= self._iteration_alarm
            or self.is_at_limit()
            or share == 0
            or self.ALWAYS_ASK
        )

    def dominant_axis(self) -> "tuple[int, int | None, str]":
        """Return `(used, cap, unit)` of the axis nearest to its cap; on a tie, iterations."""
        iterations = (self.iterations_seen, self.iteration_cap, "iterations")
        tokens = (self.total_tokens, self.token_cap, "tokens")
        return tokens if _nearness(tokens) > _nearness(iterations) else iterations

    def utilization(self) -> float:
        """Return the share used of the axis nearest to its cap; above 1 past the cap."""
        return max(0.0, _nearness(self.dominant_axis()))

    def is_at_limit(self) -> bool:
        """Tell whether an axis is spent, or a store or ledger that a limit depends on fails."""
        return self._is_spent() or self._is_out_of_reach()

    def _is_spent(self) -> bool:
        return self.total_tokens >= _part(self.token_cap, _WHOLE) or (
            self.iterations_seen >= _part(self.iteration_cap, _WHOLE)
        )

    def _is_out_of_reach(self) -> bool:
        limited = self.ledger_account is not None or self.token_cap is not None
        return limited and self.store_error is not None

    def consume_threshold_warning(self, force: bool = False) -> str | None:
        """Return the warning for the highest threshold newly crossed, once; else `None`.

        Lower thresholds crossed at the same time count as warned about. Silent at the limit, where
        the limit's own message speaks, unless `force`.
        """
        share = self.consume_threshold_crossing(force)
        return None if share is None else self.threshold_message(share)

    def consume_threshold_crossing(self, force: bool = False) -> float | None:
        """Return the threshold that `consume_threshold_warning` would speak of, in its place."""
        with self.lock:
            share = self._newly_crossed(force)
            if share is not None:
                self.last_consumed_threshold = share
                self.warned_ppm = int(share * _WHOLE) + 1
                self._changed()
            return share

    def consume_stranded_crossing(self) -> float | None:
        """Return the threshold crossed by the very call that exhausted the budget, once.

        Its warning is still to be consumed, with the text that ends the turn.
        """
        with self.lock:
            share = self._newly_crossed(True)
            return share if share is not None and self._announce(_STRANDED) else None

    def _newly_crossed(self, force: bool) -> float | None:
        if self.is_at_limit() and not (force and self._is_spent()):
            return None
        used = self.utilization()
        highest: float | None = None
        for share in self.config.warning_thresholds:
            if share <= used and share >= (highest or 0) and int(share * _WHOLE) >= self.warned_ppm:
                highest = share
        return highest

    def threshold_message(self, share: float) -> str:
        """Return the warning at a share of the budget."""
        return self._message(self.config.warning_template, share)

    def consume_at_limit_warning(self, enforcement: str | None = None) -> str | None:
        """Return the limit's message once, when it is first reached; else `None`."""
        with self.lock:
            return self.at_limit_message(enforcement) if self._announce(_WARNED) else None

    def consume_limit_crossing(self) -> bool:
        """Return `True` once for each time the limit is reached, also across restarts."""
        with self.lock:
            return self._announce(_HOOK_CALLED)

    def _announce(self, bit: int) -> bool:
        """Note an announcement of the limit; `False` if it was made before, or is not due."""
        if not self._is_spent():
            bit *= OUTAGE  # a store's failure uses up no announcement of a spent budget
        if self.announced & bit or not self.is_at_limit():
            return False
        self.announced |= bit
        self._changed()
        return True

    def at_limit_message(self, enforcement: str | None = None) -> str:
        """Return what to say at the limit; `enforcement` is the configured mode unless given."""
        if self._is_out_of_reach():
            from budget_core.notices import UNAVAILABLE  # loaded for the first notice

            return UNAVAILABLE
        if self.state_error is not None:
            from budget_core.day_state import DAMAGED  # that day's alone

            return DAMAGED
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

    `reset()` begins a turn: `TurnBudgetPolicy` calls it. Shared with the loops of sub-agents, one
    tracker bounds a turn and all that it spawns. With a `ledger` that blocks and the path of an
    `account` in it, what turns use is charged to that, and what is left there bounds them too.
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
        by_model = bool(config.model_weights)
        super().__init__(config, config.iteration_budget, config.token_budget, by_model, lock)
        self.expires = False
        if ledger is not None or account is not None:
            from budget_core.ledger.for_tracker import LedgerTurn  # loaded for the first ledger

            self.ledger_account = LedgerTurn(self, ledger, account)
            self.ledger_account.begin()

    def _weight(self, model: object) -> float | None:
        return self.config.model_weights.get(model, 1) if isinstance(model, str) else 1


def _part(cap: int | None, share: int) -> int:
    return NEVER if cap is None else cap * share // _WHOLE


def _nearness(axis: "tuple[int, int | None, str]") -> float:
    used, cap, _ = axis
    if cap is None:
        return -1.0
    return used / cap if cap else 1.0
