"""An agent: a model, its tools, and what each of its runs may use."""

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.run import Run
from budget_core.agent.tool import Tool
from budget_core.agent.toolbox import Toolbox
from budget_core.errors import refuse
from budget_core.provider import check_provider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from budget_core._types import Hook, Provider
    from budget_core.agent.run import OperativeResult
    from budget_core.ledger._types import AnyLedger
    from budget_core.turn_state import TurnRuntimeState


class Operative:
    """An agent: a model, its tools, and what each of its runs may use.

    - `provider`: answers `chat(messages, tools, model, …)`; a `ChatClient`, or wrappers round one.
    - `tools`: `Tool`s, each with a name of its own.
    - `budget`: the `Budget` of a run, or the `Envelope` of a single one, such as a `child`.
    - `system_prompt`: the first message of a run that is given none.
    - `reflect(text, budget)`: called with each draft of an answer while `max_reflections` allows;
      returns what the model should improve, or `None`.
    - `on_event(kind, **fields)`: called with what happens; see `docs/operatives.md`. An error that
      it raises is kept as the result's `hook_error` and changes nothing else.
    - `stream`: ask for the answer piece by piece; each is an event `delta`.
    - `session_id`: names the `TurnRuntimeState` that each run then keeps for its result.
    - the rest as for `Gate`: `model`, `fallback_model`, `wind_down`, `stop_when`, `middleware`,
      `prices`, `count_tokens`, `compact`, `ledger`, `account`.

    Hooks, middleware and tools may be async. Raises `ValueError` naming what is wrong, and
    `TypeError` for an unknown option.
    """

    ENVELOPE = Envelope
    RUN = Run

    def __init__(
        self,
        provider: "Provider",
        tools: "Sequence[Tool]" = (),
        budget: "Budget | Envelope | None" = None,
        system_prompt: str = "",
        reflect: "Callable[..., Any] | None" = None,
        on_event: "Hook | None" = None,
        stream: bool = False,
        session_id: str | None = None,
        ledger: "AnyLedger | None" = None,
        account: str | None = None,
        **gate: "Any",
    ) -> None:
        self.provider = check_provider("provider", provider)
        listed: Any = tools if isinstance(tools, (list, tuple)) else [tools]
        self.tools: list[Tool] = list(listed)
        self.budget = Budget() if budget is None else budget
        self.system_prompt = system_prompt
        self.reflect = reflect
        self.on_event = on_event
        self.stream = stream
        self.session_id = session_id
        self.gate = gate
        for name, wanted, right in (
            ("budget", "a Budget or an Envelope", isinstance(self.budget, (Budget, Envelope))),
            ("system_prompt", "a string", isinstance(system_prompt, str)),
            ("on_event", "a function", on_event is None or callable(on_event)),
            ("reflect", "a function", reflect is None or callable(reflect)),
        ):
            if not right:
                refuse(name, wanted, getattr(self, name))
        for tool in self.tools:
            if not isinstance(tool, Tool):
                refuse("tools", "a list of Tool(name, description, function, …)", tool)
        for name, attribute, wanted in (
            ("stop_when", "check", "a StopCondition"),
            ("wind_down", "apply", "a WindDown"),
            ("prices", "get", "a dict of Prices by model"),
        ):
            if gate.get(name) is not None and not hasattr(gate[name], attribute):
                refuse(name, wanted, gate[name])
        if not isinstance(gate.get("middleware", ()), (list, tuple)):
            refuse("middleware", "a list of Middleware", gate["middleware"])
        gate.update(ledger=ledger, account=account)
        self.begin("", Budget())  # any other mistake is refused now, not in the first run

    def run(
        self, messages: "str | Sequence[dict[str, Any]]", budget: "Budget | Envelope | None" = None
    ) -> "Coroutine[Any, Any, OperativeResult]":
        """Run from a question or a conversation to the final answer, and return the result.

        It is stopped for the reason in the result, never by an exception of the model's or a
        tool's. If this is cancelled, so are its calls; the event `stopped` has what there is.
        """
        return self.begin(messages, budget).finish()

    def begin(
        self, messages: "str | Sequence[dict[str, Any]]", budget: "Budget | Envelope | None" = None
    ) -> Run:
        """Return a run that can be watched and cancelled; its time counts from now.

        Raises `ValueError` for messages that are no text and no list of dicts.
        """
        for message in messages if isinstance(messages, (list, tuple)) else (None,):
            if not isinstance(message, dict) and not isinstance(messages, str):
                refuse("messages", "a text, or a list of messages with role and content", messages)
        given = self.budget if budget is None else budget
        envelope = given if isinstance(given, Envelope) else self.ENVELOPE.open(given)
        return self.RUN(self, messages, envelope)

    def state(self, envelope: Envelope) -> "TurnRuntimeState | None":
        """Return the state of one run; `None` without a `session_id`."""
        if self.session_id is None:
            return None
        from budget_core.turn_state import TurnRuntimeState  # most programs on a chip read none

        return TurnRuntimeState(self.session_id, envelope)

    def toolbox(self, envelope: Envelope, state: "TurnRuntimeState | None") -> Toolbox:
        """Return the `Toolbox` of one run."""
        return Toolbox(self.tools, envelope, state)

    def as_tool(
        self, name: str, description: str, essential: bool = False, **limits: "Any"
    ) -> Tool:
        """Return this agent as a tool for another one, whose budget it then draws on.

        It takes one argument, `task`. `limits` are those of a `Budget` for each call; this agent's
        own budget holds as well. What it did comes back also where it was stopped. Raises
        `ValueError` where that budget is an `Envelope`, which is a single run's.
        """
        from budget_core.agent.sub_agent import tool_of  # loaded for the first sub-agent

        return tool_of(self, name, description, essential, limits)
