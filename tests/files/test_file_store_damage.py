"""Every bit flipped, and every truncation, of what a chip stored."""

import pytest

from tests_micro.test_file_store_damage import ALLOWANCES, cut_slots, flip_a_bit_of_every_slot

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("allowance", ALLOWANCES)]


def test_every_bit_flipped_in_every_slot_changes_no_count(allowance: int) -> None:
    flip_a_bit_of_every_slot(allowance, 1)


def test_every_truncation_spends_the_day(allowance: int) -> None:
    cut_slots(allowance, 1)
