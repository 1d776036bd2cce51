"""What a ledger is told of calls that fail, are cut off, take long, or while it is out of reach."""

import asyncio

from budget_core.config import TurnBudgetConfig
from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.ledger.limit import Limit
from budget_core.ledger.llm_account import LedgerAccount
from budget_core.ledger.memory import Ledger
from budget_core.notices import UNAVAILABLE
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper
from tests_micro.ledger.support import (
    HELLO,
    HI,
    NOON,
    PRICES,
    USAGE,
    Awaited,
    Failing,
    big,
    cancel,
    delivered,
    looks,
    make_ledger,
    standing,
    wrapped,
)
from tests_micro.script import says, streams
from tests_micro.support import FakeClock, raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELD = {"tokens": (0, 110)}
CHARGED = {"tokens": (110, 0)}
KNOWN = {"prompt_tokens": 50, "completion_tokens": 100, "total_tokens": 150}
WORDS = ["word "] * 3


class Halt:
    """Stops a coroutine for good, without a word to its event loop, as a crash would."""

    def __await__(self) -> "Any":
        yield

    __iter__ = __await__  # MicroPython's


def halts(report: "Any" = None) -> "Any":
    """Return an answer that never comes, after a report of usage."""

    async def answer(request: "Any") -> None:
        if report is not None:
            request["on_delta"].usage = report
        await Halt()

    return answer


async def ignore(text: str) -> None:
    """Take a piece of an answer."""


async def test_a_call_that_is_cancelled_is_charged_its_hold() -> None:
    async def hang(request: "Any") -> "Any":
        begun.set()
        await asyncio.Event().wait()

    for made in (lambda ledger: ledger, Awaited):
        begun = asyncio.Event()
        ledger = make_ledger(tokens=10_000)
        task = asyncio.create_task(wrapped(big(hang), made(ledger)).chat(HELLO, max_tokens=100))
        await begun.wait()
        await cancel(task)
        assert standing(ledger) == CHARGED


async def test_a_call_that_is_left_behind_is_charged_its_hold_or_more_if_more_is_known() -> None:
    for reported, spent in ((USAGE, 110), (KNOWN, 150)):
        ledger = make_ledger(tokens=10_000)
        wrapper = wrapped(big(halts(reported)), ledger)
        pending = wrapper.chat(HELLO, max_tokens=100, on_delta=ignore)
        pending.send(None)
        pending.close()
        assert standing(ledger) == HELD
        await delivered(wrapper)
        assert standing(ledger) == {"tokens": (spent, 0)}


async def test_a_stream_whose_provider_ignores_its_limit_is_ended() -> None:
    for enforcement, content, spent in (
        ("cutoff", "word " * 101, 133),
        ("observe", "answer", 256),
    ):
        ledger = make_ledger(tokens=10_000)
        wrapper = wrapped(big(streams(*["word "] * 200)), ledger, enforcement=enforcement)
        answer = await wrapper.chat(HELLO, max_tokens=100, on_delta=ignore)
        assert answer.content == content
        assert answer.finish_reason == ("length" if enforcement == "cutoff" else "stop")
        assert standing(ledger) == {"tokens": (spent, 0)}


async def test_the_lowest_limit_ends_a_stream_that_passes_two_wrappers() -> None:
    for outer, inner in ((60, 100), (100, 60)):
        first, second = make_ledger(tokens=outer + 10), make_ledger(tokens=inner + 10)
        wrapper = wrapped(wrapped(big(streams(*["word "] * 200)), first), second)
        answer = await wrapper.chat(HELLO, on_delta=ignore)
        assert answer.content == "word " * 61


async def test_a_ledger_out_of_reach_denies_and_its_error_can_be_seen() -> None:
    model, ledger = big(), Failing(make_ledger(tokens=10_000))
    wrapper = wrapped(model, ledger)
    ledger.failing = {"reserve": 1}
    response = await wrapper.chat(HELLO)
    assert response.content == UNAVAILABLE
    assert (response.cut_off_by, model.requests) == ("org/team/agent", [])
    assert isinstance(wrapper.ledger_error, LedgerUnavailableError)
    assert (await wrapper.chat(HELLO)).content == "hi"


