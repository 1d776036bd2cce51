"""One call of an SDK: what is admitted, what is sent instead, and how it is settled."""

import asyncio
import gc
import threading
from dataclasses import replace
from typing import Any

import pytest

from budget_core.ledger.errors import UnknownAccountError
from budget_core.ledger.waiting import room_of
from budget_cpython import BudgetExceededError, SqliteLedger, open_async_ledger, open_ledger
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.layer import Layer
from budget_cpython.ledger.limit_parser import parse_limits
from tests.adapters.support import a_request, an_answer, call_async, call_blocking, used
from tests.ledger.patience import PATIENCE

TOOLS = [{"name": "search", "native": object()}, {"name": "pay", "native": object()}]


class RefusedError(Exception):
    """A provider's error that costs nothing."""

    sent = False


def a_layer(text: str, **options: Any) -> Layer:
    return Layer(parse_limits(text), **options)


def test_a_call_without_layers_is_sent_as_it_is() -> None:
    admitted = call_blocking(tools=TOOLS)
    assert (admitted.model, admitted.notices, admitted.max_tokens) == ("gpt-4o-mini", (), 20)
    assert admitted.tools == TOOLS


def test_a_call_holds_before_and_records_what_it_used() -> None:
    layer = a_layer("1000 tokens")
    call = BudgetedCall([layer], a_request())
    call.begin_blocking()
    assert used(layer) == (0, 26)
    call.end_blocking(an_answer())
    call.end_blocking(an_answer())
    call.abandon()
    assert used(layer) == (15, 0)


def test_an_answer_is_cut_to_what_is_left() -> None:
    assert call_blocking(a_layer("100 tokens"), max_tokens=500).max_tokens == 94


def test_near_its_end_the_model_is_told_and_loses_its_tools() -> None:
    layer = a_layer("4 calls", tool_strip_threshold=0.75, warning_thresholds=(0.5,))
    assert call_blocking(layer, tools=TOOLS).notices == ()
    call_blocking(layer, tools=TOOLS)
    warned = call_blocking(layer, tools=TOOLS)
    assert warned.tools == TOOLS
    assert "50% of your agent budget is used (2 of 4 calls)" in warned.notices[0]
    last = call_blocking(layer, tools=TOOLS)
    assert last.tools is None
    assert len(last.notices) == 1


def test_only_disallowed_tools_are_withdrawn() -> None:
    layer = a_layer("2 calls", tool_strip_threshold=0, tool_strip_disallow=("pay",))
    assert call_blocking(layer, tools=TOOLS).tools == TOOLS[:1]


def test_a_cheaper_model_takes_over() -> None:
    layer = a_layer("$0.0001", fallback_model="gpt-4o-mini")
    request = replace(a_request(max_tokens=100), model="gpt-4")
    admitted = BudgetedCall([layer], request).begin_blocking()
    assert (admitted.model, admitted.max_tokens) == ("gpt-4o-mini", 100)


@pytest.mark.parametrize("error", [RefusedError(), ConnectionError()])
def test_a_failed_call_costs_what_may_have_been_billed(error: Exception) -> None:
    layer = a_layer("1000 tokens")
    call = BudgetedCall([layer], a_request())
    call.begin_blocking()
    call.fail_blocking(error)
    assert used(layer) == (0 if isinstance(error, RefusedError) else 26, 0)


@pytest.mark.parametrize("is_left", [False, True])
def test_a_stream_that_breaks_off_costs_at_least_what_came(is_left: bool) -> None:
    layer = a_layer("1000 tokens")
    call = BudgetedCall([layer], a_request(stream=True))
    call.begin_blocking()
    for _ in range(100):
        call.on_text("word ")
    if is_left:
        call.abandon()
        call = BudgetedCall([layer], a_request())
        call.begin_blocking()  # what was left is delivered with the next call
        call.end_blocking(an_answer())
    else:
        call.fail_blocking(ConnectionError())
    assert used(layer)[0] >= 100
    assert used(layer)[1] == 0


