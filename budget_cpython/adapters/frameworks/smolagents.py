"""Budgets round the models, tools and agents of smolagents."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

try:
    from smolagents import LocalPythonExecutor, MultiStepAgent, Tool, ToolCallingAgent
    from smolagents.models import Model
except ImportError as error:
    raise ImportError("smolagents is missing: pip install 'microbudget[smolagents]'") from error
from smolagents import models

from budget_core.errors import BudgetError, DeadlineExceeded
from budget_core.provider import ChatResponse
from budget_cpython.adapters.account import Accounts, BudgetAccount
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.object_proxy import twin_of
from budget_cpython.adapters.opened_accounts import Caller
from budget_cpython.adapters.provider_errors import UnbilledError
from budget_cpython.adapters.settling import pieces_blocking, settled_blocking
from budget_cpython.adapters.tools import BudgetedToolCall, refusal_text
from budget_cpython.context.deadline import Deadline
from budget_cpython.vendors.format import ending
from budget_cpython.vendors.request import Admitted, LlmRequest

FINAL_ANSWER = "final_answer"
_LIMITS = ("max_completion_tokens", "max_tokens", "max_new_tokens")
_BY_HTTP = (models.OpenAIServerModel, models.LiteLLMModel)  # which take a timeout for each call
_TIMEOUT = 600  # seconds, as OpenAI's; a shorter one is the deadline's, and is not tried again


class ModelCall:
    """One call of `generate` or `generate_stream`: `options` are what it was given by name.

    `call` draws on accounts. After `admit`, `model` answers `messages` with `options`.
    """

    def __init__(
        self,
        model: Any,
        kind: type,
        accounts: Sequence[BudgetAccount],
        messages: list[Any],
        options: dict[str, Any],
        stream: bool,
    ) -> None:
        self.model = model
        self.messages = messages
        self.options = options
        self._kind = kind
        self._is_json = bool(options.get("response_format"))
        self._tools = options.get("tools_to_call_from") or []
        self._offered = [
            {"name": tool.name, "native": models.get_tool_json_schema(tool)} for tool in self._tools
        ]
        if not self._tools and "Observation:" in (options.get("stop_sequences") or ()):
            self._offered = [{"name": "python", "native": None}]  # a CodeAgent writes its calls
        self._limit_name, limit = _limit_of(model, options)
        asked = [{"role": _role_of(one), "content": _content_of(one)} for one in messages]
        request = LlmRequest(model.model_id or "", asked, self._offered or None, limit, stream)
        self.call = BudgetedCall(accounts, request)

    def admit(self) -> None:
        """Admit the call, and make what is sent; raises as `BudgetedCall.begin_blocking`."""
        admitted = self.call.begin_blocking()
        self.is_final = bool(self._offered) and admitted.tools is None
        self.options = dict(self.options)
        self.messages = _with_notices(self.messages, admitted.notices)
        if self._tools:
            kept = {tool["name"] for tool in admitted.tools or ()} | {FINAL_ANSWER}
            tools = [tool for tool in self._tools if tool.name in kept]
            self.options["tools_to_call_from"] = None if self.is_final else tools
        if self.is_final:
            self.options.pop("response_format", None)
        self.model = self._plain(admitted)

    def _plain(self, admitted: Admitted) -> Any:
        """Return a model for this call alone, with its name, limit and time."""
        plain: Any = object.__new__(self._kind)
        plain.__dict__ = dict(self.model.__dict__)
        plain.model_id = admitted.model if self.model.model_id else self.model.model_id
        changed: dict[str, Any] = {}
        if admitted.max_tokens != self.call.request.max_tokens and self._limit_name:
            changed[self._limit_name] = admitted.max_tokens
        deadline = Deadline.current()
        if isinstance(plain, _BY_HTTP) and not deadline.is_never():
            known = plain.kwargs.get("timeout", self.options.get("timeout"))
            changed["timeout"] = deadline.timeout(known if isinstance(known, int | float) else None)
            if changed["timeout"] < _TIMEOUT:
                _try_once(plain)
        plain.kwargs = {**getattr(plain, "kwargs", {}), **changed}
        self.options |= {name: value for name, value in changed.items() if name in self.options}
        return plain

    def end(self, answer: Any) -> Any:
        """Record what an answer used; return it, as the run's final answer if it is that."""
        raw = answer.raw
        report = raw.get("usage") if isinstance(raw, dict) else getattr(raw, "usage", None)
        text, tier = text_of(answer.content), getattr(raw, "service_tier", None)
        choices = getattr(raw, "choices", None) or ()
        reasons = [getattr(choice, "finish_reason", None) for choice in choices]
        usage = report or answer.token_usage
        self.call.end_blocking(
            ChatResponse(text, finish_reason=ending(*reasons), usage=usage, service_tier=tier)
        )
        if not self.is_final or answer.tool_calls:
            return answer
        if not self._tools:
            answer.content = self.as_code(text)
            return answer
        data = {"role": "assistant", "content": text, "tool_calls": [_final_call(text)]}
        return models.ChatMessage.from_dict(data, raw=raw, token_usage=answer.token_usage)

    def as_code(self, text: str) -> str:
        """Return the code by which a CodeAgent gives a text as its final answer."""
        if f"{FINAL_ANSWER}(" in text and text.lstrip().startswith("{") == self._is_json:
            return text
        literal = repr(text).replace("<", "\\x3c").replace("`", "\\x60")  # no tags of code
        code = f"{FINAL_ANSWER}({literal})"
        return json.dumps({"thought": "", "code": code}) if self._is_json else f"```py\n{code}\n```"

    def final_delta(self, text: str) -> Any:
        """Return the piece of a stream that gives a text as the run's final answer."""
        if not self._tools:
            return models.ChatMessageStreamDelta(content=self.as_code(text))
        function = models.ChatMessageToolCallFunction(
            name=FINAL_ANSWER, arguments=json.dumps({"answer": text})
        )
        call = models.ChatMessageToolCallStreamDelta(0, "budget", "function", function)
        return models.ChatMessageStreamDelta(content=text, tool_calls=[call])


