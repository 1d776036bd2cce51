"""One call on several accounts: in order before it, in reverse after it, and once."""

import asyncio

from budget_core.call import Call
from budget_core.enforcement import cut_off
from budget_core.provider import ChatResponse
from tests_micro.support import raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.settlement import Settlement

MESSAGES = [{"role": "user", "content": "hello"}]
ANSWER = ChatResponse("hi", usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2})


class Noted:
    """An account that notes what it is asked and told."""

    def __init__(self, name: str, notes: "list[Any]", ends: "Any" = None) -> None:
        self.name = name
        self.notes = notes
        self.ends = ends  # what it raises, or answers in the model's place
        self.breaks: BaseException | None = None

    async def hold(self, call: Call) -> str:
        """Hold its name."""
        self.notes.append("hold " + self.name)
        if isinstance(self.ends, BaseException):
            raise self.ends
        call.answer = self.ends
        return self.name

    async def settle(self, hold: str, outcome: "Settlement") -> None:
        """Note whether the call was sent, and whether anything may be awaited."""
        assert hold == self.name
        told = "unsent" if not outcome.sent else "closing" if outcome.closing else "settle"
        self.notes.append(told + " " + self.name)
        if self.breaks is not None:
            raise self.breaks


async def test_accounts_are_asked_in_order_and_told_in_reverse_once() -> None:
    notes: list[Any] = []
    call = Call(MESSAGES)
    await call.admit([Noted(name, notes) for name in "abc"])
    assert call.is_admitted
    await call.settle(ANSWER)
    await call.settle(ANSWER)
    await call.settle(None, OSError(104))
    assert notes == ["hold a", "hold b", "hold c", "settle c", "settle b", "settle a"]
    assert call.outcome is not None
    assert call.outcome.usage.total == 2


async def test_a_refusal_gives_back_what_earlier_accounts_hold() -> None:
    class NoError(Exception):
        """A refusal."""

    for error in (NoError(), asyncio.CancelledError(), ValueError("malformed")):
        notes: list[Any] = []
        call = Call(MESSAGES)
        accounts = [Noted("a", notes), Noted("b", notes), Noted("c", notes, error)]
        await raises_async(type(error), call.admit, accounts)
        assert notes == ["hold a", "hold b", "hold c", "unsent b", "unsent a"]
        assert not call.is_admitted
        if not isinstance(error, ValueError):  # MicroPython's own take no attributes
            assert not getattr(error, "sent", True)


async def test_an_answer_in_the_models_place_reaches_earlier_accounts() -> None:
    notes: list[Any] = []
    call = Call(MESSAGES)
    answer = cut_off("Enough.", "org")
    await call.admit([Noted("a", notes), Noted("b", notes, answer), Noted("c", notes)])
    assert (call.answer is answer, call.is_admitted) == (True, False)
    assert notes == ["hold a", "hold b", "unsent a"]
    assert call.outcome is not None
    assert call.outcome.response is answer


async def test_a_settlement_that_breaks_off_is_made_everywhere_and_raised() -> None:
    notes: list[Any] = []
    accounts = [Noted(name, notes) for name in "abc"]
    accounts[2].breaks = asyncio.CancelledError()
    accounts[1].breaks = ValueError("a second one")
    call = Call(MESSAGES)
    await call.admit(accounts)
    del notes[:]
    await raises_async(asyncio.CancelledError, call.settle, ANSWER)
    assert notes == ["settle c", "closing b", "closing a"]


async def test_a_call_that_is_left_behind_is_settled_without_awaiting() -> None:
    notes: list[Any] = []
    call = Call(MESSAGES)
    await call.admit([Noted("a", notes)])
    settling: Any = call.settle(None, GeneratorExit())
    try:
        settling.send(None)
        raise AssertionError("it awaited something")
    except StopIteration:
        pass
    assert notes == ["hold a", "closing a"]
