"""A run whose LLM calls draw on an account of a ledger too."""

import asyncio

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.exoclaw import ExoclawBudget
from budget_core.agent.llm_gate import Gate
from budget_core.agent.operative import Operative
from budget_core.agent.stop import StopReason
from budget_core.errors import ProviderError
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.prices import Price
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper
from tests_micro.ledger.support import Awaited, Failing, make_ledger, standing
from tests_micro.script import SHOUT, TOOLS, Script, calls, says
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PRICES = {"script": Price(1, 10), "small": Price(0.1, 1)}
OPEN = Budget(max_turns=9)
HARD = Budget(max_turns=9, last_call=None)  # nothing is held for a final call


def agent(script: Script, ledger: "Any", **options: "Any") -> Operative:
    """Return an agent on the account `org/team/agent`."""
    options = dict({"account": "org/team/agent"}, **options)
    return Operative(script, TOOLS, OPEN, ledger=ledger, **options)


async def test_each_call_of_a_run_is_held_and_recorded() -> None:
    def look(asked: "Any") -> "Any":
        seen.append((asked["max_tokens"], standing(ledger)))
        return says("Done.")

    for wrap in (lambda ledger: ledger, Awaited):
        seen: list[Any] = []
        ledger = make_ledger(tokens=10_000, calls=9, nano_usd=10**9)
        script = Script(SHOUT, look)
        result = await agent(script, wrap(ledger), prices=PRICES).run("?")
        assert result.completed
        limit, standing_then = seen[0]
        assert limit == 4096
        assert standing_then["calls"] == (1, 2)
        assert standing_then["tokens"][0] == 100
        assert standing_then["tokens"][1] > 4096 + 1024
        assert standing_then["nano_usd"][0] == 190_000
        assert standing(ledger) == {"calls": (2, 0), "nano_usd": (380_000, 0), "tokens": (200, 0)}
        assert (result.usage["tokens"], result.usage["nano_usd"]) == (200, 380_000)


async def test_an_answer_is_cut_to_what_the_ledger_has_left() -> None:
    script = Script(says("Done."))
    ledger = make_ledger(tokens=150)
    run = agent(script, ledger, count_tokens=lambda messages, tools: 120).begin("?", HARD)
    assert (await run.finish()).completed
    assert script.limits == [30]


async def test_a_refusal_is_a_reason_that_names_the_limit_and_uses_no_turn() -> None:
    for axis, kind in (
        ("tokens", StopReason.TOKEN_BUDGET),
        ("nano_usd", StopReason.COST_LIMIT),
        ("calls", StopReason.TURN_LIMIT),
    ):
        ledger = make_ledger(**{axis: 5})
        ledger.charge("org/team/other", {axis: 5})
        script = Script(says("Done."))
        run = agent(script, ledger, prices=PRICES).begin("?", Budget(max_tokens=10_000))
        result = await run.finish()
        reason: Any = result.reason
        assert (reason.kind, reason.axis, reason.scope) == (kind, axis, "org/team")
        assert (reason.used, reason.limit) == (5, 5)
        assert ", until 00:00 UTC, in 16 h" in str(reason)
        assert (script.sent, result.usage["turns"], result.usage["tokens"]) == ([], 0, 0)
        assert run.budget.tokens.held == 0


async def test_a_call_that_is_too_dear_is_the_fallbacks() -> None:
    ledger = make_ledger(nano_usd=90_000)
    options = {"prices": PRICES, "count_tokens": lambda messages, tools: 90}
    script = Script(says("Done."))
    result = await agent(script, ledger, fallback_model="small", **options).run("?", HARD)
    assert (script.models, script.limits) == (["small"], [81])
    assert (result.completed, result.usage["turns"]) == (True, 1)
    assert script.offered != [None]


async def test_a_run_keeps_the_hold_of_a_long_call_live() -> None:
    async def wait(asked: "Any") -> "Any":
        await ledger.extended.wait()
        return says("Done.")

    ledger = Failing(make_ledger(tokens=10_000))
    envelope = Envelope.open(OPEN, ledger=ledger, account="org/team", ttl=0.003)
    assert (await Operative(Script(wait)).run("?", envelope)).completed


