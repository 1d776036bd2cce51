"""A dollar's budget of each library, put round the model as the library's own text shows.

Each function takes the model and says how to make a call through its budget, and what it has
recorded. Whatever sees the client of a provider is given OpenAI's, whose list price for `gpt-4o`
is that of the model here; every peer has it in its own table, or counts tokens.
"""

import inspect
import threading
from collections.abc import Callable
from contextvars import copy_context
from decimal import Decimal
from importlib import import_module
from typing import Any, NamedTuple

from benchmarks.peer_model import NAME, Model, awaited
from budget_cpython import Ledger
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.many_calls import (
    ACCOUNT,
    CENT,
    MOST_CENTS,
    TOKENS_PER_CENT,
    Call,
    on_ledger,
)

MOST_TOKENS = MOST_CENTS * TOKENS_PER_CENT
_CENTS = 100
_USD = _CENTS * CENT


class Trial(NamedTuple):
    """How to make a call through a budget, and what the budget says was spent, in USD."""

    call: Call
    recorded: Callable[[], float]


def nothing(model: Model, threads: bool) -> Trial:
    """Put no budget round the model: what all the calls come to."""
    return Trial(_asking(model, model.client(threads), ()), lambda: 0.0)


def in_memory(model: Model, threads: bool) -> Trial:
    """Put ours round the model, with a ledger in memory."""
    return _ours(Ledger(), model)


def in_sqlite(model: Model, threads: bool) -> Trial:
    """Put ours round the model, with a ledger in a file."""
    return _ours(SqliteLedger("ledger.db"), model)


def shekel(model: Model, threads: bool) -> Trial:
    """Use `with budget(max_usd=…)`, shared here, although its text wants one for each task."""
    library = import_module("shekel")
    budget = library.budget(max_usd=1.00)
    budget.__enter__()
    call = _asking(model, model.client(threads), library.BudgetExceededError)
    return Trial(call, lambda: float(budget.spent))


def agentguard(model: Model, threads: bool) -> Trial:
    """Use `patch_openai(tracer, budget_guard=BudgetGuard(max_cost_usd=…))`."""
    return _agentguard(model, threads)


def agentguard_store(model: Model, threads: bool) -> Trial:
    """Use the same with a store, with which calls of threads, not of tasks, reserve."""
    store = import_module("agentguard").JsonFileStateStore("budget.json")
    return _agentguard(model, threads, store=store, key="run")


def agentbudget(model: Model, threads: bool) -> Trial:
    """Use `wrap_client(client, session)`, advised for concurrency; loops are not looked for."""
    library = import_module("agentbudget")
    session = library.AgentBudget(max_spend="$1.00", max_repeated_calls=10**9).session()
    client = library.wrap_client(model.client(threads), session.__enter__())
    return Trial(_asking(model, client, library.BudgetExhausted), lambda: float(session.spent))


def tokencap(model: Model, threads: bool) -> Trial:
    """Use `wrap(client, limit=…)`, the limit being the tokens that a dollar buys."""
    library = import_module("tokencap")
    client = library.wrap(model.client(threads), limit=_CENTS * TOKENS_PER_CENT, quiet=True)

    def recorded() -> float:
        used = client.get_status().dimensions["session"].used
        return float(used / TOKENS_PER_CENT / _CENTS)

    return Trial(_asking(model, client, library.BudgetExceededError), recorded)


def pydantic_ai_harness(model: Model, threads: bool) -> Trial:
    """Use `Agent(…, capabilities=[SpendLimits(budgets=[Budget(usd=…)])])`."""
    spend = import_module("pydantic_ai_harness.spend")
    models = import_module("pydantic_ai.models.openai")
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider
    limits = spend.SpendLimits(budgets=[spend.Budget(usd=Decimal(1), window="day")])
    agent = import_module("pydantic_ai").Agent(
        models.OpenAIChatModel(NAME, provider=provider(openai_client=model.waiting_client())),
        capabilities=[limits],
        model_settings={"max_tokens": MOST_TOKENS},
    )

    def recorded() -> float:
        [status] = awaited(limits.status())
        return float(status.spent.usd)

    call = _sending(model, lambda number: agent.run(str(number)), spend.SpendLimitExceeded)
    return Trial(call, recorded)


def limits(model: Model, threads: bool) -> Trial:
    """Use `hit(item, key, cost=…)`; it has no refund, so a call hits at the most it can cost."""
    library = import_module("limits")
    a_day = library.RateLimitItemPerDay(_CENTS)
    limiter = import_module("limits.strategies").FixedWindowRateLimiter(
        import_module("limits.storage").MemoryStorage()
    )

    def recorded() -> float:
        return float(1 - limiter.get_window_stats(a_day, ACCOUNT).remaining / _CENTS)

    return Trial(_hitting(model, lambda: limiter.hit(a_day, ACCOUNT, cost=MOST_CENTS)), recorded)


def pyrate_limiter(model: Model, threads: bool) -> Trial:
    """Use `try_acquire(name, weight=…)`, which like `limits` takes the most a call can cost."""
    library = import_module("pyrate_limiter")
    bucket = library.InMemoryBucket([library.Rate(_CENTS, library.Duration.DAY)])
    acquire = library.Limiter(bucket).try_acquire
    call = _hitting(model, lambda: acquire(ACCOUNT, weight=MOST_CENTS, blocking=False))
    return Trial(call, lambda: bucket.count() / _CENTS)


def _ours(ledger: Any, model: Model) -> Trial:
    def recorded() -> float:
        [row] = ledger.balance(ACCOUNT)
        return float(row.spent / _USD)

    return Trial(on_ledger(ledger, model), recorded)


def _agentguard(model: Model, threads: bool, **options: Any) -> Trial:
    library = import_module("agentguard")
    guard = library.BudgetGuard(max_cost_usd=1.00, **options)
    tracer = library.Tracer(service="calls", sink=library.JsonlFileSink("traces.jsonl"))
    patch = library.patch_openai if threads else library.patch_openai_async
    patch(tracer, budget_guard=guard)
    call = _asking(model, model.client(threads), library.BudgetExceeded)
    return Trial(call, lambda: float(guard.state.cost_used))


def _asking(model: Model, client: Any, refusal: Any) -> Call:
    """Return a call through a client that raises `refusal`; a budget is that of this context."""
    here = copy_context()

    def send(number: int) -> Any:
        messages = [{"role": "user", "content": str(number)}]
        create = client.chat.completions.create
        return here.copy().run(create, model=NAME, messages=messages, max_tokens=MOST_TOKENS)

    return _sending(model, send, refusal)


def _sending(model: Model, send: Callable[[int], Any], refusal: Any) -> Call:
    """Return a call that ends the run where its refusal comes after the answer.

    That is what becomes of a program that lets the error pass; calls under way go on.
    """
    over = threading.Event()

    async def call(number: int) -> bool:
        if over.is_set():
            return False
        try:
            sent = send(number)
            if inspect.isawaitable(sent):
                await sent
        except refusal:
            if number in model.answered:
                over.set()
        return number in model.answered

    return call


def _hitting(model: Model, hit: Callable[[], bool]) -> Call:
    async def call(number: int) -> bool:
        if not hit():
            return False
        await model.chat([{"role": "user", "content": str(number)}], MOST_TOKENS)
        return True

    return call
