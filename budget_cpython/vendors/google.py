"""Google's generateContent."""

import re
from typing import Any, Final
from urllib.parse import quote, unquote

from budget_core.provider import ChatResponse
from budget_core.usage_estimate import bytes_in
from budget_cpython.vendors.answers import StreamReader, answered, model_in
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
)
from budget_cpython.vendors.request import Admitted, LlmRequest, counted

LEAST_THINKING = 512  # tokens; some models refuse fewer
GOOGLE_MODELS = "(?:models|tunedModels|endpoints)"  # Gemini's, and those that a user has tuned
_MODEL = re.compile(rf"/{GOOGLE_MODELS}/([^/]+)(:[^/:]*)$")


class GenerateContent(WireFormat):
    """`POST …/models/MODEL:generateContent` and `:streamGenerateContent`.

    Also `…/tunedModels/MODEL` and `…/endpoints/MODEL`.
    """

    vendor = "google"

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        contents, config = _contents(body), _config(body)
        system = as_dict(_get(body, "systemInstruction", "system_instruction"))
        size = sum(map(_size_of, [*contents, system]))
        limit = as_count(_get(config, *_LIMIT))
        found = _MODEL.search(self.path)
        model = unquote(found[1]) if found else ""
        request = LlmRequest(model, [], vendor=self.vendor, answers=_answers(config))
        request.attached = attached_tokens(contents, model, "gemini")
        request.messages = counted(size, len(contents) + bool(system), request.attached)
        request.max_tokens = None if limit is None else limit * request.answers
        request.stream = found is not None and found[2] == ":streamGenerateContent"
        request.service_tier = as_text(_get(body, "serviceTier", "service_tier")) or None
        mime = _get(config, "responseMimeType", "response_mime_type")
        request.is_structured = "json" in as_text(mime)
        if body.get("tools"):
            tools = _tools_of(body)
            request.tools = named_tools(tools, _name_of)
            called = _get(as_dict(_get(body, *_CHOICE)), *_CALLED)
            request.is_free = as_dict(called).get("mode") in (None, "AUTO", "NONE")
            kinds = [next(iter(tool)) for tool in tools]
            request.hosted = tuple((kind, None) for kind in kinds if kind not in _FUNCTIONS)
        return request

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead; the model is in `path_for`."""
        new = dict(body)
        if admitted.notices:
            added = [{"role": "user", "parts": [{"text": notice}]} for notice in admitted.notices]
            new["contents"] = _contents(body) + added
        if admitted.withdraws_from(request):
            _withdraw(new, admitted)
        config = _config(body)
        asked = as_count(_get(config, *_LIMIT))
        limit = lowered(asked, admitted, request.answers)
        if limit is not None and limit != asked:
            _set(new, _CONFIG, _lowered_config(config, asked, limit))
        return new

    def path_for(self, model: str) -> str:
        """Return the path with that model in it."""
        is_endpoint = self.path[: self.path.rfind("/")].endswith("/endpoints")
        place = "/publishers/google/models/" if is_endpoint else "/models/"
        return _MODEL.sub(lambda found: f"{place}{quote(model, safe='')}{found[2]}", self.path)

    def answer(self, body: Any) -> ChatResponse:
        """Return the answer of a body, or of a list of bodies that make one stream."""
        bodies = [body] if isinstance(body, dict) else as_list(body)
        events = _GoogleEvents()
        text = joined([events.take(as_dict(one))[0] for one in bodies])
        ended = events.final or len(bodies) == 1
        return answered(text, events.ending, events.report if ended else None, model_in(body))

    def stream_reader(self, asked: LlmRequest) -> StreamReader:
        """Return a reader of the events of an answer."""
        return _GoogleEvents()


class GoogleCountTokens(GenerateContent):
    """`POST …/models/MODEL:countTokens`, which costs nothing."""

    held = False


class _GoogleEvents(StreamReader):
    def take(self, event: Json) -> tuple[str, bool]:
        """Return the model's text in an event; all are passed on."""
        usage = event.get("usageMetadata")
        if isinstance(usage, dict):
            self.report = usage
        candidates = [as_dict(one) for one in as_list(event.get("candidates"))]
        blocked = as_dict(event.get("promptFeedback")).get("blockReason")
        reasons = [one.get("finishReason") for one in candidates]
        self.ending = ending(self.ending, *reasons)
        self.final = self.final or bool(blocked) or any(reasons)
        contents = [as_dict(one.get("content")) for one in candidates]
        parts = [as_dict(part) for one in contents for part in as_list(one.get("parts"))]
        return joined(map(_text_of, parts)), True


_CONFIG = ("generationConfig", "generation_config")
_LIMIT = ("maxOutputTokens", "max_output_tokens")
_THINKING = ("thinkingConfig", "thinking_config")
_BUDGET = ("thinkingBudget", "thinking_budget")
_FUNCTIONS = ("functionDeclarations", "function_declarations")
_CHOICE = ("toolConfig", "tool_config")
_CALLED = ("functionCallingConfig", "function_calling_config")


