"""What flash bears and what a record allocates are measured, and stay within their bounds."""

import re

import pytest

from benchmarks import flash
from benchmarks.figures import Figure

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    return {figure.name: figure for figure in flash.measure(quick=True)}


def test_an_update_on_littlefs_erases_few_blocks(figures: dict[str, Figure]) -> None:
    for size in (32, 256):
        erases = figures[f"erases of 1,000 updates: littlefs, programmes of {size} B"]
        assert 0 < erases.value <= 70
        assert erases.target == pytest.approx(70)


def test_flash_lasts_longer_the_further_ahead_is_written(figures: dict[str, Figure]) -> None:
    for title in flash.KINDS.values():
        years = [
            figures[f"years of flash, K = {ahead:,}: {title}"].value for ahead in flash.WRITE_AHEAD
        ]
        assert years == sorted(years)
        assert years[-1] > 50 * years[0]


def test_records_leave_nothing_on_the_heap(figures: dict[str, Figure]) -> None:
    growth = [figure for name, figure in figures.items() if re.match("heap growth over ", name)]
    assert [figure.value for figure in growth] == [0, 0, 0]
    assert not any(figure.missed for figure in growth)


def test_a_record_between_two_writes_takes_no_more_than_one_without_a_store(
    figures: dict[str, Figure],
) -> None:
    ahead = figures["allocated by a record: a store, K = 200,000"].value
    assert ahead == figures["allocated by a record: no store"].value
    assert ahead < figures["allocated by a record: a store, K = 0"].value