async def test_a_call_without_a_price_asks_the_ledger_no_more_often_than_one_with_a_price() -> None:
    ledger = Failing(make_ledger(tokens=10_000))
    for prices in ({}, PRICES):
        ledger.asked = []
        assert (await wrapped(big(), ledger, prices=prices).chat(HELLO)).content == "hi"
        assert ledger.asked == ["balance", "reserve", "commit"]


async def test_a_ledger_out_of_reach_is_asked_for_no_fallback() -> None:
    model, ledger = big(), Failing(make_ledger(tokens=10_000))
    wrapper = wrapped(model, ledger, enforcement="fallback", fallback_model="small")
    ledger.failing = {"reserve": 1}
    assert (await wrapper.chat(HELLO)).cut_off_by == "org/team/agent"
    assert model.requests == []


async def test_a_failed_settlement_is_delivered_before_the_next_call() -> None:
    for after in (False, True):
        beneath = make_ledger(tokens=10_000)
        ledger = Failing(beneath)
        ledger.after = after
        wrapper = wrapped(big(says("hi", KNOWN)), ledger)
        ledger.failing = {"commit": 2}
        assert (await wrapper.chat(HELLO, max_tokens=100)).content == "hi"
        assert (await wrapper.chat(HELLO)).cut_off_by == "org/team/agent"
        assert not ledger.failing["commit"]
        assert (await wrapper.chat(HELLO, max_tokens=100)).content == "hi"
        assert standing(beneath) == {"tokens": (300, 0)}


async def test_a_failed_settlement_can_be_flushed_by_any_wrapper_on_the_ledger() -> None:
    beneath = make_ledger(tokens=10_000)
    ledger = Failing(beneath)
    ledger.failing = {"commit": 2}
    await wrapped(big(says("hi", KNOWN)), ledger).chat(HELLO, max_tokens=100)
    assert standing(beneath) == HELD
    other = wrapped(big(), ledger)
    assert [await other.flush(), await other.flush()] == [False, True]
    assert standing(beneath) == {"tokens": (150, 0)}
    ledger.failing = {"commit": 1}
    await other.chat(HELLO)
    await other.close()
    assert standing(beneath) == {"tokens": (180, 0)}


async def test_a_call_cancelled_during_its_settlement_is_recorded_all_the_same() -> None:
    async def hang_once(commit: "Any", *arguments: "Any") -> "Any":
        if not told.is_set():
            told.set()
            await asyncio.Event().wait()
        return commit(*arguments)

    told = asyncio.Event()
    ledger = make_ledger(tokens=10_000)
    wrapper = wrapped(big(says("hi", KNOWN)), Awaited(ledger, commit=hang_once))
    task = asyncio.create_task(wrapper.chat(HELLO, max_tokens=100))
    await told.wait()
    await cancel(task)
    await delivered(wrapper)
    assert standing(ledger) == {"tokens": (150, 0)}


async def test_a_call_cancelled_before_it_is_sent_is_no_usage_of_a_tracker_around_it() -> None:
    async def hang(reserve: "Any", *arguments: "Any") -> "Any":
        asked.set()
        await asyncio.Event().wait()

    asked = asyncio.Event()
    inner = wrapped(big(), Awaited(make_ledger(tokens=10_000), reserve=hang))
    tracker = TurnBudgetTracker(TurnBudgetConfig(None, None))
    task = asyncio.create_task(BudgetWrapper(inner, tracker, estimates=True).chat(HELLO))
    await asked.wait()
    await cancel(task)
    assert (tracker.iterations_seen, tracker.total_tokens) == (1, 0)


async def test_calls_made_while_a_ledger_is_down_are_charged_once_however_many() -> None:
    for after in (False, True):
        beneath = make_ledger(tokens=10)
        ledger = Failing(beneath)
        ledger.after = after
        wrapper = wrapped(big(), ledger, enforcement="observe")
        ledger.failing = {"charge": 99}
        for _ in range(10):
            await wrapper.chat(HELLO)
        assert len(wrapper.ledger_account.outbox.entries) == 2
        ledger.failing = {}
        assert await wrapper.flush()
        assert standing(beneath) == {"tokens": (300, 0)}


