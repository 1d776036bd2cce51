"""A report as one page of HTML that needs nothing else, not even a script."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from budget_cpython.ops.forecast import FINE
from budget_cpython.ops.report import SpendingReport
from budget_cpython.ops.spending import spending_by, total_of
from budget_cpython.page.report_chart import HEIGHT, WIDTH, report_chart
from budget_cpython.page.sentences import grouped, refusal
from budget_cpython.page.templating import content, filled

MOST_ROWS = 30  # of a table
MOST_REFUSALS = 15
_TABLES = (("Models", ("model",)), ("Accounts", ("account",)), ("Tools", ("tool",)))


def as_html(report: SpendingReport, by: Sequence[str]) -> str:
    """Return a report as HTML: totals, a chart over time, and tables by these columns.

    Without columns there is a table of models, one of accounts and one of tools.
    """
    refused = reversed(report.of_kind("refused"))  # the newest first
    refusals = grouped(refusal(one, lambda path: True) for one in refused)
    refusals.sort(key=lambda one: one.times, reverse=True)
    near = [one for one in report.accounts if one.state != FINE or one.nearest.ends_early]
    return filled(
        "report.html",
        report=report,
        css=Markup(content("page.css").decode() + content("report.css").decode()),  # noqa: S704
        total=total_of(report.rows),
        chart=report_chart(report),
        size=(WIDTH, HEIGHT),
        tables=[_table(report, title, names) for title, names in _titles(by)],
        near=near[:MOST_ROWS],
        refusals=refusals[:MOST_REFUSALS],
        refusal_count=len(refusals),
        changes=[one for one in reversed(report.events) if one.kind != "refused"][:MOST_ROWS],
    )


def _titles(by: Sequence[str]) -> Sequence[tuple[str, Sequence[str]]]:
    return (("By " + ", ".join(by), by),) if by else _TABLES


def _table(report: SpendingReport, title: str, by: Sequence[str]) -> dict[str, Any]:
    """Return a table's rows; of models and tools alone those of the other kind are left out."""
    rows = report.rows
    if "model" in by and "tool" not in by:
        rows = [row for row in rows if row.model]
    elif "tool" in by and "model" not in by:
        rows = [row for row in rows if row.tool]
    found = spending_by(rows, by)
    most = max((one.rank[0] for one in found), default=0)
    return {
        "title": title,
        "columns": by,
        "rows": [(one, 1000 * one.rank[0] // most if most else 0) for one in found[:MOST_ROWS]],
        "count": len(found),
    }
