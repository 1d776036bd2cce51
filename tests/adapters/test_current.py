"""Which blocks are around code: in threads, generators and tasks, beside others' patches."""

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from contextvars import Context
from multiprocessing.pool import ThreadPool
from typing import Any

import anyio.to_thread
import pytest

from budget_cpython import Deadline, Ledger, budget
from budget_cpython.context.entered import current_accounts


def accounts() -> list[str]:
    return [account.path for account in current_accounts()]


def in_thread(work: Callable[[], Any], **options: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()), **options)
    thread.start()
    thread.join()
    return found[0]


def test_a_block_may_end_inside_one_that_began_later() -> None:
    def parts() -> Iterator[None]:
        with budget("9 calls + 1 h", ledger=Ledger(), account="outer"):
            yield

    generator = parts()
    next(generator)
    with budget("9 calls + 2 h", ledger=Ledger(), account="inner"):
        assert next(generator, None) is None
        assert accounts() == ["inner"]
    assert accounts() == []
    assert Deadline.current().is_never()


def test_a_block_may_end_in_another_task_than_it_began() -> None:
    async def parts() -> Any:
        async with budget("9 calls + 1 h"):
            yield

    async def main() -> None:
        generator = parts()
        async with budget("9 calls", ledger=Ledger(), account="around"):
            await asyncio.create_task(anext(generator))
            await asyncio.create_task(anext(generator, None))
            assert accounts() == ["around"]

    asyncio.run(main())


def test_a_block_may_end_in_another_context_than_it_began() -> None:
    block = budget("9 calls + 1 h")
    Context().run(block.__enter__)
    Context().run(block.__exit__)
    assert accounts() == []


def test_a_block_gives_back_the_deadline_that_was_around_it() -> None:
    with Deadline.from_now(3600).as_current() as around:
        with budget("5 min"):
            assert Deadline.current() < around
        assert Deadline.current() is around


def test_a_thread_that_has_ended_is_forgotten_at_once() -> None:
    gc.disable()
    try:
        with budget("9 calls"):
            thread = threading.Thread(target=accounts)
            thread.start()
            thread.join()
        ended = weakref.ref(thread)
        del thread
        assert ended() is None
    finally:
        gc.enable()


def test_a_thread_that_cannot_start_is_left_as_it_was(monkeypatch: Any) -> None:
    def refuse(*given: Any, **options: Any) -> None:
        raise RuntimeError("can't start new thread")

    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(accounts()))
    with budget("9 calls"), monkeypatch.context() as patch:
        for name in ("_start_new_thread", "_start_joinable_thread"):  # the latter since 3.13
            patch.setattr(threading, name, refuse, raising=False)
        with pytest.raises(RuntimeError, match="can't start"):
            thread.start()
    thread.start()
    thread.join()
    assert found == [[]]


class Own(threading.Thread):
    """A thread with a `run` of its own."""

    found: list[str]

    def run(self) -> None:
        self.found = accounts()


def test_threads_of_every_kind_are_inside() -> None:
    timed: list[Any] = []
    with budget("9 calls", ledger=Ledger(), account="here"):
        thread = Own()
        timer = threading.Timer(0, lambda: timed.append(accounts()))
        for one in (thread, timer):
            one.start()
            one.join()
        assert in_thread(accounts, daemon=True) == ["here"]
    assert (thread.found, timed) == (["here"], [["here"]])


def test_a_thread_stays_inside_a_block_that_has_ended_meanwhile() -> None:
    ended, found = threading.Event(), list[Any]()

    def look() -> None:
        ended.wait()
        found.append(accounts())

    with budget("9 calls + 1 h", ledger=Ledger(), account="here"):
        thread = threading.Thread(target=look)
        thread.start()
    ended.set()
    thread.join()
    assert found == [["here"]]


