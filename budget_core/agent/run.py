"""One run of an agent, from a question to its answer or to the reason why there is none."""

import asyncio
import json

from budget_core.agent.llm_call import Request, text_of
from budget_core.agent.llm_gate import AT_ONCE, Gate, joined
from budget_core.agent.stop import StoppedError, StopReason, in_words
from budget_core.agent.toolbox import ANSWERED, CALLED_OFF, CANCELLED, DENIED, ToolEnd, as_text
from budget_core.errors import BudgetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_core._types import Agent, Messages
    from budget_core.agent.envelope import Envelope
    from budget_core.provider import ToolCall
    from budget_core.turn_state import TurnRuntimeState

NOT_CALLED = "Error: not called, the run has stopped"
_SHOWN = 200
_UNLIMITED = "this run has no limit on turns, tokens, time or money"


class RunStoppedError(BudgetError):
    """Raised by `OperativeResult.check`: `result` has the work that was done, and the reason."""

    def __init__(self, result: "OperativeResult") -> None:
        super().__init__(f"the run was stopped: {result.reason}")
        self.result = result


class OperativeResult:
    """The result of a run.

    - `text`: the answer; of a run that was stopped, what there is of one.
    - `reason`: a `StopReason`, or `None` if the model finished its answer.
    - `messages`: the whole conversation, notices left out; it can begin the next run.
    - `tool_results`: a dict a tool call, in their order: `id`, `name`, `arguments`, `status`,
      `content`.
    - `usage`: whole numbers by axis, as `Envelope.usage` has them.
    - `turns`: the LLM calls of this run itself.
    - `budget`, `state`: the run's `Envelope` and `TurnRuntimeState`; the latter is `None` for an
      operative of the core that has no `session_id`.
    - `hook_error`: the last error that `on_event` raised, or `None`.
    """

    hook_error: Exception | None = None

    def __init__(
        self,
        text: str,
        reason: "StopReason | None",
        messages: "Messages",
        turns: int,
        run: "Run",
    ) -> None:
        self.text = text
        self.reason = reason
        self.messages = messages
        self.turns = turns
        self.budget = run.budget
        self.state = run.state
        self.tool_results = run.tool_results
        self.usage = run.budget.usage()

    def __repr__(self) -> str:
        how = "completed" if self.reason is None else self.reason.kind
        return f"<OperativeResult: {how}, {self.turns} turns, {self.usage['tokens']} tokens>"

    @property
    def completed(self) -> bool:
        """Whether the model finished its answer."""
        return self.reason is None

    def check(self) -> "OperativeResult":
        """Return this result, or raise `RunStoppedError` where the run was stopped."""
        if self.reason is not None:
            raise RunStoppedError(self)
        return self


