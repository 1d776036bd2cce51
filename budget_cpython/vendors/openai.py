"""OpenAI's formats, which most other vendors' servers speak too, and Azure's deployments."""

import re
from typing import Any, Final
from urllib.parse import quote, unquote

from budget_core.provider import ChatResponse
from budget_core.usage_estimate import bytes_in, message_bytes
from budget_cpython.vendors.answers import Piece, StreamReader, answered
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
    named_tools,
    renamed,
    sizes_of,
    texts_in,
)
from budget_cpython.vendors.request import Admitted, LlmRequest, TooLittleLeftError, counted

_DEPLOYMENT: Final = re.compile(r"/deployments/([^/]+)/", re.IGNORECASE)
_LIMITS: Final = ("max_completion_tokens", "max_tokens")
_SEVERAL: Final = frozenset(["n", "best_of", "prompt"])
_SAID: Final = {"role", "content"}
_REASONING: Final = ("reasoning_content", "reasoning")
_OWN: Final = ("", "function", "custom")  # kinds of tools that the caller runs
_FREE: Final = (None, "auto", "none")
_A_TOKEN: Final = 4  # bytes
_ENDS: Final = tuple(
    f"response.{end}" for end in ("completed", "incomplete", "failed", "cancelled")
)
_ON_SERVER: Final = ("previous_response_id", "conversation")  # where the server keeps what is sent


class OpenAIFormat(WireFormat):
    """A request of OpenAI's API, or of Azure's, where a deployment in the path answers."""

    def asked(self, body: Json, messages: list[Any], limit: int | None, **more: Any) -> LlmRequest:
        """Return a request with the models that a body names: OpenRouter's may name several."""
        named = [body.get("model"), *as_list(body.get("models"))]
        models = tuple([name for name in named if name and isinstance(name, str)])
        found = _DEPLOYMENT.search(self.path)
        deployment = unquote(found[1]) if found else None
        request = LlmRequest(deployment or (models[0] if models else ""), messages, **more)
        request.max_tokens = limit if limit is None else limit * request.answers
        request.stream = body.get("stream") is True
        request.service_tier = as_text(body.get("service_tier")) or None
        request.vendor, request.models, request.deployment = self.vendor, models, deployment
        return request

    def path_for(self, model: str) -> str:
        """Return the path, with Azure's deployment named like the model."""
        name = f"/deployments/{quote(model, safe='')}/"
        return _DEPLOYMENT.sub(lambda _: name, self.path, count=1)


class ChatCompletions(OpenAIFormat):
    """`POST …/chat/completions`, on all servers that speak it."""

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        messages, limit = as_list(body.get("messages")), None
        for name in _LIMITS:  # the higher one: a server may know only one of the fields
            count = None if body.get(name) is None else as_count(body[name])
            limit = count if limit is None else max(limit, count or 0)
        size, others = sizes_of(messages)
        request = self.asked(body, [], limit, answers=_answers(body), wants_usage=_wants(body))
        if others:
            request.attached = attached_tokens(others, request.model)
        request.messages = counted(size, len(messages), request.attached)
        if body.get("tools") or body.get("web_search_options") is not None:
            _offer(request, body)
        request.is_structured = "json" in as_text(as_dict(body.get("response_format")).get("type"))
        return request

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead."""
        new = renamed(body, admitted, request)
        if admitted.notices:
            new["messages"] = as_list(body.get("messages")) + admitted.messages
        if admitted.withdraws_from(request):
            _withdraw(new, admitted)
        _lower(new, admitted, request.answers, _LIMITS)
        return new

    def answer(self, body: Any) -> ChatResponse:
        """Return the answer of a completion."""
        body = as_dict(body)
        choices = [choice for choice in as_list(body.get("choices")) if isinstance(choice, dict)]
        text = "".join([_text_of(choice) for choice in choices])
        ended = ending(*[choice.get("finish_reason") for choice in choices])
        return answered(text, ended, body.get("usage"), body, as_text(body.get("service_tier")))

    def stream_reader(self, asked: LlmRequest) -> StreamReader:
        """Return the reader of a completion's chunks."""
        return ChatReader(asked.wants_usage)


class Completions(ChatCompletions):
    """`POST …/completions`, the legacy form with a `prompt`."""

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        limit, messages = as_count(body.get("max_tokens")), prompt_messages(body.get("prompt"))
        more = {"answers": _answers(body), "wants_usage": _wants(body)}
        request = self.asked(body, messages, limit, **more)
        request.service_tier = None
        return request

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead; a prompt of this form takes no notices."""
        new = renamed(body, admitted, request)
        _lower(new, admitted, request.answers, _LIMITS[1:])
        return new


class ChatReader(StreamReader):
    """Reads the chunks of a completion.

    The chunk with the usage has no choices; it is not passed on unless it was asked for.
    """

    def __init__(self, wants_usage: bool) -> None:
        super().__init__()
        self._wants_usage = wants_usage
        self._finished = False

    def take(self, event: Json) -> tuple[str, bool]:
        """Return the model's text in a chunk, and whether to pass it on."""
        choices = [as_dict(choice) for choice in as_list(event.get("choices"))]
        for choice in choices:
            reason = choice.get("finish_reason")
            self._finished |= reason is not None
            self.ending = ending(self.ending, reason)
        self.service_tier = as_text(event.get("service_tier")) or self.service_tier
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.report = usage
        reported = self._finished and self.report is not None
        self.final = self.final or reported or event.get("done") is True
        extra = isinstance(usage, dict) and event.get("choices") == []
        return "".join(map(_text_of, choices)), self._wants_usage or not extra

    def end(self) -> list[Piece]:
        """Return an event that lacks its end; some servers end without `[DONE]`."""
        pieces = super().end()
        self.final = self.final or self._finished
        return pieces


