"""The tables in docs/three_calls.md: the calls of the model within a budget of three, by framework.

The tests in tests/adapters/three_calls report each run. A framework has its lines written where all
its tests passed, and the date changes with them.
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from suites import ROOT

PAGE: Final = ROOT / "docs/three_calls.md"
TESTS: Final = ROOT / "tests/adapters/three_calls"
ALONE: Final = {"exoclaw": "", "frameworks": "frameworks"}
"""What has no adapter to be tried with, and its environment; empty: that of the tests."""

OWN: Final = "own"  # the scenario where the framework's own limit is three
FULL: Final = "S2"  # the one whose run ends at ours
SCENARIOS: Final = tuple(f"S{number}" for number in range(1, 13))
NOT_RUN: Final = "–"  # noqa: RUF001 - as in other tables
_PART: Final = "(<!-- {} -->\n).*?(<!-- end -->\n)"

Row = dict[str, Any]


def test_files(name: str) -> list[Path]:
    """Return the file with the tests of an adapter, or of what is tried alone."""
    path = TESTS / f"test_{name.replace('-', '_')}.py"
    return [path] if path.exists() else []


def write(reports: Iterable[str]) -> None:
    """Write the reports of tests into the page."""
    rows = [json.loads(report) for report in reports]
    page = PAGE.read_text()
    changed = updated(page, rows, datetime.now(UTC).date())
    if changed != page:
        PAGE.write_text(changed)


def updated(page: str, rows: list[Row], today: date) -> str:
    """Return a page with the runs of frameworks; those of others stay as they are."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["framework"], {})[row["scenario"]] = row
    whole = {title: runs for title, runs in found.items() if FULL in runs}
    limits = {title: _limits(title, runs) for title, runs in whole.items()}
    scenarios = {title: _scenarios(title, runs) for title, runs in whole.items()}
    reasons = {title: _reasons(title, runs[FULL]) for title, runs in whole.items()}
    changed = page
    for name, lines in (("limits", limits), ("scenarios", scenarios), ("reasons", reasons)):
        changed = _with_lines(changed, name, lines)
    if changed == page:
        return page
    return _replaced(changed, "date", f"Last changed by a run on {today.isoformat()}.\n")


def lines_of(page: str, name: str) -> dict[str, str]:
    """Return the lines of a part of the page by the framework that each begins with."""
    found = re.search(_PART.format(name), page, re.DOTALL)
    lines = found[0].splitlines()[1:-1] if found else []
    rows = [line for line in lines if line.startswith(("| ", "- ")) and "---" not in line]
    if name != "reasons":
        rows = rows[1:]  # the heads of the columns
    return {re.split(r" \| |: ", line[2:])[0]: line for line in rows}


def _with_lines(page: str, name: str, lines: dict[str, str]) -> str:
    known = lines_of(page, name) | lines
    order = sorted(known, key=str.lower)
    return _replaced(
        page,
        name,
        "\n".join(["", *_HEADS[name], *(known[one] for one in order if known[one]), "", ""]),
    )


def _replaced(page: str, name: str, text: str) -> str:
    return re.sub(
        _PART.format(name), lambda match: match[1] + text + match[2], page, flags=re.DOTALL
    )


def _limits(title: str, runs: dict[str, Row]) -> str:
    ours, own = runs[FULL], runs.get(OWN)
    seen = [_counts(own), own["end"], own["limit"]] if own else ["", "", "none"]
    return _line(title, _counts(ours), ours["end"], *seen, ours["with"], ours["version"])


def _scenarios(title: str, runs: dict[str, Row]) -> str:
    return _line(title, *(str(runs[one]["calls"]) if one in runs else NOT_RUN for one in SCENARIOS))


def _reasons(title: str, run: Row) -> str:
    """Return a line with the scenarios that are not run, and why; empty if all are."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in run["lacks"].items():
        by_reason.setdefault(reason, []).append(name)
    said = [f"{', '.join(names)}, as {reason}" for reason, names in by_reason.items()]
    return f"- {title}: {'; '.join(said)}." if said else ""


def _counts(run: Row) -> str:
    return f"{run['calls']} ({run['tools']} tools)"


def _line(*texts: str) -> str:
    return "| " + " | ".join(texts) + " |"


def _head(*texts: str) -> list[str]:
    return [_line(*texts), _line(*["---"] * len(texts))]


_HEADS: Final = {
    "limits": _head(
        "framework",
        "ours: calls",
        "its end",
        "its own: calls",
        "its end",
        "its own limit",
        "ours",
        "version",
    ),
    "scenarios": _head("framework", *SCENARIOS),
    "reasons": [],
}
