"""Count what is used of one budget: what every tracker shares."""
# mypy: disable-error-code="no-any-return"

from budget_core.checks import NoLock, check_kind
from budget_core.config import NEVER, WHOLE, TurnBudgetConfig, in_ppm
from budget_core.usage import read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from budget_core._types import Axis, Lock
    from budget_core.ledger._types import LedgerProtocol


class BudgetTracker:
    """Counts what was used of one budget, and says when to warn and when to stop.

    Two axes are used up side by side: iterations (LLM calls) and tokens; the one nearer to its cap
    speaks. `iterations_seen` and `total_tokens` are what was counted in this window, weights
    applied; `iteration_cap` and `token_cap` the caps, `None` where there is none. `usage_seen` are
    its calls by how well known is what they used: `measured`, `estimated`, `invalid`, `missing`.

    `by_model` tells whether models count differently.
    `due_ppm` is the share of an axis from which on something is due: a warning, tools, the limit.
    `alert` is `False` only while there is nothing to warn about, strip or stop, so that a call well
    within its budget asks nothing else; it is always on for a subclass with an `is_at_limit` of its
    own, and where a final call is kept. `lock` is any context manager; without one a single thread
    may use the tracker. The axes are plain numbers: one record moves both under one lock, and never
    refuses.

    What is due near the limit is decided in `enforcement`, which is loaded there.
    """

    state_error: "Exception | None" = None
    store_error: "Exception | None" = None

    SCOPE: str
    iterations_seen: int
    total_tokens: int
    warned_ppm: int
    announced: int
    alert: bool
    _weight: "Callable[[object], int | None]"
    _iteration_alarm: int
    _token_alarm: int

    def __init__(
        self,
        config: "Any",
        iteration_cap: int | None,
        token_cap: int | None,
        by_model: bool,
        lock: "Lock | None",
        ledger: "LedgerProtocol | None",
        account: str | None,
    ) -> None:
        self.config = config
        self.saves_from = NEVER  # at how many tokens a record is stored
        self.ledger_account: Any = None  # what counts on a ledger's account for this one
        self._cached_ppm = in_ppm(config.cached_token_weight)
        self.iteration_cap = iteration_cap
        self.token_cap = token_cap
        self.fallback_model: str | None = config.fallback_model
        self.lock = lock or NoLock()
        self.by_model = by_model
        self._forget()
        self._arm()
        if ledger is not None or account is not None:
            from budget_core.ledger.ledger_count import ledger_count  # loaded for the first ledger

            self.ledger_account = ledger_count(self, ledger, account)
            self.ledger_account.begin()

    def record(self, usage: object, model: object = None) -> None:
        """Count one LLM call with what it reported; never raises, never lowers a count."""
        used = read_usage(usage)
        charge = used.total
        if used.cached:
            charge += used.cached * self._cached_ppm // WHOLE - used.cached
        if self.by_model:
            own = self._weight(model)
            if own is None:
                return
            charge = charge * own // WHOLE
        with self.lock:
            self.iterations_seen = iterations = self.iterations_seen + 1
            self.total_tokens = tokens = self.total_tokens + charge
            if tokens >= self._token_alarm or iterations >= self._iteration_alarm:
                self.alert = True
            self.usage_seen[used.status] += 1
            if tokens >= self.saves_from:
                self._save()

    def reset(self) -> None:
        """Begin again at zero, with every warning and hook armed."""
        with self.lock:
            self._forget()
            self.changed()

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

    def note_outage(self, error: "Exception | None") -> None:
        """Note why a store or ledger that a limit depends on fails, or that it works again."""
        was, self.store_error = self.store_error, error
        if (was is None) is not (error is None):
            _enforcement().note_outage(self)

    def _forget(self) -> None:
        self.iterations_seen = self.total_tokens = self.warned_ppm = self.announced = 0
        self.usage_seen = {"measured": 0, "estimated": 0, "invalid": 0, "missing": 0}
        self.last_consumed_threshold: float | None = None
        self.logged = False  # that the limit is reached

    def changed(self) -> None:
        """Store what was counted and announced; under the lock."""
        if self.saves_from < NEVER:
            self._save()
        self._arm()

    def _arm(self) -> None:
        """Note from which counts on something is due: a threshold, the tools, the limit."""
        config = self.config
        strip = config.tool_strip_threshold
        share = WHOLE if strip is None else in_ppm(strip)
        for threshold in config.warning_thresholds:
            ppm = in_ppm(threshold)
            if self.warned_ppm <= ppm < share:
                share = ppm
        self.due_ppm = share
        self._iteration_alarm = _part(self.iteration_cap, share)
        self._token_alarm = _part(self.token_cap, share)
        self.alert = (
            self.total_tokens >= self._token_alarm
            or self.iterations_seen >= self._iteration_alarm
            or share == 0
            or config.last_call is not None
            or self.is_out_of_reach()
            or type(self).is_at_limit is not BudgetTracker.is_at_limit
        )

    def axes(self) -> "list[Axis]":
        """Return `(scope, unit, used, cap, kept)` of each axis, `kept` being for a final call."""
        return _enforcement().axes(self)

    def dominant_axis(self) -> "tuple[int, int | None, str]":
        """Return `(used, cap, unit)` of the axis nearest to its cap; on a tie, iterations."""
        return _enforcement().dominant_axis(self)

    def utilization(self) -> float:
        """Return the share used of the axis nearest to its cap; above 1 past the cap."""
        return _enforcement().utilization(self.axes())

    def is_at_limit(self) -> bool:
        """Tell whether an axis is spent, or a store or ledger that a limit depends on fails."""
        return (
            self.total_tokens >= _part(self.token_cap, WHOLE)
            or self.iterations_seen >= _part(self.iteration_cap, WHOLE)
            or self.is_out_of_reach()
        )

    def is_out_of_reach(self) -> bool:
        """Tell whether a store or ledger that a limit depends on fails."""
        limited = self.ledger_account is not None or self.token_cap is not None
        return limited and self.store_error is not None

    def consume_threshold_warning(self, force: bool = False) -> str | None:
        """Return the warning for the highest threshold newly crossed, once; else `None`.

        Lower thresholds crossed at the same time count as warned about. Silent at the limit, where
        the limit's own message speaks, unless `force`.
        """
        return _enforcement().consume_threshold_warning(self, force)

    def consume_at_limit_warning(self, enforcement: str | None = None) -> str | None:
        """Return the limit's message once, when it is first reached; else `None`."""
        return _enforcement().consume_at_limit_warning(self, enforcement)

    def at_limit_message(self, enforcement: str | None = None) -> str:
        """Return the message at the limit; `enforcement` is the configured mode unless given."""
        return _enforcement().at_limit_message(self, enforcement)

    def should_strip_tools(self) -> bool:
        """Tell whether the configuration has a `tool_strip_threshold`, and it is reached."""
        return _enforcement().should_strip_tools(self)

    def tool_strip_message(self) -> str:
        """Return the notice that tools are off, and which."""
        return _enforcement().tool_strip_message(self)


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
        config = TurnBudgetConfig() if config is None else config
        check_kind("config", config, TurnBudgetConfig)
        caps = (config.iteration_budget, config.token_budget)
        super().__init__(config, *caps, bool(config.model_weights), lock, ledger, account)

    def _weight(self, model: object) -> int | None:
        weights = self.config.model_weights
        return in_ppm(weights[model]) if isinstance(model, str) and model in weights else WHOLE


def _part(cap: int | None, share: int) -> int:
    return NEVER if cap is None else -(-cap * share // WHOLE)


def _enforcement() -> "Any":
    return __import__("budget_core.enforcement", None, None, ("enforce",))
