"""The formats that requests come in, by their paths, and what a format consists of."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from scripted_model.calls import Answer, Asked
from scripted_model.checks import ApiError, Json
from scripted_model.formats import (
    completions,
    embeddings,
    generate_content,
    messages,
    responses,
)
from scripted_model.formats.vendors import ANTHROPIC, GOOGLE, OPENAI, Vendor


class Format(NamedTuple):
    """A format: how a request is read, and how an answer is written, whole and as events.

    `failure` writes the event that ends a stream with an error; it gets that event's number.
    """

    read: Callable[[Json, str], Asked]
    whole: Callable[[Answer], Json]
    events: Callable[[Answer], Iterator[str]] | None = None
    failure: Callable[[ApiError, int], str] | None = None


_DEPLOYMENT: Final = "(?:/deployments/[^/]+)?"  # of Azure
_MODEL: Final = "/v1(?:alpha|beta)?/models/[^/]+"
FORMATS: Final = {
    f"/v1{_DEPLOYMENT}/chat/completions": Format(
        completions.read, completions.whole, completions.events, completions.failure
    ),
    "/v1/responses": Format(responses.read, responses.whole, responses.events, responses.failure),
    f"/v1{_DEPLOYMENT}/embeddings": Format(embeddings.read, embeddings.whole),
    "/v1/messages": Format(messages.read, messages.whole, messages.events, messages.failure),
    "/v1/messages/count_tokens": Format(messages.read_count, messages.whole_count),
    f"{_MODEL}:(?:generateContent|streamGenerateContent)": Format(
        generate_content.read,
        generate_content.whole,
        generate_content.events,
        generate_content.failure,
    ),
    f"{_MODEL}:countTokens": Format(generate_content.read_count, generate_content.whole_count),
}


def format_of(path: str) -> Format | None:
    """Return the format of the requests to a path."""
    return next((one for pattern, one in FORMATS.items() if re.fullmatch(pattern, path)), None)


def vendor_of(path: str, headers: Mapping[str, str]) -> Vendor:
    """Return whose service a request expects; OpenAI's, where it does not show."""
    if path.startswith(("/v1alpha/", "/v1beta/")) or ":" in path or "x-goog-api-key" in headers:
        return GOOGLE
    if path.startswith("/v1/messages") or "anthropic-version" in headers:
        return ANTHROPIC
    return OPENAI