class Embeddings(OpenAIFormat):
    """`POST …/embeddings`: no answer in words, so no notices and no limit."""

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        request = self.asked(body, prompt_messages(body.get("input")), 0)
        request.stream, request.service_tier = False, None
        return request

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body itself: there is nothing in it that a budget changes."""
        return body

    def check(self, admitted: Admitted, request: LlmRequest) -> None:
        """Raise `TooLittleLeftError` for a fallback: another model's embeddings do not compare."""
        if admitted.model != request.model:
            raise TooLittleLeftError(
                f"the budget allows no embeddings of {request.model}, and those of the fallback "
                f"{admitted.model} do not compare with them"
            )

    def answer(self, body: Any) -> ChatResponse:
        """Return the usage of embeddings."""
        return answered("", "stop", as_dict(body).get("usage"), body)

    def stream_reader(self, asked: LlmRequest) -> StreamReader:
        """Return a reader that passes a stream on; embeddings have none."""
        return _Unread()


class _Unread(StreamReader):
    def take(self, event: Json) -> tuple[str, bool]:
        """Read nothing."""
        return "", True


class Responses(OpenAIFormat):
    """`POST …/responses`.

    An answer in the background has no usage yet, so it counts as unknown.
    """

    least_limit = 16

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        asked, said = body.get("input"), body.get("instructions")
        items = asked if isinstance(asked, list) else [{"content": asked}]
        size, others = 0, []
        for item in items:
            if isinstance(item, dict) and item.keys() <= {"role", "content", "type"}:
                content = item.get("content")
                if isinstance(content, str):
                    size += bytes_in(content)
                    continue
            size += message_bytes(_message(as_dict(item)))
            others.append(item)
        if said:
            size += message_bytes({"content": said})
        request = self.asked(body, [], as_count(body.get("max_output_tokens")))
        request.attached = attached_tokens(others, request.model) if others else 0
        request.messages = counted(size, len(items) + bool(said), request.attached)
        if body.get("tools"):
            _offer(request, body)
        form = as_dict(as_dict(body.get("text")).get("format"))
        request.is_structured = "json" in as_text(form.get("type"))
        return request

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead."""
        new = renamed(body, admitted, request)
        if admitted.notices and any(body.get(name) for name in _ON_SERVER):
            # the server would keep messages for later calls, but not instructions
            said = [as_text(body.get("instructions")), *admitted.notices]
            new["instructions"] = "\n\n".join(said).strip()
        elif admitted.notices:
            asked = body.get("input")
            if isinstance(asked, str):
                asked = [{"role": "user", "content": asked}]
            new["input"] = as_list(asked) + admitted.messages
        if admitted.withdraws_from(request):
            _withdraw_from_response(new, admitted)
        limit = lowered(request.max_tokens, admitted)
        if limit not in (None, body.get("max_output_tokens")):
            new["max_output_tokens"] = limit
        return new

    def answer(self, body: Any) -> ChatResponse:
        """Return the answer of a response."""
        body = as_dict(body)
        text = "".join([_text_of_item(as_dict(item)) for item in as_list(body.get("output"))])
        tier = as_text(body.get("service_tier"))
        return answered(text, _ending(body), body.get("usage"), body, tier)

    def stream_reader(self, asked: LlmRequest) -> StreamReader:
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


def prompt_messages(value: Any) -> list[Any]:
    """Return one message for all texts of a `prompt` or `input`, as large as one for each."""
    count, size = prompts_in(value)
    return counted(size, count)


def prompts_in(value: Any) -> tuple[int, int]:
    """Return the number and the bytes of the texts of a `prompt` or `input`.

    It is a text, a list of them, or tokens by number, which stand for four bytes each.
    """
    if isinstance(value, str):
        return 1, bytes_in(value)
    items = as_list(value)
    kinds = set(map(type, items))
    if kinds == {int}:
        return 1, _A_TOKEN * len(items)
    if kinds == {str}:
        return len(items), sum(map(bytes_in, items))
    found = [prompts_in(item) for item in items if isinstance(item, (str, list))]
    return sum(count for count, _ in found), sum(size for _, size in found)


def _wants(body: Json) -> bool:
    return bool(as_dict(body.get("stream_options")).get("include_usage"))


def _answers(body: Json) -> int:
    """Return how many answers are written: for each of several prompts, the best of several."""
    if _SEVERAL.isdisjoint(body):
        return 1
    each = max(1, as_count(body.get("n")) or 1, as_count(body.get("best_of")) or 1)
    return each * max(1, prompts_in(body.get("prompt"))[0])


def _lower(new: Json, admitted: Admitted, answers: int, names: tuple[str, ...]) -> None:
    """Lower the limit in the fields that the caller used, else in the first; ask for the usage."""
    if admitted.max_tokens is not None:
        for name in [name for name in names if new.get(name) is not None] or names[:1]:
            limit = lowered(as_count(new.get(name)), admitted, answers)
            if limit != new.get(name):  # a text that is a number is sent as the one that is held
                new[name] = limit
    if new.get("stream") is True:
        new["stream_options"] = {**as_dict(new.get("stream_options")), "include_usage": True}


def _offer(request: LlmRequest, body: Json) -> None:
    """Note the tools on offer, whether the model chooses, and which the vendor runs itself."""
    tools = as_list(body.get("tools"))
    request.tools = named_tools(tools, _name_of)
    choice = body.get("tool_choice")
    mode = as_dict(choice).get("allowed_tools", choice)
    request.is_free = mode is None or (as_dict(mode).get("mode", mode) in _FREE)
    most = as_count(body.get("max_tool_calls"))
    kinds = [as_text(as_dict(tool).get("type")) for tool in tools]
    kinds += ["web_search"] if body.get("web_search_options") is not None else []
    request.hosted = tuple((kind, most) for kind in kinds if kind not in _OWN)


def _withdraw(new: Json, admitted: Admitted) -> None:
    """Leave out the tools that are withdrawn, and a choice that names one of them.

    Claude takes no messages with calls of tools without tools: these stay, and may not be called.
    """
    tools = admitted.natives
    if not tools and _needs_tools(new):
        new["tool_choice"] = "none"
        return
    if not tools:
        for name in ("tools", "tool_choice", "parallel_tool_calls"):
            new.pop(name, None)
        return
    new["tools"] = tools
    choice = as_dict(new.get("tool_choice"))
    allowed = as_dict(choice.get("allowed_tools"))
    named = as_list(allowed.get("tools")) if allowed else [choice] if choice else []
    offered = {as_text(tool["name"]) for tool in admitted.tools or ()}
    if not all(as_text(_name_of(as_dict(one))) in offered for one in named):
        new.pop("tool_choice", None)


def _needs_tools(body: Json) -> bool:
    model = as_text(body.get("model"))
    used = any(as_dict(one).get("role") == "tool" for one in as_list(body.get("messages")))
    return used and ("claude" in model or model.startswith("anthropic/"))


def _withdraw_from_response(new: Json, admitted: Admitted) -> None:
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
    """Return the name of a tool of either API, or the kind of a built-in one."""
    kind = as_text(tool.get("type"))
    named = as_dict(tool.get(kind)).get("name") or tool.get("name")
    return named or tool.get("server_label") or kind


def _ending(response: Json) -> str:
    return ending(as_dict(response.get("incomplete_details")).get("reason"))


def _message(item: Json) -> Json:
    """Return an item of the input of a response as a message."""
    calls = item.get("arguments") or item.get("input")
    found: Json = {"content": item.get("content") or item.get("output") or item.get("summary")}
    if isinstance(calls, str):
        found["tool_calls"] = [{"function": {"name": item.get("name"), "arguments": calls}}]
    return found


def _text_of(choice: Json) -> str:
    """Return all that a choice's message or delta says."""
    message = as_dict(choice.get("message") or choice.get("delta"))
    if message.keys() <= _SAID and "text" not in choice:
        return texts_in(message.get("content"))
    texts = [choice.get("text"), texts_in(message.get("content")), message.get("refusal")]
    texts.append(next((message[name] for name in _REASONING if message.get(name)), None))
    texts.append(as_dict(message.get("audio")).get("transcript"))
    for call in as_list(message.get("tool_calls")):
        for kind in ("function", "custom"):
            made = as_dict(as_dict(call).get(kind))
            texts += [made.get("name"), made.get("arguments"), made.get("input")]
    return joined(texts)


def _text_of_item(item: Json) -> str:
    """Return all that an item of a response's output says."""
    texts = [texts_in(item.get(name)) for name in ("content", "summary")]
    texts += [as_text(as_dict(part).get("refusal")) for part in as_list(item.get("content"))]
    return joined([*texts, item.get("name"), item.get("arguments"), item.get("input")])


def error_of(code: str, message: str, figures: Json, status: int) -> Json:
    """Return an error in the vendor's form."""
    spent = code == "budget_exceeded"
    kind = "insufficient_quota" if spent else "budget_error"
    error = {"message": message, "type": kind, "param": None, "code": kind if spent else code}
    return {"error": {**error, **({"budget": figures} if figures else {})}}


VENDOR: Final = Vendor(
    "openai",
    error_of,
    (
        (r"/chat/completions", ChatCompletions),
        (r"/completions", Completions),
        (r"/responses", Responses),
        (r"/embeddings", Embeddings),
    ),
)
