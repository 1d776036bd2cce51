"""One account of a ledger that model calls draw on, with how its limits are enforced."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from threading import Lock, RLock
from typing import Any, TypedDict

from budget_core.checks import check_kind
from budget_core.config import WHOLE, Enforcement, TurnBudgetConfig, in_ppm
from budget_core.errors import refuse
from budget_core.ledger.enforced_account import EnforcedAccount
from budget_core.ledger.limit import Limit
from budget_core.ledger.outbox import finish
from budget_core.money import in_nano
from budget_core.repeats import RepeatStop, stop_of
from budget_cpython.adapters.shared_ledgers import (
    ForkedLedgerError,
    LedgerPair,
    is_awaited,
    pair_of,
)
from budget_cpython.ledger.limit_words import with_all_axes
from budget_cpython.prices.price_table import NEEDS_PRICES, with_deployments


class Options(TypedDict, total=False):
    """The options of `budget` and `budgeted` beside their limits; `help(budget)` explains each."""

    enforcement: str
    fallback_model: str
    warning_thresholds: Sequence[float]
    tool_strip_threshold: float | None
    tool_strip_disallow: Sequence[str]
    prices: Any
    deployments: Mapping[str, str]
    tool_prices: Mapping[str, Any]
    max_tokens: int
    wait: float
    expect: int | str
    ttl: float
    estimates: bool
    repeats: int
    on_threshold_crossed: Callable[..., object]
    on_limit_reached: Callable[..., object]


_HOOKS = ("on_threshold_crossed", "on_limit_reached")
_NEAR_LIMITS = (
    "fallback_model",
    "warning_thresholds",
    "tool_strip_threshold",
    "tool_strip_disallow",
)
_OF_ACCOUNT = ("max_tokens", "wait", "expect", "ttl")


class CallCounts:
    """Counts of the calls of this process that drew on one account; safe for threads.

    - `estimated`: calls whose usage was not measured, as they broke off or reported none.
    - `unpriced`: calls of which not all is priced, `priced` those of which anything is.
    - `cut_short`: calls whose answers ended at a limit that a budget lowered.
    """

    def __init__(self) -> None:
        self.estimated = self.unpriced = self.priced = self.cut_short = 0
        self._lock = Lock()

    def add(self, hold: Any, outcome: Any) -> None:
        """Count a call by its `LlmHold` and its `Settlement`, once it is charged."""
        with self._lock:
            self.estimated += outcome.estimated
            self.unpriced += not hold.priced
            self.priced += "nano_usd" in hold.charged
            self.cut_short += hold.cut_short

    def in_words(self) -> list[str]:
        """Return the counts that are not zero, as in `2 estimated`."""
        counts = {
            "estimated": self.estimated,
            "unpriced": self.unpriced,
            "cut short": self.cut_short,
        }
        return [f"{count} {name}" for name, count in counts.items() if count]


class AnnouncedThresholds:
    """The thresholds of an account's limits that were announced to the model.

    `config` has the thresholds, and `due_ppm` is the share from which the next one is due.
    `enforce` takes it in the place of a tracker; the ledger counts what was used.
    """

    alert = False
    last_consumed_threshold: float | None = None

    def __init__(self, config: TurnBudgetConfig) -> None:
        self.config = config
        self.lock = RLock()  # its thread may collect a forgotten call meanwhile
        self.warned_ppm = 0
        self.changed()

    def changed(self) -> None:
        """Find the share from which something is due; under the lock."""
        strip = self.config.tool_strip_threshold
        self.due_ppm = WHOLE if strip is None else in_ppm(strip)
        for ppm in map(in_ppm, self.config.warning_thresholds):
            if self.warned_ppm <= ppm < self.due_ppm:
                self.due_ppm = ppm

    def axes(self) -> list[Any]:
        """Return an axis without a cap: the ledger's balance has those that count."""
        return [("account", "tokens", 0, None, 0)]

    def is_at_limit(self) -> bool:
        """Return `False`: the ledger refuses what is past a limit."""
        return False


