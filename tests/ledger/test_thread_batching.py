"""Requests of threads are sent once, in few batches, and each thread has its own answer."""

import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from linecache import getline
from threading import Event, Thread
from types import FrameType
from typing import Any

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger import batching
from budget_cpython.ledger.batching import ThreadBatchQueue
from tests.forked import in_child
from tests.ledger.patience import PATIENCE

THREADS = 24


class Transport:
    """Sends batches and doubles each request; a batch waits while it is `closed`."""

    def __init__(self, flights: int = 1) -> None:
        self.batches: list[list[int]] = []
        self.under_way = self.most_under_way = 0
        self.begun = Event()
        self.open = Event()
        self.open.set()
        self._lock = threading.Lock()
        self.queue = ThreadBatchQueue[int, int](self.send, most=10, flights=flights)

    def send(self, batch: list[int]) -> Sequence[int | Exception]:
        with self._lock:
            self.batches.append(batch)
            self.under_way += 1
            self.most_under_way = max(self.under_way, self.most_under_way)
        self.begun.set()
        self.open.wait()
        with self._lock:
            self.under_way -= 1
        return [ValueError(one) if one < 0 else 2 * one for one in batch]


def together(work: Callable[[int], object], count: int = THREADS) -> None:
    threads = [Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("flights", [1, 2])
def test_each_request_is_sent_once_and_each_thread_has_its_answer(flights: int) -> None:
    transport = Transport(flights)
    answers: dict[int, int] = {}

    def work(number: int) -> None:
        for one in range(number * 100, number * 100 + 50):
            answers[one] = transport.queue.ask(one)

    together(work)
    assert answers == {one: 2 * one for one in answers}
    assert sorted(one for batch in transport.batches for one in batch) == sorted(answers)
    assert max(map(len, transport.batches)) <= 10
    assert transport.most_under_way <= flights


def test_those_that_come_while_one_is_under_way_go_together() -> None:
    transport = Transport()
    transport.open.clear()
    first = Thread(target=transport.queue.ask, args=(0,))
    first.start()
    transport.begun.wait()
    others = [Thread(target=transport.queue.ask, args=(number,)) for number in range(1, 6)]
    for thread in others:
        thread.start()
    while transport.queue.waiting < len(others):
        pass
    transport.open.set()
    for thread in [first, *others]:
        thread.join()
    assert [sorted(batch) for batch in transport.batches] == [[0], [1, 2, 3, 4, 5]]


def test_an_error_is_raised_where_it_belongs() -> None:
    transport = Transport()
    raised: list[int] = []

    def work(number: int) -> None:
        try:
            assert transport.queue.ask(number if number % 2 else -number - 1) == 2 * number
        except ValueError as error:
            raised.append(error.args[0])

    together(work)
    assert sorted(raised) == sorted(-number - 1 for number in range(0, THREADS, 2))


def test_an_interrupted_thread_leaves_the_others_in_doubt_and_not_waiting() -> None:
    is_sending = Event()
    goes_on = Event()

    def send(batch: list[int]) -> list[int | Exception]:
        is_sending.set()
        goes_on.wait()
        if 1 in batch:
            raise KeyboardInterrupt
        return list(batch)

    queue = ThreadBatchQueue[int, int](send)
    found: dict[int, BaseException | int] = {}

    def work(number: int) -> None:
        try:
            found[number] = queue.ask(number)
        except BaseException as error:  # noqa: BLE001 - also an interrupt
            found[number] = error

    first = Thread(target=work, args=(0,))
    first.start()
    is_sending.wait()
    others = [Thread(target=work, args=(number,)) for number in (1, 2)]
    for thread in others:
        thread.start()
    while queue.waiting < len(others):
        pass
    goes_on.set()
    for thread in [first, *others]:
        thread.join()
    assert found[0] == 0
    kinds = {type(found[1]), type(found[2])}
    assert kinds == {KeyboardInterrupt, LedgerUnavailableError}
    (lost,) = [one for one in found.values() if isinstance(one, LedgerUnavailableError)]
    assert lost.applied is None
    assert queue.ask(3) == 3


def test_a_thread_that_is_interrupted_at_any_line_leaves_no_other_waiting() -> None:
    at = 1
    while _is_interrupted(at):
        at += 1
    assert at > 30


def _is_interrupted(at: int) -> bool:
    """Interrupt a thread at one line of the queue; others are answered all the same."""
    transport = Transport()
    transport.open.clear()
    other = Thread(target=transport.queue.ask, args=(1,), daemon=True)
    lines = 0
    is_over, may_end = Event(), Event()

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        name = frame.f_code.co_filename
        if name != batching.__file__:
            return None
        # as it leaves a `with`, which Python does without a look at signals
        if event == "line" and not getline(name, frame.f_lineno).strip().startswith("with "):
            lines += 1
            if lines == at:
                raise KeyboardInterrupt
        return trace

    def work() -> None:
        sys.settrace(trace)
        with suppress(KeyboardInterrupt):
            transport.queue.ask(0)
        sys.settrace(None)
        is_over.set()
        may_end.wait()  # with it its number would be another thread's

    first = Thread(target=work, daemon=True)
    first.start()
    while not (transport.begun.is_set() or is_over.is_set()):
        pass
    other.start()
    while transport.begun.is_set() and not is_over.is_set() and not transport.queue.waiting:
        pass
    transport.open.set()
    assert is_over.wait(PATIENCE)
    other.join(PATIENCE)
    assert not other.is_alive(), f"interrupted at line {at} of those it ran"
    may_end.set()
    first.join()
    return lines >= at


def test_answers_that_are_too_few_leave_nobody_waiting() -> None:
    queue = ThreadBatchQueue[int, int](lambda batch: [])
    for _ in range(2):
        with pytest.raises(ValueError, match="shorter"):
            queue.ask(0)


def test_a_thread_that_asks_while_it_sends_still_sends() -> None:
    asked: list[int] = []

    def send(batch: list[int]) -> Sequence[int | Exception]:
        asked.extend(batch)
        if batch == [0]:
            queue.ask(1)
            other.start()
            while not queue.waiting:
                assert 2 not in asked
        return batch

    queue = ThreadBatchQueue[int, int](send)
    other = Thread(target=queue.ask, args=(2,))
    assert queue.ask(0) == 0
    other.join()
    assert asked == [0, 1, 2]


def test_a_thread_may_ask_while_it_sends() -> None:
    asked: list[list[int]] = []

    def send(batch: list[int]) -> list[int | Exception]:
        asked.append(batch)
        return [queue.ask(one - 1) + 1 if one else 0 for one in batch]

    queue = ThreadBatchQueue[int, int](send)
    assert queue.ask(3) == 3
    assert asked == [[3], [2], [1], [0]]


def test_a_forked_process_waits_for_no_thread_of_its_parent() -> None:
    transport = Transport()
    transport.open.clear()
    first = Thread(target=transport.queue.ask, args=(0,))
    first.start()
    transport.begun.wait()

    def work() -> None:
        transport.open.set()
        assert transport.queue.ask(4) == 8

    code = in_child(work)
    transport.open.set()
    first.join()
    assert code == 0
