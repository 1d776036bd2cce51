"""The request of a pydantic-ai model's call, its changes before it is sent, and its usage."""

from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart

from budget_core.provider import ChatResponse
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.settling import report_of
from budget_cpython.vendors.anthropic import Messages
from budget_cpython.vendors.format import as_count, as_text, ending, lowered
from budget_cpython.vendors.request import Admitted, LlmRequest

Json = dict[str, Any]
_OF_TOOLS = ("tool_choice", "parallel_tool_calls")
_TIERS = ("service_tier", "openai_service_tier", "anthropic_service_tier")


@dataclass(frozen=True)
class RequestArguments:
    """The arguments of a model's `request` or `request_stream`."""

    messages: list[Any]
    settings: Any
    parameters: Any


def request_of(model: Any, asked: RequestArguments, stream: bool = False) -> LlmRequest:
    """Return the request that a call makes; an output tool is not one of its tools."""
    settings = _settings(model, asked)
    tiers = [as_text(settings.get(name)) or None for name in _TIERS]
    return LlmRequest(
        model.model_name,
        _messages(asked),
        [_tool(tool, at) for at, tool in enumerate(_tools(asked.parameters))] or None,
        as_count(settings.get("max_tokens")),
        stream,
        next((tier for tier in tiers if tier not in (None, "auto", "default")), None),
    )


def to_send(
    model: Any, asked: RequestArguments, request: LlmRequest, admitted: Admitted
) -> RequestArguments:
    """Return the arguments of the call to make instead."""
    settings = dict(asked.settings or {})
    parameters = asked.parameters
    if admitted.withdraws_from(request):
        kept = [tool["at"] for tool in admitted.tools or ()]
        for name in _OF_TOOLS if not kept else _OF_TOOLS[:1]:
            settings.pop(name, None)
        if not kept and model.system == "anthropic" and not parameters.output_tools:
            # it takes no messages with calls of tools without tools: they may not be called
            choice = {"tool_choice": {"type": "none"}}
            settings["extra_body"] = {**(settings.get("extra_body") or {}), **choice}
        else:
            parameters = _offering(parameters, kept)
    limit = lowered(request.max_tokens, admitted)
    if limit is not None and limit != request.max_tokens:
        settings["max_tokens"] = limit
        _lower_thinking(settings, _settings(model, asked), request.max_tokens, limit)
    messages = with_notices(asked.messages, admitted.notices)
    return RequestArguments(messages, settings or asked.settings, parameters)


def with_notices(messages: list[Any], notices: tuple[str, ...]) -> list[Any]:
    """Return messages with notices last, but before an answer that is to be continued."""
    if not notices:
        return messages
    parts = [UserPromptPart(notice) for notice in notices]
    at = len(messages)
    while at and isinstance(messages[at - 1], ModelResponse):
        at -= 1
    if not at:
        return [ModelRequest(parts=parts), *messages]
    last = messages[at - 1]  # which may have instructions, and keeps them
    return [*messages[: at - 1], replace(last, parts=[*last.parts, *parts]), *messages[at:]]


def answer_of(response: Any) -> ChatResponse:
    """Return the text and the usage of an answer."""
    text = "".join(text_of(part) for part in response.parts)
    ended = ending(getattr(response, "finish_reason", None))
    found = ChatResponse(text, finish_reason=ended, usage=report(response.usage))
    found.model = response.model_name
    return found


def report(usage: Any) -> Json:
    """Return the usage of a response as a report."""
    return report_of(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.details.get("reasoning_tokens"),
    )


def count(call: BudgetedCall, event: Any) -> None:
    """Count a piece of a stream."""
    part, delta = getattr(event, "part", None), getattr(event, "delta", None)
    if event.event_kind == "part_start":
        call.on_text(text_of(part))
    elif event.event_kind == "part_delta":
        for name in ("content_delta", "tool_name_delta", "args_delta"):
            piece = getattr(delta, name, None)
            call.on_text(piece if isinstance(piece, str) else str(piece or ""))


def text_of(part: Any) -> str:
    """Return the text of a part of a message."""
    if hasattr(part, "args_as_json_str"):
        return str(part.tool_name) + str(part.args_as_json_str())
    for name in ("model_response_str", "model_response"):  # of a tool's result, of a retry
        if hasattr(part, name):
            return str(getattr(part, name)())
    texts = [getattr(piece, "content", piece) for piece in _pieces(part)]
    return "".join(text for text in texts if isinstance(text, str))


def _pieces(part: Any) -> list[Any]:
    content = getattr(part, "content", None)
    return list(content) if isinstance(content, (list, tuple)) else [content]


def _settings(model: Any, asked: RequestArguments) -> Json:
    """Return the settings that hold: the model's own, changed by those of the call."""
    return {**(model.settings or {}), **(asked.settings or {})}


def _messages(asked: RequestArguments) -> list[Json]:
    """Return all that is sent as messages, from which the prompt is estimated."""
    found = []
    instructions = None
    for message in asked.messages:
        is_answer = isinstance(message, ModelResponse)
        text = "".join(text_of(part) for part in message.parts)
        row: Json = {"role": "assistant" if is_answer else "user", "content": text}
        attached = [one for part in message.parts for one in _pieces(part)]
        if any(not isinstance(one, str | None) for one in attached):
            row["attached"] = attached  # for those who compare requests
        found.append(row)
        instructions = getattr(message, "instructions", None) or instructions
    if instructions:
        found.insert(0, {"role": "system", "content": instructions})
    for tool in asked.parameters.output_tools:
        found.append({"role": "system", "content": str(tool.parameters_json_schema)})
    return found


def _tools(parameters: Any) -> list[Any]:
    return [*parameters.function_tools, *parameters.native_tools]


def _tool(tool: Any, at: int) -> Json:
    """Return a tool as JSON, from which the prompt is estimated."""
    name = getattr(tool, "name", None) or tool.kind
    schema = getattr(tool, "parameters_json_schema", None)
    description = getattr(tool, "description", None)
    return {"name": name, "description": description, "parameters": schema, "at": at}


def _offering(parameters: Any, kept: list[int]) -> Any:
    own = len(parameters.function_tools)
    tools = _tools(parameters)
    return replace(
        parameters,
        function_tools=[tools[at] for at in kept if at < own],
        native_tools=[tools[at] for at in kept if at >= own],
    )


def _lower_thinking(settings: Json, known: Json, asked: int | None, limit: int) -> None:
    """Keep what Anthropic's models may think below the limit of their answer."""
    thinking = known.get("anthropic_thinking")
    if thinking:
        body = {"max_tokens": asked, "thinking": thinking}
        sent = Messages("").write(body, Admitted("", (), None, limit), LlmRequest("", []))
        settings["anthropic_thinking"] = sent.get("thinking", {"type": "disabled"})
