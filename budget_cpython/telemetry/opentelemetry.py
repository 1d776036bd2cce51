"""Calls and budgets of this process as OpenTelemetry's metrics, attributes and span events."""

import asyncio
from collections.abc import Iterable, Iterator
from functools import lru_cache
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary, ref

from opentelemetry import metrics, trace

from budget_core.ledger.hold import Balance, origin
from budget_core.ledger.llm_account import LedgerAccount
from budget_core.log import log
from budget_core.usage import Usage
from budget_cpython.adapters.event_loop import has_event_loop
from budget_cpython.adapters.shared_ledgers import is_awaited
from budget_cpython.telemetry import conventions as names
from budget_cpython.telemetry.labels import MOST_MODELS, BoundedLabels, axis_label
from budget_cpython.telemetry.limits_shown import FIGURES, nearest_to_their_end
from budget_cpython.telemetry.observer import CallRefusal, EndedCall
from budget_cpython.telemetry.observing import tell_late
from budget_cpython.version import version

_MOST_KNOWN = 1000  # accounts of ledgers: of more, those that were used last
_MOST_SERIES = 1000  # attributes that are kept for the next calls
_ANSWER_S = 5.0  # for a ledger that is awaited

Attributes = dict[str, str]


class OpenTelemetryObserver:
    """An observer that records calls on the instruments of a meter, and on the current span.

    `provider` is the `MeterProvider`, by default the global one. Of budgets it shows at most
    `accounts`, read when a reader collects. Nothing is shown while it is not `is_on`.
    """

    is_on = True

    def __init__(self, provider: Any, accounts: int) -> None:
        self.provider = provider
        self.accounts = accounts
        self._used = _UsedAccounts()
        self._shown: list[Balance] = []
        self._left_out = 0
        self._models = BoundedLabels(MOST_MODELS)
        self._scopes = BoundedLabels(accounts)
        self._attributes = lru_cache(_MOST_SERIES)(self._attributes_of)
        self._spans: WeakKeyDictionary[Any, dict[str, int]] = WeakKeyDictionary()
        meter = metrics.get_meter("microbudget", version(), provider, names.SCHEMA_URL)
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        self._duration = meter.create_histogram(
            names.DURATION,
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=names.DURATION_BUCKETS,
        )
        self._cost = meter.create_counter(names.COST, "USD", "Charges of calls.")
        self._refusals = meter.create_counter(names.REFUSALS, "{call}", "Calls that were refused.")
        self._observe_budgets(meter)

    def is_due(self) -> bool:
        """Tell whether a span is recorded here: it gets the usage, and metrics get its context."""
        recorded: bool = trace.get_current_span().is_recording()
        return recorded

    def ended(self, call: EndedCall, is_late: bool) -> None:
        """Record how long a call took, what it used, and what it was charged."""
        self._used.note(call.accounts)
        key = (call.operation, call.provider, call.asked, call.answered, call.error)
        duration, prompt, answer = self._attributes(*key)
        self._duration.record(call.seconds, duration)
        usage = call.usage
        if usage is not None:
            if usage.input is not None:
                self._tokens.record(usage.input, prompt)
            if usage.output is not None:
                self._tokens.record(usage.output, answer)
            if not is_late and self.is_due():
                self._set_usage(trace.get_current_span(), usage)
        if call.nano_usd:
            self._cost.add(call.nano_usd / 1_000_000_000, duration)

    def refused(self, refusal: CallRefusal) -> None:
        """Count a refusal, and add it to the current span as an event."""
        attributes = {
            names.ACCOUNT: self._scopes.label(refusal.account),
            names.AXIS: axis_label(refusal.axis),
            names.REASON: refusal.reason,
        }
        self._refusals.add(1, attributes)
        span = trace.get_current_span()
        if span.is_recording():
            span.add_event(names.REFUSED, attributes)

    def _attributes_of(
        self, operation: str, provider: str, asked: str, answered: str, error: str
    ) -> tuple[Attributes, ...]:
        """Return the attributes of a call's duration, of its input and of its output."""
        both = {names.OPERATION_NAME: operation, names.PROVIDER_NAME: provider}
        if asked:
            both[names.REQUEST_MODEL] = self._models.label(asked)
        if answered:
            both[names.RESPONSE_MODEL] = self._models.label(answered)
        duration = {**both, names.ERROR_TYPE: error} if error else both
        prompt, answer = ({**both, names.TOKEN_TYPE: one} for one in (names.INPUT, names.OUTPUT))
        return duration, prompt, answer

    def _set_usage(self, span: Any, usage: Usage) -> None:
        """Set the usage of the calls that were made while a span was the current one."""
        sums = self._spans.setdefault(span, {})
        for name, tokens in (
            (names.INPUT_TOKENS, usage.input or 0),
            (names.OUTPUT_TOKENS, usage.output or 0),
            (names.CACHE_READ_TOKENS, usage.cached),
            (names.CACHE_CREATION_TOKENS, usage.cache_written),
            (names.REASONING_TOKENS, usage.reasoning),
        ):
            if tokens:
                sums[name] = sums.get(name, 0) + tokens
        span.set_attributes(sums)

    def _observe_budgets(self, meter: Any) -> None:
        units = {"utilization": "1"}
        for name in FIGURES:  # the first one reads the ledgers for all
            meter.create_observable_gauge(
                names.BUDGET + name, [self._gauge(name)], units.get(name, "")
            )
        meter.create_observable_gauge(names.LEFT_OUT, [self._observe_left_out], "{account}")

    def _gauge(self, name: str) -> Any:
        def observe(options: Any) -> Iterable[metrics.Observation]:
            if name == next(iter(FIGURES)):
                self._read()
            for row in self._shown:
                figure = FIGURES[name](row)
                if figure is not None:
                    place = {names.ACCOUNT: row.account, names.WINDOW: row.window}
                    yield metrics.Observation(figure, {**place, names.AXIS: axis_label(row.axis)})

        return observe

    def _observe_left_out(self, options: Any) -> Iterable[metrics.Observation]:
        if self.is_on:
            yield metrics.Observation(self._left_out)

    def _read(self) -> None:
        if self.is_on:
            tell_late()
            self._shown, self._left_out = nearest_to_their_end(self._used.rows(), self.accounts)
        else:
            self._shown = []


