"""The request of a CrewAI LLM's call, its changes before it is sent, and its usage."""

from typing import Any

from crewai.types.usage_metrics import UsageMetrics

from budget_cpython.adapters.request import Admitted, LlmRequest
from budget_cpython.adapters.settling import report_of
from budget_cpython.adapters.wire.format import with_attached

_LIMITS = ("max_completion_tokens", "max_tokens")
_OPENAI = ("openai", "azure")


def request_of(llm: Any, messages: Any, tools: Any) -> LlmRequest:
    """Return the request that a call of an LLM makes."""
    limits = [getattr(llm, name, None) for name in _LIMITS]
    limit = next((int(found) for found in limits if found is not None), None)
    return LlmRequest(
        llm.model,
        with_attached(_as_list(messages), _as_list(messages), llm.model),
        [{"name": _name(tool), "native": tool} for tool in tools or ()] or None,
        limit * (llm.n or 1) if limit is not None else None,
        bool(_stream(llm)),
    )


def to_send(
    llm: Any, messages: Any, tools: Any, request: LlmRequest, admitted: Admitted
) -> tuple[dict[str, Any], Any, Any]:
    """Return the fields of the LLM to change, the messages and the tools to send instead."""
    # what holds for this very LLM in the call's context, as its copy is another one
    changes = {"stop": list(llm.stop_sequences), "stream": _stream(llm)}
    if admitted.model != request.model:
        changes["model"] = admitted.model
    if admitted.max_tokens is not None and admitted.max_tokens != request.max_tokens:
        limit = max(1, admitted.max_tokens // (llm.n or 1))
        given = [name for name in _LIMITS if getattr(llm, name, None) is not None]
        default = _LIMITS[0] if llm.provider in _OPENAI else _LIMITS[1]
        changes.update(dict.fromkeys(given or [default], limit))
    if admitted.notices:
        messages = [*_as_list(messages), *admitted.messages]
    if admitted.withdraws_from(request) and not _needs_tools(llm, request):
        tools = admitted.natives or None
    return changes, messages, tools


def _needs_tools(llm: Any, request: LlmRequest) -> bool:
    """Tell whether an API refuses messages with calls of tools unless there are tools."""
    asked = any(isinstance(one, dict) and one.get("role") == "tool" for one in request.messages)
    return asked and llm.provider == "anthropic"


def report_on(usages: list[Any]) -> dict[str, Any] | None:
    """Return the sum of the usages that an LLM tracked; `None` if none says anything."""
    total = UsageMetrics()
    for usage in usages:
        found = UsageMetrics.from_provider_dict(_renamed(usage))
        if found is not None:
            total.add_usage_metrics(found)
    report = report_of(
        total.prompt_tokens,
        total.completion_tokens,
        total.cached_prompt_tokens,
        total.cache_creation_tokens,
        total.reasoning_tokens,
    )
    return report or None


def _renamed(usage: Any) -> dict[str, Any]:
    """Return a usage with Bedrock's names as CrewAI's."""
    found = dict(usage)
    if "inputTokens" in found:
        found["input_tokens"] = found["inputTokens"]
        found["output_tokens"] = found.get("outputTokens", 0)
    return found


def _as_list(messages: Any) -> list[Any]:
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)


def _stream(llm: Any) -> Any:
    effective = getattr(llm, "_effective_stream", None)
    return llm.stream if effective is None else effective()


def _name(tool: Any) -> str:
    function = tool.get("function") if isinstance(tool, dict) else None
    return str(
        (function or {}).get("name") or (tool.get("name") if isinstance(tool, dict) else tool.name)
    )
