"""The formats that requests come in, by their paths, and what a format consists of."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

from budget_cpython.endpoint.calls import Answer, Asked
from budget_cpython.endpoint.checks import ApiError, Json
from budget_cpython.endpoint.formats import (
    anthropic,
    completions,
    embeddings,
    generate_content,
    google,
    messages,
    openai,
    responses,
)


class Vendor(Protocol):
    """What a vendor's formats share; the modules `openai`, `anthropic`, `google` have it.

    `TOO_LONG` is the message about a prompt of `{tokens}` for a context of `{limit}`.
    """

    @property
    def TOO_LONG(self) -> str: ...  # noqa: D102, N802

    def error(self, refusal: ApiError) -> Json: ...  # noqa: D102
    def key(self, headers: Mapping[str, str], query: Mapping[str, str]) -> str | None: ...  # noqa: D102
    def models(self, names: Iterable[str]) -> Json: ...  # noqa: D102
    def model(self, name: str) -> Json: ...  # noqa: D102


class Format(NamedTuple):
    """A format: how a request is read, and how an answer is written, whole and as events.

    `failure` writes the event that ends a stream with an error; it gets that event's number.
    """

    vendor: Vendor
    read: Callable[[Json, str], Asked]
    whole: Callable[[Answer], Json]
    events: Callable[[Answer], Iterator[str]] | None = None
    failure: Callable[[ApiError, int], str] | None = None


_DEPLOYMENT: Final = "(?:/deployments/[^/]+)?"  # of Azure
_GENERATE: Final = Format(
    google,
    generate_content.read,
    generate_content.whole,
    generate_content.events,
    generate_content.failure,
)
FORMATS: Final = {
    rf"/v1{_DEPLOYMENT}/chat/completions": Format(
        openai, completions.read, completions.whole, completions.events, completions.failure
    ),
    r"/v1/responses": Format(
        openai, responses.read, responses.whole, responses.events, responses.failure
    ),
    rf"/v1{_DEPLOYMENT}/embeddings": Format(openai, embeddings.read, embeddings.whole),
    r"/v1/messages": Format(
        anthropic, messages.read, messages.whole, messages.events, messages.failure
    ),
    r"/v1/messages/count_tokens": Format(anthropic, messages.read_count, messages.whole_count),
    r"/v1(?:alpha|beta)?/models/[^/]+:generateContent": _GENERATE,
    r"/v1(?:alpha|beta)?/models/[^/]+:streamGenerateContent": _GENERATE,
    r"/v1(?:alpha|beta)?/models/[^/]+:countTokens": Format(
        google, generate_content.read_count, generate_content.whole_count
    ),
}


def format_of(path: str) -> Format | None:
    """Return the format of the requests to a path."""
    return next((one for pattern, one in FORMATS.items() if re.fullmatch(pattern, path)), None)


def vendor_of(path: str, headers: Mapping[str, str]) -> Vendor:
    """Return whose service a request expects; OpenAI's, where it does not show."""
    if path.startswith(("/v1alpha/", "/v1beta/")) or ":" in path or "x-goog-api-key" in headers:
        return google
    if path.startswith("/v1/messages") or "anthropic-version" in headers:
        return anthropic
    return openai