class _UsedAccounts:
    """The accounts of ledgers that calls drew on, and their balances."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[Any, str, Any]] = {}
        self._lock = Lock()

    def note(self, accounts: Iterable[LedgerAccount]) -> None:
        """Note the accounts of a call."""
        for account in accounts:
            ledger = origin(account.ledger)
            place = (id(ledger), account.path)
            known = self._known.get(place)
            if known is None or known[0]() is not ledger:
                loop = asyncio.get_running_loop() if is_awaited(ledger) else None
                with self._lock:
                    self._known.pop(place, None)
                    if len(self._known) >= _MOST_KNOWN:
                        del self._known[next(iter(self._known))]
                    self._known[place] = (ref(ledger), account.path, loop)

    def rows(self) -> Iterator[Balance]:
        """Yield the balance of each limit once, of the accounts above as well."""
        with self._lock:
            known = dict(self._known)
        seen = set()
        for place, (found, path, loop) in known.items():
            ledger = found()
            for row in () if ledger is None else _balance(ledger, path, loop):
                limit = (place[0], row.account, row.axis, row.window)
                if limit not in seen:
                    seen.add(limit)
                    yield row


def _balance(ledger: Any, path: str, loop: Any) -> list[Balance]:
    """Return an account's balance; none of a ledger that does not answer now."""
    try:
        if loop is None:
            rows: list[Balance] = ledger.balance(path)
            return rows
        if not loop.is_running() or has_event_loop():  # else it would wait for itself
            return []
        asked = asyncio.run_coroutine_threadsafe(ledger.balance(path), loop)
        return list(asked.result(_ANSWER_S))
    except Exception as error:  # noqa: BLE001 - the other metrics are exported all the same
        log("debug", f"the balance of {path} was not read: {type(error).__name__}")
        return []
