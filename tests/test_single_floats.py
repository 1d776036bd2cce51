"""Shares and weights on a chip whose floats have 32 bits, emulated."""

import struct
from typing import Any

import pytest

from budget_core import TurnBudgetConfig, TurnBudgetTracker
from budget_core.config import in_ppm


def rounded(value: float) -> float:
    """Return the nearest float of 32 bits."""
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


class Single(float):
    """A float whose sums, differences and products have 32 bits."""

    def __new__(cls, value: float) -> "Single":
        """Return the nearest of 32 bits."""
        return super().__new__(cls, rounded(value))

    def __add__(self, other: float) -> "Single":
        return Single(float(self) + rounded(other))

    def __sub__(self, other: float) -> "Single":
        return Single(float(self) - rounded(other))

    def __mul__(self, other: float) -> "Single":
        return Single(float(self) * rounded(other))

    def __truediv__(self, other: float) -> "Single":
        return Single(float(self) / rounded(other))


def test_a_share_has_the_same_parts_per_million_on_every_chip() -> None:
    for hundredth in range(10_001):
        share = hundredth / 10_000
        assert in_ppm(Single(share)) == in_ppm(share) == hundredth * 100, share


def test_a_weight_up_to_sixteen_has_the_same_parts_per_million_on_every_chip() -> None:
    for hundredth in range(1_601):
        assert in_ppm(Single(hundredth / 100)) == hundredth * 10_000


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.8, 0.9, 0.95])
def test_a_threshold_fires_at_its_very_token(share: float) -> None:
    for cap in (100, 16_777_217, 35_000_000, 2**31 + 1, 2**39 + 7):
        single: Any = Single(share)
        config = TurnBudgetConfig(None, cap, (single,), tool_strip_threshold=single)
        tracker = TurnBudgetTracker(config)
        at = -(-cap * round(share * 100) // 100)
        tracker.record({"total_tokens": at - 1})
        due = (tracker.alert, tracker.should_strip_tools(), tracker.consume_threshold_warning())
        assert due == (False, False, None), cap
        tracker.record({"total_tokens": 1})
        assert tracker.alert
        assert tracker.should_strip_tools()
        assert tracker.consume_threshold_warning()


def test_tools_stay_until_the_last_token_where_they_are_stripped_at_the_whole() -> None:
    cap = 16_777_217
    tracker = TurnBudgetTracker(TurnBudgetConfig(None, cap, (), tool_strip_threshold=1))
    tracker.record({"total_tokens": cap - 1})
    assert not tracker.should_strip_tools()


def test_cached_tokens_and_models_are_weighed_in_whole_numbers() -> None:
    tenth: Any = Single(0.1)
    config = TurnBudgetConfig(cached_token_weight=tenth, model_weights={"m": Single(0.7)})
    tracker = TurnBudgetTracker(config)
    count = 2**40
    report = {"prompt_tokens": count, "completion_tokens": 0, "total_tokens": count}
    tracker.record(dict(report, prompt_tokens_details={"cached_tokens": count}), "m")
    assert tracker.total_tokens == count // 10 * 7 // 10