def test_the_last_report_of_a_broken_stream_counts() -> None:
    layer = a_layer("1000 tokens")
    call = BudgetedCall([layer], a_request(stream=True))
    call.begin_blocking()
    call.report = {"input_tokens": 100, "output_tokens": 1}
    call.fail_blocking(ConnectionError())
    assert used(layer)[0] == 101


def test_a_call_that_is_forgotten_keeps_its_hold() -> None:
    layer = a_layer("1000 tokens")
    BudgetedCall([layer], a_request()).begin_blocking()
    assert sum(used(layer)) == 26


def test_a_forgotten_call_may_be_collected_while_another_is_counted() -> None:
    layer = a_layer("1000 tokens")
    BudgetedCall([layer], a_request()).begin_blocking()
    collected: list[int] = []

    def collect() -> None:
        with layer.wrapper(True).tracker.lock:
            collected.append(gc.collect())

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert collected


def test_a_refusal_of_one_layer_releases_what_the_others_hold() -> None:
    outer, inner = a_layer("100 tokens", account="outer"), a_layer("5 tokens", account="inner")
    with pytest.raises(BudgetExceededError, match="inner"):
        call_blocking(outer, inner)
    assert used(outer) == (0, 0)


def test_a_mistake_in_one_layer_releases_what_the_others_hold() -> None:
    outer, unknown = a_layer("100 tokens"), Layer((), open_ledger("memory:"), "unknown")
    with pytest.raises(UnknownAccountError, match="unknown"):
        call_blocking(outer, unknown)
    assert used(outer) == (0, 0)


def test_a_limit_that_no_ledger_can_hold_is_cut_as_any_other() -> None:
    assert call_blocking(a_layer("100 tokens"), max_tokens=1 << 70).max_tokens == 94


def test_a_call_that_two_tasks_end_is_settled_once(tmp_path: Any) -> None:
    layer = Layer(parse_limits("100 tokens"), f"sqlite:{tmp_path / 'budget.db'}", "acme")

    async def main() -> None:
        for settle in ("end", "abandon"):
            call = BudgetedCall([layer], a_request())
            await call.begin()
            first = asyncio.create_task(call.end(an_answer()))
            await asyncio.sleep(0)
            await call.end(an_answer()) if settle == "end" else call.abandon()
            await first

    asyncio.run(main())
    assert used(layer) == (30, 0)
    layer.ledger.close()


def test_an_account_above_another_is_drawn_on_once() -> None:
    ledger = open_ledger("memory:")
    above = Layer(parse_limits("9 calls"), ledger, "acme")
    below = Layer(parse_limits("9 calls"), ledger, "acme/research")
    call_blocking(above, below, below)
    assert (used(above, "calls"), used(below, "calls")) == ((1, 0), (1, 0))


def test_a_call_that_answers_another_one_is_not_counted_twice() -> None:
    outer, own = a_layer("9 calls"), a_layer("9 calls")
    call = BudgetedCall([outer], a_request())
    call.begin_blocking()
    with call.answering():
        call_blocking(outer, own)
    call_blocking(outer)
    call.end_blocking(an_answer())
    assert (used(outer, "calls"), used(own, "calls")) == ((2, 0), (1, 0))


@pytest.mark.parametrize("below", ["acme", "acme/research"])
def test_an_answer_draws_on_an_account_below_the_one_of_its_call(below: str) -> None:
    ledger = open_ledger("memory:")
    above = Layer(parse_limits("9 calls"), ledger, "acme")
    own = Layer((), ledger, below)
    call = BudgetedCall([above], a_request())
    call.begin_blocking()
    with call.answering():
        call_blocking(own)
    call.end_blocking(an_answer())
    assert used(above, "calls") == (1 + (below != "acme"), 0)