class Run:
    """A run that was begun by `Operative.begin`, to `finish` once.

    `budget` is its `Envelope`, to watch, `extend`, `stop` or pause it from outside. `result` is
    `None` until it has ended.
    """

    def __init__(
        self,
        operative: "Agent",
        messages: "str | Sequence[dict[str, Any]]",
        envelope: "Envelope",
    ) -> None:
        self.budget = envelope
        self.state: TurnRuntimeState = operative.state(envelope)
        self.tool_results = [] if self.state is None else self.state.tool_results
        self.result: OperativeResult | None = None
        self.hook_error: Exception | None = None
        self._on_event = operative.on_event
        self._reflect = operative.reflect
        self._on_delta = self._delta if operative.stream else None
        self._toolbox = operative.toolbox(envelope, self.state)
        self._definitions = [tool.definition() for tool in operative.tools]
        essential = [tool.name for tool in operative.tools if tool.essential]
        self._gate = Gate(
            operative.provider,
            envelope,
            essential=essential,
            on_event=self.emit,
            state=self.state,
            **operative.gate,
        )
        self._gate.reflects = self._reflect is not None
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        self._messages = list(messages)
        first = self._messages[0].get("role") if self._messages else ""
        if operative.system_prompt and first != "system":
            self._messages.insert(0, {"role": "system", "content": operative.system_prompt})
        self._text = ""
        self._asked: list[ToolCall] = []

    def cancel(self, reason: str = "") -> None:
        """Stop the run and its calls in flight; `finish` returns what there is. Thread-safe."""
        self.budget.stop(reason, StopReason.CANCELLED)

    async def finish(self) -> OperativeResult:
        """Return the run's result; the same again once it has ended."""
        if self.result is not None:
            return self.result
        if self.budget.in_use:
            raise ValueError(f"{self.budget.name} is in use by another run: give each a child()")
        self.budget.in_use = True
        reason: StopReason | None = StopReason(StopReason.CANCELLED, scope=self.budget.name)
        try:
            self.emit("started", budget=self.budget, remaining=self.budget.remaining())
            if self.budget.parent is None and self.budget.budget.is_unlimited():
                self.emit("warning", text=_UNLIMITED)
            over = False
            while not over:
                over, last = await self._turn()
            reason = last
        except StoppedError as error:
            reason = error.reason
        except asyncio.CancelledError:
            reason = self.budget.why_over() or reason
            self.cancel()  # and all that still draws on it
            raise
        except Exception as error:  # noqa: BLE001 - the result has the work that was done
            reason = StopReason(StopReason.FAILED, in_words(error), error=error)
        finally:
            try:
                await self._gate.close()
            finally:
                self.budget.in_use = False
                self.result = self._conclude(reason)
        return self.result

    async def _turn(self) -> "tuple[bool, StopReason | None]":
        """Make an LLM call and act on its answer; return whether the run is over, and why."""
        before = self.budget.usage()
        request = Request(self._messages, self._definitions)
        response = await self._gate.ask(request, self._on_delta)
        if request.compacted:
            self._messages = request.messages
        self._toolbox.offer(request.tools)
        over, reason = await self._handle_answer(response)
        after = self.budget.usage()
        usage = {axis: after[axis] - before[axis] for axis in after}
        self.emit("turn_completed", turn=self._gate.turn, usage=usage, cumulative_usage=after)
        return over, reason

    async def _handle_answer(self, response: "Any") -> "tuple[bool, StopReason | None]":
        """Act on the model's answer; return as `_turn` does."""
        last = self._gate.reason
        text, before = text_of(response.content), self._gate.partial_text
        self._text = text or before or self._text
        content = joined(before, text) if before and last else response.content
        self._gate.partial_text = ""
        calls = [] if last is not None else list(response.tool_calls or ())
        self._messages.append(as_message(content, calls))
        if last is not None:
            return True, last
        if calls:
            reason = await self._call_tools(calls)
            # at a limit, the gate has one more call to make
            return reason is not None and reason.kind in AT_ONCE, reason
        if self._reflect is None or not self.budget.reflections.claim():
            return True, None
        try:
            remark = await self._gate.run_hook(self._reflect, self._text, self.budget)
        except StoppedError as error:
            return True, error.reason
        self.emit("reflection", remark=remark)
        if remark:
            self._messages.append({"role": "user", "content": remark})
        return not remark, None

    async def _call_tools(self, calls: "list[ToolCall]") -> StopReason | None:
        """Call the tools in their order; return why the run is to stop."""
        self._asked = calls
        reason: StopReason | None = None
        for number, call in enumerate(calls):
            if reason is not None:
                self._record(call, ToolEnd(DENIED, NOT_CALLED))
                continue
            end, reason = await self._begin_tool_call(call)
            if end is None:
                end = await self._toolbox.run(call, self._trace_id(call, number))
            reason = await self._end_tool_call(call, end) or reason
        return reason

    def _trace_id(self, call: "ToolCall", number: int) -> str:
        return f"{call.id}@{self._gate.turn}.{number}"

    async def _begin_tool_call(
        self, call: "ToolCall"
    ) -> "tuple[ToolEnd | None, StopReason | None]":
        """Begin a tool call: return how it ended, if it is not to be run, and a reason to stop."""
        self.emit("tool_started", call=call)
        end = self._toolbox.refusal(call)
        if end is not None:
            return end, None
        try:
            for one in self._gate.middleware:
                text = await self._gate.run_hook(one.before_tool, call, self.budget)
                if text is not None:
                    return ToolEnd(ANSWERED, as_text(text)), None
        except StoppedError as error:
            return ToolEnd(DENIED, NOT_CALLED), error.reason
        if self.budget.why_over() is not None:
            return ToolEnd(DENIED, NOT_CALLED), None
        return None, None

    async def _end_tool_call(self, call: "ToolCall", end: ToolEnd) -> StopReason | None:
        """End a tool call; return why the run is to stop."""
        reason = None
        try:
            for one in reversed(self._gate.middleware):
                text = await self._gate.run_hook(one.after_tool, call, end.content, self.budget)
                end.content = end.content if text is None else as_text(text)
        except StoppedError as error:
            reason = error.reason
        finally:
            self._record(call, end)
        self.emit("tool_finished", call=call, status=end.status, result=end.content)
        if end.stop_reason is not None:
            self._text = end.answer or self._text or end.stop_reason
            reason = StopReason(StopReason.EXPLICIT_STOP, end.stop_reason, scope=self.budget.name)
        return reason

    def _record(self, call: "ToolCall", end: ToolEnd) -> None:
        self.tool_results.append(
            {
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "status": end.status,
                "content": end.content,
            }
        )
        self._toolbox.ends.pop(id(call), None)
        answer = {"role": "tool", "tool_call_id": call.id, "content": end.content}
        self._messages.append(answer)

    def _conclude(self, reason: StopReason | None) -> OperativeResult:
        state, text = self.state, self._text
        if reason is not None and self.budget.parent is not None:
            self.budget.update(reason)  # its parent goes on with these figures
        self._answer_the_rest()
        if self._gate.partial_text:
            text = self._gate.partial_text
            self._messages.append({"role": "assistant", "content": text})
        text = text or digest(self.tool_results)
        if state is not None:
            state.close_writes()
            state.timed_out = reason is not None and reason.kind == StopReason.TIMEOUT
            state.final_text = text
        result = OperativeResult(text, reason, self._messages, self._gate.turn, self)
        kind = "completed" if reason is None else "stopped"
        if reason is not None:
            from budget_core.log import log  # loaded for the first run that is stopped

            log("info", f"{self.budget.name} was stopped: {result!r}")
        self.emit(kind, reason=reason, usage=result.usage, result=result)
        result.hook_error = self.hook_error
        return result

    def _answer_the_rest(self) -> None:
        """Give every tool call of the last turn a result, as providers want it."""
        for answered, message in enumerate(reversed(self._messages)):
            if message.get("role") == "assistant":
                for call in self._asked[answered:] if message.get("tool_calls") else ():
                    end = self._toolbox.ends.get(id(call))
                    self._record(call, end or ToolEnd(CANCELLED, CALLED_OFF))
                return

    async def _delta(self, text: str) -> None:
        self.emit("delta", text=text)

    def emit(self, kind: str, **fields: "Any") -> None:
        """Call `on_event` with what happened."""
        if self._on_event is None:
            return
        try:
            pending: Any = self._on_event(kind, **fields)
            if hasattr(pending, "send"):
                pending.close()
                raise TypeError("on_event must be a plain function, not an async one")
        except Exception as error:  # noqa: BLE001 - a hook cannot break the run
            if self.hook_error is None:
                from budget_core.log import log  # loaded for the first error

                log("error", f"on_event raised {type(error).__name__}")
            self.hook_error = error


def as_message(text: str | None, calls: "list[ToolCall]") -> "dict[str, Any]":
    """Return a model's answer as a message of the conversation."""
    if not calls:
        return {"role": "assistant", "content": text or ""}  # only calls need no text
    return {
        "role": "assistant",
        "content": text,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments or {})},
            }
            for call in calls
        ],
    }


def digest(tool_results: "list[dict[str, Any]]") -> str:
    """Return the last tool results, shortened, where there is no better answer."""
    lines = []
    for entry in tool_results[-5:]:
        text = " ".join(entry["content"].split())
        shown = text[:_SHOWN] + "…" if len(text) > _SHOWN else text
        lines.append(f"- {entry.get('name', 'tool')}: {shown}")
    return "What the tools returned:\n" + "\n".join(lines) if lines else ""
