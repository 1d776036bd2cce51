"""The base class of wire formats, and readers of JSON that may have any form."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from budget_core.provider import ChatResponse
from budget_core.usage_estimate import bytes_in, message_bytes
from budget_cpython.vendors.answers import Reader, StreamReader, WholeReader, is_stream
from budget_cpython.vendors.body import LARGE, Json, decode, encode, text_bytes
from budget_cpython.vendors.request import (
    Admitted,
    LlmRequest,
    TooLittleLeftError,
    UnreadableRequestError,
)

_AT_LIMIT: Final = ("length", "max_tokens", "max_output_tokens", "MAX_TOKENS")
_PLAIN: Final = frozenset(["role", "content", "name", "tool_call_id"])


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

    def decode(self, content: bytes, content_type: str = "") -> Json:
        """Return a request's body; raises `UnreadableRequestError` as `body.decode` does.

        `content_type` is what its header says: only forms are read by it.
        """
        return decode(content)

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes.

        Raises `UnreadableRequestError` for a number that is a long text; for nothing else.
        """
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
        """Return the text, the usage, the model and the service tier of a whole answer.

        The text is all that the model wrote, reasoning and the arguments of tool calls included;
        the usage is missing where there is no report, or where it is not final.
        """
        raise NotImplementedError

    def reader(self, asked: LlmRequest, content_type: str) -> Reader:
        """Return the reader of an answer that is passed on as it comes."""
        if is_stream(content_type):
            return self.stream_reader(asked)
        return WholeReader(self.answer)

    def stream_reader(self, asked: LlmRequest) -> StreamReader:
        """Return the reader of an answer that comes as server-sent events."""
        raise NotImplementedError


@dataclass(frozen=True)
class Vendor:
    """A vendor, by its id in genai-prices as `name`.

    - `error`: an error in its form, as JSON, from a code, a message, figures and a status.
    - `formats`: its own formats, by the ends of paths.
    - `models_at`: the URLs at which it has models, where it has other services too.
    - `names_deployments`: whether its customers name what answers.
    """

    name: str
    error: Callable[[str, str, Json, int], Json]
    formats: tuple[tuple[str, type[WireFormat]], ...] = ()
    models_at: re.Pattern[str] | None = None
    names_deployments: bool = False


class WireBody:
    """A request's body, decoded once: read before its call is admitted, and written after.

    Its bytes, the `LlmRequest` and the `Admitted` pass through here, the decoded body does not: so
    another process may do this.
    """

    def __init__(self, form: WireFormat, content: bytes, content_type: str = "") -> None:
        self._form = form
        self._content = content
        self._content_type = content_type

    def read(self) -> LlmRequest:
        """Return the request that the body makes; raises `UnreadableRequestError`."""
        size = len(self._content)
        self._fields = self._form.decode(self._content, self._content_type)
        request = self._form.read(self._fields)
        if size > LARGE:  # where fields that nothing here reads count, too
            request.raise_to(text_bytes(self._fields))
        return request

    def write(self, admitted: Admitted, request: LlmRequest) -> bytes:
        """Return what to send: the same bytes if no field differs; raises `TooLittleLeftError`."""
        new = self._form.write(self._fields, admitted, request)
        return self._content if new == self._fields else encode(new)


def as_dict(value: Any) -> Json:
    """Return a JSON object, or an empty one for any other value."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return a JSON array, or an empty one for any other value."""
    return value if isinstance(value, list) else []


def as_count(value: Any) -> int | None:
    """Return a whole number that is not negative, `None` for any other value.

    `5.0` and `"5"` are 5, as some servers read them. Raises `UnreadableRequestError` for a long
    text.
    """
    if isinstance(value, float | str):
        if isinstance(value, str) and len(value) > LARGE:
            raise UnreadableRequestError("the request has a number that is a long text")
        try:
            number = float(value)
        except ValueError:
            return None
        value = int(number) if number.is_integer() else None
    return value if type(value) is int and value >= 0 else None


def as_text(value: Any) -> str:
    """Return a text, or an empty one for any other value."""
    return value if isinstance(value, str) else ""


def texts_in(content: Any) -> str:
    """Return the text of a content: a text itself, or the texts of its parts."""
    if isinstance(content, str):
        return content
    return "".join(as_text(part) or as_text(as_dict(part).get("text")) for part in as_list(content))


def sizes_of(messages: list[Any]) -> tuple[int, list[Any]]:
    """Return the bytes of messages as estimates count them, and those that are not text alone."""
    size, others = 0, []
    for message in messages:
        content = message.get("content") if type(message) is dict else None
        if type(content) is str and _PLAIN.issuperset(message):
            size += len(content) if content.isascii() else bytes_in(content)
        else:
            size += message_bytes(message)
            others.append(message)
    return size, others


def named_tools(natives: Any, name_of: Callable[[Json], Any]) -> list[Json] | None:
    """Return a vendor's tools with their names; `None` where there are none."""
    tools = [{"name": as_text(name_of(as_dict(one))), "native": one} for one in as_list(natives)]
    return tools or None


def renamed(body: Json, admitted: Admitted, request: LlmRequest) -> Json:
    """Return a copy of a body, with the fallback's name alone if that is to answer."""
    new = dict(body)
    if admitted.model != request.model:
        new["model"] = admitted.model
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
    for reason in reasons:
        if reason in _AT_LIMIT:
            return "length"
    return "stop"


def joined(texts: Iterable[Any]) -> str:
    """Return all texts among some values as one."""
    return "".join([text for text in texts if isinstance(text, str)])