class BudgetAccount:
    """One account that calls draw on, and how its limits are enforced.

    A call may draw on several, the outermost first.

    `ledger` is a ledger, blocking or asyncio, or a URL as `open_ledger` takes it, whose ledger is
    opened once in a process; without one the account is in memory. `limits` are set on the account,
    unless there are none. `calls` counts those that are poorly known. An account `is_strict` if it
    refuses what does not fit; `max_tokens` is the limit of an answer for which the caller gives
    none, `None` for none either, and `wait` for how many seconds a call waits for what others hold.

    Raises `ValueError` for an option that is unknown or malformed, and for a ledger without an
    account; `ImportError` where money is limited and there is no table of prices.
    """

    def __init__(
        self,
        limits: Sequence[Limit] = (),
        ledger: Any = None,
        account: str | None = None,
        **options: Any,
    ) -> None:
        if ledger is not None and account is None:
            raise ValueError("account must be the path of an account in the ledger, not None")
        _check(options)
        pair = LedgerPair("memory:") if ledger is None else pair_of(ledger)
        self.ledger = pair.ledger
        self.path = "agent" if account is None else account
        self.prices = options.get("prices")
        if self.prices is None:
            self.prices = _listed_prices()
        check_prices(limits, options)
        if options.get("deployments") is not None:
            self.prices = with_deployments(self.prices, options["deployments"])
        self.tool_prices: dict[str, int] = {}
        if "tool_prices" in options:
            self.tool_prices = _in_nano_by_tool(options["tool_prices"])
        self._options = options
        self.repeat_stop: RepeatStop | None = None
        config = _near_limits(options)
        self.tracker = AnnouncedThresholds(config)
        self.enforcement, self.fallback_model = config.enforcement, config.fallback_model
        self.is_strict = self.enforcement in (Enforcement.CUTOFF, Enforcement.FALLBACK)
        self.max_tokens: int | None = options.get("max_tokens") if self.is_strict else None
        self.wait: float = options.get("wait") or 0
        if options.get("repeats") is not None:
            self.repeat_stop = stop_of(options["repeats"], self.enforcement, RLock())
        self.estimates = options.get("estimates", False)
        self.on_threshold_crossed = options.get("on_threshold_crossed")
        self.on_limit_reached = options.get("on_limit_reached")
        self.hook_error: Exception | None = None
        self._in_ledger: dict[bool, EnforcedAccount] = {}  # by whether its calls block
        self._pair = pair
        self._find(pair.blocks)
        self._below: dict[str, BudgetAccount] = {}
        self._is_limited = bool(limits) or ledger is not None
        self.calls = CallCounts()
        if ledger is None:
            limits = with_all_axes(limits)
        if limits:
            self._set_limits(limits)

    def in_ledger(self, is_blocking: bool) -> EnforcedAccount:
        """Return the ledger's account for calls of threads, or for those of asyncio.

        Raises `ForkedLedgerError` in a forked process whose calls a limit could not count.
        """
        made_in = getattr(self.ledger, "made_in", None)  # of a ledger in memory
        if made_in not in (None, os.getpid()) and self.is_strict and self._is_limited:
            raise ForkedLedgerError(self.path)
        if is_blocking and not self._pair.blocks:
            raise ValueError("a client that blocks needs a ledger that blocks, or a ledger's URL")
        return self._in_ledger.get(is_blocking) or self._find(is_blocking)

    def at(self, account: str) -> "BudgetAccount":
        """Return the account at a path below, whose limits are enforced as this one's."""
        if account == self.path:
            return self
        found = self._below.get(account)
        if found is None:
            made = BudgetAccount((), self.ledger, account, **self._options)
            found = self._below.setdefault(account, made)
        return found

    def get_default_model(self) -> str:
        """Return the model of a call that names none: it is not known here."""
        return ""

    def note(self, used: dict[str, int]) -> None:
        """Note what a tool used, for what the model is told before its next call."""
        for found in list(self._in_ledger.values()):
            found.cached_balance.add(used)

    async def flush(self) -> None:
        """Deliver the outbox of the ledger, for all accounts of this process."""
        await self._find(False).flush()

    def deliver(self) -> None:
        """Deliver the outbox of the ledger, unless that is an asyncio one."""
        if self._pair.blocks:
            finish(self._find(True).flush())

    def balance(self) -> list[Any]:
        """Return the account's limits as they stand, once the ledger has what it is owed.

        Raises `ValueError` for an asyncio ledger.
        """
        if is_awaited(self.ledger):
            raise ValueError(
                f"an asyncio ledger's balance is awaited: await ledger.balance({self.path!r})"
            )
        self.deliver()
        rows: list[Any] = self.ledger.balance(self.path)
        return rows

    def __repr__(self) -> str:
        return f"<BudgetAccount: {self.path}, {self.enforcement}>"

    def _find(self, is_blocking: bool) -> EnforcedAccount:
        found = self._in_ledger.get(is_blocking)
        if found is None:
            ledger = self.ledger if is_blocking else self._pair.awaited
            given = {name: self._options[name] for name in _OF_ACCOUNT if name in self._options}
            made = EnforcedAccount(
                self, ledger, self.path, self.prices, raises=self.is_strict, alone=True, **given
            )
            if is_blocking:
                made.waits_elsewhere = True  # without an event loop
            found = self._in_ledger.setdefault(is_blocking, made)
        return found

    def _set_limits(self, limits: Sequence[Limit]) -> None:
        if is_awaited(self.ledger):
            raise ValueError(
                "limits cannot be set on an asyncio ledger here: await its set_limits(account, "
                "parse_limits(text)) first, or give the ledger's URL"
            )
        self.ledger.set_limits(self.path, list(limits))