async def test_the_last_call_is_the_fallbacks_where_that_still_fits() -> None:
    def spend(asked: "Any") -> "Any":
        ledger.charge("org/team/other", {"nano_usd": 11_215_000})
        return SHOUT

    ledger = make_ledger(nano_usd=12_000_000)
    options: dict[str, Any] = {"prices": PRICES, "count_tokens": lambda messages, tools: 90}
    script = Script(spend, says("So far."))
    agent_ = agent(script, ledger, fallback_model="small", max_tokens=50, **options)
    result = await agent_.run("?")
    assert script.models == ["script", "small"]
    assert result.text == "So far."
    script = Script(SHOUT, says("So far."))
    hard = Budget(max_turns=9, last_call=None)
    result = await agent(script, make_ledger(tokens=150), **options).run("?", hard)
    assert (len(script.sent), result.text) == (1, "What the tools returned:\n- shout: HI")
    assert result.reason is not None
    assert (result.reason.axis, result.reason.scope) == ("tokens", "org/team")


async def test_unknown_is_not_zero_where_the_ledger_limits_money() -> None:
    script = Script(says("Done."))
    result = await agent(script, make_ledger(nano_usd=10**9)).run("?")
    assert result.reason is not None
    assert result.reason.kind == StopReason.COST_LIMIT
    assert "no price is known for script" in str(result.reason)
    assert (script.sent, result.usage["turns"]) == ([], 0)


async def test_a_call_that_cost_nothing_gives_its_hold_back_and_one_in_doubt_is_charged() -> None:
    for error, is_charged in ((ProviderError(500, "down"), False), (OSError(104), True)):
        ledger = make_ledger(tokens=10_000, nano_usd=10**9)
        result = await agent(Script(error), ledger, prices=PRICES, session_id="s1").run("?")
        assert not result.completed
        used = {axis: result.usage[axis] for axis in ("tokens", "nano_usd")}
        assert standing(ledger) == {axis: (used[axis], 0) for axis in used}  # one figure
        assert (used["tokens"] > 4096, result.usage["estimated"]) == (is_charged, is_charged)
        state = result.state
        assert state.input_tokens + state.output_tokens == used["tokens"]


async def test_a_call_that_is_cut_short_is_charged_its_hold() -> None:
    async def cancel(asked: "Any") -> None:
        run.cancel("Enough.")
        await asyncio.Event().wait()

    ledger = make_ledger(calls=9)
    run = agent(Script(cancel), ledger).begin("?")
    result = await run.finish()
    assert result.reason is not None
    assert result.reason.kind == StopReason.CANCELLED
    assert standing(ledger) == {"calls": (1, 0)}


async def test_a_ledger_out_of_reach_ends_the_run_before_its_call() -> None:
    script, ledger = Script(says("Done.")), Failing(make_ledger(tokens=10_000))
    ledger.failing = {"reserve": 1}
    result = await agent(script, ledger).run("?")
    assert result.reason is not None
    assert (result.reason.kind, result.reason.scope) == (StopReason.FAILED, "org/team/agent")
    assert "LedgerUnavailableError" in str(result.reason)
    assert (script.sent, result.usage["turns"]) == ([], 0)


async def test_what_a_run_could_not_record_is_recorded_before_the_next() -> None:
    beneath = make_ledger(tokens=10_000)
    ledger = Failing(beneath)
    ledger.failing = {"commit": 1}
    operative = agent(Script(says("Done.")), ledger)
    assert (await operative.run("?")).completed
    assert standing(beneath)["tokens"][0] == 0
    assert (await operative.run("?")).completed
    assert standing(beneath) == {"tokens": (200, 0)}


async def test_a_ledger_that_does_not_answer_is_left_when_the_time_is_over() -> None:
    async def hang(*arguments: "Any") -> None:
        await asyncio.Event().wait()

    beneath = make_ledger()
    beneath.set_limits("a", [Limit("tokens", 9, "run")])
    ledger: Any = Awaited(beneath, reserve=hang)
    budget = Budget(timeout=0.02)
    operative = Operative(Script(says("Done.")), (), budget, ledger=ledger, account="a")
    result = await operative.run("?")
    assert result.reason is not None
    assert (result.reason.kind, result.usage["turns"]) == (StopReason.TIMEOUT, 0)


async def test_children_draw_on_the_same_account_or_on_one_below_it() -> None:
    ledger = make_ledger(tokens=10_000)
    helper = Operative(Script(says("42.")), ledger=ledger, account="org/team/agent/helper")
    ledger.set_limits("org/team/agent/helper", [Limit("tokens", 5_000, "run")])
    plain = Operative(Script(says("43.")))
    tools = [tool.as_tool(name, "Helps.") for name, tool in (("a", helper), ("b", plain))]
    script = Script(calls(("a", {"task": "?"}), ("b", {"task": "?"})), says("Done."))
    envelope = Envelope.open(OPEN, ledger=ledger, account="org/team/agent")
    result = await Operative(script, tools).run("?", envelope)
    assert result.completed
    assert standing(ledger) == {"tokens": (400, 0)}
    [own] = [row for row in ledger.balance("org/team/agent/helper") if row.window == "run"]
    assert own.spent == 100


