"""Make many calls at once on one small budget, and see what they really cost.

Each call costs 1 to 5 cents, which nobody knows before. `at_once` makes them on one event loop,
`in_threads` from threads with loops of their own. Any budget can be tried: what is asked of it is a
coroutine function that makes call number n, and returns whether it was let through.
"""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from budget_cpython import BudgetWrapper, ChatResponse, Limit, Price
from tests import racing
from tests.ledger.patience import PATIENCE

CENT = 10_000_000  # nano-USD
BUDGET = 100 * CENT
TOKENS_PER_CENT = 1_000
MOST_CENTS = 5
PRICE = Price(0, CENT / TOKENS_PER_CENT / 1_000)
ACCOUNT = "org/team/agent"
Call = Callable[[int], Awaitable[bool]]


def cents(number: int) -> int:
    """Return what a call costs if its answer is not cut."""
    return 1 + number % MOST_CENTS


class Provider:
    """A model whose answers cost money: it knows what all calls together have really cost.

    An `obedient` one cuts its answer at `max_tokens`. No call is answered before so many have been
    in flight `together`.
    """

    def __init__(self, obedient: bool = True, together: int = 1) -> None:
        self.obedient = obedient
        self.together = together
        self.nano_usd = self.made = self.in_flight = self.most_in_flight = 0
        self._lock = threading.Lock()

    def get_default_model(self) -> str:
        """Return the one model there is."""
        return "m"

    async def chat(
        self, messages: list[dict[str, Any]], max_tokens: int | None = None, **more: Any
    ) -> ChatResponse:
        """Answer, after a while in which others get their turn."""
        tokens = cents(int(messages[0]["content"])) * TOKENS_PER_CENT
        if self.obedient and max_tokens is not None:
            tokens = min(tokens, max_tokens)
        self._move(1, 0)
        for _ in range(3):
            await asyncio.sleep(0)
        await self._wait_for_others()
        self._move(-1, tokens)
        usage = {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens}
        return ChatResponse("Done.", usage=usage)

    async def _wait_for_others(self) -> None:
        end = time.monotonic() + PATIENCE
        while self.most_in_flight < self.together:
            assert time.monotonic() < end, "calls are made one after the other"
            await asyncio.sleep(0)

    def _move(self, flying: int, tokens: int) -> None:
        with self._lock:
            self.made += flying > 0
            self.in_flight += flying
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
            self.nano_usd += PRICE.cost(0, tokens)


def on_ledger(ledger: Any, provider: Provider, expected_cents: int = MOST_CENTS) -> Call:
    """Return a call through our wrapper, which expects an answer of so many cents at most."""
    ledger.set_limits("org", [Limit("nano_usd", BUDGET)])
    wrapper = BudgetWrapper(
        provider,
        ledger=ledger,
        account=ACCOUNT,
        prices={"m": PRICE},
        count_tokens=lambda messages, tools: 0,
        max_tokens=expected_cents * TOKENS_PER_CENT,
    )

    async def call(number: int) -> bool:
        answer = await wrapper.chat([{"role": "user", "content": str(number)}])
        return answer.cut_off_by is None

    return call


async def _persist(call: Call, number: int, tries: int) -> None:
    """Make a call; one that is refused is tried again while others may give something back."""
    for _ in range(tries):
        if await call(number):
            return
        await asyncio.sleep(0)


def at_once(call: Call, calls: int = 1_000, tries: int = 5) -> None:
    """Make all calls side by side on one event loop."""

    async def all_of_them() -> None:
        await asyncio.gather(*[_persist(call, number, tries) for number in range(calls)])

    asyncio.run(all_of_them())


def in_threads(call: Call, calls: int = 1_000, tries: int = 5, threads: int = 50) -> None:
    """Make the calls in threads, those of each thread side by side on a loop of its own."""
    firsts = iter(range(threads))

    async def share(first: int) -> None:
        numbers = range(first, calls, threads)
        await asyncio.gather(*[_persist(call, number, tries) for number in numbers])

    racing.in_threads(lambda: asyncio.run(share(next(firsts))), threads)


WAYS: dict[str, Callable[..., None]] = {"asyncio": at_once, "threads": in_threads}
