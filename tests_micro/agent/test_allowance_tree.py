"""Counts that count on one another: what is used below is used above."""

from budget_core.agent.allowance_tree import SharedAllowance
from tests_micro.support import NO_COUNTS, RecordingLock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def family(*caps: int | None, kept: int = 0) -> "list[SharedAllowance]":
    """Return a chain, the topmost first, under one lock."""
    lock = RecordingLock()
    counts: list[SharedAllowance] = []
    for cap in caps:
        above = counts[-1] if counts else None
        counts.append(SharedAllowance("turns", cap, lock, above, 0 if counts else kept))
    return counts


def granted(count: SharedAllowance, claims: int = 100) -> int:
    return sum([count.claim() for _ in range(claims)])


def test_the_tightest_of_a_chain_holds_wherever_it_is() -> None:
    for caps, grants in (
        ((3, 5, 7), 3),
        ((7, 3, 5), 3),
        ((7, 5, 3), 3),
        ((None, None, 3), 3),
        ((3, None, None), 3),
        ((None, 3, None), 3),
        ((0, 5, 5), 0),
        ((5, 0, 5), 0),
        ((5, 5, 0), 0),
        ((None, None, 0), 0),
        ((None, None, None), 100),
    ):
        counts = family(*caps)
        assert granted(counts[-1]) == grants, caps
        assert [count.used for count in counts] == [grants] * 3


def test_a_cap_of_zero_below_nothing_limited_has_nothing_left() -> None:
    top, child = family(None, 0)
    assert (top.left(), child.left()) == (None, 0)
    assert not child.claim()
    assert top.claim()


def test_three_children_of_five_under_a_parent_of_ten_get_ten() -> None:
    lock = RecordingLock()
    parent = SharedAllowance("turns", 10, lock)
    children = [SharedAllowance("turns", 5, lock, parent) for _ in range(3)]
    grants = [0, 0, 0]
    for _ in range(20):
        for index, child in enumerate(children):
            grants[index] += child.claim()
    assert sum(grants) == parent.used == 10
    assert max(grants) <= 5


def test_what_a_child_leaves_was_never_taken() -> None:
    lock = RecordingLock()
    parent = SharedAllowance("turns", 10, lock)
    assert granted(SharedAllowance("turns", 8, lock, parent), 2) == 2
    assert parent.left() == 8
    assert granted(SharedAllowance("turns", 8, lock, parent)) == 8


def test_what_is_kept_is_for_its_own_end_alone() -> None:
    parent, child = family(10, None, kept=2)
    assert (parent.left(), child.left()) == (8, 8)
    parent.closing = True
    assert (parent.left(), child.left()) == (10, 8)
    assert granted(child) == 8
    assert granted(parent) == 2
    assert (parent.used, parent.left()) == (10, 0)


def test_a_closing_child_gets_none_of_what_its_parent_keeps() -> None:
    child = family(10, 10, kept=2)[1]
    child.closing = True
    assert granted(child) == 8


def test_what_is_held_is_not_left() -> None:
    parent, child = family(10, 8)
    child.add(0, 5)
    assert (parent.held, child.held) == (5, 5)
    assert (parent.left(), child.left()) == (5, 3)
    assert (parent.left(False), child.left(False)) == (10, 8)
    child.add(4, -5)
    assert (parent.used, parent.held, child.used, child.held) == (4, 0, 4, 0)
    assert (parent.left(), child.left()) == (6, 4)


def test_a_claim_takes_nothing_that_is_held() -> None:
    parent, child = family(3, None)
    child.add(0, 2)
    assert granted(child) == 1
    child.add(0, -1)
    assert granted(parent) == 1


def test_a_siblings_hold_is_seen_through_the_parent() -> None:
    lock = RecordingLock()
    parent = SharedAllowance("tokens", 10, lock)
    first, second = (
        SharedAllowance("tokens", 8, lock, parent),
        SharedAllowance("tokens", 8, lock, parent),
    )
    first.add(0, 7)
    assert (second.left(), second.left(False)) == (3, 8)
    assert second.tightest()[0] is parent
    assert second.tightest(False)[0] is second


def test_what_is_charged_counts_everywhere_also_past_the_cap() -> None:
    top, middle, child = family(5, 3, 1)
    child.charge(4)
    middle.charge()
    assert (top.used, middle.used, child.used) == (5, 5, 4)
    assert (top.left(), middle.left(), child.left()) == (0, 0, 0)
    child.charge(0)
    assert child.used == 4


def test_a_debt_is_paid_before_anything_is_granted() -> None:
    count = SharedAllowance("turns", 3, RecordingLock())
    count.charge(5)
    assert count.left() == 0
    count.cap = 6
    assert granted(count) == 1


def test_only_whole_numbers_are_charged() -> None:
    counts = family(5, 3)
    for bad in NO_COUNTS:
        raises(ValueError, counts[1].charge, bad)
    assert [count.used for count in counts] == [0, 0]


def test_the_tightest_is_the_nearest_of_those_with_as_little() -> None:
    top, middle, child = family(2, 2, 5)
    assert child.tightest()[0] is middle
    assert middle.tightest()[0] is middle
    top.charge()
    assert child.tightest()[0] is top
    unlimited = family(None, None)
    assert unlimited[1].tightest()[0] is unlimited[1]


def test_who_had_no_more_notes_the_refusal() -> None:
    top, middle, child = family(9, 1, 5)
    assert granted(child, 4) == 1
    assert (top.refused, middle.refused, child.refused) == (0, 3, 0)
    assert granted(top, 10) == 8
    assert (top.refused, middle.refused) == (2, 3)


def test_each_claim_and_charge_takes_the_lock_once_and_leaves_it() -> None:
    counts = family(2, 1)
    lock: "Any" = counts[0].lock
    for taken in (1, 2, 3):
        counts[1].claim()
        assert (lock.taken, lock.held) == (taken, False)
    counts[1].charge(2)
    assert (lock.taken, lock.held) == (4, False)
