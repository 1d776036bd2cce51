"""OpenAI's chat completions and legacy completions, and all servers that speak them."""

from typing import Any

from budget_core.provider import ChatResponse
from budget_core.usage_estimate import bytes_in, estimate_tokens
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
    of_size,
    renamed,
    texts_in,
    with_attached,
)
from budget_cpython.adapters.wire.long_text import bytes_of
from budget_cpython.adapters.wire.openai_format import OpenAIFormat
from budget_cpython.adapters.wire.readers import Piece, StreamReader
from budget_cpython.adapters.wire.steps import in_steps, slices

_LIMITS = ("max_completion_tokens", "max_tokens")
_A_TOKEN = 4  # bytes
_REASONING = ("reasoning_content", "reasoning")


class ChatCompletions(OpenAIFormat):
    """`POST …/chat/completions`."""

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        limit, model, messages = _limit_of(body), self.model_of(body), as_list(body.get("messages"))
        return LlmRequest(
            model,
            with_attached(messages, messages, model),
            named_tools(body.get("tools"), _name_of),
            None if limit is None else limit * _answers(body),
            body.get("stream") is True,
            as_name(body.get("service_tier")),
            self.candidates_of(body),
        )

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead."""
        new = renamed(body, admitted, request)
        if admitted.notices:
            new["messages"] = as_list(body.get("messages")) + admitted.messages
        if admitted.withdraws_from(request):
            _withdraw(new, admitted)
        _lower(new, admitted, _answers(body), _LIMITS)
        _ask_for_usage(new)
        return new

    def answer(self, body: Any) -> ChatResponse:
        """Return the answer of a completion."""
        body = as_dict(body)
        choices = as_list(body.get("choices"))
        text = joined(_text_of(as_dict(choice)) for choice in choices)
        usage, tier = as_dict(body.get("usage")), as_name(body.get("service_tier"))
        ended = ending(*(as_dict(choice).get("finish_reason") for choice in choices))
        return ChatResponse(text, finish_reason=ended, usage=usage, service_tier=tier)

    def stream_reader(self, asked: Json) -> StreamReader:
        """Return the reader of a completion's chunks."""
        return ChatReader(asked)


class Completions(ChatCompletions):
    """`POST …/completions`, the legacy form with a `prompt`."""

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        prompt = body.get("prompt")
        limit = as_count(body.get("max_tokens"))
        return LlmRequest(
            self.model_of(body),
            prompt_messages(prompt),
            None,
            None if limit is None else limit * _answers(body),
            body.get("stream") is True,
            candidates=self.candidates_of(body),
        )

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead; a prompt of this form takes no notices."""
        new = renamed(body, admitted, request)
        _lower(new, admitted, _answers(body), _LIMITS[1:])
        _ask_for_usage(new)
        return new


class ChatReader(StreamReader):
    """Reads the chunks of a completion.

    The chunk with the usage has no choices; it is not passed on unless it was asked for.
    """

    def __init__(self, asked: Json) -> None:
        super().__init__()
        self._wanted = bool(as_dict(asked.get("stream_options")).get("include_usage"))
        self._finished = False

    def take(self, event: Json) -> tuple[str, bool]:
        """Return the model's text in a chunk, and whether to pass it on."""
        choices = as_list(event.get("choices"))
        for choice in choices:
            reason = as_dict(choice).get("finish_reason")
            self._finished |= reason is not None
            self.ending = ending(self.ending, reason)
        self.service_tier = as_text(event.get("service_tier")) or self.service_tier
        usage = event.get("usage")
        if isinstance(usage, dict):
            self.report = usage
        reported = self._finished and self.report is not None
        self.final = self.final or reported or event.get("done") is True
        extra = isinstance(usage, dict) and event.get("choices") == []
        return joined(_text_of(as_dict(choice)) for choice in choices), self._wanted or not extra

    def end(self) -> list[Piece]:
        """Return an event that lacks its end; some servers end without `[DONE]`."""
        pieces = super().end()
        self.final = self.final or self._finished
        return pieces


def prompt_messages(value: Any) -> list[Json]:
    """Return one message for all texts of a `prompt` or `input`, as large as one for each."""
    count, size = prompts_in(value)
    marks = _A_TOKEN * estimate_tokens([{}]) * (count - 1)
    return [{"role": "user", "content": of_size(size + marks)}] if count else []


def prompts_in(value: Any) -> tuple[int, int]:
    """Return the number and the bytes of the texts of a `prompt` or `input`.

    It is a text, a list of them, or tokens by number, which stand for four bytes each.
    """
    if isinstance(value, (str, bytes)):
        return 1, bytes_in(value)
    items = as_list(value)
    kinds = {kind for part in slices(items) for kind in set(map(type, part))}
    if kinds == {int}:
        return 1, _A_TOKEN * len(items)
    if kinds and kinds <= {str, bytes}:
        return len(items), sum(map(bytes_of, slices(items)))
    found = [prompts_in(item) for item in in_steps(items) if isinstance(item, (str, bytes, list))]
    return sum(count for count, _ in found), sum(size for _, size in found)


def _answers(body: Json) -> int:
    """Return how many answers are written: for each of several prompts, the best of several."""
    each = max(1, as_count(body.get("n")) or 1, as_count(body.get("best_of")) or 1)
    return each * max(1, prompts_in(body.get("prompt"))[0])


def _limit_of(body: Json) -> int | None:
    """Return the higher limit of two: a server may know only one of the fields."""
    limits = [as_count(body.get(name)) for name in _LIMITS]
    return max((limit for limit in limits if limit is not None), default=None)


def _lower(new: Json, admitted: Admitted, answers: int, names: tuple[str, ...]) -> None:
    """Lower the limit in the fields that the caller used, else in the first."""
    for name in [name for name in names if new.get(name) is not None] or names[:1]:
        limit = lowered(as_count(new.get(name)), admitted, answers)
        if limit is not None:
            new[name] = limit


def _ask_for_usage(new: Json) -> None:
    if new.get("stream") is True:
        new["stream_options"] = {**as_dict(new.get("stream_options")), "include_usage": True}


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


def _name_of(tool: Json) -> Any:
    kind = as_text(tool.get("type"))
    return as_dict(tool.get(kind)).get("name") or tool.get("name") or kind


def _text_of(choice: Json) -> str:
    """Return all that a choice's message or delta says."""
    message = as_dict(choice.get("message") or choice.get("delta"))
    texts = [choice.get("text"), texts_in(message.get("content")), message.get("refusal")]
    texts.append(next((message[name] for name in _REASONING if message.get(name)), None))
    texts.append(as_dict(message.get("audio")).get("transcript"))
    for call in as_list(message.get("tool_calls")):
        for kind in ("function", "custom"):
            made = as_dict(as_dict(call).get(kind))
            texts += [made.get("name"), made.get("arguments"), made.get("input")]
    return joined(texts)
