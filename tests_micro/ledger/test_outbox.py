"""What a ledger is owed is kept until the ledger has it, by everything that owes it something.

`outbox_vectors/delivery.json` has cases: `reserve` is done at the ledger, `forget` makes it lose
the hold; `commit`, `release`, `charge` and `redeem` are owed; `deliver` lists what happens to the
operations that are asked for then, `ok` to all further ones. `outbox_vectors/refusals.json` says
which refusals keep an entry.
"""

import json

from budget_core.config import TurnBudgetConfig
from budget_core.ledger.backoff import LedgerWithBackoff
from budget_core.ledger.errors import (
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.ledger.outbox import Entry, Outbox, finish
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper
from tests_micro.ledger.support import HELLO, NOON, USAGE, big
from tests_micro.support import FakeClock, raises, raises_async, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FOLDER = __file__.rpartition("/")[0] + "/outbox_vectors/"
ERRORS: "dict[str, Callable[[], Exception]]" = {
    "forbidden": lambda: LedgerError("the key has no right to this (HTTP 403)"),
    "down": lambda: LedgerUnavailableError("down"),
    "lost": lambda: LedgerUnavailableError("lost", None, None),
    "full": lambda: LedgerFullError("no room"),
    "broken": lambda: OSError(5),
    "no account": lambda: UnknownAccountError("org"),
    "reused": lambda: KeyReusedError("org", "k"),
    "invalid": lambda: ValueError("no such axis"),
}


class Answering:
    """A ledger whose operations answer as `answers` says, in turn, and then as a ledger does.

    `always` is the answer of every operation that it names.
    """

    def __init__(self) -> None:
        self.beneath = Ledger(FakeClock(NOON))
        self.beneath.set_limits("org", [Limit("tokens", 100), Limit("calls", None)])
        self.answers: list[str] = []
        self.always: dict[str, str] = {}
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> "Any":
        def ask(*arguments: "Any") -> "Any":
            self.asked.append(name)
            answer = self.answers.pop(0) if self.answers else self.always.get(name, "ok")
            result = None
            if answer in ("ok", "lost"):
                result = getattr(self.beneath, name)(*arguments)
            if answer != "ok":
                raise ERRORS[answer]()
            return result

        return ask

    async def ask(self, name: str, *arguments: "Any") -> "Any":
        """Do an operation, awaited."""
        return getattr(self, name)(*arguments)

    def standing(self) -> "tuple[int, int]":
        """Return the tokens that are spent and held."""
        (row,) = [one for one in self.beneath.balance("org") if one.axis == "tokens"]
        return row.spent, row.held


def read(name: str) -> "Any":
    """Return the vectors of a file."""
    with open(FOLDER + name) as stream:
        return json.load(stream)


def owe(outbox: Outbox, ledger: Answering, step: "dict[str, Any]", holds: "dict[str, Any]") -> None:
    """Do a step that is not a delivery."""
    path, actual, key = step.get("path", "org/a"), step.get("actual"), step.get("key")
    if "reserve" in step:
        holds[step["as"]] = ledger.beneath.reserve(path, step["reserve"], key)
    elif "forget" in step:
        holds[step["forget"]] = Hold(path, "lost", holds[step["forget"]].amounts)
        ledger.beneath.release(ledger.beneath.hold(path, "#1"))
    elif "commit" in step:
        outbox.commit(holds[step["commit"]], actual)
    elif "release" in step:
        outbox.release(holds[step["release"]])
    elif "charge" in step:
        outbox.charge(path, step["charge"], key)
    else:
        outbox.redeem(Hold(path, str(key), step["redeem"]), 60, step["actual"])


async def test_an_outbox_delivers_as_the_vectors_say() -> None:
    for case in read("delivery.json"):
        ledger, outbox = Answering(), Outbox()
        holds: dict[str, Any] = {}
        for number, step in enumerate(case["steps"]):
            if "deliver" not in step:
                owe(outbox, ledger, step, holds)
                continue
            ledger.answers, ledger.asked = list(step["deliver"]), []
            error = await outbox.deliver_all(ledger.ask, step.get("first"))
            spent, held = ledger.standing()
            found = {"asked": ledger.asked, "owing": len(outbox.entries), "spent": spent,
                     "held": held, "dropped": outbox.dropped}  # fmt: skip
            for name in found:
                wanted = step.get(name, found[name])
                assert found[name] == wanted, (case["name"], number, name, found[name], wanted)
            assert error is not None or not outbox.entries, case["name"]


async def test_a_renewal_in_doubt_has_its_next_hold_undone() -> None:
    for answer, owing, stands in (("lost", 1, (7, 0)), ("down", 0, (0, 20)), ("ok", 0, (7, 30))):
        ledger, outbox = Answering(), Outbox()
        hold = ledger.beneath.reserve("org/a", {"tokens": 20})
        ledger.answers = [answer]
        renewal = outbox.renew(ledger.ask, hold, {"tokens": 7}, {"tokens": 30}, "k", 60)
        try:
            await renewal
        except LedgerUnavailableError:
            assert answer != "ok"
        assert len(outbox.entries) == owing
        await outbox.deliver_all(ledger.ask)
        assert ledger.standing() == stands, answer


async def test_a_wrapper_keeps_what_may_still_be_accepted() -> None:
    for case in read("refusals.json"):
        ledger = Answering()
        options: Any = {"count_tokens": lambda messages, tools: 10, "max_tokens": 20}
        wrapper: Any = BudgetWrapper(big(), ledger=ledger, account="org/a", **options)
        ledger.always = {"commit": case["answer"]}
        assert (await wrapper.chat(HELLO)).content == "hi"
        outbox = wrapper.ledger_account.outbox
        assert (await wrapper.flush(), outbox.dropped) == (not case["kept"], not case["kept"])
        assert wrapper.ledger_error is not None
        if case["kept"]:
            assert (await wrapper.chat(HELLO)).cut_off_by == "org/a"
        ledger.always = {}
        assert await wrapper.flush()
        assert ledger.standing() == ((30, 0) if case["kept"] else (0, 30)), case


async def test_a_lease_keeps_what_may_still_be_accepted() -> None:
    for case in read("refusals.json"):
        ledger = Answering()
        upstream = LedgerWithBackoff(ledger, stopped_clock()[1])
        upstream.outbox.charge("org/a", {"tokens": 30})
        ledger.always = {"charge": case["answer"]}
        if case["kept"]:
            await raises_async(type(ERRORS[case["answer"]]()), upstream.deliver)
        else:
            await upstream.deliver()
        assert (len(upstream.outbox.entries), upstream.outbox.dropped) == (
            case["kept"], not case["kept"]
        )  # fmt: skip
        ledger.always = {}
        await upstream.close()
        assert ledger.standing() == ((30, 0) if case["kept"] else (0, 0)), case


def test_a_tracker_keeps_what_may_still_be_accepted() -> None:
    for case in read("refusals.json"):
        ledger = Answering()
        tracker = TurnBudgetTracker(TurnBudgetConfig(), ledger=ledger, account="org/a")
        ledger.always = {"charge": case["answer"]}
        tracker.record(USAGE)
        assert tracker.is_at_limit(), case
        ledger.always = {}
        tracker.record(USAGE)
        assert not tracker.is_at_limit(), case
        assert ledger.standing() == ((60, 0) if case["kept"] else (30, 0)), case
        assert tracker.ledger_account.outbox.dropped == (not case["kept"]), case


async def test_something_is_owed_while_it_is_being_delivered() -> None:
    class Watching(Answering):
        async def ask(self, name: str, *arguments: "Any") -> "Any":
            seen.append((len(outbox.entries), outbox.waits("org/a")))
            return await super().ask(name, *arguments)

    seen: list[tuple[int, bool]] = []
    ledger, outbox = Watching(), Outbox()
    assert (
        await outbox.deliver(ledger.ask, Entry("charge", Hold("org/a", "k"), {"tokens": 1})) is None
    )
    assert (seen, outbox.entries) == ([(1, False)], [])


def test_an_outbox_may_be_bounded() -> None:
    outbox = Outbox(2)
    for key in ("a", "b"):
        outbox.charge("org", {"tokens": 1}, key)
    raises(LedgerFullError, outbox.charge, "org", {"tokens": 1}, "c")


def test_a_coroutine_that_waits_is_not_finished() -> None:
    class Wait:
        def __await__(self) -> "Any":
            yield

        __iter__ = __await__

    async def wait() -> None:
        await Wait()

    raises(RuntimeError, finish, wait())
