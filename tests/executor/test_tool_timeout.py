"""Time limits for functions: a decorator and a wrapper, sync and async."""

import asyncio
import inspect
import pickle
import threading
from typing import Any

import pytest

from budget_core import BudgetError, DeadlineExceeded
from budget_cpython.context.deadline import Deadline
from budget_cpython.executor import NoSlotError, ToolTimeoutError, tool_timeout, with_timeout
from tests.executor.support import eventually, hung
from tests_micro.support import stopped_clock

BAD = [-1, float("nan"), "5", True]


def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b


def test_a_wrapped_function_is_called_as_before() -> None:
    wrapped = with_timeout(add, 60)
    assert wrapped(1) == 2
    assert wrapped(1, b=4) == 5
    assert (wrapped.__name__, wrapped.__doc__) == ("add", "Add.")


def test_the_decorator_does_the_same() -> None:
    @tool_timeout(60)
    def read(path: str) -> tuple[str, threading.Thread]:
        return path, threading.current_thread()

    path, thread = read("a")
    assert path == "a"
    assert thread is not threading.current_thread()
    assert thread.daemon


def test_what_a_function_raises_is_raised() -> None:
    @tool_timeout(60)
    def fail() -> None:
        raise LookupError("no")

    with pytest.raises(LookupError, match="no"):
        fail()


def test_a_call_that_takes_too_long_raises_an_error_naming_tool_and_timeout() -> None:
    with hung() as tool:
        wrapped = with_timeout(tool.run, 0.02, name="read_web")
        with pytest.raises(
            ToolTimeoutError, match=r"read_web did not end within 0\.02 s"
        ) as caught:
            wrapped()
    error = caught.value
    assert (error.tool, error.timeout_s) == ("read_web", 0.02)
    assert isinstance(error, TimeoutError)
    assert isinstance(error, DeadlineExceeded)
    assert isinstance(error, BudgetError)
    assert error.elapsed_seconds >= 0.02
    assert error.deadline.is_expired()


def test_the_error_can_be_sent_to_another_process() -> None:
    error = ToolTimeoutError("read", 2, Deadline.from_now(0))
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (copy.tool, copy.timeout_s, str(copy)) == ("read", 2, str(error))
    assert copy.elapsed_seconds == error.elapsed_seconds


@pytest.mark.parametrize("timeout_s", [0, 0.0, None])
def test_nothing_and_zero_set_no_limit(timeout_s: Any) -> None:
    wrapped = with_timeout(threading.current_thread, timeout_s)
    assert wrapped() is threading.current_thread()


