"""A cap and a count."""

from budget_core import Allowance
from tests_micro.support import NO_COUNTS, NO_LIMITS, RecordingLock, raises


def granted(allowance: Allowance, claims: int) -> int:
    return sum([allowance.claim() for _ in range(claims)])


def test_claims_are_granted_up_to_the_cap_and_not_one_more() -> None:
    for cap in (0, 1, 2, 7):
        allowance = Allowance("steps", cap)
        assert [allowance.claim() for _ in range(cap)] == [True] * cap
        assert [allowance.claim() for _ in range(3)] == [False] * 3
        assert allowance.used == allowance.cap == cap


def test_a_refused_claim_uses_nothing() -> None:
    allowance = Allowance("steps", 1)
    allowance.claim()
    for _ in range(5):
        allowance.claim()
    assert allowance.used == 1


def test_no_cap_grants_whatever_is_asked() -> None:
    allowance = Allowance("steps", None)
    assert granted(allowance, 1000) == 1000
    assert (allowance.cap, allowance.used) == (None, 1000)


def test_what_is_charged_counts_also_past_the_cap() -> None:
    allowance = Allowance("steps", 3)
    allowance.charge()
    allowance.charge(0)
    allowance.charge(5)
    assert allowance.used == 6
    assert not allowance.claim()
    assert allowance.used == 6


def test_what_is_charged_leaves_less_to_claim() -> None:
    allowance = Allowance("steps", 5)
    allowance.charge(3)
    assert granted(allowance, 10) == 2


def test_a_cap_that_is_no_whole_number_is_refused_by_name() -> None:
    for cap in NO_LIMITS:
        text = str(raises(ValueError, Allowance, "max_steps", cap))
        assert "max_steps must be a whole number" in text, text
    text = str(raises(ValueError, Allowance, "max_steps", True))
    assert text == "max_steps must be a whole number >= 0, not True"


def test_a_number_that_cannot_be_printed_is_refused_all_the_same() -> None:
    for cap in (10**5000, -(10**5000), (1 << 64) + 1):
        text = str(raises(ValueError, Allowance, "max_steps", cap))
        assert text == "max_steps must be a whole number >= 0, not a huge number"
    assert str(1 << 64) in str(raises(ValueError, Allowance, "max_steps", 1 << 64))


def test_a_charge_that_is_no_count_is_refused_and_changes_nothing() -> None:
    allowance = Allowance("steps", 3)
    for amount in NO_COUNTS:
        assert "count must be" in str(raises(ValueError, allowance.charge, amount)), amount
    assert allowance.used == 0


def test_each_claim_and_charge_takes_the_lock_once_and_leaves_it() -> None:
    lock = RecordingLock()
    allowance = Allowance("steps", 1, lock)
    for taken in (1, 2, 3):
        allowance.claim()
        assert (lock.taken, lock.held) == (taken, False)
    allowance.charge(2)
    assert (lock.taken, lock.held) == (4, False)


def test_allowances_without_a_lock_of_their_own_count_apart() -> None:
    first, second = Allowance("steps", 2), Allowance("steps", 2)
    first.claim()
    assert (first.used, second.used) == (1, 0)