def test_others_may_wrap_what_threads_run(monkeypatch: Any) -> None:
    with budget("9 calls"):
        pass  # from here on threads hand on their blocks
    start = threading.Thread.start

    def wrap(self: threading.Thread) -> None:
        run: Any = getattr(self.run, "__func__", self.run)
        self.run = lambda: run(self)  # type: ignore[method-assign]
        start(self)

    monkeypatch.setattr(threading.Thread, "start", wrap)
    with budget("9 calls", ledger=Ledger(), account="here"):
        assert in_thread(accounts) == ["here"]


TRACED = """
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

trace = ContextVar("trace")
submit = ThreadPoolExecutor.submit
seen = []

def traced(self, function, /, *given, **options):
    seen.append(trace.get("none"))
    return submit(self, function, *given, **options)

ThreadPoolExecutor.submit = traced

from budget_cpython import budget

trace.set("one")
with ThreadPoolExecutor(1) as pool, budget("9 calls"):
    pool.submit(int).result()
assert seen == ["one"], seen
"""


def test_what_others_hand_on_at_a_submit_is_kept() -> None:
    subprocess.run([sys.executable, "-c", TRACED], check=True)


def parts_of(account: str, seconds: str = "", count: int = 2) -> Iterator[list[str]]:
    with budget(f"9 calls{seconds}", ledger=Ledger(), account=account):
        for _ in range(count):
            yield accounts()


def test_a_block_of_a_generator_is_around_its_own_code_alone() -> None:
    generator = parts_of("here", " + 1 h")
    assert next(generator) == ["here"]
    assert (accounts(), Deadline.current().is_never()) == ([], True)
    with budget("9 calls", ledger=Ledger(), account="around"):
        assert set(next(generator)) == {"around", "here"}
        assert accounts() == ["around"]


def test_a_generator_is_inside_its_block_in_any_context_that_iterates_it() -> None:
    generator = parts_of("here", count=3)
    found = [Context().run(next, generator)]
    with ThreadPoolExecutor(1) as pool:
        found.append(pool.submit(next, generator).result())
    found.append(in_thread(lambda: next(generator)))
    assert found == [["here"]] * 3


def test_interleaved_generators_have_a_block_each() -> None:
    one, other = parts_of("one"), parts_of("other")
    assert [next(one), next(other), next(one), next(other)] == [["one"], ["other"]] * 2


def test_a_generator_within_another_is_inside_both_blocks() -> None:
    def outer() -> Iterator[list[str]]:
        with budget("9 calls", ledger=Ledger(), account="outer"):
            yield from parts_of("inner")
            yield accounts()

    assert list(outer()) == [["outer", "inner"]] * 2 + [["outer"]]


def test_the_deadline_of_a_generator_holds_while_it_runs() -> None:
    def parts() -> Generator[bool, None, None]:
        with Deadline.from_now(60).as_current(), budget("30 s"):
            while True:
                yield Deadline.current().remaining_seconds() <= 30

    generator = parts()
    assert [Context().run(next, generator) for _ in range(2)] == [True, True]
    assert Deadline.current().is_never()
    Context().run(generator.close)


async def async_parts(account: str) -> AsyncIterator[list[str]]:
    async with budget("9 calls + 1 h", ledger=Ledger(), account=account):
        while True:
            await asyncio.sleep(0)
            yield accounts()


def test_an_asynchronous_generator_is_inside_its_block_in_any_task() -> None:
    async def main() -> None:
        one, other = async_parts("one"), async_parts("other")
        for _ in range(2):
            assert await anext(one) == ["one"]
            assert await asyncio.create_task(anext(other)) == ["other"]  # type: ignore[arg-type]
            assert (accounts(), Deadline.current().is_never()) == ([], True)
        assert list(await asyncio.gather(anext(one), anext(other))) == [["one"], ["other"]]

    asyncio.run(main())


