"""The base class of wire formats, and readers of JSON that may have any form."""

from collections.abc import Callable, Iterable
from typing import Any

from budget_core.errors import BudgetError
from budget_core.provider import ChatResponse
from budget_cpython.adapters.request import Admitted, LlmRequest
from budget_cpython.adapters.wire.attachments import attached_tokens
from budget_cpython.adapters.wire.body import Body
from budget_cpython.adapters.wire.long_text import LongText, unpacked
from budget_cpython.adapters.wire.readers import Reader, StreamReader, WholeReader
from budget_cpython.adapters.wire.refusals import (
    Refusal,
    TooLittleLeftError,
    UnreadableRequestError,
    refusal,
)
from budget_cpython.adapters.wire.spelling import check_spelling
from budget_cpython.adapters.wire.steps import in_steps

Json = dict[str, Any]
_A_TOKEN = 4  # bytes
_AT_LIMIT = ("length", "max_tokens", "max_output_tokens", "MAX_TOKENS")


class WireFormat:
    """One kind of request to a vendor's API, as it is at `path`.

    - `vendor` is `"openai"`, `"anthropic"` or `"google"`.
    - `known` is false for a request of which only the answer's report says what it costs.
    - `held` is false for requests that cost nothing, such as counting tokens.
    - `least_limit` is the lowest limit of an answer that the API takes, in tokens.
    """

    vendor = "openai"
    known = True
    held = True
    least_limit = 1

    def __init__(self, path: str) -> None:
        self.path = path

    @property
    def deployment(self) -> str | None:
        """The deployment in the path, which answers whatever model the body names."""
        return None

    def parse(self, content: bytes, content_type: str = "") -> Json:
        """Return a request's body; raises `UnreadableRequestError` for one that is not an object.

        A key in it that a server might read otherwise is refused, too. `content_type` is what its
        header says: only forms are read by it.
        """
        self._parsed = Body(content)
        check_spelling(self._parsed.fields)
        return self._parsed.fields

    def content(self, body: Json) -> bytes:
        """Return a body as it is sent in place of the one that was parsed."""
        return self._parsed.with_fields(body)

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes; never raises for a malformed one."""
        raise NotImplementedError

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body to send instead; `request` is what `read` returned for `body`.

        Raises `TooLittleLeftError` for more answers than tokens that are admitted.
        """
        raise NotImplementedError

    def check(self, admitted: Admitted, request: LlmRequest) -> None:
        """Raise `TooLittleLeftError` if the API does not take what a budget admits."""
        asked, left, least = request.max_tokens, admitted.max_tokens, self.least_limit
        if left is not None and left < least and (asked is None or asked >= least):
            raise TooLittleLeftError(
                f"the budget allows an answer of {left} tokens, and the API takes limits of "
                f"{least} or more"
            )

    def path_for(self, model: str) -> str:
        """Return the path to send to, where the model is a part of it."""
        return self.path

    def answer(self, body: Any) -> ChatResponse:
        """Return the text, the usage report and the service tier of a whole answer.

        The text is all that the model wrote, reasoning and the arguments of tool calls included;
        the report is empty where there is none, or where it is not final.
        """
        raise NotImplementedError

    def reader(self, asked: Json, content_type: str) -> Reader:
        """Return the reader of the answer; `asked` is the caller's own body."""
        if content_type.partition(";")[0].strip().lower() == "text/event-stream":
            return self.stream_reader(asked)
        return WholeReader(self.answer)

    def stream_reader(self, asked: Json) -> StreamReader:
        """Return the reader of an answer that comes as server-sent events."""
        raise NotImplementedError

    def refusal(self, error: BudgetError) -> Refusal:
        """Return the answer for a call that a budget refuses, in the vendor's form."""
        return refusal(self.vendor, error)


def as_dict(value: Any) -> Json:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a JSON array, or an empty one for any other value."""
    return value if isinstance(value, list) else []


def as_count(value: Any) -> int | None:
    """Return a whole number that is not negative, `None` for any other value.

    `5.0` and `"5"` are 5, as some servers read them. Raises `UnreadableRequestError` for a
    `LongText`.
    """
    if isinstance(value, LongText):
        raise UnreadableRequestError("the request has a number that is a long text")
    value = unpacked(value)
    if isinstance(value, float | str):
        try:
            number = float(value)
        except ValueError:
            return None
        value = int(number) if number.is_integer() else None
    return value if type(value) is int and value >= 0 else None


def as_text(value: Any) -> str:
    """Return a text, or an empty one for any other value."""
    value = unpacked(value)
    return value if isinstance(value, str) else ""


def as_name(value: Any) -> str | None:
    """Return a text that is not empty, `None` for any other value."""
    return as_text(value) or None


def texts_in(content: Any) -> str:
    """Return the text of a content: a text itself, or the texts of its parts."""
    if isinstance(content, (str, bytes)):
        return as_text(content)
    return "".join(as_text(part) or as_text(as_dict(part).get("text")) for part in as_list(content))


def of_size(size: int) -> list[Any]:
    """Return a content that an estimate counts as so many bytes of text."""
    return [" " * (size % _A_TOKEN), {"tokens": size // _A_TOKEN}]


def named_tools(natives: Any, name_of: Callable[[Json], Any]) -> list[Json] | None:
    """Return a vendor's tools with their names; `None` where there are none."""
    tools = [
        {"name": as_text(name_of(as_dict(one))), "native": one}
        for one in in_steps(as_list(natives))
    ]
    return tools or None


def with_attached(messages: list[Any], contents: Any, model: str, family: str = "") -> list[Any]:
    """Return messages for an estimate, with the tokens of what is attached in contents."""
    tokens = attached_tokens(contents, model, family)
    return [*messages, {"role": "user", "content": [{"tokens": tokens}]}] if tokens else messages


def renamed(body: Json, admitted: Admitted, request: LlmRequest) -> Json:
    """Return a copy of a body, with the fallback's name alone if that is to answer."""
    if admitted.model == request.model:
        return dict(body)
    new = {**body, "model": admitted.model}
    new.pop("models", None)
    return new


def lowered(asked: int | None, admitted: Admitted, answers: int = 1) -> int | None:
    """Return the limit of one answer: the one asked for, or an equal part of what is admitted.

    Raises `TooLittleLeftError` for more answers than tokens that are admitted.
    """
    if admitted.max_tokens is None:
        return asked
    if asked != 0 and answers > max(1, admitted.max_tokens):
        raise TooLittleLeftError(
            f"the budget allows {admitted.max_tokens} tokens, fewer than the answers asked for"
        )
    part = max(1, admitted.max_tokens // max(1, answers))
    return part if asked is None else min(asked, part)


def lowered_thinking(budget: int, least: int, asked: int | None, limit: int) -> int | None:
    """Return a thinking budget below a lowered limit; `None` if `least` does not fit.

    It keeps its share of the limit. If no limit was asked for, it is at most half of the new one.
    """
    part = min(budget, limit // 2) if asked is None else budget * limit // max(1, asked)
    part = max(least, min(part, limit - 1))
    return part if part < limit else None


def ending(*reasons: Any) -> str:
    """Return `length` if one of a vendor's reasons says that an answer ended at its limit."""
    return "length" if any(reason in _AT_LIMIT for reason in reasons) else "stop"


def joined(texts: Iterable[Any]) -> str:
    """Return all texts among some values as one."""
    return "".join(map(as_text, texts))
