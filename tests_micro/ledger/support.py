"""A ledger with one account, wrappers that draw on it, and ledgers that are slow or fail."""

import asyncio

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.prices import Price
from budget_core.wrapper import BudgetWrapper
from tests_micro.script import Script, says
from tests_micro.support import FakeClock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

HELLO: "list[dict[str, Any]]" = [{"role": "user", "content": "hello"}]
USAGE = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
HI = says("hi", USAGE)
PRICES = {"big": Price(1, 10), "small": Price(0.1, 1)}  # 1,000 and 10,000 nano-USD a token
NOON = 1_800_000_000


def big(*answers: "Any") -> Script:
    """Return a provider whose model `big` gives these answers; unless given, it says hi."""
    return Script(*(answers or (HI,)), model="big")


def make_ledger(**caps: "int | None") -> Ledger:
    """Return a ledger with the account `org/team`, and limits of a day."""
    ledger = Ledger(FakeClock(NOON))
    ledger.set_limits("org/team", [Limit(axis, caps[axis], "day") for axis in sorted(caps)])
    return ledger


def standing(ledger: Ledger, path: str = "org/team") -> "dict[str, tuple[int, int]]":
    """Return what is spent and held, by axis."""
    return {row.axis: (row.spent, row.held) for row in ledger.balance(path)}


def looks(ledger: Ledger, seen: "list[Any]") -> "Callable[[Any], Any]":
    """Return an answer that notes first what the ledger has spent and holds, and then says hi."""

    def look(request: "Any") -> "Any":
        seen.append(standing(ledger))
        return HI

    return look


def wrapped(model: "Any", ledger: "Any", **options: "Any") -> "Any":
    """Return a wrapper that counts each prompt as ten tokens."""
    options = dict({"prices": PRICES, "count_tokens": lambda messages, tools: 10}, **options)
    return BudgetWrapper(model, ledger=ledger, account="org/team/agent", **options)


async def cancel(task: "Any") -> None:
    """Cancel a task, and see that it ends by that."""
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return
    raise AssertionError("it was not cancelled")


async def delivered(wrapper: "Any") -> None:
    """Wait until a task has delivered what the ledger is owed."""
    for _ in range(100):
        if not wrapper.ledger_account.outbox.entries:
            return
        await asyncio.sleep(0)
    raise AssertionError("the ledger is still owed something")


class Awaited:
    """A ledger whose methods are awaited.

    A method of the name of one of the `others` is done by that: with the ledger's, and its
    arguments.
    """

    def __init__(self, ledger: Ledger, **others: "Any") -> None:
        self.beneath = ledger
        self.others = others

    def __getattr__(self, name: str) -> "Any":
        method = getattr(self.beneath, name)

        async def later(*arguments: "Any") -> "Any":
            if name in self.others:
                return await self.others[name](method, *arguments)
            return method(*arguments)

        return later


class Failing:
    """A ledger some of whose methods fail as often as said, before or after they did their work.

    A method of the name of one of the `others` is done by that: with the ledger's, and its
    arguments.
    """

    def __init__(self, ledger: Ledger, **others: "Any") -> None:
        self.beneath = ledger
        self.others = others
        self.failing: dict[str, int] = {}
        self.after = False
        self.asked: list[str] = []
        self.extended = asyncio.Event()

    def __getattr__(self, name: str) -> "Any":
        def ask(*arguments: "Any") -> "Any":
            self.asked.append(name)
            if name == "extend":
                self.extended.set()
            fails = self.failing.get(name, 0)
            if fails:
                self.failing[name] = fails - 1
                if self.after:
                    getattr(self.beneath, name)(*arguments)
                raise LedgerUnavailableError("it is down", applied=None if self.after else False)
            method = getattr(self.beneath, name)
            if name in self.others:
                return self.others[name](method, *arguments)
            return method(*arguments)

        return ask