def test_what_a_generator_starts_is_inside_its_block() -> None:
    async def in_task() -> list[str]:
        return accounts()

    async def parts() -> AsyncIterator[list[str]]:
        loop = asyncio.get_running_loop()
        with budget("9 calls", ledger=Ledger(), account="here"), ThreadPoolExecutor(1) as pool:
            yield []
            yield await asyncio.create_task(in_task())
            async with asyncio.TaskGroup() as tasks:
                task = tasks.create_task(in_task())
            yield task.result()
            yield await asyncio.to_thread(accounts)
            yield await loop.run_in_executor(pool, accounts)
            yield await anyio.to_thread.run_sync(accounts)
            run = asyncio.run_coroutine_threadsafe
            yield await asyncio.to_thread(lambda: run(in_task(), loop).result())
            yield in_thread(accounts)

    async def main() -> list[list[str]]:
        await anyio.to_thread.run_sync(accounts)  # its thread was there before
        generator = parts()
        await asyncio.create_task(anext(generator))  # type: ignore[arg-type]
        return [found async for found in generator]

    assert asyncio.run(main()) == [["here"]] * 7


def test_what_is_started_beside_a_generator_is_outside_its_block() -> None:
    async def main() -> None:
        generator = async_parts("here")
        assert await anext(generator) == ["here"]
        assert await asyncio.to_thread(accounts) == []
        assert in_thread(accounts) == []
        assert await asyncio.create_task(asyncio.to_thread(accounts)) == []

    asyncio.run(main())


def test_a_loop_that_a_generator_runs_is_inside_its_block() -> None:
    async def one(account: str) -> list[str]:
        with budget("9 calls", ledger=Ledger(), account=account):
            await asyncio.sleep(0)
            return accounts()

    async def main() -> list[list[str]]:
        return list(await asyncio.gather(one("one"), one("other")))

    def parts() -> Iterator[list[list[str]]]:
        with budget("9 calls", ledger=Ledger(), account="here"):
            yield asyncio.run(main())

    assert next(parts()) == [["here", "one"], ["here", "other"]]


@contextmanager
def my_block(account: str) -> Iterator[None]:
    with budget("9 calls", ledger=Ledger(), account=account):
        yield


@asynccontextmanager
async def my_async_block(account: str) -> AsyncIterator[None]:
    async with budget("9 calls", ledger=Ledger(), account=account):
        yield


def test_a_context_manager_made_of_a_generator_is_around_the_code_that_uses_it() -> None:
    async def main() -> list[str]:
        async with my_async_block("async"):
            return await asyncio.create_task(asyncio.to_thread(accounts))

    with my_block("here"), ExitStack() as stack:
        stack.enter_context(budget("9 calls", ledger=Ledger(), account="stack"))
        stack.enter_context(my_block("mine"))
        assert accounts() == ["here", "stack", "mine"]
        assert in_thread(accounts) == ["here", "stack", "mine"]
        assert asyncio.run(main()) == ["here", "stack", "mine", "async"]
    assert accounts() == []


def test_a_context_manager_in_a_generator_is_around_the_generator() -> None:
    def parts() -> Iterator[list[str]]:
        with my_block("here"), ExitStack() as stack:
            stack.enter_context(budget("9 calls", ledger=Ledger(), account="stack"))
            yield accounts()
            yield accounts()

    async def async_parts() -> AsyncIterator[list[str]]:
        async with my_async_block("here"):
            yield accounts()
            yield accounts()

    async def main() -> None:
        generator = async_parts()
        assert await asyncio.create_task(anext(generator)) == ["here"]  # type: ignore[arg-type]
        assert accounts() == []
        assert await anext(generator) == ["here"]

    generator = parts()
    assert next(generator) == ["here", "stack"]
    assert accounts() == []
    assert Context().run(next, generator) == ["here", "stack"]
    asyncio.run(main())


@pytest.mark.parametrize("kind", [my_block, lambda name: budget("9 calls")])
def test_a_pool_of_threads_cannot_enter_a_block_itself(kind: Callable[[str], Any]) -> None:
    async def main() -> None:
        await anyio.to_thread.run_sync(kind("none").__enter__)  # as FastAPI runs dependencies

    with pytest.raises(RuntimeError, match="async def"):
        asyncio.run(main())
    with ThreadPoolExecutor() as pool, pytest.raises(RuntimeError, match="async def"):
        pool.submit(kind("none").__enter__).result()
    assert accounts() == []


