"""The tools of a run, as a model calls them: arguments checked, time bounded, calls counted."""

import json

from budget_core.agent.cancellation import CutShortError, call_within
from budget_core.agent.envelope import Envelope
from budget_core.agent.stop import StopReason, in_words
from budget_core.agent.tool import ToolOutput
from budget_core.allowance import claim_repair
from budget_core.lazy_call import lazy_call
from budget_core.provider import maybe_await
from budget_core.usage import read_usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_core._types import Tools
    from budget_core.agent.tool import Tool
    from budget_core.provider import ToolCall
    from budget_core.turn_state import TurnRuntimeState

COMPLETED = "completed"
FAILED = "failed"
TIMED_OUT = "timed_out"
DENIED = "denied"
INVALID = "invalid"
ANSWERED = "answered"
CANCELLED = "cancelled"
CALLED_OFF = "Error: cancelled"


class ToolEnd:
    """How a tool call ended: `status`, the text for the model, and why the run is to stop.

    `status` is `"completed"`, `"failed"`, `"timed_out"`, `"denied"` (not begun), `"invalid"` (not
    begun for its arguments; the model may try again), `"answered"` (by middleware) or
    `"cancelled"` (with the run). `answer` is what a tool that stops the run leaves as its text.
    """

    def __init__(
        self, status: str, content: str, stop_reason: str | None = None, answer: str = ""
    ) -> None:
        self.status = status
        self.content = content
        self.stop_reason = stop_reason
        self.answer = answer


