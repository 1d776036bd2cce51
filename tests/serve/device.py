"""A device that leases blocks of a budget, and runs one command a line.

    python -m tests.serve.device URL KEY

A line is a word and numbers: `claim TOKENS` holds and commits so many, `later MS` lets time pass,
`close` gives back what is left. The answer is a line of JSON. Runs on both runtimes.
"""

import asyncio
import json
import sys

from budget_core.errors import BudgetError
from budget_core.ledger.http_client import HttpLedger
from budget_core.ledger.lease import LeasedLedger
from budget_core.monotonic import MONOTONIC, MonotonicClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ACCOUNT = "org/pico"
BLOCK = 100


class Clock:
    """The machine's clock, and what passed beside it."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return MONOTONIC.read() // MONOTONIC.per_ms + self.ahead


async def claim(ledger: LeasedLedger, tokens: int) -> str:
    """Use so many tokens."""
    hold = await ledger.reserve(ACCOUNT, {"tokens": tokens})
    return (await ledger.commit(hold, {"tokens": tokens})).state


async def close(ledger: LeasedLedger) -> str:
    """Give back what is left."""
    await ledger.close()
    return "closed"


async def obey(ledger: LeasedLedger, clock: Clock, words: "list[str]") -> "dict[str, Any]":
    """Do what a line says, and return what came of it."""
    try:
        if words[0] == "claim":
            return {"state": await claim(ledger, int(words[1]))}
        if words[0] == "later":
            clock.ahead += int(words[1])
            return {"ahead": clock.ahead}
        return {"state": await close(ledger)}
    except BudgetError as error:
        return {"error": type(error).__name__, "says": str(error)}


async def main(url: str, key: str) -> None:
    """Obey until there are no more lines."""
    clock = Clock()
    upstream = HttpLedger(url, key, 120)  # no engine that is slow counts as one out of reach
    ledger = LeasedLedger(upstream, {"tokens": BLOCK}, monotonic=MonotonicClock(clock))
    while True:
        line = sys.stdin.readline()
        if not line:
            return
        print(json.dumps(await obey(ledger, clock, line.split())))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
