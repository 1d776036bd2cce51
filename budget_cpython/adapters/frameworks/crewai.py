"""Put a budget round CrewAI: its LLMs, and the tools of its agents."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Unpack

try:
    from crewai import BaseLLM
    from crewai.hooks.dispatch import HookAborted
except ImportError as error:
    raise ImportError("CrewAI needs: pip install 'microbudget[crewai]'") from error
from crewai.types.usage_metrics import UsageMetrics
from pydantic import PrivateAttr

from budget_core.errors import BudgetError
from budget_core.ledger.outbox import finish
from budget_core.provider import ChatResponse, maybe_await
from budget_cpython.adapters.account import Accounts, Options
from budget_cpython.adapters.blocking_call import BlockingCall, answering_either
from budget_cpython.adapters.call import BudgetedCall, apart
from budget_cpython.adapters.opened_accounts import Caller, accounts_of
from budget_cpython.adapters.settling import report_of
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.vendors.attachments import with_attached
from budget_cpython.vendors.request import Admitted, LlmRequest

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


_SLOTS = ("__pydantic_fields_set__", "__pydantic_extra__")
_POSITIONS = (
    "tools",
    "callbacks",
    "available_functions",
    "from_task",
    "from_agent",
    "response_model",
)


class _Answering:
    """A call that is being answered, and what its LLM has said of its usage."""

    def __init__(self, llm: Any, call: BudgetedCall) -> None:
        self.llm = llm
        self.call = call
        self.usages: list[Any] = []


_ANSWERING: ContextVar[_Answering | None] = ContextVar("microbudget.crewai", default=None)


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return an LLM of the same type, whose calls draw on the accounts.

    Raises `ValueError` for what is not an LLM.
    """
    if not isinstance(what, BaseLLM):
        raise ValueError(
            f"budgeted takes an LLM of CrewAI, not {type(what).__name__}: give it to the agents, "
            "as in Agent(llm=budgeted(LLM(model='openai/gpt-4o-mini'), '$1'), …)"
        )
    kind: Any = getattr(type(what), "_unbudgeted_kind", None) or type(what)
    outer = getattr(what, "_budget_accounts", ())
    return _copied(what, _class_of(kind), {}, (*outer, *accounts))


class ToolBudgetHook:
    """A budget for the tools of agents: a hook for `crewai.hooks.register_before_tool_call_hook`.

    `limits`, `ledger`, `account` and `options` are those of `budgeted`. Without any of them tools
    draw on the `with` blocks around them alone. A tool that is refused is not run: CrewAI tells the
    model that a hook blocked it.
    """

    def __init__(
        self,
        limits: str = "",
        *,
        ledger: Any = None,
        account: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        caller = Caller("crewai-tools", models=False)
        self._accounts = accounts_of(limits or None, ledger, account, caller, **options)

    def __call__(self, context: Any) -> None:
        """Count a call of a tool, or raise `HookAborted`."""
        try:
            with BudgetedToolCall(self._accounts, context.tool_name):
                pass
        except Exception as error:  # CrewAI runs the tool after any other
            raise HookAborted(refusal_text(context.tool_name, error), "microbudget") from error


def _copied(llm: Any, kind: Any, changes: dict[str, Any], accounts: Any) -> Any:
    """Return a shallow copy of an LLM that shares its client and its counters."""
    made = object.__new__(kind)
    for slot in _SLOTS:
        object.__setattr__(made, slot, getattr(llm, slot))
    object.__setattr__(made, "__dict__", {**llm.__dict__, **changes})
    private = {**(llm.__pydantic_private__ or {}), "_budget_accounts": accounts}
    object.__setattr__(made, "__pydantic_private__", private)
    return made


@lru_cache(maxsize=64)
def _class_of(kind: Any) -> type:
    """Return the class whose instances are an LLM's, with budgets round its calls."""
    body = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "__annotations__": {"_budget_accounts": tuple},
        "_budget_accounts": PrivateAttr(default=()),
        "call": _blocking(kind),
        "acall": _awaited(kind),
        "_track_token_usage_internal": _noting_usage(kind),
        "_emit_stream_chunk_event": _noting_text(kind._emit_stream_chunk_event),
        "_emit_thinking_chunk_event": _noting_text(kind._emit_thinking_chunk_event),
    }
    made: type = type(kind)(kind.__name__, (kind,), body)
    type.__setattr__(made, "_unbudgeted_kind", kind)
    return made


def _blocking(kind: Any) -> Any:
    def call(self: Any, messages: Any, *given: Any, **options: Any) -> Any:
        return finish(_ask(self, kind.call, BlockingCall, messages, _by_name(given, options)))

    return call


def _awaited(kind: Any) -> Any:
    async def acall(self: Any, messages: Any, *given: Any, **options: Any) -> Any:
        return await _ask(self, kind.acall, BudgetedCall, messages, _by_name(given, options))

    return acall


async def _ask(
    llm: Any, ask: Any, make: type[BudgetedCall], messages: Any, options: dict[str, Any]
) -> Any:
    """Ask an LLM within its budget; nothing waits for one that blocks."""
    if _is_inside(llm):
        return await maybe_await(ask(llm, messages, **options))
    with apart():  # a handler of another call's events answers no other call
        one = make(llm._budget_accounts, request_of(llm, messages, options["tools"]))
    try:
        admitted = await one.begin()
    except Exception as error:
        raise HookAborted(str(error), "microbudget") from error
    changes, messages, options["tools"] = to_send(
        llm, messages, options["tools"], one.request, admitted
    )
    sent = _copied(llm, type(llm), changes, llm._budget_accounts)
    async with _answering(sent, one) as state:
        answer = await maybe_await(ask(sent, messages, **options))
    await one.end(ChatResponse(str(answer), usage=report_on(state.usages)))
    return answer


def _by_name(given: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call by name; what its tools call answers no call of an LLM."""
    options = {"tools": None, **dict(zip(_POSITIONS, given, strict=False)), **options}
    tools = options.get("available_functions") or {}
    if tools:
        options["available_functions"] = {name: apart()(tool) for name, tool in tools.items()}
    return options


def _is_inside(llm: Any) -> bool:
    """Tell whether an LLM calls itself, as a part of a call that is counted already."""
    state = _ANSWERING.get()
    return state is not None and state.llm is llm


@asynccontextmanager
async def _answering(llm: Any, call: BudgetedCall) -> AsyncIterator[_Answering]:
    """Note the events of a call meanwhile; settle it if it fails."""
    state = _Answering(llm, call)
    before = _ANSWERING.set(state)
    try:
        async with answering_either(call):
            yield state
    except BudgetError as error:
        raise HookAborted(str(error), "microbudget") from error
    finally:
        _ANSWERING.reset(before)


def _noting_usage(kind: Any) -> Any:
    def _track_token_usage_internal(self: Any, usage: Any) -> None:
        state = _ANSWERING.get()
        if state is not None and state.llm is self:
            state.usages.append(usage)
            state.call.report = report_on(state.usages)
        kind._track_token_usage_internal(self, usage)

    return _track_token_usage_internal


def _noting_text(emit: Any) -> Any:
    def emit_and_note(self: Any, chunk: str, *given: Any, **options: Any) -> None:
        state = _ANSWERING.get()
        if state is not None and state.llm is self:
            state.call.on_text(chunk or str(options.get("tool_call") or ""))
        emit(self, chunk, *given, **options)

    return emit_and_note
