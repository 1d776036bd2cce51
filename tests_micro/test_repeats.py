"""A stop for programs that send the same request again and again."""

from budget_core import (
    BudgetWrapper,
    ChatResponse,
    Ledger,
    Limit,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from budget_core.digests import digest_of
from budget_core.repeats import RepeatedCallError
from tests_micro.script import Script
from tests_micro.support import raises, raises_async

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO: "list[dict[str, Any]]" = [{"role": "user", "content": "hello"}]
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def on_tracker(model: Script, repeats: int = 3, **config: "Any") -> "Any":
    tracker = TurnBudgetTracker(TurnBudgetConfig(**config))
    return BudgetWrapper(model, tracker, repeats=repeats)


def on_ledger(model: Script, repeats: int = 3, calls: int = 99, **options: "Any") -> "Any":
    ledger = Ledger()
    ledger.set_limits("acme", [Limit("calls", calls), Limit("tokens", 99_000)])
    return BudgetWrapper(model, ledger=ledger, account="acme", repeats=repeats, **options)


async def refused(wrapper: "Any", *given: "Any") -> RepeatedCallError:
    error: RepeatedCallError = await raises_async(RepeatedCallError, wrapper.chat, *given)
    return error


async def test_the_same_call_is_refused_when_it_would_be_one_too_many_in_a_row() -> None:
    for wrapped in (on_tracker, on_ledger):
        model = Script(7)
        wrapper = wrapped(model)
        for _ in range(2):
            await wrapper.chat(HELLO, TOOLS)
        for _ in range(2):  # it stays refused
            error = await refused(wrapper, HELLO, TOOLS)
            assert (error.repeats, error.sent) == (3, False)
            assert str(error) == (
                "call 3 in a row with the same model, messages and tools: those before it were "
                "answered, and repeats=3 refuses this one. Send something else, or allow more, or "
                "leave repeats out"
            )
        assert len(model.requests) == 2


async def test_a_refused_repeat_is_not_counted_and_holds_nothing() -> None:
    wrapper = on_tracker(Script(7), repeats=2)
    await wrapper.chat(HELLO)
    await refused(wrapper, HELLO)
    assert wrapper.tracker.iterations_seen == 1
    wrapper = on_ledger(Script(7), repeats=2)
    await wrapper.chat(HELLO)
    await refused(wrapper, HELLO)
    rows = wrapper.ledger_account.ledger.balance("acme")
    assert [(row.axis, row.spent, row.held) for row in rows] == [("calls", 1, 0), ("tokens", 7, 0)]


async def test_another_request_begins_a_new_row() -> None:
    more = HELLO + [{"role": "assistant", "content": "hi"}]
    for wrapped in (on_tracker, on_ledger):
        wrapper = wrapped(Script(7), repeats=2)
        for given in ((HELLO,), (more,), (HELLO,), (HELLO, TOOLS), (HELLO,), (HELLO, None, "big")):
            await wrapper.chat(*given)
        await refused(wrapper, HELLO, None, "big")
        await wrapper.chat(HELLO)
        await wrapper.chat(HELLO, None, "big")


async def test_calls_that_failed_are_not_repeats() -> None:
    for wrapped in (on_tracker, on_ledger):
        wrapper = wrapped(Script(7, OSError(), OSError(), OSError(), 7), repeats=3)
        await wrapper.chat(HELLO)
        for _ in range(3):
            await raises_async(OSError, wrapper.chat, HELLO)
        await wrapper.chat(HELLO)
        await refused(wrapper, HELLO)


async def test_answers_of_a_budget_are_not_counted() -> None:
    model = Script(7)
    for wrapper in (
        on_tracker(model, repeats=2, iteration_budget=0),
        on_ledger(model, repeats=2, calls=0),
        on_tracker(Script(ChatResponse("no", cut_off_by="daily")), repeats=2),
    ):
        for _ in range(4):
            assert (await wrapper.chat(HELLO)).cut_off_by
    assert model.requests == []


async def test_where_limits_refuse_nothing_repeats_are_not_refused_either() -> None:
    for mode in ("warn", "observe"):
        for wrapper in (
            on_tracker(Script(7), repeats=2, enforcement=mode),
            on_ledger(Script(7), repeats=2, enforcement=mode),
        ):
            for _ in range(4):
                await wrapper.chat(HELLO)


async def test_nothing_is_compared_by_default() -> None:
    wrapper = BudgetWrapper(Script(7), TurnBudgetTracker(TurnBudgetConfig()))
    for _ in range(20):
        await wrapper.chat(HELLO)


def test_fewer_than_two_in_a_row_is_a_mistake() -> None:
    for repeats in (1, 0, -1, True, 2.0, "3"):
        error = raises(ValueError, on_tracker, Script(7), repeats)
        assert str(error).startswith("repeats must be a whole number >= 2, not ")


# Digests


def test_values_that_differ_anywhere_have_different_digests() -> None:
    long = "x" * 600
    values: list[Any] = [
        None, 0, 1, 1.5, "", "1", b"1", "None", [], {}, [[]], [{}], [1, 2], [2, 1], [[1], 2],
        {"a": 1}, {"a": "1"}, {"b": 1}, {"a": {"a": 1}}, [{"a": 1}], ["a", 1], ["ab"], ["a", "b"],
        long, long + "y", "y" + long[1:], long[:300] + "y" + long[301:], "\u00e9", b"\xc3\xa9",
    ]  # fmt: skip
    assert len({digest_of(value) for value in values}) == len(values)


def test_equal_values_have_one_digest_in_whatever_order_a_dict_was_filled() -> None:
    one: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    other: dict[str, Any] = {"content": ({"text": "hi", "type": "text"},)}
    other["role"] = "user"
    assert digest_of([one]) == digest_of([other])
    assert len(digest_of(one)) == 16


def test_a_value_that_contains_itself_has_a_digest() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert digest_of(endless) == digest_of(endless)
