"""The chart of a report: what models used over time, stacked, with refusals and thresholds."""

from collections.abc import Sequence
from typing import NamedTuple

from budget_core.wall_clock import DAY
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage
from budget_cpython.ops.report import SpendingReport
from budget_cpython.ops.words import short_amount

WIDTH, HEIGHT = 960, 220
MOST_HOURS = 96  # above it a bar is a day
MOST_MODELS = 6  # with colours of their own
TICKS = 4
LABEL = 70  # the width of a label


class Segment(NamedTuple):
    """A part of a bar: `series` is the place of its model in the legend."""

    series: int
    y: float
    height: float


class Bar(NamedTuple):
    """The usage of an hour or a day; `x` is where the bar begins, `text` says what it shows.

    `refused` is how many calls were refused, `crossed` the thresholds that were crossed.
    """

    x: float
    segments: list[Segment]
    refused: int
    crossed: int
    text: str


class ReportChart(NamedTuple):
    """A chart: its `axis`, the `models` of its legend, bars of one `width`, and its scale.

    `ticks` are heights with their amounts, `labels` places across with their times.
    """

    axis: str
    models: list[str]
    width: float
    bars: list[Bar]
    ticks: list[tuple[float, str]]
    labels: list[tuple[float, int]]
    size_s: int


def report_chart(report: SpendingReport) -> ReportChart | None:
    """Return the chart of a report, in dollars if any were spent, or `None` without usage."""
    rows = [row for row in report.rows if row.model]
    axis = next((axis for axis in ("nano_usd", "tokens", "calls") if _used(rows, axis)), None)
    if axis is None:
        return None
    size = HOUR_S if report.until - report.since <= MOST_HOURS * HOUR_S else DAY
    first = report.since - report.since % size
    count = -(-(report.until - first) // size)
    sums: dict[tuple[int, str], int] = {}
    by_model: dict[str, int] = {}
    for row in rows:
        amount, place = row.amounts.get(axis, 0), (row.hour - first) // size
        sums[place, row.model] = sums.get((place, row.model), 0) + amount
        by_model[row.model] = by_model.get(row.model, 0) + amount
    order = sorted(by_model, key=lambda name: (-by_model[name], name))
    named = order[:MOST_MODELS]
    totals = [sum(sums.get((at, name), 0) for name in order) for at in range(count)]
    top = _round_up(max(totals))
    refused, crossed = [0] * count, [0] * count
    for event in report.events:
        at = (event.at - first) // size
        if event.kind == "refused":
            refused[at] += event.times
        elif event.kind == "threshold":
            crossed[at] += 1
    step = WIDTH / count
    bars = []
    for at in range(count):
        parts = [sums.get((at, name), 0) for name in named]
        parts.append(totals[at] - sum(parts))
        text = short_amount(axis, totals[at])
        text += f", {refused[at]:,} refused" if refused[at] else ""
        text += f", {crossed[at]:,} thresholds crossed" if crossed[at] else ""
        bars.append(Bar(at * step, _stacked(parts, top), refused[at], crossed[at], text))
    legend = [*named, "others"] if len(order) > MOST_MODELS else named
    ticks = [
        (HEIGHT * (1 - part / TICKS), short_amount(axis, top * part // TICKS))
        for part in range(1, TICKS + 1)
    ]
    every = max(1, -(-count // 8))
    fitting = [at for at in range(0, count, every) if WIDTH - at * step >= LABEL or not at]
    labels = [(at * step, first + at * size) for at in fitting]
    return ReportChart(axis, legend, step * 0.82, bars, ticks, labels, size)


def _used(rows: Sequence[HourOfUsage], axis: str) -> bool:
    return any(row.amounts.get(axis) for row in rows)


def _stacked(parts: Sequence[int], top: int) -> list[Segment]:
    """Return the parts of a bar, one on the other from the bottom."""
    found, below = [], 0
    for series, amount in enumerate(parts):
        if amount:
            height = HEIGHT * amount / top
            below += amount
            found.append(Segment(series, HEIGHT * (1 - below / top), height))
    return found


def _round_up(amount: int) -> int:
    """Return an amount of one or two digits, at least as large, that four steps divide."""
    size = 1
    while True:
        for digits in (4, 8, 12, 20, 24, 32):
            if digits * size >= amount:
                return digits * size
        size *= 10