@pytest.mark.parametrize("observed", ["acme", "acme/research"])
def test_an_answer_keeps_its_limits_where_its_call_is_only_observed(observed: str) -> None:
    ledger = open_ledger("memory:")
    own = Layer(parse_limits("2 calls"), ledger, "acme")
    outer = Layer((), ledger, observed, enforcement="observe")
    call_blocking(own)
    call = BudgetedCall([outer], a_request())
    call.begin_blocking()
    with call.answering(), pytest.raises(BudgetExceededError):
        call_blocking(own)


@pytest.mark.parametrize("observed", ["acme", "acme/research"])
def test_an_account_that_is_observed_keeps_the_limits_around_it(observed: str) -> None:
    ledger = open_ledger("memory:")
    above = Layer(parse_limits("1 calls"), ledger, "acme")
    below = Layer((), ledger, observed, enforcement="observe")
    call_blocking(above, below)
    for layers in ((above, below), (below, above)):
        with pytest.raises(BudgetExceededError):
            call_blocking(*layers)
    assert used(above, "calls") == (1, 0)


def test_a_blocking_call_waits_for_what_another_holds() -> None:
    layer = a_layer("1 calls", wait=60)
    first = BudgetedCall([layer], a_request())
    first.begin_blocking()
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(call_blocking(layer)))
    thread.start()
    first.fail_blocking(RefusedError())
    thread.join()
    assert seen
    assert used(layer, "calls") == (1, 0)


def test_an_awaited_call_waits_for_what_another_holds() -> None:
    async def main() -> None:
        layer = a_layer("1 calls", wait=60)
        first = BudgetedCall([layer], a_request())
        await first.begin()
        second = asyncio.create_task(call_async(layer))
        await is_waiting(layer)
        await first.fail(RefusedError())
        await second
        assert used(layer, "calls") == (1, 0)

    asyncio.run(main())


async def is_waiting(layer: Layer) -> None:
    while room_of(layer.ledger).waiting != 1:  # noqa: ASYNC110 - the queue has no event
        await asyncio.sleep(0)


def test_a_cancelled_admission_holds_nothing() -> None:
    async def main() -> None:
        layer = a_layer("1 calls", wait=60)
        first = BudgetedCall([layer], a_request())
        await first.begin()
        second = asyncio.create_task(call_async(layer))
        await is_waiting(layer)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await first.fail(RefusedError())
        assert used(layer, "calls") == (0, 0)

    asyncio.run(main())


def test_threads_and_tasks_draw_on_one_file(tmp_path: Any) -> None:
    url = f"sqlite:{tmp_path / 'budget.db'}"
    layer = Layer(parse_limits("2 calls"), url, "acme")
    call_blocking(layer)
    asyncio.run(call_async(layer))
    with pytest.raises(BudgetExceededError):
        call_blocking(Layer((), url, "acme"))
    layer.ledger.close()


def test_an_asyncio_ledger_serves_awaited_calls_only(tmp_path: Any) -> None:
    ledger = open_async_ledger(f"sqlite:{tmp_path / 'budget.db'}")

    async def main() -> None:
        await ledger.set_limits("acme", parse_limits("2 calls"))
        layer = Layer((), ledger, "acme")
        await call_async(layer)
        with pytest.raises(ValueError, match="a ledger that blocks"):
            call_blocking(layer)
        with pytest.raises(ValueError, match="set_limits"):
            Layer(parse_limits("2 calls"), ledger, "acme")
        await ledger.close()

    asyncio.run(main())


def test_a_blocking_call_works_inside_an_event_loop(tmp_path: Any) -> None:
    ledger = SqliteLedger(tmp_path / "budget.db")
    layer = Layer(parse_limits("100 tokens"), ledger, "acme", ttl=1)

    async def main() -> None:
        call_blocking(layer)

    asyncio.run(main())
    assert used(layer) == (15, 0)
    ledger.close()


def test_a_call_settles_in_another_task_than_it_began() -> None:
    async def main() -> None:
        layer = a_layer("100 tokens")
        call = BudgetedCall([layer], a_request())
        await asyncio.create_task(call.begin())
        await asyncio.create_task(call.end(an_answer()))
        assert used(layer) == (15, 0)

    asyncio.run(main())