def text_of(content: Any) -> str:
    """Return the text of a message's content."""
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content or ""


def _final_call(text: str) -> dict[str, Any]:
    function = {"name": FINAL_ANSWER, "arguments": {"answer": text}}
    return {"id": "budget", "type": "function", "function": function}


def _limit_of(model: Any, options: dict[str, Any]) -> tuple[str | None, int | None]:
    """Return the name of the limit of an answer, if there is one for such models, and its value."""
    given = {**options, **getattr(model, "kwargs", {})}
    for name in _LIMITS:
        if type(given.get(name)) is int:
            return name, given[name]
    if isinstance(model, models.AmazonBedrockServerModel):
        return None, None
    return _LIMITS[not isinstance(model, models.OpenAIServerModel)], None


def _try_once(plain: Any) -> None:
    if hasattr(plain.client, "with_options"):
        plain.client = plain.client.with_options(max_retries=0)
    if hasattr(plain, "retryer"):
        plain.retryer = type(plain.retryer)()


def _role_of(message: Any) -> str:
    role = message["role"] if isinstance(message, dict) else message.role
    return str(getattr(role, "value", role))


def _content_of(message: Any) -> Any:
    return message["content"] if isinstance(message, dict) else message.content


def _with_notices(messages: list[Any], notices: Sequence[str]) -> list[Any]:
    """Return messages with notices as the user's last ones; smolagents joins them to one."""
    if not notices:
        return messages
    parts = [{"type": "text", "text": notice} for notice in notices]
    *before, last = messages
    content = _content_of(last)
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if isinstance(last, dict):
        return [
            *before,
            {**last, "content": content},
            {"role": models.MessageRole.USER, "content": parts},
        ]
    last = models.ChatMessage(role=last.role, content=content, tool_calls=last.tool_calls)
    return [*before, last, models.ChatMessage(role=models.MessageRole.USER, content=parts)]


_POSITIONS = ("stop_sequences", "response_format", "tools_to_call_from")  # of a model's arguments


def budgeted(what: Any, accounts: Accounts) -> Any:
    """Return a model, a tool or an agent like the one given, whose calls draw on accounts.

    An agent's model and tools, and those of its managed agents, draw on them. It shares its memory
    with the one given. In its last call that the budget allows, its model gets no tools, and what
    it says is the run's final answer.
    """
    if isinstance(what, Model):
        return twin_of(what, accounts, _model_kind)
    if isinstance(what, Tool):
        return _called(what, accounts)
    if isinstance(what, MultiStepAgent):
        return _budgeted_agent(what, accounts)
    raise ValueError(f"budgeted takes a Model, a Tool or an agent of smolagents, not {what!r}")