Accounts = tuple[BudgetAccount, ...]


def _check(options: Mapping[str, Any]) -> None:
    """Raise `ValueError` for an option that is unknown, or that its wrapper does not check."""
    unknown = sorted(options.keys() - Options.__annotations__.keys())
    if unknown:
        known = ", ".join(Options.__annotations__)
        raise ValueError(f"there is no option {unknown[0]}: the options are {known}")
    for name in _HOOKS:
        if options.get(name) is not None and not callable(options[name]):
            refuse(name, "a function", options[name])
    check_kind("estimates", options.get("estimates", False), bool)


def _near_limits(options: Mapping[str, Any]) -> TurnBudgetConfig:
    """Return how limits are enforced; raise `ValueError` for a malformed option."""
    given = {name: options[name] for name in _NEAR_LIMITS if name in options}
    default = Enforcement.FALLBACK if given.get("fallback_model") else Enforcement.CUTOFF
    return TurnBudgetConfig(None, None, enforcement=options.get("enforcement") or default, **given)


def _in_nano_by_tool(prices: Mapping[str, Any]) -> dict[str, int]:
    if not isinstance(prices, Mapping):
        raise ValueError(f"tool_prices must be dollars by the tool's name, not {prices!r}")
    return {name: in_nano(f"the price of {name}", usd) for name, usd in prices.items()}


@cache
def _table() -> Any:
    """Return the list of prices, which all accounts share: it looks each model up once."""
    from budget_cpython.prices.listed_prices import ListedPrices

    return ListedPrices()


def check_prices(limits: Sequence[Limit], options: Mapping[str, Any]) -> None:
    """Raise `ImportError` for a limit on money where there is no table of prices."""
    if options.get("prices") is not None or _listed_prices() is not None:
        return
    if any(limit.axis == "nano_usd" for limit in limits):
        raise ImportError(NEEDS_PRICES)


def _listed_prices() -> Any:
    try:
        return _table()
    except ImportError:
        return None
