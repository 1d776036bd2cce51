"""One call of a smolagents model: what it asks for, what is sent, and what came of it."""

import json
from collections.abc import Sequence
from typing import Any

from smolagents import models

from budget_core.provider import ChatResponse
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.request import Admitted, LlmRequest
from budget_cpython.adapters.wire.format import ending
from budget_cpython.deadline import Deadline

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
