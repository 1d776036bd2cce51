"""Runs that wait for what others hold, in event loops of their own."""

import asyncio
from typing import Any

from budget_cpython import Budget, Envelope, Operative
from tests_micro.script import Script

from .support import QUESTION, says


def test_a_loop_that_was_left_behind_keeps_nobody_waiting() -> None:
    parent = Envelope.open(Budget(max_tokens=1_000))
    operative = Operative(Script(lambda request: asyncio.Event().wait()))
    loop = asyncio.new_event_loop()
    tasks: list[asyncio.Task[Any]] = []

    async def leave() -> None:
        for _ in range(2):
            tasks.append(asyncio.ensure_future(operative.begin(QUESTION, parent.child()).finish()))
        while not (parent.queue and parent.tokens.held):  # noqa: ASYNC110 - a step at a time
            await asyncio.sleep(0)

    loop.run_until_complete(leave())
    parent.tokens.add(0, -parent.tokens.held)  # as if the call in flight had been settled
    result = Operative(Script(says("Hi."))).run_sync(QUESTION, parent.child())
    assert result.text == "Hi."
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