async def test_a_long_call_keeps_its_hold_live_and_stops_when_it_is_over() -> None:
    async def wait(request: "Any") -> "Any":
        await thrice.wait()
        return HI

    def note(extend: "Any", *arguments: "Any") -> "Any":
        if ledger.asked.count("extend") == 3:
            thrice.set()
        return extend(*arguments)

    thrice = asyncio.Event()
    beneath = make_ledger(tokens=10_000)
    ledger = Failing(beneath, extend=note)
    ledger.failing = {"extend": 1}
    wrapper = wrapped(big(wait), ledger, ttl=0.003)
    await wrapper.chat(HELLO)
    assert standing(beneath) == {"tokens": (30, 0)}
    assert isinstance(wrapper.ledger_error, LedgerUnavailableError)


async def test_a_hold_that_expires_in_spite_of_it_breaks_no_call() -> None:
    async def wait(request: "Any") -> "Any":
        beneath._clock.advance(1)  # type: ignore[attr-defined]
        await ledger.extended.wait()
        return HI

    beneath = make_ledger(tokens=10_000)
    ledger = Failing(beneath)
    assert (await wrapped(big(wait), ledger, ttl=0.003).chat(HELLO)).content == "hi"
    assert standing(beneath) == {"tokens": (30, 0)}


async def test_nothing_extends_a_hold_that_is_settled() -> None:
    for settle in ("release", "commit"):
        account = LedgerAccount(make_ledger(tokens=10_000), "org/team")
        draw = await account.reserve("big", 10)
        draw.begin()
        task = draw._extending
        await asyncio.sleep(0)
        await getattr(draw, settle)(*([] if settle == "release" else [{"tokens": 1}]))
        await asyncio.sleep(0)
        assert task.done()


async def test_a_hold_that_expired_meanwhile_is_corrected() -> None:
    def expire(request: "Any") -> "Any":
        ledger._clock.advance(301)  # type: ignore[attr-defined]
        assert standing(ledger) == {"tokens": (110, 0)}
        return HI

    ledger = make_ledger(tokens=10_000)
    await wrapped(big(expire), ledger).chat(HELLO, max_tokens=100)
    assert standing(ledger) == {"tokens": (30, 0)}


async def test_a_call_repeated_after_a_crash_takes_over_its_hold() -> None:
    ledger = make_ledger(tokens=150)
    dying = wrapped(big(halts()), Failing(ledger), key=lambda: "step-1")
    crashed = dying.chat(HELLO, max_tokens=100)
    crashed.send(None)
    assert standing(ledger) == HELD
    wrapper = wrapped(big(), Failing(ledger), key=lambda: "step-1")
    await wrapper.chat(HELLO, max_tokens=100)
    assert standing(ledger) == {"tokens": (30, 0)}
    seen: list[Any] = []
    await wrapped(big(looks(ledger, seen)), Failing(ledger), key=lambda: "step-1").chat(
        HELLO, max_tokens=100
    )
    assert seen == [{"tokens": (30, 110)}]
    assert standing(ledger) == {"tokens": (60, 0)}
    crashed.close()


async def test_a_call_repeated_with_another_length_takes_over_its_hold_too() -> None:
    ledger = make_ledger(tokens=150)
    model = big()
    dying = wrapped(big(halts()), Failing(ledger), key=lambda: "k")
    crashed = dying.chat(HELLO, max_tokens=100)
    crashed.send(None)
    await wrapped(model, Failing(ledger), key=lambda: "k").chat(HELLO, max_tokens=90)
    assert model.limits[0] == 100
    assert standing(ledger) == {"tokens": (30, 0)}
    crashed.close()


async def test_calls_side_by_side_never_spend_more_than_there_is() -> None:
    async def use_it_all(request: "Any") -> "Any":
        await asyncio.sleep(0)
        used = request["max_tokens"]
        report = {"prompt_tokens": 10, "completion_tokens": used, "total_tokens": 10 + used}
        return says("hi", report)

    for wrap in (lambda ledger: ledger, Awaited):
        ledger = Ledger(FakeClock(NOON))
        ledger.set_limits("org", [Limit("tokens", 1_000, "run")])
        model = big(use_it_all)
        wrapper: Any = BudgetWrapper(
            model, ledger=wrap(ledger), account="org/a", count_tokens=lambda messages, tools: 10
        )
        asked = [wrapper.chat(HELLO, max_tokens=140) for _ in range(20)]
        answers = await asyncio.gather(*asked)
        assert model.limits == [140] * 6 + [90]
        assert sum([answer.cut_off_by is None for answer in answers]) == 7
        assert standing(ledger, "org") == {"tokens": (1_000, 0)}


