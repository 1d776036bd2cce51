"""Requests that come, are cancelled and answered in any order are sent once, the first first."""

import asyncio
import gc
import weakref
from collections.abc import Sequence
from contextlib import closing

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from budget_cpython.ledger.batching import BatchQueue
from tests.properties import examples

MOST = 3


class Flight:
    """A batch under way."""

    def __init__(self, batch: list[int]) -> None:
        self.batch = batch
        self.reply: asyncio.Future[Sequence[int | Exception]] = asyncio.Future()


class Asking(RuleBasedStateMachine):
    """Tasks that ask a queue, whose transport replies when the machine says so."""

    @initialize(flights=st.integers(1, 2))
    def begin(self, flights: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.most_flights = flights
        self.queue = BatchQueue(self.send, most=MOST, flights=flights)
        self.tasks: list[asyncio.Task[int]] = []  # a request is the number of its task
        self.flights: list[Flight] = []
        self.sent: list[int] = []
        self.unsent: set[int] = set()  # cancelled while they waited

    async def send(self, batch: list[int]) -> Sequence[int | Exception]:
        flight = Flight(batch)
        self.flights.append(flight)
        self.sent += batch
        return await flight.reply

    def rest(self) -> None:
        """Let all tasks go on as far as they can."""

        async def turns() -> None:
            for _ in range(10):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    @rule(number=st.integers(1, 5))
    def ask(self, number: int) -> None:
        for _ in range(number):
            request = len(self.tasks)
            self.tasks.append(self.loop.create_task(self.queue.ask(request)))
        self.rest()

    @rule(pick=st.integers(0, 99))
    def ask_and_cancel_at_once(self, pick: int) -> None:
        self.tasks.append(self.loop.create_task(self.queue.ask(len(self.tasks))))
        self.loop.run_until_complete(asyncio.sleep(0))
        if self.tasks[-1].cancel() and len(self.tasks) - 1 not in self.sent:
            self.unsent.add(len(self.tasks) - 1)
        self.rest()

    @precondition(lambda self: any(not task.done() for task in self.tasks))
    @rule(pick=st.integers(0, 99))
    def cancel(self, pick: int) -> None:
        open_ = [number for number, task in enumerate(self.tasks) if not task.done()]
        number = open_[pick % len(open_)]
        if number not in self.sent:
            self.unsent.add(number)
        self.tasks[number].cancel()
        self.rest()
        assert self.tasks[number].cancelled()

    @precondition(lambda self: self.flights)
    @rule(pick=st.integers(0, 1), wrong=st.sets(st.integers(0, MOST - 1)))
    def reply(self, pick: int, wrong: set[int]) -> None:
        flight = self.flights.pop(pick % len(self.flights))
        results = [
            LookupError(request) if place in wrong else -request
            for place, request in enumerate(flight.batch)
        ]
        flight.reply.set_result(results)
        self.rest()
        for request, result in zip(flight.batch, results, strict=True):
            task = self.tasks[request]
            assert task.done()
            if not task.cancelled():
                assert (task.exception() or task.result()) == result

    @precondition(lambda self: self.flights)
    @rule(pick=st.integers(0, 1), short=st.booleans())
    def fail(self, pick: int, short: bool) -> None:
        flight = self.flights.pop(pick % len(self.flights))
        error = OSError("the server is gone")
        if short:
            flight.reply.set_result([])
        else:
            flight.reply.set_exception(error)
        self.rest()
        tasks = [self.tasks[request] for request in flight.batch]
        failed = [task.exception() for task in tasks if not task.cancelled()]
        assert all(one is error or (short and type(one) is ValueError) for one in failed)

    @precondition(lambda self: self.flights)
    @rule(pick=st.integers(0, 1))
    def stop(self, pick: int) -> None:
        """Cancel a flight, as a loop does that ends."""
        flight = self.flights.pop(pick % len(self.flights))
        flight.reply.cancel()
        self.rest()
        assert all(self.tasks[request].cancelled() for request in flight.batch)

    @rule()
    def go_on_in_another_loop(self) -> None:
        self.teardown()
        self.loop = asyncio.new_event_loop()
        self.unsent |= set(range(len(self.tasks))) - set(self.sent)

    @invariant()
    def requests_are_sent_once_and_in_order(self) -> None:
        assert self.sent == [one for one in range(len(self.tasks)) if one in set(self.sent)]
        assert not self.unsent & set(self.sent)

    @invariant()
    def none_waits_that_could_be_sent(self) -> None:
        waiting = set(range(len(self.tasks))) - set(self.sent) - self.unsent
        assert len(self.flights) <= self.most_flights
        assert not waiting or len(self.flights) == self.most_flights
        assert all(0 < len(flight.batch) <= MOST for flight in self.flights)

    def teardown(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.rest()
        assert all(task.done() for task in self.tasks)
        assert not asyncio.all_tasks(self.loop)
        self.loop.close()
        self.flights = []


TestAsking = Asking.TestCase
TestAsking.settings = examples(200, stateful_step_count=40)


def test_all_that_is_asked_at_once_goes_together_and_so_does_what_comes_meanwhile() -> None:
    sent: list[list[int]] = []
    under_way = asyncio.Event()

    async def send(batch: list[int]) -> list[int]:
        sent.append(batch)
        under_way.set()
        await asyncio.sleep(0)
        return batch

    async def ask() -> list[int]:
        queue = BatchQueue(send)
        first = [asyncio.create_task(queue.ask(number)) for number in range(3)]
        await under_way.wait()
        return await asyncio.gather(*first, *(queue.ask(number) for number in range(3, 6)))

    assert asyncio.run(ask()) == list(range(6))
    assert sent == [[0, 1, 2], [3, 4, 5]]


def test_a_loop_that_was_left_keeps_no_other_waiting_and_can_go_on() -> None:
    sent: list[list[str]] = []
    may_go_on: list[asyncio.Event] = []

    async def send(batch: list[str]) -> list[str]:
        sent.append(batch)
        if batch == ["slow"]:
            may_go_on.append(asyncio.Event())
            await may_go_on[0].wait()
        return batch

    queue = BatchQueue(send)
    with closing(asyncio.new_event_loop()) as loop:
        left = [loop.create_task(queue.ask("slow"))]
        while not sent:
            loop.run_until_complete(asyncio.sleep(0))
        left.append(loop.create_task(queue.ask("waiting")))
        loop.run_until_complete(asyncio.sleep(0))
        assert asyncio.run(queue.ask("another")) == "another"
        assert sent == [["slow"], ["another"]]
        may_go_on[0].set()
        assert loop.run_until_complete(asyncio.gather(*left)) == ["slow", "waiting"]
    assert sent[2:] == [["waiting"]]


def test_loops_ask_at_the_same_time() -> None:
    async def send(batch: list[int]) -> list[int]:
        if batch == [1]:
            batch.append(await asyncio.to_thread(lambda: asyncio.run(queue.ask(2))))
        return batch[-1:]

    queue = BatchQueue(send)
    assert asyncio.run(queue.ask(1)) == 2


def test_a_loop_that_has_ended_is_forgotten() -> None:
    async def send(batch: list[int]) -> list[int]:
        return batch

    queue = BatchQueue(send)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(queue.ask(1))
    loop.close()
    forgotten = weakref.ref(loop)
    del loop
    gc.collect()
    assert forgotten() is None