class Toolbox:
    """The tools of one run; calls are admitted one by one, in the order of the answer.

    `ends` has those of calls that have returned and are not yet recorded, by `id(call)`, so that
    none is lost if the run is cancelled meanwhile. What a tool returns after its call was given up
    is dropped. A `state` traces the calls, and may block tools.
    """

    def __init__(
        self, tools: "Sequence[Tool]", envelope: "Envelope", state: "TurnRuntimeState | None"
    ) -> None:
        self.tools = {tool.name: tool for tool in tools}
        if len(self.tools) < len(tools):
            raise ValueError("two tools have the same name")
        self.envelope = envelope
        self.state = state
        self.offered: set[str] = set()
        self.ends: dict[int, ToolEnd] = {}
        self._complained: set[str] = set()
        self._repairs = {} if state is None else state.validation_repair_counts
        self._running: set[int] = set()

    def offer(self, definitions: "Tools | None") -> None:
        """Note the tools that were offered with the last request: the model may call no other."""
        self._complained.clear()
        self.offered = {str(one["function"]["name"]) for one in definitions or ()}

    def refusal(self, call: "ToolCall") -> ToolEnd | None:
        """Return why a call cannot be made as it was asked for, or `None`."""
        tool = self.tools.get(call.name)
        if self.state is not None and call.name in self.state.blocked_tool_names:
            return ToolEnd(DENIED, f"Error: {call.name} is blocked; go on without it.")
        wrong: str | None = "arguments must be a JSON object"
        if tool is None:
            names = ", ".join(sorted(self.offered)) or "none"
            wrong = f"there is no tool {call.name}; there are: {names}"
        elif call.name not in self.offered and self.envelope.tool_calls.left() != 0:
            return ToolEnd(DENIED, f"Error: {call.name} is off now; go on without it.")
        elif call.arguments is not None:
            wrong = lazy_call(tool.SCHEMAS, "complaint_about", tool.parameters, call.arguments)
        if wrong is None:
            self._repairs.pop(call.name, None)
            return None
        if call.name in self._complained or claim_repair(self._repairs, call.name):
            self._complained.add(call.name)  # one complaint an answer, however many calls
            text = f"Error: {wrong}. Nothing was done: call {call.name} again with that corrected."
            return ToolEnd(INVALID, f"Error: {wrong}" if tool is None else text)
        return ToolEnd(DENIED, f"Error: {wrong}. The call is denied: go on without it.")

    async def run(self, call: "ToolCall", trace_id: str) -> ToolEnd:
        """Call a tool whose arguments were checked, and return how that ended; raises nothing."""
        tool, envelope, state = self.tools[call.name], self.envelope, self.state

        def claim() -> bool:
            return envelope.claim_tool_call(call.name)

        if not (claim() if state is None else state.set_trace_running(trace_id, call.name, claim)):
            return ToolEnd(DENIED, f"Error: no call of {call.name} is left; go on without it.")
        named = self.keywords(tool, call)
        token: Any = None
        if tool.cooperative:
            from budget_core.deadline_token import DeadlineToken  # loaded for the first such tool

            token = named["token"] = DeadlineToken.from_budget(envelope, tool.cap_s)
        work = (tool, call, named, trace_id)
        self._running.add(id(call))
        try:
            end: ToolEnd = await call_within(envelope, self._work, *work, cap_s=tool.cap_s)
        except CutShortError:
            if state is not None:
                state.mark_trace_timed_out(trace_id)
            return self.cut_short(call.name)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the error goes to the model
            count_reported(error, envelope, state)
            if state is not None:
                state.complete_trace(trace_id)
            return ToolEnd(FAILED, "Error: " + in_words(error))
        finally:
            self._running.discard(id(call))
            try:
                if token is not None:
                    token.cancel()
            except Exception:  # noqa: BLE001, S110 - a callback of the tool's, which has ended
                pass
            self.stop_child(named)
        return end

    async def _work(
        self, tool: "Tool", call: "ToolCall", named: "dict[str, Any]", trace_id: str
    ) -> ToolEnd:
        since = self.envelope.elapsed_ms()
        value = await maybe_await(tool.run(**named))
        count_reported(value, self.envelope, self.state)
        end = as_end(value)
        if self.state is not None:
            self.state.complete_trace(trace_id, self.envelope.elapsed_ms() - since)
        if id(call) in self._running:
            self.ends[id(call)] = end
        return end

    def cut_short(self, name: str) -> ToolEnd:
        """Return the end of a call that was cancelled: its time was over, or the run's."""
        if self.envelope.why_stopped() is not None:
            return ToolEnd(CANCELLED, CALLED_OFF)
        return ToolEnd(TIMED_OUT, f"Error: {name} took too long and was cancelled")

    def keywords(self, tool: "Tool", call: "ToolCall") -> "dict[str, Any]":
        """Return the keywords that a tool is called with.

        A tool that draws gets an envelope for this call, below the run's; `stop_child` stops it.
        """
        named = dict(call.arguments)
        if tool.draws:
            named["budget"] = self.envelope.child(name=f"{self.envelope.name}/{call.name}")
        return named

    def stop_child(self, named: "dict[str, Any]") -> None:
        """Stop the envelope of a call that is over: what the tool left running spends no more."""
        budget = named.get("budget")
        if isinstance(budget, Envelope):
            budget.stop("its call is over", StopReason.CANCELLED)


def count_reported(value: "Any", budget: "Any", state: "TurnRuntimeState | None") -> "Any":
    """Record model usage that a tool reported, and its cost; return the report.

    The report is an attribute or a key `usage` of what it returned or raised; only a `ToolOutput`
    tells a cost. The tokens count in a `state`, and in a `budget` that is an `Envelope`.
    """
    report: Any = None
    nano_usd = value.nano_usd if isinstance(value, ToolOutput) else None
    try:
        report = value.get("usage") if isinstance(value, dict) else value.usage
    except BaseException:  # noqa: BLE001, S110 - most have none, a foreign object may raise anything
        pass
    usage = read_usage(report)
    if isinstance(budget, Envelope) and (report is not None or nano_usd is not None):
        budget.charge_report(usage, nano_usd)
    if report is not None and state is not None:
        state.add_usage(usage)
    return report


def as_end(value: "Any") -> ToolEnd:
    """Return the end of a call that returned `value`."""
    if isinstance(value, ToolOutput):
        content = value.content or value.stop_reason or ""
        return ToolEnd(COMPLETED, content, value.stop_reason, value.content)
    return ToolEnd(COMPLETED, as_text(value))


def as_text(value: "Any") -> str:
    """Return a tool's result as a text for the model: JSON of other values, if possible."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)
