"""What the tests of telemetry share: OpenTelemetry's SDK, in memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from budget_cpython.telemetry.switch import disable_telemetry, enable_telemetry

Point = tuple[dict[str, Any], Any]


class Exported:
    """What a reader of metrics has collected."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def points(self, name: str) -> list[Point]:
        """Return the attributes and the point of each series of a metric."""
        return [(dict(point.attributes), point) for point in self._metrics().get(name, ())]

    def values(self, name: str) -> dict[tuple[Any, ...], Any]:
        """Return the value of each series, or the sum of a histogram, by its attributes' values."""
        return {
            tuple(attributes.values()): getattr(point, "sum", getattr(point, "value", None))
            for attributes, point in self.points(name)
        }

    def names(self) -> set[str]:
        """Return the names of all metrics that have a series."""
        return set(self._metrics())

    def _metrics(self) -> dict[str, Any]:
        data: Any = self._reader.get_metrics_data()
        return {
            metric.name: metric.data.data_points
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@contextmanager
def exporting(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Iterator[Exported]:
    """Have telemetry on, and yield what is exported."""
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)  # as tests of SDKs set it
    exported = Exported()
    enable_telemetry(exported.provider, **options)
    try:
        yield exported
    finally:
        disable_telemetry()
        exported.provider.shutdown()
