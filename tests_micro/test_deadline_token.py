"""Tokens tell a piece of work when to stop."""

from budget_core import Deadline, DeadlineToken, TurnBudget
from tests_micro.support import RecordingLock, raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INFINITY = float("inf")


def new_token(seconds: float = 5) -> "tuple[Any, DeadlineToken]":
    fake, clock = stopped_clock()
    return fake, DeadlineToken(Deadline.from_now(seconds, clock))


def test_a_token_expires_at_its_deadlines_very_instant() -> None:
    fake, token = new_token()
    fake.advance(4999)
    assert not token.is_expired()
    assert 0 < token.remaining_s() < 0.0011
    fake.advance(1)
    assert token.is_expired()
    assert token.remaining_s() == 0


def test_a_token_of_a_budget_expires_with_the_turn_or_its_cap() -> None:
    fake, clock = stopped_clock()
    budget = TurnBudget.create(timeout_s=60, clock=clock)
    fake.advance(10_000)
    for cap, left in ((None, 50), (45, 45), (50, 50), (51, 50), (INFINITY, 50), (0, 0)):
        token = DeadlineToken.from_budget(budget, cap_s=cap)
        assert token.remaining_s() == left, cap
        assert token.is_expired() is (left == 0), cap


def test_a_token_of_a_budget_without_a_deadline_has_none() -> None:
    budget = TurnBudget.create(timeout_s=None)
    token = DeadlineToken.from_budget(budget)
    assert token.remaining_s() == INFINITY
    assert not token.is_expired()
    token.cancel()
    assert token.is_expired()
    assert token.remaining_s() == 0


def test_a_cap_that_is_no_number_of_seconds_is_refused_by_name() -> None:
    budget = TurnBudget.create()
    for cap in (-1, float("nan"), "45", True, [45]):
        assert "cap_s" in str(raises(ValueError, DeadlineToken.from_budget, budget, cap)), cap


def test_a_cancelled_token_has_expired_and_stays_so() -> None:
    fake, token = new_token()
    assert not token.is_expired()
    token.cancel()
    for _ in range(3):
        assert token.is_expired()
        assert token.remaining_s() == 0
        fake.advance(1000)
        token.cancel()


def test_a_cancelled_token_leaves_its_budget_and_other_tokens_alone() -> None:
    budget = TurnBudget.create()
    cancelled, other = DeadlineToken.from_budget(budget), DeadlineToken.from_budget(budget)
    cancelled.cancel()
    assert not other.is_expired()
    assert not budget.is_expired()


def test_each_callback_is_called_once_in_its_turn() -> None:
    _, token = new_token()
    called: list[int] = []
    for number in range(4):
        token.on_cancel(lambda number=number: called.append(number))  # type: ignore[misc]
    assert called == []
    token.cancel()
    token.cancel()
    assert called == [0, 1, 2, 3]


def test_a_callback_given_after_the_cancel_is_called_at_once_and_once() -> None:
    _, token = new_token()
    token.cancel()
    called: list[int] = []
    token.on_cancel(lambda: called.append(1))
    assert called == [1]
    token.cancel()
    assert called == [1]


def test_a_deadline_that_passes_calls_nobody() -> None:
    fake, token = new_token()
    called: list[int] = []
    token.on_cancel(lambda: called.append(1))
    fake.advance(9999)
    assert token.is_expired()
    assert called == []
    token.on_cancel(lambda: called.append(2))
    assert called == []
    token.cancel()
    assert called == [1, 2]


def test_callbacks_run_outside_the_lock() -> None:
    lock = RecordingLock()
    token = DeadlineToken(Deadline.never(), lock)
    held: list[bool] = []
    for _ in range(2):
        token.on_cancel(lambda: held.append(lock.held))
    token.cancel()
    token.on_cancel(lambda: held.append(lock.held))
    assert held == [False, False, False]
    assert (lock.taken, lock.held) == (4, False)


def test_a_callback_may_use_the_token() -> None:
    lock = RecordingLock()
    token = DeadlineToken(Deadline.never(), lock)
    seen: list[object] = []

    def callback() -> None:
        seen.append(token.is_expired())
        seen.append(token.remaining_s())
        token.cancel()
        token.on_cancel(lambda: seen.append("late"))

    token.on_cancel(callback)
    token.cancel()
    assert seen == [True, 0, "late"]


def test_a_callback_that_raises_keeps_no_other_from_being_called() -> None:
    _, token = new_token()
    called: list[int] = []
    first, second = KeyError("first"), OSError("second")

    def fail(error: Exception) -> None:
        raise error

    token.on_cancel(lambda: called.append(1))
    token.on_cancel(lambda: fail(first))
    token.on_cancel(lambda: called.append(2))
    token.on_cancel(lambda: fail(second))
    token.on_cancel(lambda: called.append(3))
    assert raises(Exception, token.cancel) is first
    assert called == [1, 2, 3]
    assert token.is_expired()
    token.cancel()
    assert called == [1, 2, 3]


def test_a_callback_given_too_late_that_raises_tells_its_giver() -> None:
    _, token = new_token()
    token.cancel()
    error = ValueError("own")

    def fail() -> None:
        raise error

    assert raises(ValueError, token.on_cancel, fail) is error
