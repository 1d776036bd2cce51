"""The request of a LangChain chat model's call, its changes before it is sent, and its usage."""

from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.messages.ai import add_usage

from budget_core.provider import ChatResponse
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.vendors.attachments import with_attached
from budget_cpython.vendors.format import ending
from budget_cpython.vendors.request import Admitted, LlmRequest

Options = dict[str, Any]

# fields of chat models, and arguments of their calls, by what they mean
_MODEL = ("model_name", "model", "model_id")
_LIMIT = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "num_predict",
    "max_new_tokens",
)
_TOOLS = ("tools", "tool_choice", "parallel_tool_calls")

_FREE_CHOICES = (None, "auto", "none", {"type": "auto"}, {"type": "none"})


def request_of(
    model: Any, messages: list[Any], options: Options, stream: bool = False
) -> LlmRequest:
    """Return the request that a call of a model makes; `options` are its arguments."""
    named, limit = _get(model, options, _MODEL), _get(model, options, _LIMIT)
    tier = _get(model, options, ("service_tier",))
    name = named if isinstance(named, str) else ""
    asked = [_message(one) for one in messages]
    return LlmRequest(
        name,
        with_attached(asked, [one.content for one in messages], name),
        _tools(options),
        limit * _answers(model, options) if type(limit) is int else None,
        stream,
        tier if isinstance(tier, str) else None,
    )


def to_send(
    model: Any, messages: list[Any], options: Options, call: BudgetedCall, admitted: Admitted
) -> tuple[Any, list[Any], Options]:
    """Return the model, the messages and the arguments of the call to make instead.

    The model is a copy where one of its fields changes.
    """
    request, options, changes = call.request, dict(options), {}
    if admitted.model != request.model:
        changes.update(_set(model, options, _MODEL, admitted.model))
    limit = admitted.max_tokens
    if limit is not None and limit != request.max_tokens:
        each = max(1, limit // _answers(model, options))
        changes.update(_set(model, options, _LIMIT, each))
    if admitted.withdraws_from(request):
        _withdraw(model, messages, options, admitted)
    if (
        request.stream
        and "stream_usage" in type(model).model_fields.keys() - model.model_fields_set
    ):
        changes["stream_usage"] = True
    notices = [HumanMessage(notice) for notice in admitted.notices]
    return model.model_copy(update=changes) if changes else model, [*messages, *notices], options


def answer_of(result: Any) -> ChatResponse:
    """Return the text and the usage of a whole answer, preferably in the vendor's own report."""
    known = result.llm_output or {}
    usage = known.get("token_usage") or known.get("usage")
    messages = [generation.message for generation in result.generations]
    if not usage:
        found = [getattr(message, "usage_metadata", None) for message in messages]
        usage = next((_report(one) for one in found if one), None)
    text = "".join(generation.text for generation in result.generations)
    said = [getattr(message, "response_metadata", {}) for message in messages]
    ended = ending(*(one.get(name) for one in said for name in ("finish_reason", "stop_reason")))
    tier = known.get("service_tier")
    answer = ChatResponse(text, finish_reason=ended, usage=usage, service_tier=tier)
    answer.model = next((one["model_name"] for one in said if one.get("model_name")), None)
    return answer


def count(call: BudgetedCall, usage: Any, chunk: Any) -> Any:
    """Count a piece of a stream; return the sum of the usages so far, which pieces add to."""
    message = chunk.message
    call.on_text(chunk.text)
    for piece in getattr(message, "tool_call_chunks", ()):
        call.on_text((piece.get("name") or "") + (piece.get("args") or ""))
    call.on_text(str(message.additional_kwargs.get("reasoning_content") or ""))
    found = getattr(message, "usage_metadata", None)
    if found:
        usage = add_usage(usage, found)
        call.report = _report(usage)
    return usage


def _report(usage: Any) -> Options:
    """Return LangChain's usage as a report whose prompt includes what was cached."""
    read, made = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    return {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
        "prompt_tokens_details": {
            "cached_tokens": read.get("cache_read") or 0,
            "cache_write_tokens": read.get("cache_creation") or 0,
            "audio_tokens": read.get("audio") or 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": made.get("reasoning") or 0,
            "audio_tokens": made.get("audio") or 0,
        },
    }


def _message(message: Any) -> Options:
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    calls = [
        {"function": {"name": call["name"], "arguments": call["args"]}}
        for call in getattr(message, "tool_calls", ())
    ]
    return {"role": role, "content": message.content, **({"tool_calls": calls} if calls else {})}


def _tools(options: Options) -> list[Options] | None:
    """Return the tools on offer, but not those that the answer must call: they are its form."""
    if options.get("tool_choice") not in _FREE_CHOICES:
        return None
    return [{"name": _name(tool), "native": tool} for tool in options.get("tools") or ()] or None


def _name(tool: Any) -> str:
    if not isinstance(tool, dict):
        return str(getattr(tool, "name", ""))
    function = tool.get("function") or {}
    return str(tool.get("name") or function.get("name") or tool.get("type") or "")


def _withdraw(model: Any, messages: list[Any], options: Options, admitted: Admitted) -> None:
    """Leave out the tools that are withdrawn.

    Anthropic refuses messages with calls of tools unless there are tools: these stay, and may not
    be called.
    """
    if admitted.tools:
        options["tools"] = admitted.natives
    elif model._llm_type.startswith("anthropic") and any(one.type == "tool" for one in messages):
        options["tool_choice"] = {"type": "none"}
    else:
        for name in _TOOLS:
            options.pop(name, None)


def _answers(model: Any, options: Options) -> int:
    count = _get(model, options, ("n",))
    return count if type(count) is int and count > 1 else 1


def _get(model: Any, options: Options, names: tuple[str, ...]) -> Any:
    """Return the first argument of the call that is given, else the model's field, by its names."""
    given = [options[name] for name in names if options.get(name) is not None]
    fields = [getattr(model, name) for name in names if name in type(model).model_fields]
    return next((value for value in (*given, *fields) if value is not None), None)


def _set(model: Any, options: Options, names: tuple[str, ...], value: Any) -> Options:
    """Set the given arguments of the call; return the field to set, if there is one."""
    for name in names:
        if options.get(name) is not None:
            options[name] = value
    fields = [name for name in names if name in type(model).model_fields]
    return {fields[0]: value} if fields else {}
