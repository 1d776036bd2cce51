"""Every end of a call, through a wrapper and through a run, on an account of a ledger."""

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.llm_call import Request
from budget_core.agent.llm_gate import Gate
from budget_core.agent.stop import StoppedError
from budget_core.config import TurnBudgetConfig
from budget_core.prices import Price
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper
from tests_micro.ledger.support import Awaited, big, make_ledger, standing
from tests_micro.script import streams
from tests_micro.settlement_cases import (
    CASES,
    HELD,
    LIMIT,
    MESSAGES,
    MODEL,
    PRICE,
    error_of,
    response_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

OPEN = {"tokens": 10_000, "nano_usd": 10**9, "calls": 9}
PRICES = {MODEL: PRICE}


def model_of(case: "dict[str, Any]", look: "Callable[[], None]") -> "Any":
    """Return a model whose call ends as a case says; `look` is called while it is asked."""

    async def answer(request: "Any") -> "Any":
        look()
        ends = error_of(case) or response_of(case)
        if "stream" in case:
            said = await streams(*case["stream"], *[ends][: "error" in case])(request)
            said.usage = case.get("answer", {}).get("usage")
            return said
        return ends

    return big(answer)


async def ignore(text: str) -> None:
    """Take a piece of an answer."""


def figures(charged: "tuple[int, int] | None") -> "dict[str, tuple[int, int]]":
    """Return how an account stands after one call."""
    tokens, nano_usd = charged or (0, 0)
    calls = 0 if charged is None else 1
    return {"calls": (calls, 0), "nano_usd": (nano_usd, 0), "tokens": (tokens, 0)}


async def attempt(answer: "Any") -> None:
    """Await an answer that may be an error."""
    try:
        await answer
    except Exception:  # noqa: BLE001, S110 - a case says which
        pass


async def test_a_wrapper_charges_each_end() -> None:
    for wrap in (lambda ledger: ledger, Awaited):
        for case in CASES:
            for estimates in (False, True):
                ledger = make_ledger(**OPEN)
                seen: list[Any] = []
                model = model_of(case, lambda: seen.append(standing(ledger)))  # noqa: B023
                tracker = TurnBudgetTracker(TurnBudgetConfig(None, None))
                options: dict[str, Any] = {"ledger": wrap(ledger), "account": "org/team"}
                wrapper: Any = BudgetWrapper(
                    model, tracker, estimates=estimates, prices=PRICES, **options
                )
                more = {"on_delta": ignore} if "stream" in case else {}
                await attempt(wrapper.chat(MESSAGES, max_tokens=LIMIT, **more))
                assert seen[0]["tokens"] == (0, HELD[0]), case["case"]
                assert seen[0]["nano_usd"] == (0, HELD[1]), case["case"]
                charged = case["estimates" if estimates else "charged"]
                assert standing(ledger) == figures(charged), case["case"]
                assert tracker.iterations_seen == 1
                if estimates:
                    assert tracker.usage_seen[case["used"][2]] == 1, case["case"]


async def test_a_tracker_alone_records_each_end() -> None:
    for case in CASES:
        tracker = TurnBudgetTracker(TurnBudgetConfig(None, None))
        wrapper: Any = BudgetWrapper(model_of(case, lambda: None), tracker, estimates=True)
        more = {"on_delta": ignore} if "stream" in case else {}
        await attempt(wrapper.chat(MESSAGES, max_tokens=LIMIT, **more))
        prompt, output, status = case["used"]
        assert tracker.total_tokens == (prompt or 0) + (output or 0), case["case"]
        assert tracker.usage_seen[status] == 1, case["case"]


async def test_a_run_charges_each_end() -> None:
    for case in CASES:
        ledger = make_ledger(**OPEN)
        envelope = Envelope(Budget(max_turns=9, last_call=None))
        gate = Gate(
            model_of(case, lambda: None), envelope, prices=PRICES, ledger=ledger, account="org/team"
        )
        request = Request(MESSAGES, max_tokens=LIMIT)
        try:
            await gate.ask(request, ignore if "stream" in case else None)
        except StoppedError:
            pass
        assert standing(ledger) == figures(case["charged"]), case["case"]
        assert (envelope.tokens.held, envelope.nano_usd.held) == (0, 0)
        broken = "error" in case and case["charged"] is not None
        used = case["charged"] if broken else ((case["used"][0] or 0) + (case["used"][1] or 0), 0)
        assert envelope.tokens.used == used[0], case["case"]
        assert envelope.nano_usd.used == (used[1] if broken else case["cost"][0]), case["case"]
        assert envelope.turns.used == 1


async def test_a_call_that_broke_off_costs_a_run_what_its_account_is_charged() -> None:
    dear = Price(1, 10, cache_write=5)  # the prompt may be written to a cache: so it is held
    ledger = make_ledger(**OPEN)
    envelope = Envelope(Budget(max_turns=9, last_call=None))
    case = next(one for one in CASES if one["case"] == "an answer that breaks off")
    model = model_of(case, lambda: None)
    gate = Gate(model, envelope, prices={MODEL: dear}, ledger=ledger, account="org/team")
    try:
        await gate.ask(Request(MESSAGES, max_tokens=LIMIT))
    except StoppedError:
        pass
    assert standing(ledger)["nano_usd"] == (envelope.nano_usd.used, 0)
    assert envelope.nano_usd.used > HELD[1]


async def test_a_call_that_an_account_answers_is_an_iteration_of_its_wrappers_tracker() -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(None, None))
    options: dict[str, Any] = {"ledger": make_ledger(tokens=0), "account": "org/team"}
    wrapper: Any = BudgetWrapper(big(), tracker, **options)
    answer = await wrapper.chat(MESSAGES, max_tokens=LIMIT)
    assert answer.cut_off_by == "org/team"
    assert (tracker.iterations_seen, tracker.total_tokens) == (1, 0)
    assert tracker.usage_seen["measured"] == 1
