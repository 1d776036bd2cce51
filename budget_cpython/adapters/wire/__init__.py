"""The vendors' wire formats: what a request asks for, and how it is changed, as functions on JSON.

`find_format` says which one a request is; see `WireFormat`.
"""

import re
from typing import Final

from budget_cpython.adapters.wire.anthropic_messages import CountTokens, Messages
from budget_cpython.adapters.wire.body import LARGE, text_bytes
from budget_cpython.adapters.wire.format import WireFormat
from budget_cpython.adapters.wire.google_generate import (
    GOOGLE_MODELS,
    GenerateContent,
    GoogleCountTokens,
)
from budget_cpython.adapters.wire.long_text import size_of
from budget_cpython.adapters.wire.openai_chat import ChatCompletions, Completions
from budget_cpython.adapters.wire.openai_embeddings import Embeddings
from budget_cpython.adapters.wire.openai_responses import Responses
from budget_cpython.adapters.wire.other_calls import OtherCall, is_other_call
from budget_cpython.adapters.wire.readers import Piece, Reader
from budget_cpython.adapters.wire.refusals import (
    Refusal,
    TooLittleLeftError,
    UnreadableRequestError,
    refusal,
)
from budget_cpython.adapters.wire.spelling import check_spelling

__all__ = [
    "GOOGLE_MODELS",
    "LARGE",
    "Piece",
    "Reader",
    "Refusal",
    "TooLittleLeftError",
    "UnreadableRequestError",
    "WireFormat",
    "check_spelling",
    "find_format",
    "refusal",
    "size_of",
    "text_bytes",
]

_FORMATS: Final[tuple[tuple[str, type[WireFormat]], ...]] = (
    (r"/chat/completions", ChatCompletions),
    (r"/completions", Completions),
    (r"/responses", Responses),
    (r"/embeddings", Embeddings),
    (r"/v1/messages", Messages),
    (r"/v1/messages/count_tokens", CountTokens),
    (rf"/{GOOGLE_MODELS}/[^/]+:(?:generateContent|streamGenerateContent)", GenerateContent),
    (rf"/{GOOGLE_MODELS}/[^/]+:countTokens", GoogleCountTokens),
)
_COMPILED: Final = [(re.compile(".*" + pattern), kind) for pattern, kind in _FORMATS]


def find_format(method: str, path: str, at_vendor: bool = False) -> WireFormat | None:
    """Return the format of a request by its method and its path without the query.

    The path may begin with anything: vendors' and proxies' base URLs differ. `None` if the request
    costs nothing. `at_vendor`: whether the server is known to be a vendor's, so that any other
    request costs something; else those do whose path says so, such as `images/generations`.
    """
    if method.upper() != "POST":
        return None
    path = re.sub("%3a", ":", path.rstrip("/"), flags=re.IGNORECASE)  # as servers read it
    for pattern, kind in _COMPILED:
        if pattern.fullmatch(path):
            return kind(path)
    return OtherCall(path) if is_other_call(path, at_vendor) else None