async def test_a_call_repeated_in_the_same_process_has_a_hold_of_its_own() -> None:
    async def wait(request: "Any") -> "Any":
        await asyncio.sleep(0)
        return HI

    ledger = make_ledger(calls=1)
    model = big(wait)
    wrapper = wrapped(model, ledger, key=lambda: "step-1")
    answers = await asyncio.gather(*[wrapper.chat(HELLO) for _ in range(20)])
    assert (len(model.requests), [answer.cut_off_by for answer in answers].count(None)) == (1, 1)
    assert standing(ledger) == {"calls": (1, 0)}
    ledger = make_ledger(tokens=10_000)
    wrapper = wrapped(big(OSError(104)), ledger, key=lambda: "step-1")
    for _ in range(2):
        await raises_async(OSError, wrapper.chat, HELLO, max_tokens=100)
    assert standing(ledger) == {"tokens": (220, 0)}


async def test_a_key_whose_call_was_refused_is_still_the_calls() -> None:
    ledger = make_ledger(tokens=110)
    wrapper = wrapped(big(OSError(104)), ledger, key=lambda: "step-1")
    hold = ledger.reserve("org/team", {"tokens": 110})
    assert (await wrapper.chat(HELLO)).cut_off_by == "org/team"
    ledger.release(hold)
    await raises_async(OSError, wrapper.chat, HELLO, max_tokens=100)
    assert ledger.hold("org/team/agent", "step-1").amounts["tokens"] == 110


async def test_of_the_keys_that_were_used_the_last_thousand_are_known() -> None:
    account = LedgerAccount(make_ledger(tokens=10_000), "org/team")
    for number in range(4_000):
        assert account._shared.claim("org/team", str(number))
        assert not account._shared.claim("org/team", str(max(0, number - 1_000)))
    assert account._shared.claim("org/team", "0")
    assert len(account._shared._keys) + len(account._shared._former) <= 2_048


async def test_an_account_that_is_gone_blocks_no_other() -> None:
    def remove(request: "Any") -> "Any":
        ledger.set_limits("org/team", [])
        return HI

    ledger = make_ledger(tokens=1)
    ledger.set_limits("b", [Limit("tokens", 10_000)])
    gone = wrapped(big(remove), ledger, enforcement="warn")
    assert (await gone.chat(HELLO)).content == "hi"
    assert isinstance(gone.ledger_error, UnknownAccountError)
    other: Any = BudgetWrapper(big(), ledger=ledger, account="b")
    assert (await other.chat(HELLO)).content == "hi"
    assert await gone.flush()


async def test_what_a_ledger_will_never_take_is_dropped_and_what_it_may_take_is_kept() -> None:
    def refuse(commit: "Any", hold: "Any", actual: "Any") -> "Any":
        if hold.path in refused:
            raise refused[hold.path]
        return commit(hold, actual)

    beneath = make_ledger(tokens=10_000)
    beneath.set_limits("b", [Limit("tokens", 10_000)])
    ledger = Failing(beneath, commit=refuse)
    first = wrapped(big(), ledger)
    other: Any = BudgetWrapper(big(), ledger=ledger, account="b")
    refused: dict[str, Exception] = {"org/team/agent": LedgerError("403: not yours")}
    await first.chat(HELLO, max_tokens=100)
    assert (standing(beneath), str(first.ledger_error)) == (HELD, "403: not yours")
    assert not await first.flush()
    refused["org/team/agent"] = LedgerFullError("no room")
    assert not await first.flush()
    refused["b"] = OSError(5)
    await other.chat(HELLO)
    del refused["b"]
    assert (await other.chat(HELLO)).cut_off_by is None  # which is told before
    assert standing(beneath, "b") == {"tokens": (60, 0)}
    assert (await first.chat(HELLO)).cut_off_by == "org/team/agent"
    refused.clear()
    assert (await first.chat(HELLO)).cut_off_by is None


