"""What telemetry adds to a wrapped call on SQLite, by OpenTelemetry's SDK and for Prometheus.

What it adds is measured on a ledger in memory, where no disk disturbs it: rounds of calls with each
kind take turns, in which the observer is told of all calls, and the best round of each counts. It
is shown as a share of a call on SQLite, on this disk, in its best round; the provider does nothing.
While it is off, also after it was on, nothing of it is in a call.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from benchmarks.figures import Figure
from benchmarks.overhead import NoOp
from budget_core.ledger.limit import Limit
from budget_cpython import BudgetWrapper, Ledger
from budget_cpython.ledger.sqlite import SqliteLedger
from budget_cpython.telemetry.observing import observe, unobserve
from budget_cpython.telemetry.prometheus import PrometheusObserver
from budget_cpython.telemetry.switch import disable_telemetry, enable_telemetry

Kind = Callable[[], AbstractContextManager[None]]

MOST = 0.05
_DISK = Path(__file__).parent.parent / ".local"  # other places may be in memory
_USAGE = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
_MESSAGES = [{"role": "user", "content": "hello"}]
_CALLS = 32  # a round: a batch
_US = 1_000_000
_NOTE = (
    "What OpenTelemetry adds is about at its target: the SDK's three records of histograms are "
    "some 25 µs of it, and nothing of ours makes them cheaper. While telemetry is off, also after "
    "it was on, nothing of it is in a call."
)


def measure(quick: bool = False) -> list[Figure]:
    """Return the time of a call, and what each kind of telemetry adds to it, as a share."""
    os.environ.pop("OTEL_SDK_DISABLED", None)
    _DISK.mkdir(exist_ok=True)
    rounds = 10 if quick else 200
    with (
        TemporaryDirectory(dir=_DISK) as folder,
        SqliteLedger(Path(folder) / "ledger.db") as ledger,
    ):
        (call,) = asyncio.run(_best(_wrapped(ledger), [nullcontext], 2 * rounds, 3))
    provider = MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)
    page = PrometheusObserver()
    kinds: list[Kind] = [
        nullcontext,
        lambda: _exporting(provider),
        lambda: _counting(page),
    ]
    off, otel, prometheus = asyncio.run(_best(_wrapped(Ledger()), kinds, rounds, _CALLS))
    name = "telemetry: a wrapped call on SQLite"
    return [
        Figure(name, call * _US, "µs"),
        Figure(f"{name}, OpenTelemetry: added time", (otel - off) * _US, "µs"),
        Figure(f"{name}, Prometheus: added time", (prometheus - off) * _US, "µs"),
        Figure(f"{name}, OpenTelemetry: added share", (otel - off) / call, "", MOST, _NOTE),
        Figure(f"{name}, Prometheus: added share", (prometheus - off) / call, "", MOST),
    ]


def _wrapped(ledger: Any) -> BudgetWrapper:
    ledger.set_limits("org", [Limit("tokens", None, "day")])
    return BudgetWrapper(NoOp(_USAGE), ledger=ledger, account="org", max_tokens=100)


async def _best(wrapper: BudgetWrapper, kinds: list[Kind], rounds: int, calls: int) -> list[float]:
    """Return the seconds of a call in the best round of each kind."""
    best = [float("inf")] * len(kinds)
    for turn in range(rounds):
        for place in range(len(kinds)):
            at = (turn + place) % len(kinds)
            with kinds[at]():
                began = time.perf_counter()
                for _ in range(calls):
                    await wrapper.chat(_MESSAGES)
                best[at] = min(best[at], (time.perf_counter() - began) / calls)
    return best


@contextmanager
def _exporting(provider: MeterProvider) -> Iterator[None]:
    enable_telemetry(provider)
    try:
        yield
    finally:
        disable_telemetry()


@contextmanager
def _counting(page: PrometheusObserver) -> Iterator[None]:
    observe(page)
    try:
        yield
    finally:
        unobserve(page)
