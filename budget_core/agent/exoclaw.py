"""Keep exoclaw's agent loop, and those of its sub-agents, within one budget."""

from budget_core.agent.admission import StoppedError
from budget_core.agent.budget import Budget
from budget_core.agent.cancellation import is_over
from budget_core.agent.envelope import Envelope
from budget_core.agent.llm_gate import Gate
from budget_core.agent.middleware import Request
from budget_core.agent.stop import StopReason
from budget_core.errors import ProviderError
from budget_core.provider import ChatResponse, settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import Messages, Provider, Tools
    from budget_core.ledger._types import AnyLedger

OF_ONE_RUN = ("stop_when", "on_event", "state")
REFUSED = "[Budget] None of the tools you called can be called now. Go on without them."
NOTHING = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
NO_TOOLS = "the model calls tools that it does not have"


class ExoclawBudget:
    """exoclaw's provider and iteration policy in one, which keep its loop within a budget.

    Give it to an `AgentLoop` as `provider` and as `iteration_policy`. `provider` is the model's,
    `budget` a `Budget`, of which each turn of the loop has a whole one, or an `Envelope`, which is
    used as it is; `gate` what `Gate` takes: `wind_down`, `stop_when`, `prices` and so on.

    - `budget`: the `Envelope` in use: to watch, `extend`, `stop` or pause it from outside.
    - `reason`: the `StopReason` of the turn, or `None` where the model answered of its own accord.

    A tool call beyond a cap, or of a tool that was not offered, is taken out of the answer. Where
    none is left of it, the model is told, and answers once more. When the run is over, the text in
    the model's place says why, with what there is of an answer.

    The timeout bounds LLM calls. exoclaw runs the tools: one that has begun is waited for, and its
    time counts. A prompt too long for the model is exoclaw's to mend. One loop uses an adapter, for
    one turn at a time: turns side by side need an adapter each, such as a `child`.
    Source: seed 004.
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
        self.inner = provider
        self._line = _Line(provider)
        self._limits: Budget | None = None
        self._parent: ExoclawBudget | None = None
        self._name = ""
        self._options = dict(gate, ledger=ledger, account=account)
        self._text = ""
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
        options = {key: self._options[key] for key in self._options if key not in OF_ONE_RUN}
        budget = Budget(**limits)
        child = type(self)(self.inner, self.budget.child(budget, name), **options)
        child._limits, child._parent, child._name = budget, self, name
        return child

    @property
    def reason(self) -> "StopReason | None":
        """Why the turn ended before the model had answered of its own accord, or `None`."""
        return self._gate.reason

    def get_default_model(self) -> str:
        """Return the model that answers where a call names none."""
        model: str = self._options.get("model") or self.inner.get_default_model()
        return model

    async def close(self) -> None:
        """Close the inner provider if it can be closed, by a plain or an async `close()`."""
        if hasattr(self.inner, "close"):
            await settle(self.inner.close())

    async def should_continue(self, iteration: int, tools_used: "list[str]") -> bool:
        """Allow the next LLM call unless the run is over; iteration 0 begins a new turn."""
        if iteration == 0:
            self._begin()
        return self.reason is None

    async def on_limit_reached(self, iteration: int, tools_used: "list[str]") -> str:
        """Return the text that ends the turn: the last answer, or why there is none."""
        return self._text or self._why()

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
            except StoppedError:
                return self._instead(messages)
            overflow, self._line.overflow = self._line.overflow, None
            if overflow is not None:
                if gate.reason is None:
                    raise overflow
                return self._instead(messages)
            self._text = response.content or self._text
            if self._is_answer(response, request.tools):
                spoken = response.content or gate.reason is None
                return response if spoken else self._instead(messages)
            if response.content:
                asked.append({"role": "assistant", "content": response.content})
            asked.append({"role": "user", "content": REFUSED})
        gate.reason = StopReason(StopReason.NO_PROGRESS, NO_TOOLS, scope=self.budget.name)
        return self._instead(messages)

    def _is_answer(self, response: "Any", tools: "Tools | None") -> bool:
        """Tell whether exoclaw can go on with a response, once what cannot be called is gone."""
        calls = response.tool_calls or []
        if self.reason is None and not calls and response.finish_reason == "length":
            self._gate.reason = self._gate.cut_off()
        offered = {tool["function"]["name"] for tool in tools or ()}
        may_call = self.reason is None and not is_over(self.budget)
        kept = [call for call in calls if may_call and self._claim(call.name, offered)]
        if len(kept) < len(calls):
            response.tool_calls = kept
        return bool(kept or not calls) or self.reason is not None

    def _claim(self, name: str, offered: "set[str]") -> bool:
        # Once no call is left no tool is offered, and the refusal is what ends the run.
        wanted = name in offered or self.budget.tool_calls.left() == 0
        return wanted and self.budget.claim_tool_call(name)

    def _begin(self) -> None:
        """Begin a turn, with a whole budget where this has one of its own, else with the rest."""
        if self._parent is None and self._limits is not None:
            self._open(self.ENVELOPE.open(self._limits))
        elif not self._follow().closing:
            self._open(self.budget)
        self._text = ""

    def _follow(self) -> Envelope:
        """Return the envelope in use; a child's moves below the one that its parent uses now."""
        if self._parent is not None:
            above = self._parent._follow()
            if self.budget.parent is not above:
                self._open(above.child(self._limits, self._name))
        return self.budget

    def _open(self, envelope: Envelope) -> None:
        self.budget = envelope
        self._gate = Gate(self._line, envelope, **self._options)

    def _instead(self, messages: "Messages") -> ChatResponse:
        """Return an answer in the model's place: why there is none, and what there is of one."""
        from budget_core.agent.result import digest

        done: list[dict[str, Any]] = []
        for message in messages:
            if message["role"] == "user":
                done.clear()
            elif message["role"] == "tool" and isinstance(message["content"], str):
                done.append(message)
        lines = [self._why(), self._text, self._gate.partial_text or digest(done)]
        self._text = "\n".join([line for line in lines if line])
        return ChatResponse(self._text, usage=dict(NOTHING), cut_off_by="budget")

    def _why(self) -> str:
        return f"[Stopped: {self.reason or 'another turn has begun'}]"


class _Line:
    """The model's provider as the gate sees it: a prompt that is too long is no failure of its."""

    def __init__(self, inner: "Provider") -> None:
        self.inner = inner
        self.overflow: Exception | None = None

    def __getattr__(self, name: str) -> "Any":
        if name == "inner" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    async def chat(self, **asked: "Any") -> "Any":
        try:
            response = await self.inner.chat(**asked)
        except Exception as error:
            if type(error).__name__ != "ContextWindowExceededError":
                raise
            self.overflow = error
            return ChatResponse("", usage=dict(NOTHING))
        if getattr(response, "finish_reason", None) == "error":  # exoclaw's word for a failure
            raise ProviderError(0, response.content or "the provider failed")
        return response
