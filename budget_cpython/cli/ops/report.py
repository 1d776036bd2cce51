"""The command `microbudget report`."""

import argparse
import calendar
import re
import sys
import time

from budget_core.log import printable
from budget_core.until import stamp
from budget_core.wall_clock import DAY
from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import opened_ledger
from budget_cpython.cli.ops.screen import FAINT, HEAD, Line, Screen, cell, lay_out
from budget_cpython.ops.report import SpendingReport, read_report
from budget_cpython.ops.report_tables import as_csv, as_focus, as_json
from budget_cpython.ops.spending import TIMES, check_columns, spending_by
from budget_cpython.ops.words import short_amount
from budget_cpython.plain_file import replace_file
from budget_cpython.wall_clock import WALL

FORMATS = ("html", "csv", "json", "focus")
_UNITS = {"min": 60, "h": 3600, "d": DAY, "w": 7 * DAY}
_FORMS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%SZ")
_BY = ("account", "model")
_SHOWN = 30


@command(f"PATH {LEDGER} --json --since --until --by --format --output")
def report(options: argparse.Namespace) -> int:
    """Write what was spent, by account, model, tool and time.

    It has what programs on CPython and proxies reported of their calls, by hour, account, model and
    tool. Budgets count every call; what chips used, and what a process that was killed used in its
    last seconds, has no model. FOCUS is the FinOps specification of costs and usage, 1.0, as CSV.

    examples:
      microbudget report --since 24h --by model
      microbudget report acme --since 2026-11-01 --output november.html
      microbudget report --by day,account,tool --output days.csv
      microbudget report --since 31d --format focus --output charges.csv
    """
    now = int(WALL() or time.time())
    since = _time("--since", options.since, now)
    until = now if options.until is None else _time("--until", options.until, now)
    if since >= until:
        raise ValueError(f"--since, {stamp(since)}, must be before --until, {stamp(until)}")
    by = check_columns(options.by.split(",")) if options.by else ()
    kind = _format(options)
    with opened_ledger(options) as ledger:
        report = read_report(ledger, options.path, since, until, now)
    if kind is None:
        Screen().show(_lines(report, by or _BY))
        return 0
    text = _written(report, kind, by)
    if options.output is None:
        sys.stdout.write(text)
        return 0
    try:
        replace_file(options.output, text.encode())
    except OSError as error:  # it names a file beside it
        raise OSError(f"cannot write {options.output!r}: {error.strerror or error}") from error
    print(f"wrote {options.output}", file=sys.stderr)
    return 0


def _format(options: argparse.Namespace) -> str | None:
    """Return the format, `None` for a table; `ValueError` where a file's name does not tell it."""
    suffix: str = (options.output or "").rpartition(".")[2].lower()
    if options.json and options.format not in (None, "json"):
        raise ValueError(f"--json and --format {options.format} exclude each other")
    kind: str | None = "json" if options.json else options.format
    if kind is None and options.output is not None:
        if suffix not in FORMATS:
            raise ValueError(f"give --format {'|'.join(FORMATS)}: {options.output!r} tells none")
        kind = suffix
    return kind


def _written(report: SpendingReport, kind: str, by: tuple[str, ...]) -> str:
    if kind == "csv":
        return as_csv(report, by or _BY)
    if kind == "json":
        return as_json(report, by or _BY)
    if kind == "focus":
        return as_focus(report)
    from budget_cpython.page.report_page import as_html

    return as_html(report, by)


def _lines(report: SpendingReport, by: tuple[str, ...]) -> list[Line]:
    """Return the lines of a table for a terminal."""
    found = spending_by(report.rows, by)
    shown = found if any(name in TIMES for name in by) else found[:_SHOWN]
    title = f"{report.path or 'all accounts'}, {stamp(report.since)} to {stamp(report.until)}"
    lines: list[Line] = [cell(title, HEAD)]
    if report.refused:
        lines.append(cell(f"{report.refused:,} calls refused", FAINT))
    if not found:
        return [*lines, cell("no usage is known of this time", FAINT)]
    has_tools = any(one.amounts.get("tool_calls") for one in found)
    axes = ("nano_usd", "tokens", "calls", *["tool_calls"] * has_tools)
    rows = []
    for one in shown:
        used = one.amounts
        figures = [short_amount(axis, used.get(axis, 0)) for axis in axes]
        rows.append([*(cell(_shown(name)) for name in one.names), *map(cell, figures)])
    heads = [*(name.upper() for name in by), "SPENT", "TOKENS", "CALLS"]
    heads += ["TOOL CALLS"] * has_tools
    lines += lay_out(heads, rows, "<" * len(by) + ">" * len(axes), None)
    if len(found) > len(shown):
        lines.append(cell(f"{len(found) - len(shown)} more: --format csv has all", FAINT))
    return lines


def _shown(name: str) -> str:
    return printable(name) or "-"


def _time(option: str, text: str, now: int) -> int:
    """Return a time as Unix seconds."""
    found = re.fullmatch(r"([0-9]{1,6}) ?(min|h|d|w)", text)
    if found:
        return max(0, now - int(found[1]) * _UNITS[found[2]])
    for form in _FORMS:
        try:
            return max(0, calendar.timegm(time.strptime(text, form)))
        except (ValueError, OverflowError):
            pass
    raise ValueError(
        f"{option} must be like 90min, 24h, 7d, 4w, 2026-11-20 or 2026-11-20T09:00, not {text!r}"
    )
