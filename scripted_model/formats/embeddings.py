"""Embeddings: `POST /v1/embeddings`."""

import base64
import hashlib
import itertools
import re
import struct
from typing import Any, Final

from scripted_model.calls import CHARS_PER_TOKEN, Answer, Asked
from scripted_model.checks import Count, Json, match, rule

DIMENSIONS: Final = 8

_REQUEST: Final = {
    "model": re.compile(".+"),
    "dimensions?": Count(1),
    "encoding_format?": ("float", "base64"),
}


def read(body: Json, path: str) -> Asked:
    """Check a request, and return what it asks for: no answer."""
    match(body, _REQUEST)
    return Asked(body["model"], [], body, _texts(body.get("input")), answers=0)


def whole(answer: Answer) -> Json:
    """Return the list of embeddings, one for each text."""
    body = answer.asked.body
    encode = _base64 if body.get("encoding_format") == "base64" else list
    count = body.get("dimensions") or DIMENSIONS
    data = [
        {"object": "embedding", "index": index, "embedding": encode(_vector(text, count))}
        for index, text in enumerate(answer.asked.prompt)
    ]
    listed: Json = {"object": "list", "data": data, "model": answer.asked.model}
    if answer.usage is not None:
        prompt = answer.usage.prompt
        listed["usage"] = {"prompt_tokens": prompt, "total_tokens": prompt}
    return listed


def _texts(given: Any) -> list[str]:
    """Return the texts to embed; a list of tokens becomes a text of as many tokens."""
    several = isinstance(given, list) and not all(type(one) is int for one in given)
    texts = given if several else [given]
    rule(texts, "input", "must not be empty.")
    return [_text(one) for one in texts]


def _text(given: Any) -> str:
    if isinstance(given, list) and all(type(one) is int for one in given):
        given = "".join(f"{token:0{CHARS_PER_TOKEN}}"[-CHARS_PER_TOKEN:] for token in given)
    rule(isinstance(given, str) and given, "input", "must be text, tokens, or a list of them.")
    return str(given)


def _vector(text: str, count: int) -> tuple[float, ...]:
    """Return numbers from 0 to 1 that depend on the text alone."""
    digits = itertools.cycle(hashlib.sha256(text.encode()).digest())
    return tuple(digit / 255 for digit in itertools.islice(digits, count))


def _base64(vector: tuple[float, ...]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