def test_overrides_are_looked_up_at_each_call() -> None:
    overrides: dict[str, float | None] = {}
    with hung() as tool:
        wrapped = with_timeout(tool.run, 600, name="read", overrides=overrides)
        overrides["read"] = 0.02
        with pytest.raises(ToolTimeoutError) as caught:
            wrapped()
        assert caught.value.timeout_s == 0.02
    here = with_timeout(threading.current_thread, 600, name="here", overrides=overrides)
    assert here() is not threading.current_thread()
    overrides["here"] = 0
    assert here() is threading.current_thread()
    overrides["here"] = None
    assert here() is not threading.current_thread()


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_limit_is_refused_by_the_tools_name(bad: Any) -> None:
    with pytest.raises(ValueError, match="timeout of add"):
        with_timeout(add, bad)
    with pytest.raises(ValueError, match="timeout of add"):
        with_timeout(add, 1, overrides={"add": bad})(1)


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no limit pass before its wait begins: every wait is as long as the limit was."""
    _, clock = stopped_clock()
    real = Deadline.from_now
    monkeypatch.setattr(Deadline, "from_now", lambda seconds: real(seconds, clock))


@pytest.mark.usefixtures("stopped")
def test_so_many_abandoned_calls_are_refused_until_one_ends() -> None:
    limits: dict[str, float | None] = {"run": 0.02}
    with hung() as tool:
        wrapped = with_timeout(tool.run, 600, overrides=limits, max_abandoned=2)
        for _ in range(2):
            with pytest.raises(ToolTimeoutError):
                wrapped()
        with pytest.raises(
            NoSlotError, match="run was not started: 2 tools have outlived"
        ) as caught:
            wrapped()
        assert isinstance(caught.value, ToolTimeoutError)
        assert (caught.value.tool, caught.value.timeout_s) == ("run", 0.02)
        assert with_timeout(add, 1)(1) == 2
        tool.gate.set()
        limits["run"] = 600
        eventually(lambda: not raises_no_place(wrapped))


def raises_no_place(function: Any) -> bool:
    try:
        function()
    except NoSlotError:
        return True
    return False


def test_the_current_deadline_holds_if_it_is_earlier() -> None:
    def left() -> float:
        return Deadline.current().remaining_seconds()

    assert 500 < with_timeout(left, 600)() <= 600
    with Deadline.from_now(50).as_current():
        assert with_timeout(left, 600)() <= 50
    with hung() as tool, Deadline.from_now(0.02).as_current() as tighter:
        with pytest.raises(
            ToolTimeoutError, match=r"run did not end within 0(\.0\d+)? s"
        ) as caught:
            with_timeout(tool.run, 600)()
        assert caught.value.deadline is tighter
        assert 0 <= caught.value.timeout_s <= 0.02


@pytest.mark.usefixtures("stopped")
def test_an_async_function_stays_one_and_is_cancelled() -> None:
    ends: list[str] = []

    @tool_timeout(0.02)
    async def read() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("cleaned up")

    assert inspect.iscoroutinefunction(read)
    with pytest.raises(ToolTimeoutError, match=r"read did not end within 0\.02 s"):
        asyncio.run(read())
    assert ends == ["cleaned up"]


def test_an_async_function_returns_and_raises_as_before() -> None:
    @tool_timeout(60)
    async def read(path: str) -> str:
        if not path:
            raise TimeoutError("the disk's own")
        return path

    assert asyncio.run(read("a")) == "a"
    with pytest.raises(TimeoutError, match="the disk's own") as caught:
        asyncio.run(read(""))
    assert type(caught.value) is TimeoutError


def test_an_async_functions_limit_can_be_switched_off() -> None:
    @tool_timeout(0.001, overrides={"read": 0})
    async def read() -> bool:
        return Deadline.current().is_never()

    assert asyncio.run(read())


async def test_a_cancellation_from_outside_passes_through() -> None:
    @tool_timeout(60)
    async def read() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(read())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_an_async_functions_error_names_the_limit_that_held() -> None:
    async def main() -> None:
        with Deadline.from_now(0.02).as_current():
            await with_timeout(forever, 600)()

    with pytest.raises(
        ToolTimeoutError, match=r"forever did not end within 0(\.0\d+)? s"
    ) as caught:
        asyncio.run(main())
    assert 0 <= caught.value.timeout_s <= 0.02


async def forever() -> None:
    await asyncio.Event().wait()


def test_another_deadline_that_passes_inside_stays_what_it_is() -> None:
    other = Deadline.from_now(-1)

    async def read_async() -> None:
        other.check_or_raise()

    for call in (
        with_timeout(other.check_or_raise, 60),
        lambda: asyncio.run(with_timeout(read_async, 60)()),
    ):
        with pytest.raises(DeadlineExceeded) as caught:
            call()
        assert type(caught.value) is DeadlineExceeded
        assert caught.value.deadline is other


def test_of_nested_limits_the_tighter_names_itself() -> None:
    for inner_s, outer_s, name in ((0.02, 600, "inner"), (600, 0.02, "outer")):
        inner = with_timeout(forever, inner_s, name="inner")
        with pytest.raises(ToolTimeoutError) as caught:
            asyncio.run(with_timeout(inner, outer_s, name="outer")())
        assert caught.value.tool == name
        assert caught.value.timeout_s == 0.02


def test_an_object_with_an_async_call_is_limited() -> None:
    class Reader:
        async def __call__(self) -> None:
            await forever()

    with pytest.raises(ToolTimeoutError, match="reader"):
        asyncio.run(with_timeout(Reader(), 0.02, name="reader")())


def test_the_limit_that_is_named_is_the_one_that_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deadline, "remaining_seconds", lambda self: 0.0)  # time has passed

    with hung() as tool, pytest.raises(ToolTimeoutError, match=r"within 0\.02 s"):
        with_timeout(tool.run, 0.02)()
    with pytest.raises(ToolTimeoutError, match=r"within 0\.02 s"):
        asyncio.run(with_timeout(forever, 0.02)())


def test_nothing_is_called_once_the_current_deadline_has_passed() -> None:
    called: list[str] = []

    async def later() -> None:
        called.append("later")

    with Deadline.from_now(-1).as_current():
        with pytest.raises(ToolTimeoutError):
            with_timeout(lambda: called.append("now"), 60)()
        with pytest.raises(ToolTimeoutError):
            asyncio.run(with_timeout(later, 60)())
    assert called == []
