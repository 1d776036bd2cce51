"""One token of 64 threads that switch every microsecond."""

import threading
from collections import Counter
from typing import Any

import pytest

from budget_cpython.context.deadline import Deadline, DeadlineToken
from tests.racing import THREADS, in_threads, restless, unsettle
from tests_micro.support import RecordingLock

pytestmark = pytest.mark.usefixtures(restless.__name__)

CALLBACKS = 20


class Calls:
    """Callbacks that count by themselves how often each is called."""

    def __init__(self) -> None:
        self.made: Counter[int] = Counter()
        self.lock = threading.Lock()

    def register(self, token: Any, number: int) -> None:
        def call() -> None:
            with self.lock:
                self.made[number] += 1

        token.on_cancel(call)


def shaken(token: DeadlineToken) -> Any:
    return unsettle(token)


def test_each_callback_is_called_once_whoever_cancels() -> None:
    for _ in range(10):
        token, calls = shaken(DeadlineToken(Deadline.never())), Calls()
        for number in range(CALLBACKS):
            calls.register(token, number)
        in_threads(token.cancel)
        assert calls.made == dict.fromkeys(range(CALLBACKS), 1)


def test_a_callback_that_is_registered_meanwhile_is_called_once_as_well() -> None:
    for _ in range(10):
        token, calls = shaken(DeadlineToken(Deadline.never())), Calls()
        numbers = iter(range(10**9))

        def work(token: Any = token, calls: Calls = calls, numbers: Any = numbers) -> None:
            number = next(numbers)
            for i in range(5):
                calls.register(token, number * 5 + i)
            if number % 4 == 0:
                token.cancel()

        in_threads(work)
        assert calls.made == dict.fromkeys(range(THREADS * 5), 1)


def test_a_token_is_cancelled_for_every_thread_that_comes_after() -> None:
    token = shaken(DeadlineToken(Deadline.from_now(600)))
    assert not token.is_expired()
    assert 0 < token.remaining_s() <= 600

    def work() -> tuple[bool, float]:
        token.cancel()
        return token.is_expired(), token.remaining_s()

    assert set(in_threads(work)) == {(True, 0.0)}


def test_a_callback_may_use_the_token() -> None:
    token = DeadlineToken(Deadline.never())
    seen = []

    def again() -> None:
        token.cancel()
        token.on_cancel(lambda: seen.append(token.is_expired()))

    token.on_cancel(again)
    token.cancel()
    assert seen == [True]


def test_a_lock_that_is_given_takes_the_place_of_its_own() -> None:
    lock = RecordingLock()
    DeadlineToken(Deadline.never(), lock).cancel()
    assert lock.taken == 1