async def test_exoclaws_loop_draws_on_an_account_too() -> None:
    ledger = make_ledger(tokens=10_000, calls=2)
    loop = ExoclawBudget(Script(says("Done.")), OPEN, ledger=ledger, account="org/team/agent")
    assert await loop.should_continue(0, [])
    assert (await loop.chat([{"role": "user", "content": "?"}])).content == "Done."
    assert standing(ledger) == {"calls": (1, 0), "tokens": (100, 0)}
    assert await loop.should_continue(0, [])
    answer = await loop.chat([{"role": "user", "content": "?"}])
    assert "1 of 2 calls" in answer.content  # which both would take: it and its final answer
    assert "0 held, 2 asked" in answer.content
    assert "not begun" in answer.content
    reason: Any = loop.reason
    assert (reason.kind, reason.scope) == (StopReason.TURN_LIMIT, "org/team")
    assert standing(ledger) == {"calls": (1, 0), "tokens": (100, 0)}


def test_accounts_elsewhere_and_missing_ledgers_are_refused() -> None:
    ledger = make_ledger(tokens=10_000)
    for given in ({"ledger": ledger}, {"account": "a"}, {"ledger": ledger, "account": "a//b"}):
        raises(ValueError, Envelope.open, OPEN, **given)
    parent = Envelope.open(OPEN, ledger=ledger, account="org/team/agent")
    assert parent.child().ledger is parent.ledger
    for account in ("org/team", "org/team/agents"):
        helper = Operative(Script(says("?")), ledger=ledger, account=account)
        raises(ValueError, helper.begin, "?", parent.child())
    helper = Operative(Script(says("?")), ledger=Ledger(), account="org/team/agent")
    raises(ValueError, helper.begin, "?", parent.child())
    raises(TypeError, Envelope.open, OPEN, ledgr=ledger)
    assert "account must be" in str(raises(ValueError, Envelope.open, OPEN, ledger=ledger))
    assert Envelope.open(OPEN, ledger=None, account=None).ledger is None


def test_a_child_has_what_is_said_above_unless_it_says_otherwise() -> None:
    ledger = make_ledger(tokens=10_000)
    parent = Envelope.open(OPEN, ledger=ledger, account="org/team", max_tokens=500, ttl=9)
    given: Any = {"max_tokens": 0, "ttl": 3}
    for options, found in (({}, (500, 9)), (given, (0, 3))):
        child = parent.child()
        Gate(Script(), child, account="org/team/sub", **options)
        account: Any = child.ledger
        assert ((account.max_tokens, account.ttl), account.path) == (found, "org/team/sub")


async def test_an_account_that_the_provider_draws_on_is_not_drawn_on_twice() -> None:
    ledger = make_ledger(tokens=10_000)
    ledger.set_limits("models", [Limit("tokens", None)])
    for inner in (
        BudgetWrapper(Script(), ledger=ledger, account="org/team"),
        BudgetWrapper(Script(), TurnBudgetTracker(ledger=ledger, account="org/team")),
    ):
        for path in ("org", "org/team", "org/team/agent"):
            envelope = Envelope.open(OPEN, ledger=ledger, account=path)
            raises(ValueError, Gate, inner, Envelope.open(OPEN), ledger=ledger, account=path)
            for opened in (envelope, envelope.child()):
                result = await Operative(inner).run("?", opened)
                assert f"account '{path}' would count each call twice" in str(result.reason)
        raises(ValueError, Operative, inner, ledger=ledger, account="org/team")
        Gate(inner, Envelope.open(OPEN), ledger=ledger, account="models")
    assert standing(ledger) == {"tokens": (0, 0)}


async def test_a_run_cancelled_before_its_model_is_asked_holds_nothing() -> None:
    for wrap in (lambda ledger: ledger, Awaited):
        for steps in range(12):
            ledger, script = make_ledger(tokens=10_000), Script(says("Done."))
            envelope = Envelope.open(OPEN, ledger=wrap(ledger), account="org/team/agent")
            task = asyncio.create_task(Operative(script).run("?", envelope))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            try:
                await task
            except asyncio.CancelledError:
                pass
            for _ in range(3):
                await asyncio.sleep(0)
            if not script.sent:
                assert standing(ledger) == {"tokens": (0, 0)}
                assert (envelope.tokens.held, envelope.turns.used) == (0, 0)
    assert script.sent
