"""Anthropic's messages."""

from typing import Any

from budget_core.provider import ChatResponse
from budget_core.usage_estimate import bytes_in
from budget_cpython.adapters.request import Admitted, LlmRequest
from budget_cpython.adapters.wire.format import (
    Json,
    WireFormat,
    as_count,
    as_dict,
    as_list,
    as_name,
    as_text,
    ending,
    joined,
    lowered,
    lowered_thinking,
    named_tools,
    of_size,
    renamed,
    texts_in,
    with_attached,
)
from budget_cpython.adapters.wire.long_text import all_unpacked
from budget_cpython.adapters.wire.readers import StreamReader
from budget_cpython.adapters.wire.steps import in_steps
from budget_cpython.prices.candidate_models import CandidateModels

LEAST_THINKING = 1024  # tokens; fewer are refused
_STANDARD = ("auto", "standard_only")


class Messages(WireFormat):
    """`POST …/v1/messages`."""

    vendor = "anthropic"

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        messages = [_message(as_dict(one)) for one in in_steps(as_list(body.get("messages")))]
        if body.get("system"):
            messages.insert(0, {"role": "system", "content": body["system"]})
        tier, model = as_name(body.get("service_tier")), as_text(body.get("model"))
        return LlmRequest(
            model,
            with_attached(messages, body.get("messages"), model, "claude"),
            named_tools(body.get("tools"), lambda tool: tool.get("name") or tool.get("type")),
            as_count(body.get("max_tokens")),
            body.get("stream") is True,
            None if tier in _STANDARD else tier,
            CandidateModels(self.vendor),
        )

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead."""
        new = renamed(body, admitted, request)
        if admitted.notices:
            new["messages"] = _with_notices(as_list(body.get("messages")), admitted.messages)
        if admitted.withdraws_from(request):
            _withdraw(new, admitted)
        asked = as_count(body.get("max_tokens"))
        limit = lowered(asked, admitted)
        if limit is not None and limit != asked:
            new["max_tokens"] = limit
            _lower_thinking(new, asked, limit)
        return new

    def answer(self, body: Any) -> ChatResponse:
        """Return the answer in a message."""
        body = as_dict(body)
        blocks = as_list(body.get("content"))
        text = joined(_text_of(as_dict(block)) for block in blocks)
        ended = ending(body.get("stop_reason"))
        return ChatResponse(text, finish_reason=ended, usage=as_dict(body.get("usage")))

    def stream_reader(self, asked: Json) -> StreamReader:
        """Return a reader of the events of a message."""
        return _AnthropicEvents()


class CountTokens(Messages):
    """`POST …/v1/messages/count_tokens`, which costs nothing."""

    held = False


class _AnthropicEvents(StreamReader):
    """Reads a message's events: `message_start` has the prompt's usage, later ones the sums."""

    def take(self, event: Json) -> tuple[str, bool]:
        """Return the model's text in an event; all are passed on."""
        kind = event.get("type")
        if kind == "message_start":
            self._add(as_dict(event.get("message")).get("usage"))
        elif kind == "message_delta":
            self._add(event.get("usage"))
            self.ending = ending(as_dict(event.get("delta")).get("stop_reason"))
        elif kind == "message_stop":
            self.final = True
        elif kind in ("content_block_start", "content_block_delta"):
            block = event.get("content_block") or event.get("delta")
            return _text_of(as_dict(block)), True
        return "", True

    def _add(self, usage: Any) -> None:
        known = {name: value for name, value in as_dict(usage).items() if value is not None}
        if known:
            self.report = {**(self.report or {}), **known}


def _message(message: Json) -> Json:
    """Return a message as large as all texts of its blocks."""
    blocks = message.get("content")
    if not isinstance(blocks, list):
        return message
    size = 0
    for block in map(as_dict, in_steps(blocks)):
        inner = block.get("content")  # of a tool's result
        size += bytes_in(_text_of(block)) + bytes_in(texts_in(inner))
    return {"role": message.get("role"), "content": of_size(size)}


def _with_notices(messages: list[Any], added: list[Json]) -> list[Any]:
    """Return messages with notices last, but before the beginning of an answer."""
    if messages and as_dict(messages[-1]).get("role") == "assistant":
        return [*messages[:-1], *added, messages[-1]]
    return [*messages, *added]


def _withdraw(new: Json, admitted: Admitted) -> None:
    """Leave out the tools that are withdrawn, and a choice that names one of them.

    Messages with calls of tools need tools beside them: these stay, and may not be called.
    """
    tools = admitted.natives
    if tools:
        new["tools"] = tools
        choice = as_dict(new.get("tool_choice"))
        names = [tool["name"] for tool in admitted.tools or ()]
        if choice.get("type") == "tool" and as_text(choice.get("name")) not in names:
            new.pop("tool_choice")
    elif _has_calls(as_list(new.get("messages"))):
        new["tool_choice"] = {"type": "none"}
    else:
        new.pop("tools", None)
        new.pop("tool_choice", None)


def _has_calls(messages: list[Any]) -> bool:
    blocks = [block for one in messages for block in as_list(as_dict(one).get("content"))]
    return any(as_dict(block).get("type") in ("tool_use", "tool_result") for block in blocks)


def _lower_thinking(new: Json, asked: int | None, limit: int) -> None:
    """Keep what may be thought below a lowered limit; leave thinking out without room for it."""
    thinking = as_dict(new.get("thinking"))
    budget = as_count(thinking.get("budget_tokens"))
    if budget is None:
        return
    budget = lowered_thinking(budget, LEAST_THINKING, asked, limit)
    if budget is None:
        new.pop("thinking")
    else:
        new["thinking"] = {**thinking, "budget_tokens": budget}


def _text_of(block: Json) -> str:
    """Return all that a block or a piece of one says."""
    texts = [block.get(name) for name in ("text", "thinking", "partial_json", "name")]
    made = block.get("input")
    if isinstance(made, dict) and made:
        texts.append(str(all_unpacked(made)))
    return joined(texts)
