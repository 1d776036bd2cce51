"""The page of guarantees: what it names exists, and its figures are those of tests and benches."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

DOCS = ROOT / "docs"
PAGE = DOCS / "guarantees.md"
FIRST_TELLING = 20  # smaller numbers stand in almost any file
ROWS = [
    tuple(cell.strip() for cell in row.split(" | "))
    for row in re.findall(r"^\| ([A-Z].+) \|$", PAGE.read_text(), re.MULTILINE)
]


def numbers(text: str) -> set[float]:
    """Return the numbers in a text, of code or of English."""
    found = re.findall(r"(?<![\w.])\d[\d_,]*(?:\.\d+)?", text)
    return {float(number.replace("_", "").replace(",", "")) for number in found}


def files(cell: str) -> list[Path]:
    """Return the files that the last cell of a row links to."""
    return [(DOCS / target).resolve() for target in re.findall(r"\]\(([^)#]+)", cell)]


def test_the_page_has_rows_of_three_cells() -> None:
    assert len(ROWS) >= 30
    assert {len(row) for row in ROWS} == {3}


@pytest.mark.parametrize("row", ROWS, ids=[row[0][:60] for row in ROWS])
def test_a_promise_names_what_shows_it(row: tuple[str, str, str]) -> None:
    promise, figure, shown_by = row
    assert promise.endswith(".")
    assert figure
    texts = "".join(file.read_text() for file in files(shown_by))
    assert texts or shown_by == "the same"
    for test in re.findall(r"`(test_\w+)`", shown_by):
        assert re.search(rf"def {test}\(", texts), test
    for figures_row in re.findall(r"`(.+)` ≤", figure):
        check_bench(figures_row, figure.rpartition("≤ ")[2])
    if "`" not in figure or "≤" not in figure:
        telling = {number for number in numbers(figure) if not 1 <= number < FIRST_TELLING}
        assert telling - {0} <= numbers(texts), telling - numbers(texts)


def check_bench(name: str, target: str) -> None:
    """Check that a row of figures has a target and meets it."""
    page = (DOCS / "figures.md").read_text()
    [cells] = re.findall(rf"^\| {re.escape(name)} \| (.+) \| ≤ (.+) \|$", page, re.MULTILINE)
    assert cells[1] == target
    [value], [bound] = numbers(cells[0]), numbers(target)
    assert value <= bound


def test_every_command_is_a_target_of_make() -> None:
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"`make ([a-z]+)", PAGE.read_text()))
    assert {"claims", "crashes", "kills", "cuts", "fleet"} <= named <= {*targets, "test"}


def test_every_file_of_a_campaign_is_what_its_command_runs() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for _, _, shown_by in ROWS:
        for command, target in re.findall(r"`make ([a-z]+)`: \[\w+\]\(\.\./(.+?)\.py\)", shown_by):
            recipe = re.findall(rf"^{command}:.*\n\t(.+)", makefile, re.MULTILINE)
            assert target.replace("/", ".") in recipe[0], command


def test_numbers_are_read_as_they_are_written() -> None:
    assert numbers("1,000 of 5_000, 0.01; SQLite3 has 32") == {1000, 5000, 0.01, 32}
