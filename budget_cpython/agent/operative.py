"""The core's operative on CPython: events to iterate over, tools side by side, a sync call."""

import asyncio
from collections.abc import Sequence
from math import inf
from typing import Any, cast

from budget_core import turn_state as core_state
from budget_core.agent import budget as core_budget
from budget_core.agent import envelope as core_envelope
from budget_core.agent import operative as core
from budget_core.agent.run import OperativeResult
from budget_core.agent.tool import Tool
from budget_core.checks import check_kind
from budget_cpython.agent.envelope import Envelope
from budget_cpython.agent.parallel import ParallelRun
from budget_cpython.agent.run_handle import RunHandle
from budget_cpython.agent.toolbox import ExecutorToolbox
from budget_cpython.context.deadline import current_or_none
from budget_cpython.executor import BoundedToolExecutor
from budget_cpython.turn import TurnRuntimeState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core._types import Provider
    from budget_core.ledger._types import AnyLedger

Budgeted = core_budget.Budget | core_envelope.Envelope
Question = str | Sequence[dict[str, Any]]


class Operative(core.Operative):
    """An agent: a model, its tools, and what each of its runs may use.

    `await operative.run(…)` gives the result, `async for event in operative.run(…)` the events as
    they happen. Tools that are not async run in threads of `executor`, by default one of the
    operative's own: calls of one answer run side by side.

    - `provider`: answers `chat(messages, tools, model, …)`; a `ChatClient`, or wrappers round one.
    - `tools`: `Tool`s, each with a name of its own.
    - `budget`: the `Budget` of each run, or the `Envelope` of a single one, such as a `child`.
    - `system_prompt`: the first message of a run that is given none.
    - `reflect(text, budget)`: returns what the model should improve in a draft, or `None`.
    - `on_event(kind, **fields)`: called with what happens; an error of it changes nothing.
    - `stream`: ask for the answer piece by piece.
    - `model`, `fallback_model`, `wind_down`, `stop_when`, `middleware`, `prices`, `count_tokens`,
      `compact`: how calls are admitted; see docs/operatives.md. `ledger`, `account`, `max_tokens`,
      `ttl`, `wait`, `expect`: what is held for them on an account; see docs/ledger.md.

    Raises `ValueError` naming what is wrong, and `TypeError` for an unknown option.
    """

    ENVELOPE = Envelope
    RUN = ParallelRun

    def __init__(
        self,
        provider: "Provider",
        tools: Sequence[Tool] = (),
        budget: Budgeted | None = None,
        system_prompt: str = "",
        *,
        executor: BoundedToolExecutor | None = None,
        ledger: "AnyLedger | None" = None,
        account: str | None = None,
        **options: Any,
    ) -> None:
        self.executor = BoundedToolExecutor() if executor is None else executor
        check_kind("executor", self.executor, BoundedToolExecutor)
        super().__init__(
            provider, tools, budget, system_prompt, ledger=ledger, account=account, **options
        )

    def run(self, messages: Question, budget: Budgeted | None = None) -> RunHandle:
        """Return a run, whose time counts from now, to be awaited or iterated over.

        It is stopped for the reason in the result, never by an exception of the model's or a
        tool's. If its awaiter is cancelled, so are its calls; an envelope that was given is
        stopped then, and its `continuation()` has the rest.
        """
        return RunHandle(self.begin(messages, budget))

    def run_sync(self, messages: Question, budget: Budgeted | None = None) -> OperativeResult:
        """Run to a final answer and return the result, where no event loop is running.

        Ctrl-C is raised when its tools have been cancelled; the event `stopped` has what there is.
        Raises `RuntimeError` where one is: `await operative.run(…)` there.
        """
        if _is_in_loop():
            raise RuntimeError("an event loop is running here: await operative.run(…) instead")
        return asyncio.run(self.run(messages, budget))

    def begin(self, messages: Question, budget: Budgeted | None = None) -> ParallelRun:
        """Return a run, whose time counts from now, to `finish`.

        A budget's timeout is at most what `Deadline.current()` has left.

        Raises `TypeError` for an envelope of the core's, which threads may not share.
        """
        around = current_or_none()
        given = self.budget if budget is None else budget
        if around is not None and isinstance(given, core_budget.Budget):
            own = inf if given.timeout is None else given.timeout
            given = given.replace(timeout=min(own, around.remaining_seconds()))
        return cast(ParallelRun, super().begin(messages, given))

    def state(self, envelope: core_envelope.Envelope) -> TurnRuntimeState:
        """Return the state of one run."""
        session_id = "run" if self.session_id is None else self.session_id
        return TurnRuntimeState(session_id, cast(Any, envelope))

    def toolbox(
        self, envelope: core_envelope.Envelope, state: core_state.TurnRuntimeState | None
    ) -> ExecutorToolbox:
        """Return the toolbox of one run."""
        if not isinstance(envelope, Envelope):
            raise TypeError(f"an envelope must be budget_cpython's, not {envelope!r}")
        return ExecutorToolbox(self.tools, envelope, cast(TurnRuntimeState, state), self.executor)


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