def test_work_of_a_pool_may_have_a_block() -> None:
    def parts() -> Iterator[list[str]]:
        with my_block("part"):
            yield accounts()

    decorated = my_block("work")(accounts)
    with ThreadPoolExecutor() as pool, ThreadPool(1) as threads:
        assert pool.submit(decorated).result() == threads.apply(decorated) == ["work"]
        assert pool.submit(next, parts()).result() == ["part"]
    assert asyncio.run(anyio_run(decorated)) == ["work"]


async def anyio_run(work: Callable[[], Any]) -> Any:
    return await anyio.to_thread.run_sync(work)


class OwnBlock:
    """A class of one's own that enters a block in the place of its caller."""

    def __enter__(self) -> None:
        self.block = budget("9 calls", ledger=Ledger(), account="own")
        self.block.__enter__()

    def __exit__(self, *error: object) -> None:
        self.block.__exit__(*error)

    async def __aenter__(self) -> None:
        self.__enter__()

    async def __aexit__(self, *error: object) -> None:
        self.__exit__(*error)


def test_a_context_manager_of_one_s_own_class_is_around_its_caller() -> None:
    def parts() -> Iterator[list[str]]:
        with OwnBlock():
            yield accounts()
            yield accounts()
        yield accounts()

    async def async_parts() -> AsyncIterator[list[str]]:
        async with OwnBlock():
            yield accounts()
            yield accounts()

    async def main() -> None:
        generator = async_parts()
        assert await asyncio.create_task(anext(generator)) == ["own"]  # type: ignore[arg-type]
        assert accounts() == []
        assert await anext(generator) == ["own"]

    generator = parts()
    found = [(Context().run(next, generator), accounts()) for _ in range(3)]
    assert found == [(["own"], []), (["own"], []), ([], [])]
    asyncio.run(main())
    with OwnBlock():
        assert accounts() == ["own"]
    assert accounts() == []


@pytest.fixture
def block() -> Iterator[None]:
    with budget("9 calls", ledger=Ledger(), account="fixture"):
        yield


@pytest.mark.usefixtures("block")
def test_a_fixture_is_around_its_tests() -> None:
    assert accounts() == ["fixture"]


class Kept:
    """An object that a test looks after."""


def test_a_generator_that_is_left_keeps_nothing_alive() -> None:
    def parts() -> Iterator[weakref.ref[Kept]]:
        kept = Kept()
        with shared:
            yield weakref.ref(kept)

    async def async_parts() -> AsyncIterator[weakref.ref[Kept]]:
        kept = Kept()
        with budget("9 calls"):
            yield weakref.ref(kept)

    shared = budget("9 calls")
    generator = parts()
    kept = next(generator)
    del generator
    assert (kept(), accounts()) == (None, [])
    loop = asyncio.new_event_loop()
    left = async_parts()
    kept = loop.run_until_complete(anext(left))
    loop.close()  # which does not end it
    del left
    gc.collect()
    assert (kept(), accounts()) == (None, [])


def test_threads_of_a_pool_that_were_there_before_are_inside() -> None:
    with ThreadPool(1) as pool:
        with budget("9 calls", ledger=Ledger(), account="here"):
            found = [
                pool.apply(accounts),
                *pool.map(lambda _: accounts(), [1]),
                *pool.starmap(lambda *_: accounts(), [(1, 2)]),
                *pool.imap(lambda _: accounts(), [1]),
                *pool.imap_unordered(lambda _: accounts(), [1, 2], chunksize=2),
                pool.map_async(lambda _: accounts(), [1]).get()[0],
            ]
        assert found == [["here"]] * 7
        assert pool.apply(accounts) == []


def test_a_thread_of_a_pool_is_inside_the_block_of_its_work_alone() -> None:
    with budget("9 calls", ledger=Ledger(), account="begun"):
        pool = ThreadPool(1)
    with pool:
        assert pool.apply(accounts) == []
