"""Envelopes of one tree shared by 64 threads that switch every microsecond."""

from collections.abc import Callable
from typing import Any

import pytest

import tests.racing
from budget_core.agent.llm_call import Admission
from budget_cpython import Budget, Envelope, Price
from tests.racing import THREADS, in_threads, restless, unsettle

__all__ = ["restless"]

PARTS = (*tests.racing.PARTS, "budget_core.agent.allowance_tree")
CAP = THREADS * 5


@pytest.fixture(autouse=True)
def all_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.racing.PARTS", PARTS)


def opened(**limits: Any) -> Any:
    return unsettle(Envelope.open(Budget(**{"last_call": None, **limits})))


def in_children(top: Any, work: Callable[[Any], int]) -> int:
    """Return the sum of what `work` gives for a child of each thread's own."""
    plain = type(top).__mro__[1]

    def run() -> int:
        return work(unsettle(plain(Budget(last_call=None), parent=top)))

    return sum(in_threads(run))


@pytest.mark.parametrize("axis", ["step", "tool_call", "reflection"])
def test_children_in_threads_are_granted_exactly_what_their_parent_has(axis: str) -> None:
    limits = {"max_turns": CAP, "max_tool_calls": CAP, "max_reflections": CAP}
    top = opened(**limits)
    claim = f"claim_{axis}"
    granted = in_children(top, lambda child: sum(getattr(child, claim)() for _ in range(8)))
    assert granted == CAP
    used = top.usage()
    assert used["turns"] + used["tool_calls"] + used["reflections"] == CAP


def test_children_in_threads_make_exactly_the_calls_of_one_tool_that_there_are() -> None:
    for depth in (1, 2):
        top = opened(max_calls={"read": CAP})

        def work(child: Any) -> int:
            return sum(child.claim_tool_call("read") for _ in range(8))

        assert in_children(top if depth == 1 else top.child(), work) == CAP
        assert top.calls("read").used == top.tool_calls.used == CAP


def test_the_calls_of_one_tool_are_counted_in_one_place_whoever_asks_first() -> None:
    for _ in range(5):
        top = opened(max_calls={"read": 1})
        child = unsettle(top.child())

        def work(child: Any = child) -> Any:
            return child.calls("read")

        assert len({id(draw) for draw in in_threads(work)}) == 1
        assert child.calls("read").parent is top.calls("read")


def test_admitted_calls_hold_and_use_exactly_what_there_is() -> None:
    price = Price(0, 1)
    top = opened(max_tokens=CAP * 10, max_nano_usd=CAP * 10 * 1000)

    def work(child: Any) -> int:
        used = 0
        for _ in range(8):
            hold = Admission(child, 0, 10, price).claim()
            with top.lock:  # between two steps of a settlement both counts would have it
                assert top.tokens.used + top.tokens.held <= CAP * 10
            if isinstance(hold, Admission):
                assert hold.limit == 10
                hold.settle(10, price.cost(0, 10))
                used += 10
        return used

    used = in_children(top, work)
    top_used = top.usage()
    assert used == top_used["tokens"] == CAP * 10
    assert top_used["nano_usd"] == CAP * 10 * 1000
    assert (top.tokens.held, top.nano_usd.held) == (0, 0)


def test_no_extension_and_no_pause_is_lost() -> None:
    top = opened(max_tokens=0, timeout=0)

    def work() -> None:
        for _ in range(5):
            top.extend(max_tokens=1, timeout=1)
            with top.paused():
                pass

    in_threads(work)
    assert top.tokens.cap == THREADS * 5
    assert len(top.pauses) == THREADS * 5
    assert top.limits()[-1] == ("elapsed_ms", THREADS * 5000, 0)


def test_only_one_of_many_reasons_to_stop_is_taken() -> None:
    top = opened()
    numbers = iter(range(THREADS))

    def work() -> Any:
        top.stop(str(next(numbers)))
        return top.stopped

    assert len({id(reason) for reason in in_threads(work)}) == 1
