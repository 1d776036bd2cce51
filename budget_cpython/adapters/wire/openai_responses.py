"""OpenAI's responses."""

from typing import Any

from budget_core.provider import ChatResponse
from budget_cpython.adapters.request import Admitted, LlmRequest
from budget_cpython.adapters.wire.format import (
    Json,
    as_count,
    as_dict,
    as_list,
    as_name,
    as_text,
    ending,
    joined,
    lowered,
    named_tools,
    renamed,
    texts_in,
    with_attached,
)
from budget_cpython.adapters.wire.openai_format import OpenAIFormat
from budget_cpython.adapters.wire.readers import StreamReader
from budget_cpython.adapters.wire.steps import in_steps

_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_ON_SERVER = ("previous_response_id", "conversation")  # where the server keeps what is sent


class Responses(OpenAIFormat):
    """`POST …/responses`.

    An answer in the background has no usage yet, so it counts as unknown.
    """

    least_limit = 16

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        messages = [{"role": "user", "content": body.get("input")}]
        if isinstance(body.get("input"), list):
            messages = [_message(as_dict(item)) for item in in_steps(body["input"])]
        if body.get("instructions"):
            messages.insert(0, {"role": "system", "content": body["instructions"]})
        model = self.model_of(body)
        return LlmRequest(
            model,
            with_attached(messages, body.get("input"), model),
            named_tools(body.get("tools"), _name_of),
            as_count(body.get("max_output_tokens")),
            body.get("stream") is True,
            as_name(body.get("service_tier")),
            self.candidates_of(body),
        )

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead."""
        new = renamed(body, admitted, request)
        if admitted.notices and any(body.get(name) for name in _ON_SERVER):
            # the server would keep messages for later calls, but not instructions
            said = [as_text(body.get("instructions")), *admitted.notices]
            new["instructions"] = "\n\n".join(said).strip()
        elif admitted.notices:
            asked = body.get("input")
            if isinstance(asked, (str, bytes)):
                asked = [{"role": "user", "content": asked}]
            new["input"] = as_list(asked) + admitted.messages
        if admitted.withdraws_from(request):
            _withdraw(new, admitted)
        limit = lowered(as_count(body.get("max_output_tokens")), admitted)
        if limit is not None:
            new["max_output_tokens"] = limit
        return new

    def answer(self, body: Any) -> ChatResponse:
        """Return the answer of a response."""
        body = as_dict(body)
        text = joined(_text_of(as_dict(item)) for item in as_list(body.get("output")))
        usage, tier = as_dict(body.get("usage")), as_name(body.get("service_tier"))
        return ChatResponse(text, finish_reason=_ending(body), usage=usage, service_tier=tier)

    def stream_reader(self, asked: Json) -> StreamReader:
        """Return a reader of the events of a response."""
        return _ResponsesEvents()


class _ResponsesEvents(StreamReader):
    def take(self, event: Json) -> tuple[str, bool]:
        """Return the model's text in an event; all are passed on."""
        kind = as_text(event.get("type"))
        response = as_dict(event.get("response"))
        self.service_tier = as_text(response.get("service_tier")) or self.service_tier
        if isinstance(response.get("usage"), dict):
            self.report = response["usage"]
        self.ending = ending(self.ending, _ending(response))
        self.final = self.final or kind in _ENDS
        spoken = kind.endswith(".delta") and not kind.endswith("audio.delta")
        return as_text(event.get("delta")) if spoken else "", True


def _ending(response: Json) -> str:
    return ending(as_dict(response.get("incomplete_details")).get("reason"))


def _message(item: Json) -> Json:
    """Return an item of the input as a message."""
    calls = item.get("arguments") or item.get("input")
    content = item.get("content") or item.get("output")
    found: Json = {"role": item.get("role", "user"), "content": content or item.get("summary")}
    if isinstance(calls, (str, bytes)):
        found["tool_calls"] = [{"function": {"name": item.get("name"), "arguments": calls}}]
    return found


def _withdraw(new: Json, admitted: Admitted) -> None:
    """Leave out the tools that are withdrawn, and a choice that names one of them."""
    tools = admitted.natives
    if not tools:
        for name in ("tools", "tool_choice", "parallel_tool_calls", "max_tool_calls"):
            new.pop(name, None)
        return
    new["tools"] = tools
    choice = as_dict(new.get("tool_choice"))
    named = as_list(choice.get("tools")) if "tools" in choice else [choice] if choice else []
    if not all(any(_is_same(as_dict(one), tool) for tool in tools) for one in named):
        new.pop("tool_choice", None)


def _is_same(choice: Json, tool: Json) -> bool:
    """Tell whether a choice can mean a tool: `type` for built-in ones, the name for others."""
    names = ("server_label",) if "server_label" in choice else ("type", "name")
    return all(choice.get(name) in (None, tool.get(name)) for name in names)


def _name_of(tool: Json) -> Any:
    return tool.get("name") or tool.get("server_label") or tool.get("type")


def _text_of(item: Json) -> str:
    """Return all that an item of the output says."""
    texts = [texts_in(item.get(name)) for name in ("content", "summary")]
    texts += [as_text(as_dict(part).get("refusal")) for part in as_list(item.get("content"))]
    return joined([*texts, item.get("name"), item.get("arguments"), item.get("input")])
