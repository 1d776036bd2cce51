"""Tests of a budgeted model that hold for several frameworks; the module of each inherits them.

That module has a fixture `world`, once for each kind of call that its framework has.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest

from budget_core.repeats import RepeatedCallError
from budget_cpython import BudgetExceededError, DeadlineExceeded, budget, budgeted
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.provider_errors import UnbilledError
from scripted_model import ScriptedEndpoint
from tests.adapters.support import a_request, bodies, cancel, counted, tokens

LIMIT = 50  # tokens of an answer


class World:
    """How one framework's models are made and asked, round the scripted endpoint.

    - `refused` is what a refused call raises, `late` one that the deadline ends; `fallback` is the
      name of another model.
    - `is_async` says whether `ask` returns a coroutine, and `stream` an asynchronous iterator.
    """

    refused: type[Exception] = BudgetExceededError
    late: type[Exception] = DeadlineExceeded
    fallback = "gpt-4o-mini"

    def __init__(self, endpoint: ScriptedEndpoint, is_async: bool = True) -> None:
        self.endpoint = endpoint
        self.is_async = is_async

    def model(self, name: str, **options: Any) -> Any:
        """Return a model without a budget, whose client makes one attempt; `LIMIT` holds for it.

        Its `base_url` may be another one; `stream` says whether the model is to stream.
        """
        raise NotImplementedError

    def ask(self, model: Any) -> Any:
        """Make one call."""
        raise NotImplementedError

    def stream(self, model: Any) -> Any:
        """Make one call, and iterate over the texts of its answer."""
        raise NotImplementedError

    def budgeted(self, model: Any, limits: str | None = None, **options: Any) -> Any:
        """Return a model within a budget."""
        return budgeted(model, limits, **options)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine."""
        return asyncio.run(work)

    def made(self, name: str = "scripted", **options: Any) -> Any:
        """Return a model that draws on blocks alone."""
        return self.budgeted(self.model(name, **options))

    def answer(self, *models: Any) -> None:
        """Make one call of each model, in one event loop."""

        async def main() -> None:
            for model in models:
                await self.ask(model)

        if self.is_async:
            self.run(main())
        else:
            for model in models:
                self.ask(model)

    def pieces(self, model: Any, most: int = 999) -> list[str]:
        """Return the first pieces of a stream, which is then left."""
        if self.is_async:
            return list(self.run(_read(self.stream(model), most)))
        stream: Iterator[str] = self.stream(model)
        found = [piece for piece, _ in zip(stream, range(most), strict=False)]
        stream.close()  # type: ignore[attr-defined]
        return found


async def _read(stream: AsyncIterator[str], most: int) -> list[str]:
    found = []
    async for piece in stream:
        found.append(piece)
        if len(found) == most:
            break
    await stream.aclose()  # type: ignore[attr-defined]
    return found


def _is_for(error: BaseException, reason: type[Exception]) -> bool:
    """Tell whether an error is the budget's own, or has that as its cause."""
    return isinstance(error, reason) or isinstance(error.__cause__, reason)