def caller_of(what: Any) -> Caller:
    """Return an object's `Caller`: a model calls no tools, and a tool no model."""
    is_model, is_tool = isinstance(what, Model), isinstance(what, Tool)
    return Caller("smolagents", models=not is_tool, tools=not is_model)


def _budgeted_agent(agent: Any, accounts: Accounts, answers: bool = False) -> Any:
    """Return an agent on a budget; with `answers` its refused call as a tool is answered."""
    reads = isinstance(agent, ToolCallingAgent)  # a CodeAgent's code needs an error
    new = _called(agent, accounts, answers)
    new.__dict__ = dict(agent.__dict__)
    new.model = budgeted(agent.model, accounts)
    if isinstance(getattr(agent, "python_executor", None), LocalPythonExecutor | None):
        new.tools = {
            name: tool if name == FINAL_ANSWER else _called(tool, accounts, reads)
            for name, tool in agent.tools.items()
        }
    new.managed_agents = {
        name: _budgeted_agent(child, accounts, reads)
        for name, child in agent.managed_agents.items()
    }
    return new


def _called(what: Any, accounts: Accounts, answers: bool = False) -> Any:
    """Return a tool, or an agent, like the one given, whose calls are counted."""
    return twin_of(what, accounts, lambda kind, chain: _called_kind(kind, chain, answers))


def _called_kind(kind: Any, accounts: Accounts, answers: bool) -> Any:
    """Return a kind of tool, or of managed agent, whose calls are counted.

    A refused one raises, or is answered with the reason.
    """

    class BudgetedTool(kind):  # type: ignore[misc]
        def __call__(self, *given: Any, **options: Any) -> Any:
            call = BudgetedToolCall(accounts, self.name or "")
            try:
                call.begin_blocking()
            except BudgetError as error:
                if answers:
                    return refusal_text(self.name, error)
                raise
            try:
                return super().__call__(*given, **options)
            finally:
                call.end_blocking()

    return BudgetedTool


def _model_kind(kind: Any, accounts: Accounts) -> Any:
    class BudgetedLlm(kind):  # type: ignore[misc]
        def generate(self, messages: Any, *given: Any, **options: Any) -> Any:
            asked = ModelCall(self, kind, accounts, messages, _by_name(given, options), False)
            asked.admit()
            with _settled(asked.call), asked.call.answering():
                answer = kind.generate(asked.model, asked.messages, **asked.options)
            return asked.end(answer)

    class BudgetedStream(BudgetedLlm):
        def generate_stream(self, messages: Any, *given: Any, **options: Any) -> Iterator[Any]:
            asked = ModelCall(self, kind, accounts, messages, _by_name(given, options), True)
            asked.admit()
            with _settled(asked.call):
                pieces = kind.generate_stream(asked.model, asked.messages, **asked.options)
                yield from _watched(asked, pieces_blocking(asked.call.answering, pieces))
            asked.call.end_blocking(ChatResponse(""))

    return BudgetedStream if hasattr(kind, "generate_stream") else BudgetedLlm


def _by_name(given: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    return {**dict.fromkeys(_POSITIONS), **dict(zip(_POSITIONS, given, strict=False)), **options}


def _watched(asked: ModelCall, pieces: Any) -> Iterator[Any]:
    """Pass on the pieces of a stream and count them; those of a final answer come as one."""
    deadline, said = Deadline.current(), []
    report = {"input_tokens": 0, "output_tokens": 0}
    try:
        for piece in pieces:
            asked.call.on_text(piece.content or "")
            for call in getattr(piece, "tool_calls", None) or ():
                asked.call.on_text((call.function and call.function.arguments) or "")
            if piece.token_usage:
                report["input_tokens"] += piece.token_usage.input_tokens
                report["output_tokens"] += piece.token_usage.output_tokens
                asked.call.report = report
            said.append(piece.content or "")
            if not asked.is_final or piece.token_usage:
                yield piece
            deadline.check_or_raise()
    finally:
        pieces.close()
    if asked.is_final:
        yield asked.final_delta("".join(said))


@contextmanager
def _settled(call: BudgetedCall) -> Iterator[None]:
    """Settle a call that fails; raises `DeadlineExceeded` if it has passed meanwhile."""
    try:
        with settled_blocking(call):
            try:
                yield
            except NotImplementedError:  # such as a stream with tools
                call.fail_blocking(UnbilledError())
                raise
    except DeadlineExceeded:
        raise
    except Exception as error:
        try:
            Deadline.current().check_or_raise()
        except DeadlineExceeded as late:
            raise late from error
        raise
