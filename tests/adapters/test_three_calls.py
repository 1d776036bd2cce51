"""The tables in docs/three_calls.md say what the runs of the scenarios report."""

from datetime import date
from typing import Any

import adapter_matrix
import pytest
import three_calls

PAGE = three_calls.PAGE.read_text()
TODAY = date(2030, 1, 2)


def a_row(scenario: str, **other: Any) -> dict[str, Any]:
    usual = {"framework": "Garden", "version": "1.0", "limit": "`weeds=3`", "with": "`budgeted(…)`"}
    seen = {"calls": 3, "tools": 2, "end": "answers", "lacks": {"S7": "it is slow"}}
    return {**usual, **seen, "scenario": scenario, **other}


def cells(page: str, part: str, framework: str) -> list[str]:
    line = three_calls.lines_of(page, part)[framework]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_framework_gets_its_lines_and_the_others_keep_theirs() -> None:
    rows = [a_row("S2"), a_row("S12", calls=5), a_row("own", calls=4, tools=3, end="has no end")]
    page = three_calls.updated(PAGE, rows, TODAY)
    ours = ["3 (2 tools)", "answers"]
    own = ["4 (3 tools)", "has no end", "`weeds=3`"]
    assert cells(page, "limits", "Garden") == ["Garden", *ours, *own, "`budgeted(…)`", "1.0"]
    assert cells(page, "scenarios", "Garden")[-1] == "5"
    assert "- Garden: S7, as it is slow." in page
    assert "on 2030-01-02" in page
    for part in ("limits", "scenarios", "reasons"):
        known = three_calls.lines_of(PAGE, part)
        assert known.items() <= three_calls.lines_of(page, part).items()


def test_a_run_that_changes_nothing_keeps_the_date() -> None:
    page = three_calls.updated(PAGE, [a_row("S2")], TODAY)
    assert three_calls.updated(page, [a_row("S2")], date(2031, 1, 1)) == page


def test_a_framework_whose_run_has_no_end_on_the_page_is_left_out() -> None:
    assert three_calls.updated(PAGE, [a_row("S1")], TODAY) == PAGE


@pytest.mark.parametrize("framework", three_calls.lines_of(PAGE, "scenarios"))
def test_the_page_says_three_calls_everywhere(framework: str) -> None:
    _, *calls, changed = cells(PAGE, "scenarios", framework)
    assert set(calls) <= {"3", three_calls.NOT_RUN}
    assert changed in ("5", three_calls.NOT_RUN)
    assert calls[1] == "3"
    assert cells(PAGE, "limits", framework)[1].startswith("3 (")
    reasons = three_calls.lines_of(PAGE, "reasons").get(framework, "")
    assert (three_calls.NOT_RUN in (*calls, changed)) == bool(reasons)


def test_every_file_of_scenarios_is_tried_somewhere() -> None:
    names = [*adapter_matrix.adapters(), *three_calls.ALONE]
    tried = {path for name in names for path in three_calls.test_files(name)}
    assert tried == set(three_calls.TESTS.glob("test_*.py"))