class ModelCases:
    """Tests of a model of any framework."""

    def test_a_call_counts_what_it_used(self, world: World) -> None:
        with budget("9 calls + 9000 tokens") as block:
            world.answer(world.made())
        assert (block.spent["calls"], block.spent["tokens"]) == (1, tokens(world.endpoint))

    def test_an_unreported_usage_counts_as_what_was_held(self, world: World) -> None:
        with budget("9000 tokens") as block:
            world.answer(world.made("no-usage"))
        assert block.spent["tokens"] > LIMIT

    @pytest.mark.feature("fallback")
    def test_a_cheaper_model_takes_over(self, world: World) -> None:
        first = world.model("gpt-4")
        world.answer(world.budgeted(first, "$0.0001", fallback_model=world.fallback))
        assert [body["model"] for body in bodies(world.endpoint)] == ["gpt-4o-mini"]

    @pytest.mark.feature("refusal")
    def test_a_refused_call_raises_and_the_first_model_has_no_budget(self, world: World) -> None:
        first = world.model("scripted")
        with pytest.raises(world.refused, match="0 of 0 calls") as raised:
            world.answer(first, world.budgeted(first, "0 calls"))
        assert _is_for(raised.value, BudgetExceededError)
        assert len(world.endpoint.requests) == 1

    @pytest.mark.feature("refusal")
    def test_the_same_call_again_and_again_is_refused(self, world: World) -> None:
        model = world.made()
        block = budget("99 calls", repeats=3)
        with block, pytest.raises(Exception, match="repeats=3 refuses this one") as raised:
            world.answer(model, model, model)
        assert _is_for(raised.value, RepeatedCallError)
        assert (block.spent["calls"], len(world.endpoint.requests)) == (2, 2)

    @pytest.mark.feature("wait")
    def test_a_call_waits_for_what_another_holds(self, world: World) -> None:
        with budget("1 calls", wait=60) as block:
            first = BudgetedCall((), a_request())
            first.begin_blocking()
            thread = threading.Thread(target=world.answer, args=(world.made(),))
            thread.start()
            first.fail_blocking(UnbilledError())
            thread.join()
        assert block.left["calls"] == 0
        assert len(world.endpoint.requests) == 1

    @pytest.mark.feature("stream")
    def test_a_stream_passes_and_is_counted(self, world: World) -> None:
        with budget("9 calls + 9000 tokens") as block:
            pieces = world.pieces(world.made(stream=True))
        assert "".join(pieces) == 'You said: "Hello?".'
        assert (block.spent["calls"], block.spent["tokens"]) == (1, tokens(world.endpoint))

    @pytest.mark.feature("broken stream")
    def test_a_stream_that_breaks_off_costs_what_came(self, world: World) -> None:
        # some versions of SDKs end such a stream without an error
        with budget("9 calls + 9000 tokens") as block, suppress(Exception):
            world.pieces(world.made("stream-cut", stream=True))
        assert counted(block, "calls") == 1
        assert counted(block, "tokens") > 10

    @pytest.mark.feature("broken stream")
    def test_a_stream_that_is_left_costs_its_hold(self, world: World) -> None:
        with budget("9 calls + 9000 tokens") as block:
            assert len(world.pieces(world.made("stream-hang", stream=True), 1)) == 1
        assert counted(block, "calls") == 1
        assert counted(block, "tokens") > LIMIT

    @pytest.mark.feature("abort")
    def test_a_cancelled_call_costs_its_hold(self, world: World) -> None:
        if not world.is_async:
            pytest.skip("only an awaited call can be cancelled")

        async def main() -> None:
            await cancel(world.endpoint, world.ask(world.made("hang")))

        with budget("9 calls + 9000 tokens") as block:
            world.run(main())
        assert counted(block, "calls") == len(world.endpoint.requests) == 1
        assert counted(block, "tokens") > LIMIT

    @pytest.mark.feature("deadline")
    def test_no_call_begins_after_the_deadline(self, world: World) -> None:
        with budget("0 s"), pytest.raises(world.late, match="deadline") as raised:
            world.answer(world.made())
        assert _is_for(raised.value, DeadlineExceeded)
        assert world.endpoint.requests == []

    @pytest.mark.feature("deadline")
    @pytest.mark.parametrize("streams", [False, True])
    def test_an_awaited_call_ends_at_the_deadline(self, world: World, streams: bool) -> None:
        if not world.is_async:
            pytest.skip("a call that blocks is not interrupted")
        model = world.made("stream-hang" if streams else "hang", stream=streams)
        with budget("0.3 s"), pytest.raises(world.late) as raised:
            world.pieces(model) if streams else world.answer(model)
        assert _is_for(raised.value, DeadlineExceeded)

    @pytest.mark.feature("retries")
    @pytest.mark.parametrize("name", ["error-400", "error-500"])
    def test_a_call_that_the_provider_refuses_costs_nothing(self, world: World, name: str) -> None:
        with budget("9 calls") as block, pytest.raises(Exception, match=name[-3:]):
            world.answer(world.made(name))
        assert len(world.endpoint.requests) == 1
        assert counted(block, "calls") == 0

    @pytest.mark.feature("retries")
    def test_a_call_that_finds_no_server_costs_nothing(self, world: World) -> None:
        with budget("9 calls") as block, pytest.raises(Exception, match=r"(?i)connect"):
            world.answer(world.made(base_url="http://127.0.0.1:9"))
        assert counted(block, "calls") == 0