async def test_a_hold_that_its_ledger_has_lost_is_charged_once() -> None:
    def fail_over(request: "Any") -> "Any":
        ledger.beneath = make_ledger(tokens=10_000)
        ledger.after = True
        ledger.failing = {"charge": 2}
        return HI

    ledger = Failing(make_ledger(tokens=10_000))
    wrapper = wrapped(big(fail_over), ledger)
    await wrapper.chat(HELLO)
    assert [await wrapper.flush(), await wrapper.flush()] == [False, True]
    assert standing(ledger.beneath) == {"tokens": (30, 0)}


async def test_a_cancellation_after_the_answer_loses_neither_its_usage_nor_itself() -> None:
    async def reply(request: "Any") -> "Any":
        await asyncio.sleep(0)
        answered.set()
        return says("hi", KNOWN)

    async def work() -> None:
        await wrapper.chat(HELLO, max_tokens=100)
        await asyncio.sleep(0)
        await asyncio.Event().wait()

    for wrap in (lambda ledger: ledger, Awaited):
        answered = asyncio.Event()
        ledger = make_ledger(tokens=10_000)
        wrapper = wrapped(big(reply), wrap(ledger))
        task = asyncio.create_task(work())
        await answered.wait()
        await cancel(task)
        assert await wrapper.flush()
        assert standing(ledger) == {"tokens": (150, 0)}


async def test_a_call_cancelled_while_its_ledger_answers_gives_its_hold_back() -> None:
    async def slow(reserve: "Any", *arguments: "Any") -> "Any":
        asked.set()
        for _ in range(before):
            await asyncio.sleep(0)
        hold = reserve(*arguments)
        for _ in range(after):
            await asyncio.sleep(0)
        return hold

    for before, after in ((1, 0), (0, 1), (1, 1)):  # noqa: B007 - `slow` uses them
        asked = asyncio.Event()
        ledger, model = make_ledger(tokens=10_000), big()
        wrapper = wrapped(model, Awaited(ledger, reserve=slow))
        task = asyncio.create_task(wrapper.chat(HELLO))
        await asked.wait()
        task.cancel()
        for _ in range(9):
            await asyncio.sleep(0)
        assert await wrapper.flush()
        assert (model.requests, standing(ledger)) == ([], {"tokens": (0, 0)})


async def test_a_reservation_whose_answer_was_lost_is_undone_before_the_next_call() -> None:
    beneath = make_ledger(tokens=200)
    ledger = Failing(beneath)
    wrapper = wrapped(big(), Awaited(ledger))  # type: ignore[arg-type]
    ledger.failing, ledger.after = {"reserve": 1}, True
    assert (await wrapper.chat(HELLO, max_tokens=100)).cut_off_by == "org/team/agent"
    assert standing(beneath) == HELD
    assert (await wrapper.chat(HELLO, max_tokens=100)).content == "hi"
    assert standing(beneath) == {"tokens": (30, 0)}


async def test_a_call_waits_for_a_delivery_that_another_one_has_begun() -> None:
    async def slow(charge: "Any", *arguments: "Any") -> "Any":
        await asyncio.sleep(0)
        return charge(*arguments)

    beneath = make_ledger(tokens=100)
    account = LedgerAccount(Awaited(beneath, charge=slow), "org/team")
    account.outbox.charge("org/team", {"tokens": 60})
    asked = [account.reserve("big", 10, 40) for _ in range(2)]
    draws = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(draws[1], BudgetExceededError)
    assert standing(beneath) == {"tokens": (60, 40)}


async def test_nothing_is_added_to_a_charge_that_is_being_delivered() -> None:
    async def slow(charge: "Any", *arguments: "Any") -> "Any":
        told = charge(*arguments)
        await asyncio.sleep(0)
        return told

    beneath = make_ledger(tokens=None)
    account = LedgerAccount(Awaited(beneath, charge=slow), "org/team")
    account.outbox.charge("org/team", {"tokens": 5})
    task = asyncio.create_task(account.flush())
    await asyncio.sleep(0)
    account.outbox.charge("org/team", {"tokens": 7})
    await task
    assert await account.flush()
    assert standing(beneath) == {"tokens": (12, 0)}
