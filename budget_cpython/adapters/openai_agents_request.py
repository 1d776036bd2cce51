"""What a call of an openai-agents model asks for, what it sends instead, and what it used."""

from dataclasses import dataclass, replace
from typing import Any

from agents import Handoff, OpenAIChatCompletionsModel

from budget_core.provider import ChatResponse
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.request import Admitted, Request
from budget_cpython.adapters.settling import report_of
from budget_cpython.adapters.wire.format import as_count, as_name, ending, lowered, named_tools
from budget_cpython.adapters.wire.openai_responses import Responses

_WIRE = Responses("/responses")
_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")  # in extra_args
_ENDS = ("response.completed", "response.incomplete", "response.failed")
_ON_SERVER = ("previous_response_id", "conversation_id")  # where the server keeps what is sent


@dataclass(frozen=True)
class Asked:
    """The arguments of a model's `get_response` or `stream_response`."""

    instructions: str | None
    input: Any
    settings: Any
    tools: list[Any]
    output_schema: Any
    handoffs: list[Any]
    rest: tuple[Any, ...]  # and what later versions add
    named: dict[str, Any]

    def options(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments as they are given, by position and by name."""
        given = (self.instructions, self.input, self.settings, self.tools, self.output_schema)
        return (*given, self.handoffs, *self.rest), self.named


def asked_of(
    system_instructions: Any,
    input: Any,
    model_settings: Any,
    tools: Any,
    output_schema: Any,
    handoffs: Any,
    *rest: Any,
    **named: Any,
) -> Asked:
    """Return the arguments of a call; `tracing` may come by name."""
    if "tracing" in named:
        rest = (named.pop("tracing"), *rest)
    given = (system_instructions, input, model_settings, tools, output_schema, handoffs)
    return Asked(*given, rest, named)


def request_of(model: Any, asked: Asked, stream: bool) -> Request:
    """Return what a call asks for; handoffs are tools to its model."""
    natives = [_tool(tool, at) for at, tool in enumerate([*asked.tools, *asked.handoffs])]
    body = {
        "model": model if isinstance(model, str) else "",
        "instructions": asked.instructions,
        "input": asked.input,
        "stream": stream,
        "service_tier": as_name((asked.settings.extra_args or {}).get("service_tier")),
    }
    tools = named_tools(natives, lambda tool: tool["name"])
    return replace(_WIRE.read(body), tools=tools, max_tokens=_limit_of(asked.settings))


def to_send(model: Any, asked: Asked, request: Request, admitted: Admitted) -> Asked:
    """Return the arguments of the call to make instead."""
    instructions, given = asked.instructions, asked.input
    if admitted.notices and any(asked.named.get(name) for name in _ON_SERVER):
        # the server would keep messages for later calls, but not instructions
        instructions = "\n\n".join([instructions or "", *admitted.notices]).strip()
    elif admitted.notices:
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        given = [*items, *admitted.messages]
    offered = [*asked.tools, *asked.handoffs]
    if admitted.withdraws_from(request):
        offered = [offered[tool["native"]["at"]] for tool in admitted.tools or ()]
    settings = _limited(model, asked.settings, admitted)
    if request.tools and not offered and _needs_tools(request.model):
        offered = [*asked.tools, *asked.handoffs]
        settings = replace(settings, tool_choice="none")
    elif request.tools:
        settings = _without_choice(settings, offered)
    if request.stream and settings.include_usage is None:
        settings = replace(settings, include_usage=True)
    return replace(
        asked,
        instructions=instructions,
        input=given,
        settings=settings,
        tools=[tool for tool in offered if not isinstance(tool, Handoff)],
        handoffs=[tool for tool in offered if isinstance(tool, Handoff)],
    )


def answer_of(response: Any) -> ChatResponse:
    """Return the text and the usage of a whole answer."""
    items = [item.model_dump() if hasattr(item, "model_dump") else item for item in response.output]
    text = _WIRE.answer({"output": items}).content
    return ChatResponse(text, usage=_report(response.usage))


def count(call: BudgetedCall, event: Any) -> ChatResponse | None:
    """Count a piece of a stream; return the answer where it is the last one."""
    kind, delta = event.type, getattr(event, "delta", None)
    if isinstance(delta, str) and not kind.endswith("audio.delta"):
        call.on_text(delta)
    if kind not in _ENDS:
        return None
    usage = getattr(event.response, "usage", None)
    report = {} if usage is None else _report(usage)
    tier = as_name(getattr(event.response, "service_tier", None))
    reason = getattr(getattr(event.response, "incomplete_details", None), "reason", None)
    return ChatResponse("", finish_reason=ending(reason), usage=report, service_tier=tier)


def _report(usage: Any) -> dict[str, Any]:
    prompt = getattr(usage, "input_tokens_details", None)
    made = getattr(usage, "output_tokens_details", None)
    return report_of(
        usage.input_tokens,
        usage.output_tokens,
        getattr(prompt, "cached_tokens", 0),
        getattr(prompt, "cache_write_tokens", 0),
        getattr(made, "reasoning_tokens", 0),
    )


def _tool(tool: Any, at: int) -> dict[str, Any]:
    """Return a tool or a handoff as JSON, from which the prompt is estimated."""
    schema: Any
    if isinstance(tool, Handoff):
        text, schema = tool.tool_description, tool.input_json_schema
    else:
        text = getattr(tool, "description", "")
        schema = getattr(tool, "params_json_schema", None)
    return {"name": _name(tool), "description": text, "parameters": schema, "at": at}


def _name(tool: Any) -> str:
    return str(tool.tool_name if isinstance(tool, Handoff) else tool.name)


def _limit_of(settings: Any) -> int | None:
    extra = settings.extra_args or {}
    found = [as_count(settings.max_tokens), *(as_count(extra.get(name)) for name in _LIMITS)]
    return min((limit for limit in found if limit is not None), default=None)


def _limited(model: Any, settings: Any, admitted: Admitted) -> Any:
    """Return settings with the limit lowered where the caller gave it.

    Reasoning models refuse the `max_tokens` that the SDK sends in chat completions.
    """
    limit, extra = admitted.max_tokens, dict(settings.extra_args or {})
    if limit is None:
        return settings
    given = [name for name in _LIMITS if extra.get(name) is not None]
    if not given and settings.max_tokens is None:
        if not isinstance(model, OpenAIChatCompletionsModel):
            return replace(settings, max_tokens=limit)
        given = [_LIMITS[0]]
    for name in given:
        extra[name] = lowered(as_count(extra.get(name)), admitted)
    if settings.max_tokens is not None:
        settings = replace(settings, max_tokens=lowered(settings.max_tokens, admitted))
    return replace(settings, extra_args=extra) if given else settings


def _needs_tools(model: str) -> bool:
    """Tell whether a model takes no messages with calls of tools where no tools are offered."""
    return "claude" in model or "anthropic" in model


def _without_choice(settings: Any, offered: list[Any]) -> Any:
    """Return settings that choose none of the tools that are withdrawn."""
    if not offered:
        return replace(settings, tool_choice=None, parallel_tool_calls=None)
    choice = settings.tool_choice
    free = choice in (None, "auto", "required", "none")
    names = [_name(tool) for tool in offered]
    return (
        settings
        if free or getattr(choice, "name", choice) in names
        else replace(settings, tool_choice=None)
    )
