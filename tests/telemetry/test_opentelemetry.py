"""Calls and budgets as OpenTelemetry's metrics, through its SDK."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics

from budget_core.call import Call
from budget_core.ledger.errors import BudgetExceededError
from budget_core.ledger.limit import Limit
from budget_core.prices import Price
from budget_cpython import (
    BudgetWrapper,
    ChatResponse,
    DailyBudgetConfig,
    DailyBudgetTracker,
    Ledger,
    Operative,
    SqliteLedger,
    TurnBudgetConfig,
    TurnBudgetTracker,
)
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.tools import BudgetedToolCall
from budget_cpython.context.process_state import OBSERVERS
from budget_cpython.telemetry import conventions
from budget_cpython.telemetry.observing import tell_late
from budget_cpython.telemetry.switch import disable_telemetry, enable_telemetry
from budget_cpython.vendors.request import LlmRequest
from tests.paths import ROOT
from tests.telemetry.support import Exported, exporting
from tests_micro.script import QUESTION, USAGE, Script

TOKENS, DURATION = conventions.TOKEN_USAGE, conventions.DURATION
ANSWER = ChatResponse("hi", usage=USAGE)
PRICES = {"script": Price(2_000, 8_000)}
BOTH = {("chat", "unknown", "script", "input"): 90, ("chat", "unknown", "script", "output"): 10}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    with exporting(monkeypatch) as exported:
        yield exported


@pytest.fixture
def spans() -> Iterator[Any]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider.get_tracer("test"), exporter
    provider.shutdown()


def on_ledger(provider: Any, *limits: Limit, ledger: Any = None, **options: Any) -> BudgetWrapper:
    ledger = ledger or Ledger()
    ledger.set_limits("team/me", list(limits or (Limit("tokens", 1000),)))
    return BudgetWrapper(provider, ledger=ledger, account="team/me", max_tokens=50, **options)


def chat(provider: Any, **options: Any) -> Any:
    return asyncio.run(provider.chat([QUESTION], **options))


def test_the_names_are_those_of_the_conventions() -> None:
    known = {
        value
        for module in (gen_ai_attributes, gen_ai_metrics)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    ours = {value for value in vars(conventions).values() if str(value).startswith("gen_ai.")}
    assert len(ours) > 10
    assert ours <= known


@pytest.mark.parametrize(
    "make", [on_ledger, lambda inner: BudgetWrapper(inner, TurnBudgetTracker())]
)
def test_a_call_has_its_tokens_and_its_duration(make: Any, exported: Exported) -> None:
    chat(make(Script(ANSWER)))
    assert exported.values(TOKENS) == BOTH
    ((attributes, point),) = exported.points(DURATION)
    assert list(attributes.values()) == ["chat", "unknown", "script"]
    assert point.count == 1
    assert tuple(point.explicit_bounds) == tuple(conventions.DURATION_BUCKETS)
    assert 0 < point.sum < 60


def test_money_is_in_dollars(exported: Exported) -> None:
    wrapper = on_ledger(Script(ANSWER), Limit("nano_usd", 10**9), prices=PRICES)
    chat(wrapper)
    cost = (90 * 2_000 + 10 * 8_000) / 10**6
    assert list(exported.values("microbudget.cost").values()) == [pytest.approx(cost)]
    assert exported.values("microbudget.budget.spent") == {
        ("team/me", "run", "usd"): pytest.approx(cost)
    }


def test_the_model_that_answered_is_named(exported: Exported) -> None:
    answer = ChatResponse("hi", usage=USAGE)
    answer.model = "script-2"
    chat(on_ledger(Script(answer)))
    ((attributes, _),) = exported.points(DURATION)
    assert attributes[conventions.REQUEST_MODEL] == "script"
    assert attributes[conventions.RESPONSE_MODEL] == "script-2"


def test_a_failed_call_has_its_error_and_no_tokens(exported: Exported) -> None:
    with pytest.raises(RuntimeError):
        chat(on_ledger(Script(RuntimeError("down"))))
    ((attributes, _),) = exported.points(DURATION)
    assert attributes[conventions.ERROR_TYPE] == "RuntimeError"
    assert exported.points(TOKENS) == []


def test_usage_that_is_not_reported_is_no_metric(exported: Exported) -> None:
    chat(on_ledger(Script(ChatResponse("hello"))))
    assert len(exported.points(DURATION)) == 1
    assert exported.points(TOKENS) == []


def test_a_call_through_several_budgets_is_one(exported: Exported) -> None:
    day = DailyBudgetTracker(DailyBudgetConfig(daily_budget=10**6, fallback_model="f"))
    wrapper = BudgetWrapper(BudgetWrapper(on_ledger(Script(ANSWER)), day), TurnBudgetTracker())
    for _ in range(3):
        chat(wrapper)
    asyncio.run(Operative(wrapper).run("Go on."))
    assert exported.values(TOKENS) == {place: 4 * count for place, count in BOTH.items()}


def test_the_call_of_a_run_is_one(exported: Exported) -> None:
    asyncio.run(Operative(Script(ANSWER), prices=PRICES).run("Go on."))
    assert exported.values(TOKENS) == BOTH
    assert list(exported.values("microbudget.cost").values()) == [pytest.approx(0.26)]


def test_a_call_of_an_sdk_names_its_provider_and_what_it_embeds(exported: Exported) -> None:
    account = BudgetAccount([Limit("tokens", 1000)], prices={})
    for most in (None, 0):
        request = LlmRequest("gpt-4o", [QUESTION], max_tokens=most, vendor="google")
        call = BudgetedCall([account], request)
        call.begin_blocking()
        call.end_blocking(ANSWER)
    kinds = {tuple(attributes.values())[:2] for attributes, _ in exported.points(DURATION)}
    assert kinds == {("chat", "gcp.gen_ai"), ("embeddings", "gcp.gen_ai")}


def test_calls_of_one_thread_that_overlap_are_each_counted(exported: Exported) -> None:
    account = BudgetAccount([Limit("tokens", 1000)])
    calls = [BudgetedCall([account], LlmRequest("script", [QUESTION], max_tokens=50)) for _ in "ab"]
    for call in calls:
        call.begin_blocking()
    for call in calls:
        call.end_blocking(ANSWER)
    assert exported.values(TOKENS) == {place: 2 * count for place, count in BOTH.items()}


def test_a_call_that_answers_another_one_is_not_counted_again(exported: Exported) -> None:
    outer, inner = (BudgetAccount([Limit("tokens", 1000)]) for _ in "ab")
    call = BudgetedCall([outer], LlmRequest("script", [QUESTION]))
    call.begin_blocking()
    with call.answering():
        again = BudgetedCall([inner], LlmRequest("script", [QUESTION]))
        again.begin_blocking()
        again.end_blocking(ANSWER)
    call.end_blocking(ANSWER)
    assert exported.values(TOKENS) == BOTH


def test_a_forgotten_call_is_told_with_the_next_one(exported: Exported) -> None:
    account = BudgetAccount([Limit("tokens", 1000)])
    call = BudgetedCall([account], LlmRequest("lost", [QUESTION], max_tokens=50))
    call.begin_blocking()
    told: list[str] = []
    before = OBSERVERS[0].ended
    OBSERVERS[0].ended = lambda ended, is_late: told.append(ended.asked)
    try:
        del call  # as garbage is collected while an exporter holds its lock
        gc.collect()
        assert told == []
        chat(on_ledger(Script(ANSWER)))
        tell_late()
        assert told == ["lost", "script"]
    finally:
        OBSERVERS[0].ended = before


def test_a_limit_that_refuses_is_counted_by_account_and_axis(exported: Exported) -> None:
    wrapper = on_ledger(Script(ANSWER), Limit("calls", 1))
    for _ in range(3):
        chat(wrapper)
    wrapper = on_ledger(Script(ANSWER), Limit("calls", 0), raises=True)
    with pytest.raises(Exception, match="0 of 0 calls"):
        chat(wrapper)
    assert exported.values("microbudget.refusals") == {("team/me", "calls", "limit"): 3}
    assert exported.points(DURATION)[0][1].count == 1


def test_a_tracker_that_refuses_is_counted(exported: Exported) -> None:
    tracker = TurnBudgetTracker(TurnBudgetConfig(iteration_budget=1, enforcement="cutoff"))
    wrapper = BudgetWrapper(Script(ANSWER), tracker)
    for _ in range(3):
        chat(wrapper)
    assert exported.values("microbudget.refusals") == {("turn", "", "limit"): 2}
    assert exported.points(DURATION)[0][1].count == 1


def test_other_reasons_of_refusals_are_told_apart(exported: Exported) -> None:
    for limit, prices in ((Limit("nano_usd", 10**9), {}), (Limit("turns", 5), None)):
        chat(on_ledger(Script(ANSWER), limit, prices=prices))
    lost = on_ledger(Script(ANSWER))
    lost.ledger_account.ledger.set_limits("team/me", [])
    with pytest.raises(Exception, match="no account"):
        chat(lost)
    found = {place[2] for place in exported.values("microbudget.refusals")}
    assert found == {"unpriced", "unknown_account"}


def test_a_run_that_its_account_refuses_is_counted(exported: Exported) -> None:
    ledger = Ledger()
    ledger.set_limits("team/me", [Limit("tokens", 3)])
    asyncio.run(Operative(Script(ANSWER), ledger=ledger, account="team/me").run("Go on."))
    assert exported.values("microbudget.refusals") == {("team/me", "tokens", "limit"): 1}


def test_a_tool_that_is_refused_is_counted_and_one_that_is_only_observed_is_not(
    exported: Exported,
) -> None:
    for enforcement in ("cutoff", "observe"):
        account = BudgetAccount([Limit("tool_calls", 0)], enforcement=enforcement)
        with suppress(BudgetExceededError), BudgetedToolCall([account], "search"):
            pass
    assert exported.values("microbudget.refusals") == {("agent", "tool_calls", "limit"): 1}


def test_the_current_span_has_the_usage_and_refusals_of_its_calls(
    exported: Exported, spans: Any
) -> None:
    tracer, exporter = spans
    wrapper = on_ledger(Script(ANSWER), Limit("calls", 2))
    with tracer.start_as_current_span("step"):
        for _ in range(3):
            chat(wrapper)
    chat(wrapper)
    (span,) = exporter.get_finished_spans()
    assert dict(span.attributes) == {conventions.INPUT_TOKENS: 180, conventions.OUTPUT_TOKENS: 20}
    (event,) = span.events
    assert event.name == "microbudget.refused"
    assert dict(event.attributes) == {
        "microbudget.account": "team/me",
        "microbudget.axis": "calls",
        "microbudget.reason": "limit",
    }


def test_budgets_are_read_when_a_reader_collects(exported: Exported, tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "ledger.db") as ledger:
        ledger.set_limits("team", [Limit("calls", None, "day")])
        chat(on_ledger(Script(ANSWER), ledger=ledger))
        ledger.charge("team/me", {"tokens": 150})
        ledger.reserve("team/me", {"tokens": 250})
        place = ("team/me", "run", "tokens")
        for name, value in (
            ("limit", 1000),
            ("spent", 250),
            ("held", 250),
            ("remaining", 500),
            ("utilization", 0.5),
        ):
            assert exported.values(f"microbudget.budget.{name}")[place] == value
        assert exported.values("microbudget.budget.spent")[("team", "day", "calls")] == 1
        assert ("team", "day", "calls") not in exported.values("microbudget.budget.limit")


def test_the_accounts_nearest_to_their_end_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger()
    with exporting(monkeypatch, accounts=2) as exported:
        for number in range(5):
            ledger.set_limits(f"agent-{number}", [Limit("tokens", 1000 * (number + 1))])
            chat(
                BudgetWrapper(
                    Script(ANSWER), ledger=ledger, account=f"agent-{number}", max_tokens=9
                )
            )
        shown = {place[0] for place in exported.values("microbudget.budget.spent")}
        assert shown == {"agent-0", "agent-1"}
        assert exported.values("microbudget.budget.accounts_left_out") == {(): 3}


def test_names_of_models_are_bounded_in_number(exported: Exported) -> None:
    wrapper = on_ledger(Script(ANSWER), Limit("tokens", 10**6))

    async def many() -> None:
        for number in range(130):
            await wrapper.chat([QUESTION], model=f"model-{number}\x1b[2J")

    asyncio.run(many())
    models = [attributes[conventions.REQUEST_MODEL] for attributes, _ in exported.points(DURATION)]
    assert len(models) == 101
    assert "(other)" in models
    assert not any("\x1b" in model for model in models)


def test_an_awaited_ledger_is_read_in_its_loop(exported: Exported) -> None:
    class Awaited:
        """The ledger in memory, as one that is awaited."""

        def __init__(self) -> None:
            self.inner = Ledger()

        def __getattr__(self, name: str) -> Any:
            async def ask(*arguments: Any) -> Any:
                return getattr(self.inner, name)(*arguments)

            return ask

        async def reserve(self, *arguments: Any) -> Any:
            return self.inner.reserve(*arguments)

    ledger = Awaited()
    ledger.inner.set_limits("team/me", [Limit("tokens", 1000)])

    async def work() -> Any:
        await BudgetWrapper(Script(ANSWER), ledger=ledger, account="team/me", max_tokens=50).chat(
            [QUESTION]
        )
        assert exported.values("microbudget.budget.spent") == {}  # it would wait for itself
        return await asyncio.to_thread(exported.values, "microbudget.budget.spent")

    assert asyncio.run(work()) == {("team/me", "run", "tokens"): 100}


def test_an_observer_that_fails_ends_no_call(exported: Exported, caplog: Any) -> None:
    def fail(*_: object) -> None:
        raise OSError("full")

    OBSERVERS[0].ended = fail
    try:
        assert chat(on_ledger(Script(ANSWER))).usage["total_tokens"] == 100
        tell_late()
    finally:
        del OBSERVERS[0].ended
    assert caplog.messages == ["a call was not observed: OSError: full"]


def test_nothing_is_recorded_once_it_is_off_and_it_can_be_on_again(exported: Exported) -> None:
    wrapper = on_ledger(Script(ANSWER))
    disable_telemetry()
    assert Call.admit.__module__ == Call.settle.__module__ == "budget_core.call"
    assert not hasattr(BudgetWrapper.chat, "__wrapped__")
    chat(wrapper)
    assert exported.names() == set()
    enable_telemetry(exported.provider)
    chat(wrapper)
    assert exported.values(TOKENS) == BOTH
    gc.collect()
    assert exported.values("microbudget.budget.spent")


def test_a_call_that_began_while_it_was_off_or_on_ends_as_it_can(exported: Exported) -> None:
    account = BudgetAccount([Limit("tokens", 1000)])
    calls = [BudgetedCall([account], LlmRequest("script", [QUESTION], max_tokens=50)) for _ in "ab"]
    calls[0].begin_blocking()
    disable_telemetry()
    calls[0].end_blocking(ANSWER)
    calls[1].begin_blocking()
    enable_telemetry(exported.provider)
    calls[1].end_blocking(ANSWER)
    assert exported.points(TOKENS) == []
    assert {row.axis: row.spent for row in account.balance()}["tokens"] == 200


def test_a_program_that_asks_for_no_telemetry_loads_none() -> None:
    program = """
import sys
from budget_cpython import BudgetWrapper, Ledger, Limit, budget, budgeted, instrument
import budget_cpython.proxy, budget_cpython.serve
assert not [name for name in sys.modules if "telemetry" in name or "prometheus" in name]
from budget_core.call import Call
assert Call.admit.__module__ == Call.settle.__module__ == "budget_core.call"
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
