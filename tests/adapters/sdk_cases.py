"""Tests of a budgeted client that hold for several SDKs; the module of each SDK inherits them.

That module has a fixture `world`, once for each kind of its client.
"""

import asyncio
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from budget_core.repeats import RepeatedCallError
from budget_cpython import (
    BudgetError,
    BudgetExceededError,
    Deadline,
    DeadlineExceeded,
    Price,
    budget,
    budgeted,
    instrument,
    open_ledger,
    uninstrument,
)
from scripted_model.calls import Reply
from tests.adapters.sdk_world import ACCOUNT, LIMIT, GeneratedSdk, World, spent, until
from tests.adapters.support import until_sent


class ClientCases:
    """Tests of a client of any SDK."""

    def test_a_budgeted_client_is_of_the_very_same_class(self, world: World) -> None:
        world.budget("0 calls")
        assert type(world.client) is type(world.raw)
        world.client = world.raw
        assert world.text()

    def test_what_a_call_used_is_spent(self, world: World) -> None:
        ledger = world.budget("10_000 tokens + 9 calls")
        assert world.text().startswith("You said")
        assert spent(ledger) == (world.used, 0)
        assert spent(ledger, "calls") == (1, 0)

    def test_a_call_draws_on_the_blocks_around_it(self, world: World) -> None:
        world.client = budgeted(world.raw)
        with budget("1 call") as block:
            world.ask()
            assert isinstance(world.refused().__cause__, BudgetExceededError)
        assert block.spent["calls"] == 1
        world.ask()

    def test_an_unwrapped_client_is_budgeted_while_it_is_instrumented(self, world: World) -> None:
        instrument()
        try:
            for client in (world.raw, budgeted(world.raw)):
                world.client = client
                before = world.attempts
                with budget("2 calls") as block:
                    world.ask("busy")  # and once more, which is answered
                    list(world.events(world.stream()))
                    assert isinstance(world.refused().__cause__, BudgetExceededError)
                assert (block.spent["calls"], world.attempts - before) == (2, 3)
                assert world.ask()
        finally:
            uninstrument()
        with budget("0 calls"):
            world.client = world.raw
            assert world.ask()

    def test_clients_share_an_account(self, world: World, tmp_path: Path) -> None:
        url = f"sqlite:{tmp_path}/budget.db"
        world.client = budgeted(world.raw, "2 calls", ledger=url, account="acme/research")
        world.ask()
        world.client = budgeted(world.raw, ledger=url, account="acme/research")
        world.ask()
        world.refused()
        with closing(open_ledger(url)) as ledger:
            (row,) = ledger.balance("acme/research")
            assert (row.spent, row.held) == (2, 0)

    def test_an_answer_is_cut_to_what_is_left(self, world: World) -> None:
        ledger = world.budget("300 tokens")
        world.ask("long", limit=5_000)
        assert 200 < (world.endpoint.answers[-1].asked.max_tokens or 0) < 300
        assert spent(ledger) == (world.used, 0)
        assert isinstance(world.refused().__cause__, BudgetError)

    @pytest.mark.feature("notice")
    def test_the_model_is_told_near_a_limit(self, world: World) -> None:
        world.budget("4 calls", warning_thresholds=[0.5])
        said = [("[Budget notice]" in str(world.body)) for _ in range(4) if world.ask()]
        assert said == [False, False, True, False]

    @pytest.mark.feature("tool withdrawal")
    def test_tools_are_withdrawn_near_a_limit(self, world: World) -> None:
        world.budget("4 calls", tool_strip_threshold=0.5, tool_strip_disallow=["pay"])
        offered = []
        for _ in range(3):
            world.ask(tools=("look", "pay"))
            offered.append(world.sdk.tools(world.body))
        assert offered == [["look", "pay"], ["look", "pay"], ["look"]]
        world.budget("4 calls", tool_strip_threshold=0.25)
        for names in (["look"], []):
            world.ask(tools=("look",))
            assert world.sdk.tools(world.body) == names

    @pytest.mark.feature("fallback")
    def test_the_fallback_answers_where_a_model_is_too_dear(self, world: World) -> None:
        prices = {"scripted": Price(9_000, 9_000), "long": Price(1, 1)}
        ledger = world.budget("$0.01", fallback_model="long", prices=prices)
        assert "word word" in world.text()
        assert world.endpoint.answers[-1].asked.model == "long"
        assert spent(ledger, "nano_usd") == (1_000 * world.used, 0)

    @pytest.mark.feature("reserved final call")
    def test_the_last_call_that_fits_has_no_tools(self, world: World) -> None:
        ledger = world.budget("400 tokens")
        world.ask(tools=("look",))
        for _ in range(20):
            if not world.sdk.tools(world.body):
                break
            world.ask(tools=("look",))
        assert "This is your last answer" in str(world.body)
        assert spent(ledger) == (world.used, 0)

    @pytest.mark.feature("refusal")
    def test_a_refusal_raises_the_sdks_error_once(self, world: World) -> None:
        world.budget("1 call/day")
        world.ask()
        cause = world.refused().__cause__
        assert isinstance(cause, BudgetExceededError)
        assert (cause.axis, cause.left) == ("calls", 0)
        assert cause.resets_at is not None

    @pytest.mark.feature("refusal")
    def test_a_refused_stream_raises_the_same(self, world: World) -> None:
        world.budget("0 calls")
        with pytest.raises(world.sdk.status_error) as caught:
            list(world.events(world.stream()))
        assert world.sdk.status(caught.value) == 402
        assert isinstance(caught.value.__cause__, BudgetExceededError)
        assert world.attempts == 0

    @pytest.mark.feature("refusal")
    @pytest.mark.parametrize("streams", [False, True])
    def test_the_same_call_again_and_again_is_refused(self, world: World, streams: bool) -> None:
        ledger = world.budget("99 calls", repeats=3)
        for _ in range(2):
            list(world.events(world.stream())) if streams else world.ask()
        until(lambda: spent(ledger, "calls") == (2, 0))
        with pytest.raises(world.sdk.status_error, match="repeats=3 refuses this one") as caught:
            list(world.events(world.stream())) if streams else world.ask()
        assert isinstance(caught.value.__cause__, RepeatedCallError)
        assert world.sdk.status(caught.value) == 402
        assert world.attempts == 2
        world.ask(tools=("look",))
        list(world.events(world.stream())) if streams else world.ask()

    @pytest.mark.feature("retries")
    def test_attempts_that_failed_are_not_repeats(self, world: World) -> None:
        world.budget("99 calls", repeats=2)
        assert world.text("busy")
        assert world.attempts == 2

    @pytest.mark.feature("wait")
    def test_a_call_waits_for_what_others_hold(self, world: World) -> None:
        ledger = world.budget("150 tokens", wait=60, expect=LIMIT)
        held = ledger.reserve(ACCOUNT, {"tokens": 140})
        threading.Timer(0.2, ledger.release, [held]).start()
        assert world.text()
        assert spent(ledger) == (world.used, 0)

    @pytest.mark.feature("stream")
    def test_a_stream_is_passed_on_and_counted(self, world: World) -> None:
        ledger = world.budget("10_000 tokens")
        half = threading.Event()
        world.endpoint.scripts["halves"] = Reply("word " * 20, halfway=half.wait)
        events = world.events(world.stream("halves"))
        text = ""
        while not text:
            text += world.sdk.text(next(events))
        assert len(text) < 100
        assert spent(ledger)[0] == 0
        half.set()
        text += "".join(world.sdk.text(event) for event in events)
        assert text == "word " * 20
        assert spent(ledger) == (world.used, 0)

    @pytest.mark.feature("broken stream")
    def test_a_stream_that_breaks_off_keeps_its_hold(self, world: World) -> None:
        half = threading.Event()
        world.endpoint.scripts["halves"] = Reply("word " * 20, halfway=half.wait)
        ledger = world.budget("10_000 tokens")
        stream = world.stream("halves")
        next(world.events(stream))
        world.leave(stream)
        half.set()
        assert sum(spent(ledger)) >= LIMIT
        for model in ("stream-cut", "stream-error"):
            ledger = world.budget("10_000 tokens")
            stream = world.stream(model)
            with suppress(Exception):  # each SDK has its own, or none
                list(world.events(stream))
            world.leave(stream)
            assert sum(spent(ledger)) >= LIMIT

    @pytest.mark.feature("abort")
    def test_a_cancelled_call_keeps_its_hold(self, world: World) -> None:
        if not world.is_async:
            pytest.skip("a blocking call is not cancelled")

        async def cancel() -> None:
            call = asyncio.ensure_future(world.sdk.ask(world.client, "hang", (), LIMIT))
            await asyncio.to_thread(until, lambda: world.attempts == 1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

        ledger = world.budget("10_000 tokens")
        world.run(cancel())
        assert sum(spent(ledger)) >= LIMIT

    @pytest.mark.feature("deadline")
    def test_a_call_ends_at_the_deadline_and_says_that_it_was_sent(self, world: World) -> None:
        ledger = world.budget("9 calls + 10_000 tokens")
        tries = 0
        for deadline in until_sent(world.endpoint):
            tries += 1
            with deadline.as_current(), pytest.raises(world.sdk.status_error) as caught:
                world.ask("hang")
            assert isinstance(caught.value.__cause__, DeadlineExceeded)
        assert "The call was sent" in str(caught.value)
        assert 1 <= world.attempts <= tries  # the SDK does not try again
        assert 1 <= sum(spent(ledger, "calls")) <= tries

    @pytest.mark.feature("deadline")
    def test_a_deadline_that_has_passed_refuses(self, world: World) -> None:
        world.budget("9 calls")
        with Deadline.from_now(0).as_current():
            error = world.refused()
        assert isinstance(error.__cause__, DeadlineExceeded)
        assert "The call was not sent" in str(error)

    @pytest.mark.feature("deadline")
    def test_a_stream_ends_at_the_deadline(self, world: World) -> None:
        half = threading.Event()
        world.endpoint.scripts["halves"] = Reply("word " * 20, halfway=lambda: half.wait(600))
        late: Any = (DeadlineExceeded, world.sdk.status_error)  # before or after it began
        ledger = world.budget("10_000 tokens")
        for deadline in until_sent(world.endpoint):
            with deadline.as_current(), pytest.raises(late) as caught:
                list(world.events(world.stream("halves")))
            found = {type(caught.value), type(caught.value.__cause__)}
            assert DeadlineExceeded in found
        half.set()
        assert sum(spent(ledger)) >= LIMIT

    @pytest.mark.feature("retries")
    def test_each_attempt_is_counted_once(self, world: World) -> None:
        ledger = world.budget("9 calls + 10_000 tokens")
        assert world.text("busy")
        assert world.attempts == 2
        assert spent(ledger, "calls") == (1, 0)
        with suppress(Exception):  # each SDK has its own
            world.ask("truncated")
        assert world.attempts > 2
        assert sum(spent(ledger, "calls")) == 1 + world.attempts - 2
        assert sum(spent(ledger)) >= (world.attempts - 2) * LIMIT

    def test_calls_side_by_side_do_not_exceed_the_budget(self, world: World) -> None:
        count = 12
        ledger = world.budget("5 calls")
        found: list[int] = []

        def ask() -> None:
            try:
                world.sdk.ask(world.client, "scripted", (), LIMIT)
                found.append(200)
            except world.sdk.status_error as error:
                found.append(world.sdk.status(error))

        async def ask_all() -> None:
            calls = [world.sdk.ask(world.client, "scripted", (), LIMIT) for _ in range(count)]
            for answer in await asyncio.gather(*calls, return_exceptions=True):
                is_error = isinstance(answer, world.sdk.status_error)
                found.append(world.sdk.status(answer) if is_error else 200)

        if world.is_async:
            world.run(ask_all())
        else:
            threads = [threading.Thread(target=ask) for _ in range(count)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert sorted(found) == [200] * 5 + [402] * (count - 5)
        assert spent(ledger, "calls") == (5, 0)
        assert world.attempts == 5

    def test_other_errors_of_the_vendor_stay_as_they_are(self, world: World) -> None:
        ledger = world.budget("1000 tokens")
        with pytest.raises(world.sdk.status_error) as caught:
            world.ask("error-401")
        assert world.sdk.status(caught.value) == 401
        assert caught.value.__cause__ is None
        assert spent(ledger) == (0, 0)


class GeneratedClientCases(ClientCases):
    """Tests of a client of a `GeneratedSdk`, too."""

    def test_clients_with_other_options_stay_budgeted(self, world: World) -> None:
        ledger = world.budget("3 calls")
        client, other = world.client, world.sdk.client(world.endpoint, world.is_async)
        others = (
            client.with_options(max_retries=0),
            client.copy(timeout=5).with_options(http_client=other._client),
            client.with_options(max_retries=1),
        )
        for world.client in others:
            assert world.text()
        assert spent(ledger, "calls") == (3, 0)
        for world.client in others:
            assert isinstance(world.refused().__cause__, BudgetExceededError)
        world.run(other.close())

    def test_raw_answers_are_counted(self, world: World) -> None:
        assert isinstance(world.sdk, GeneratedSdk)
        ledger = world.budget("1 call + 1000 tokens")
        asked = {"model": "scripted", **world.sdk.asked(LIMIT)}
        raw = world.run(world.sdk.resource(world.client).with_raw_response.create(**asked))
        assert world.sdk.text(world.run(raw.parse()))
        assert spent(ledger) == (world.used, 0)
        with pytest.raises(world.sdk.status_error) as caught:
            world.run(world.sdk.resource(world.client).with_raw_response.create(**asked))
        assert isinstance(caught.value.__cause__, BudgetExceededError)
