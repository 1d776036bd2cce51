"""What Prometheus reads of a server: the limits of its ledger, its calls and its refusals."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache, partial
from typing import Any

from prometheus_client import Counter, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from budget_core.ledger.hold import Balance
from budget_cpython.telemetry import conventions as names
from budget_cpython.telemetry.labels import MOST_MODELS, BoundedLabels, axis_label
from budget_cpython.telemetry.limits_shown import FIGURES, nearest_to_their_end
from budget_cpython.telemetry.observer import CallRefusal, EndedCall
from budget_cpython.version import version

ACCOUNTS = 1000
_MOST_SERIES = 1000  # that are kept for the next calls
SHARED = "PROMETHEUS_MULTIPROC_DIR"  # the folder in which several processes count together
_LIMIT = ("account", "axis", "window")
_NAMES = {figure: f"microbudget_budget_{figure}" for figure in FIGURES}
_NAMES["utilization"] += "_ratio"
_HELP = {
    "limit": "The cap of a limit, in dollars for money.",
    "spent": "What was used in the window.",
    "held": "What is set aside for calls in flight.",
    "remaining": "What may still be used.",
    "utilization": "The part of the limit that is spent or held.",
}


def _flat(name: str) -> str:
    return name.replace(".", "_")


_CALL = tuple(map(_flat, (names.OPERATION_NAME, names.PROVIDER_NAME, names.REQUEST_MODEL)))


class PrometheusObserver:
    """An observer that counts calls and refusals, and writes them beside the limits of a ledger.

    At most `accounts` accounts are shown, and as many are named by refusals.
    """

    def __init__(self, accounts: int = ACCOUNTS) -> None:
        self._accounts = accounts
        self._models = BoundedLabels(MOST_MODELS)
        self._scopes = BoundedLabels(accounts)
        self._series = lru_cache(_MOST_SERIES)(self._opened)
        of, text = ("account", "axis", "reason"), "Calls that were refused."
        self._refusals = Counter("microbudget_refusals", text, of, registry=None)
        self._tokens = Histogram(
            _flat(names.TOKEN_USAGE),
            "Number of input and output tokens used.",
            (*_CALL, _flat(names.TOKEN_TYPE)),
            buckets=names.TOKEN_BUCKETS,
            registry=None,
        )
        self._duration = Histogram(
            _flat(names.DURATION) + "_seconds",
            "GenAI operation duration.",
            (*_CALL, _flat(names.ERROR_TYPE)),
            buckets=names.DURATION_BUCKETS,
            registry=None,
        )
        self._cost = Counter("microbudget_cost_dollars", "Charges of calls.", _CALL, registry=None)

    def is_due(self) -> bool:
        """Tell whether another process may be asked for what is counted here."""
        return SHARED in os.environ

    def ended(self, call: EndedCall, is_late: bool) -> None:
        """Count how long a call took, what it used, and what it was charged."""
        known = self._series(call.operation, call.provider, call.asked, call.error)
        duration, prompt, answer, cost = known
        duration.observe(call.seconds)
        if call.usage is not None:
            if call.usage.input is not None:
                prompt().observe(call.usage.input)
            if call.usage.output is not None:
                answer().observe(call.usage.output)
        if call.nano_usd:
            cost().inc(call.nano_usd / 1_000_000_000)

    def _opened(self, operation: str, provider: str, asked: str, error: str) -> tuple[Any, ...]:
        """Return the series of one kind of call; some are opened when they are first counted."""
        labels = (operation, provider, self._models.label(asked) if asked else "")
        return (
            self._duration.labels(*labels, error),
            cache(partial(self._tokens.labels, *labels, names.INPUT)),
            cache(partial(self._tokens.labels, *labels, names.OUTPUT)),
            cache(partial(self._cost.labels, *labels)),
        )

    def refused(self, refusal: CallRefusal) -> None:
        """Count a refusal."""
        account = self._scopes.label(refusal.account)
        self._refusals.labels(account, axis_label(refusal.axis), refusal.reason).inc()

    def page(
        self,
        rows: Sequence[Balance] | None,
        may_see: Callable[[str], bool],
        shows_calls: bool,
        accept: str = "",
    ) -> tuple[bytes, str]:
        """Return the page and its content type, in the format that a scraper accepts.

        `rows` are the balances of a ledger, `None` if it did not answer. `may_see` says whose
        refusals are shown, `shows_calls` whether those of all models are.
        """
        encode, kind = choose_encoder(accept)
        families = _Families((*self._limits(rows), *self._counts(may_see, shows_calls)))
        return encode(families), kind

    def _limits(self, rows: Sequence[Balance] | None) -> Iterator[Metric]:
        build = InfoMetricFamily("microbudget_build", "The version of microbudget.")
        build.add_metric((), {"version": version()})
        yield build
        answers = "Whether the ledger answered this scrape."
        yield GaugeMetricFamily("microbudget_ledger_up", answers, int(rows is not None))
        shown, left_out = nearest_to_their_end(rows or (), self._accounts)
        for figure, read in FIGURES.items():
            yield _gauge(_NAMES[figure], _HELP[figure], shown, read)
        name, text = "microbudget_budget_reset_timestamp_seconds", "When the window ends."
        yield _gauge(name, text, shown, lambda row: row.resets_at)
        text = "Accounts of the ledger that are not shown."
        yield GaugeMetricFamily("microbudget_budget_accounts_left_out", text, left_out)

    def _counts(self, may_see: Callable[[str], bool], shows_calls: bool) -> Iterator[Metric]:
        for family in self._collected():
            if family.name.startswith("microbudget_refusals"):
                seen = [one for one in family.samples if may_see(one.labels["account"])]
                family.samples = seen
                yield family
            elif shows_calls:
                yield family

    def _collected(self) -> Iterable[Metric]:
        if SHARED in os.environ:
            return list(MultiProcessCollector(None).collect())  # type: ignore[no-untyped-call]
        counts: tuple[Any, ...] = (self._refusals, self._tokens, self._duration, self._cost)
        return [family for count in counts for family in count.collect()]


class _Families(list[Metric]):
    """Metrics in the form that an encoder takes them."""

    def collect(self) -> "list[Metric]":
        return self


def _gauge(
    name: str, text: str, rows: Iterable[Balance], read: Callable[[Balance], float | None]
) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=_LIMIT)
    for row in rows:
        value = read(row)
        if value is not None:
            gauge.add_metric((row.account, axis_label(row.axis), row.window), value)
    return gauge
