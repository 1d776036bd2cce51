"""Keep exoclaw's agent loop, and those of its sub-agents, within one budget."""

import sys

from budget_core.agent.budget import Budget
from budget_core.agent.envelope import Envelope
from budget_core.agent.llm_call import Request, text_of
from budget_core.agent.llm_gate import Gate
from budget_core.agent.stop import StoppedError, StopReason
from budget_core.provider import ChatResponse, check_provider, maybe_await

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Messages, Provider, Tools
    from budget_core.ledger._types import AnyLedger

_OF_ONE_RUN = ("stop_when", "on_event", "state")
_REFUSED = "[Budget] None of the tools you called can be called now. Go on without them."
_NO_TOOLS = "the model calls tools that it does not have"


class ExoclawBudget:
    """exoclaw's provider and iteration policy in one, which keep its loop within a budget.

    Give it to an `AgentLoop` as `provider` and as `iteration_policy`. `provider` is the model's.
    With a `Budget` each turn of the loop has a whole one; an `Envelope` is used as it is. `gate`
    are the options of `Gate`: `wind_down`, `stop_when`, `prices` and so on.

    - `budget`: the `Envelope` in use: to watch, `extend`, `stop` or pause it from outside.
    - `reason`: the `StopReason` of the turn, or `None` where the model answered of its own accord.

    A tool call beyond a cap, or of a tool that was not offered, is removed from the answer. If none
    remains, the model gets a message that says so and answers once more. When the run is over, the
    text in place of an answer says why, with what there is of one.

    The timeout bounds LLM calls. exoclaw runs the tools: it waits for one that has begun, and its
    time counts. exoclaw shortens a prompt that is too long for the model. One loop uses an adapter,
    for one turn at a time: turns side by side need an adapter each, such as a `child`.
    """

    ENVELOPE = Envelope

    def __init__(
        self,
        provider: "Provider",
        budget: "Budget | Envelope",
        *,
        ledger: "AnyLedger | None" = None,
        account: str | None = None,
        **gate: "Any",
    ) -> None:
        self.inner = check_provider("provider", provider)
        self._limits: Budget | None = None
        self._parent: ExoclawBudget | None = None
        self._name = ""
        self._options = dict(gate, ledger=ledger, account=account)
        self._text = ""
        self._gate: Any = None
        if not isinstance(budget, Envelope):
            self._limits = budget
            budget = self.ENVELOPE.open(budget)
        self._open(budget)

    def __getattr__(self, name: str) -> "Any":
        if name == "inner" or name.startswith("__"):  # asked before __init__ ran, as copy does
            raise AttributeError(name)
        return getattr(self.inner, name)

    def child(self, name: str = "", **limits: "Any") -> "ExoclawBudget":
        """Return an adapter for a sub-agent's loop, which draws on what this one has left.

        `limits` are those of a `Budget`, and hold for all that the sub-agent does in one turn of
        this loop; a turn of its own renews nothing. It has this one's provider and options, but
        `stop_when`, `on_event` and `state`, which are a single run's.
        """
        options = {key: self._options[key] for key in self._options if key not in _OF_ONE_RUN}
        budget = Budget(**limits)
        child = type(self)(self.inner, self.budget.child(budget, name), **options)
        child._limits, child._parent, child._name = budget, self, name
        return child

    @property
    def reason(self) -> "StopReason | None":
        """Why the turn ended before the model had answered of its own accord, or `None`."""
        reason: StopReason | None = self._gate.reason
        return reason

    def get_default_model(self) -> str:
        """Return the model that answers where a call names none."""
        model: str = self._options.get("model") or self.inner.get_default_model()
        return model

    async def close(self) -> None:
        """Close the inner provider if it can be closed, by a plain or an async `close()`."""
        if hasattr(self.inner, "close"):
            await maybe_await(self.inner.close())

    async def should_continue(self, iteration: int, tools_used: "list[str]") -> bool:
        """Allow the next LLM call unless the run is over; iteration 0 begins a new turn."""
        if iteration == 0:
            if self._parent is None and self._limits is not None:
                self._open(self.ENVELOPE.open(self._limits))  # a whole budget of its own
            elif not self._current().closing:
                self._open(self.budget)  # the rest
            self._text = ""
        return self.reason is None

    async def on_limit_reached(self, iteration: int, tools_used: "list[str]") -> str:
        """Return the text that ends the turn: the last answer, or why there is none."""
        return self._text or self._reason_text()

    async def chat(
        self,
        messages: "Messages",
        tools: "Tools | None" = None,
        model: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        reasoning_effort: str | None = None,
        response_format: "Any" = None,
        on_delta: "Any" = None,
        **options: "Any",
    ) -> "Any":
        """Answer like the inner provider, within the budget; what is `None` is its default.

        Raises only exoclaw's `ContextWindowExceededError`.
        """
        options["temperature"] = temperature
        options["reasoning_effort"] = reasoning_effort
        options["response_format"] = response_format
        given = {key: options[key] for key in options if options[key] is not None}
        gate, asked, self._text = self._gate, list(messages), ""
        for offered in (tools, tools, None):
            request = Request(asked, offered, model, max_tokens, given)
            try:
                response = await gate.ask(request, on_delta)
            except StoppedError as stopped:
                error = stopped.reason.error
                if error is None or stopped.reason.kind != StopReason.CONTEXT_LIMIT:
                    await gate.close()
                    return self._substitute(messages)
                gate.reason = None  # the loop shortens the prompt and asks again
                theirs: Any = sys.modules.get("exoclaw.providers.types")
                if theirs is not None and not isinstance(error, theirs.ContextWindowExceededError):
                    error = theirs.ContextWindowExceededError(str(error))
                raise error
            self._text = text_of(response.content) or self._text
            if self._is_answer(response, request.tools):
                if gate.reason is not None or not response.tool_calls:
                    await gate.close()  # the turn is over
                spoken = response.content or gate.reason is None
                return response if spoken else self._substitute(messages)
            if response.content:
                asked.append({"role": "assistant", "content": response.content})
            asked.append({"role": "user", "content": _REFUSED})
        await gate.close()
        gate.reason = StopReason(StopReason.NO_PROGRESS, _NO_TOOLS, scope=self.budget.name)
        return self._substitute(messages)

    def _is_answer(self, response: "Any", tools: "Tools | None") -> bool:
        """Remove tool calls that cannot be made; tell whether exoclaw can use what is left."""
        calls = response.tool_calls or []
        offered = {tool["function"]["name"] for tool in tools or ()}
        may_call = self.reason is None and self.budget.why_over() is None
        if self.budget.tool_calls.left() == 0:  # no tool is offered: the refusal ends the run
            offered.update([call.name for call in calls])
        kept = [
            call
            for call in calls
            if may_call and call.name in offered and self.budget.claim_tool_call(call.name)
        ]
        if len(kept) < len(calls):
            response.tool_calls = kept
        return bool(kept or not calls) or self.reason is not None

    def _current(self) -> Envelope:
        """Return the envelope in use; a child's moves below the one that its parent uses now."""
        if self._parent is not None:
            above = self._parent._current()
            if self.budget.parent is not above:
                self._open(above.child(self._limits, self._name))
        return self.budget

    def _open(self, envelope: Envelope) -> None:
        if self._gate is not None:
            self._gate.abandon()
        self.budget = envelope
        self._gate = Gate(self.inner, envelope, **self._options)

    def _substitute(self, messages: "Messages") -> ChatResponse:
        """Return an answer in the model's place: why there is none, and what there is of one."""
        from budget_core.agent.run import digest

        done: list[dict[str, Any]] = []
        for message in messages:
            if message["role"] == "user":
                done.clear()
            elif message["role"] == "tool" and isinstance(message["content"], str):
                done.append(message)
        lines = [self._reason_text(), self._text, self._gate.partial_text or digest(done)]
        self._text = "\n".join([line for line in lines if line])
        nothing = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return ChatResponse(self._text, usage=nothing, cut_off_by="budget")

    def _reason_text(self) -> str:
        return f"[Stopped: {self.reason or 'another turn has begun'}]"
