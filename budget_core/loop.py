"""Run one turn: ask the model, call the tools it asks for, until it answers or has to stop."""

import json

from budget_core.provider import settle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

COMPLETED = "completed"
CUT_OFF = "cut off"
STOPPED = "stopped"


class Tool:
    """Something a model may call.

    `parameters` is the JSON schema of its arguments, an object. `run` takes them as keywords and
    returns a text, at once or awaited; what it raises goes to the model as an error.
    """

    def __init__(
        self,
        name: str,
        description: str,
        run: "Callable[..., Any]",
        parameters: "dict[str, Any] | None" = None,
    ) -> None:
        self.name = name
        self.description = description
        self.run = run
        self.parameters = parameters or {"type": "object", "properties": {}}

    def definition(self) -> "dict[str, Any]":
        """Return the tool as chat completions describe one."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }


class TurnResult:
    """What a turn came to.

    `reason` is `"completed"`, `"cut off"` (a budget answered in the model's place) or `"stopped"`
    (the policy ended the turn). `messages` is the whole conversation, notices left out.
    """

    def __init__(self, text: str, reason: str, iterations: int, messages: "Messages") -> None:
        self.text = text
        self.reason = reason
        self.iterations = iterations
        self.messages = messages


async def run_turn(
    provider: "Provider",
    messages: "Sequence[dict[str, Any]]",
    tools: "Sequence[Tool]" = (),
    policy: "IterationPolicy | None" = None,
    on_event: "Hook | None" = None,
    max_iterations: int = 50,
) -> TurnResult:
    """Return what a turn comes to, from a user's message to the final answer.

    `policy` is asked before each LLM call; without one the turn ends after `max_iterations`.
    `on_event` is called as `on_event("response", response=…)`, `("tool_started", call=…)` and
    `("tool_finished", call=…, result=…)`. Raises what the provider raises.
    """
    policy = policy or _Bound(max_iterations)
    report = on_event or _ignore
    conversation = list(messages)
    definitions = [tool.definition() for tool in tools] or None
    used: list[str] = []
    iteration = 0
    while await policy.should_continue(iteration, used):
        iteration += 1
        response = await provider.chat(messages=conversation, tools=definitions)
        report("response", response=response)
        conversation.append(_said(response))
        if not response.tool_calls:
            reason = CUT_OFF if getattr(response, "cut_off_by", None) else COMPLETED
            return TurnResult(response.content or "", reason, iteration, conversation)
        for call in response.tool_calls:
            used.append(call.name)
            report("tool_started", call=call)
            result = await _call(tools, call)
            report("tool_finished", call=call, result=result)
            conversation.append({"role": "tool", "tool_call_id": call.id, "content": result})
    text = await policy.on_limit_reached(iteration, used)
    conversation.append({"role": "assistant", "content": text})
    return TurnResult(text, STOPPED, iteration, conversation)


async def _call(tools: "Sequence[Tool]", call: "ToolCall") -> str:
    if call.arguments is None:
        return f"Error: the arguments of {call.name} must be a JSON object"
    for tool in tools:
        if tool.name == call.name:
            try:
                return str(await settle(tool.run(**call.arguments)))
            except Exception as error:  # noqa: BLE001 - a tool may raise anything, the turn goes on
                return f"Error: {type(error).__name__}: {error}"
    return f"Error: there is no tool {call.name!r}, only {', '.join([t.name for t in tools])}"


def _said(response: "ChatResponse") -> "dict[str, Any]":
    if not response.tool_calls:
        return {"role": "assistant", "content": response.content or ""}  # only calls need no text
    return {
        "role": "assistant",
        "content": response.content,
        "tool_calls": [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments or {})},
            }
            for call in response.tool_calls
        ],
    }


def _ignore(event: str, **fields: object) -> None:
    pass


class _Bound:
    """The policy of a turn that was given none."""

    def __init__(self, iterations: int) -> None:
        self._iterations = iterations

    async def should_continue(self, iteration: int, tools_used: "list[str]") -> bool:
        return iteration < self._iterations

    async def on_limit_reached(self, iteration: int, tools_used: "list[str]") -> str:
        return f"Stopped after {iteration} LLM calls without an answer."