def _get(fields: Json, camel: str, snake: str) -> Any:
    """Return a field by either of the names that the API takes."""
    value = fields.get(camel)
    return fields.get(snake) if value is None else value


def _set(fields: Json, names: tuple[str, str], value: Any) -> None:
    name = names[1] if fields.get(names[0]) is None and names[1] in fields else names[0]
    for other in names:
        fields.pop(other, None)
    fields[name] = value


def _config(body: Json) -> Json:
    return as_dict(_get(body, *_CONFIG))


def _answers(config: Json) -> int:
    return max(1, as_count(_get(config, "candidateCount", "candidate_count")) or 1)


def _contents(body: Json) -> list[Any]:
    contents = body.get("contents")
    return [contents] if isinstance(contents, dict) else as_list(contents)


def _size_of(content: Any) -> int:
    """Return the bytes of all texts in a content's parts."""
    size = 0
    for part in map(as_dict, as_list(as_dict(content).get("parts"))):
        text = part.get("text")
        is_plain = len(part) == 1 and isinstance(text, str)
        size += bytes_in(text if is_plain else _text_of(part))
    return size


def _text_of(part: Json) -> str:
    """Return all that a part says; the calls and results of tools as text."""
    texts: list[Any] = [part.get("text")]
    for name in ("functionCall", "functionResponse", "executableCode", "codeExecutionResult"):
        snake = re.sub("([A-Z])", lambda found: "_" + found[1].lower(), name)
        made = as_dict(_get(part, name, snake))
        texts += [value if isinstance(value, str) else str(value) for value in made.values()]
    return joined(texts)


def _tools_of(body: Json) -> list[Json]:
    """Return tools one by one: a vendor's object may hold several functions and built-in tools."""
    found = []
    for tool in map(as_dict, as_list(body.get("tools"))):
        for kind, value in tool.items():
            if kind in _FUNCTIONS:
                found += [{kind: [function]} for function in as_list(value)]
            else:
                found.append({kind: value})
    return found


def _name_of(tool: Json) -> str:
    """Return the name of a tool's one function, or the kind of a built-in one."""
    functions = as_list(_get(tool, *_FUNCTIONS))
    return as_text(as_dict(functions[0]).get("name")) if functions else next(iter(tool), "")


def _withdraw(new: Json, admitted: Admitted) -> None:
    """Leave out the tools that are withdrawn, and a choice that names one of them."""
    tools = admitted.natives
    functions = [one for tool in tools for one in as_list(_get(tool, *_FUNCTIONS))]
    others = [tool for tool in tools if not any(kind in tool for kind in _FUNCTIONS)]
    new["tools"] = [{_FUNCTIONS[0]: functions}] * bool(functions) + others
    config = as_dict(_get(new, *_CHOICE))
    called = as_dict(_get(config, *_CALLED))
    allowed = as_list(_get(called, "allowedFunctionNames", "allowed_function_names"))
    names = [tool["name"] for tool in admitted.tools or ()]
    if not functions or any(as_text(name) not in names for name in allowed):
        for name in _CHOICE:
            new.pop(name, None)
    if not tools:
        new.pop("tools")


def _lowered_config(config: Json, asked: int | None, limit: int) -> Json:
    """Return a configuration with a lower limit, and what may be thought kept below it."""
    new = dict(config)
    _set(new, _LIMIT, limit)
    thinking = dict(as_dict(_get(config, *_THINKING)))
    budget = as_count(_get(thinking, *_BUDGET))
    if not budget:  # -1 leaves it to the model
        return new
    budget = lowered_thinking(budget, min(budget, LEAST_THINKING), asked, limit)
    if budget is None:
        for name in _BUDGET:
            thinking.pop(name, None)
    else:
        _set(thinking, _BUDGET, budget)
    _set(new, _THINKING, thinking)
    return new


def error_of(code: str, message: str, figures: Json, status: int) -> Json:
    """Return an error in the vendor's form."""
    known = {name: str(value) for name, value in figures.items() if value is not None}
    detail = {
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": code.upper(),
        "domain": "microbudget",
        "metadata": known,
    }
    spent = code == "budget_exceeded"
    word = "RESOURCE_EXHAUSTED" if spent else "FAILED_PRECONDITION"
    return {"error": {"code": status, "message": message, "status": word, "details": [detail]}}


VENDOR: Final = Vendor(
    "google",
    error_of,
    (
        (rf"/{GOOGLE_MODELS}/[^/]+:(?:generateContent|streamGenerateContent)", GenerateContent),
        (rf"/{GOOGLE_MODELS}/[^/]+:countTokens", GoogleCountTokens),
    ),
    models_at=re.compile(r"https://(generativelanguage|[a-z0-9-]*aiplatform)\.googleapis\.com/"),
)
