"""Anthropic's messages."""

from typing import Any, Final

from budget_core.provider import ChatResponse
from budget_core.usage_estimate import bytes_in, message_bytes
from budget_cpython.vendors.answers import StreamReader, answered
from budget_cpython.vendors.attachments import attached_tokens
from budget_cpython.vendors.body import Json
from budget_cpython.vendors.format import (
    Vendor,
    WireFormat,
    as_count,
    as_dict,
    as_list,
    as_text,
    ending,
    joined,
    lowered,
    lowered_thinking,
    named_tools,
    renamed,
    sizes_of,
    texts_in,
)
from budget_cpython.vendors.request import Admitted, LlmRequest, counted

LEAST_THINKING = 1024  # tokens; fewer are refused
_STANDARD = ("auto", "standard_only")


class Messages(WireFormat):
    """`POST …/v1/messages`."""

    vendor = "anthropic"

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        messages, system = as_list(body.get("messages")), body.get("system")
        plain = [one for one in messages if not isinstance(as_dict(one).get("content"), list)]
        size, others = sizes_of(plain)
        if len(plain) < len(messages):
            others = messages
            size += sum(map(_size_of, messages))
        if system:
            size += message_bytes({"content": system})
        model, tier = as_text(body.get("model")), as_text(body.get("service_tier"))
        request = LlmRequest(model, [], vendor=self.vendor)
        request.attached = attached_tokens(others, model, "claude") if others else 0
        request.messages = counted(size, len(messages) + bool(system), request.attached)
        request.max_tokens = as_count(body.get("max_tokens"))
        request.stream = body.get("stream") is True
        request.service_tier = None if not tier or tier in _STANDARD else tier
        request.speed = as_text(body.get("speed")) or None
        request.region = as_text(body.get("inference_geo")) or None
        form = body.get("output_format") or as_dict(body.get("output_config")).get("format")
        request.is_structured = "json" in as_text(as_dict(form).get("type"))
        if body.get("tools"):
            _offer(request, body)
        return request

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
        text = "".join([_text_of(as_dict(block)) for block in as_list(body.get("content"))])
        return answered(text, ending(body.get("stop_reason")), body.get("usage"), body)

    def stream_reader(self, asked: LlmRequest) -> StreamReader:
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


def _size_of(message: Any) -> int:
    """Return the bytes of all texts in a message's blocks, 0 for any other message."""
    blocks, size = as_dict(message).get("content"), 0
    for block in map(as_dict, blocks if isinstance(blocks, list) else ()):
        size += bytes_in(_text_of(block)) + bytes_in(texts_in(block.get("content")))  # of a result
    return size


def _offer(request: LlmRequest, body: Json) -> None:
    """Note the tools on offer, whether the model chooses, and which the vendor runs itself."""
    tools = [as_dict(tool) for tool in as_list(body["tools"])]
    request.tools = named_tools(body["tools"], lambda tool: tool.get("name") or tool.get("type"))
    request.is_free = as_dict(body.get("tool_choice")).get("type") in (None, "auto", "none")
    request.hosted = tuple(
        (as_text(tool["type"]), as_count(tool.get("max_uses")))
        for tool in tools
        if tool.get("type") not in (None, "custom")
    )


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
        texts.append(str(made))
    return joined(texts)


def error_of(code: str, message: str, figures: Json, status: int) -> Json:
    """Return an error in the vendor's form."""
    error = {"type": "billing_error", "message": message, "code": code}
    return {"type": "error", "error": {**error, **({"budget": figures} if figures else {})}}


VENDOR: Final = Vendor(
    "anthropic",
    error_of,
    ((r"/v1/messages", Messages), (r"/v1/messages/count_tokens", CountTokens)),
)
