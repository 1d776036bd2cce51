"""Requests that cost something and are no call of a known format: images, speech, batches."""

import re
from typing import Any, Final
from urllib.parse import unquote

from budget_core.provider import ChatResponse
from budget_core.usage_estimate import bytes_in, tokens_in
from budget_cpython.vendors.answers import StreamReader, answered
from budget_cpython.vendors.body import Json
from budget_cpython.vendors.format import as_count, as_dict
from budget_cpython.vendors.measures import Inline
from budget_cpython.vendors.openai import OpenAIFormat
from budget_cpython.vendors.request import (
    Admitted,
    LlmRequest,
    TooLittleLeftError,
    UnreadableRequestError,
)

# What vendors take nothing for, by the end of a path.
_FREE: Final = re.compile(
    r".*/(files|uploads|moderations|vector_stores|conversations|assistants|traces)(/.*)?"
    r"|.*/threads(/(?!runs$)[^/]+(/messages(/.*)?)?)?"
    r"|.*/(cancel|count_tokens|input_tokens|tokenize)"
    r"|.*:(countTokens|computeTokens|cancel)"
)
# What is for a model on any server.
_BILLED: Final = re.compile(
    r".*/images/(generations|edits|variations)"
    r"|.*/audio/(speech|transcriptions|translations)"
    r"|.*/v1/(batches|messages/batches|videos|fine_tuning/jobs|realtime/\w+|responses/compact)"
    r"|.*/models/[^/]+:(embedContent|batchEmbedContents|predict|predictLongRunning)"
)
_MODEL: Final = re.compile(r"/models/([^/:]+):[^/]+$")
_BOUNDARY: Final = re.compile(r'boundary="?([^";, ]+)', re.IGNORECASE)
_FIELD: Final = re.compile(rb'[; ]name="?([\w\[\]]+)', re.IGNORECASE)
_MOST_FIELDS: Final = 1_000
_MOST_HEAD: Final = 1 << 12  # bytes of the headers of a form's field
_MOST_FIELD: Final = 1 << 16  # bytes of a form's field that is read
_IMAGE: Final = 6_240  # tokens: OpenAI's largest image of high quality
_SPOKEN: Final = 2  # tokens of speech for a character, at most


class OtherCall(OpenAIFormat):
    """Any other `POST` to a vendor: one call, sent as it is, charged by what its answer reports.

    It is priced by its model, else by the end of its path, such as `batches`.
    """

    known = False

    def __init__(self, path: str) -> None:
        super().__init__(path)
        if "/v1/messages/" in path or path.endswith("/v1/complete"):
            self.vendor = "anthropic"
        elif _MODEL.search(path):
            self.vendor = "google"

    def decode(self, content: bytes, content_type: str = "") -> Json:
        """Return the fields of a body of JSON, or of a form; none of anything else."""
        self._content = content
        self._is_json = not content.startswith(b"--")
        try:
            return super().decode(content) if self._is_json else _form(content, content_type)
        except UnreadableRequestError:
            self._is_json = False
            return {}

    def read(self, body: Json) -> LlmRequest:
        """Return the request that a body makes."""
        units = self._units(body)
        heard = 10 * units.get("audio_seconds", 0)
        size = len(self._content) if self._is_json else bytes_in(body.get("prompt"))
        message = {"role": "user", "content": [{"tokens": tokens_in(size) + heard}]}
        request = self.asked(body, [message], self._most(body, units))
        found = _MODEL.search(self.path)
        request.model = unquote(found[1]) if found else request.model
        if not request.model:
            request.model = self.path.rstrip("/").rpartition("/v1/")[2].lstrip("/")
        request.stream, request.service_tier = False, None
        request.units = tuple(units.items())
        return request

    def write(self, body: Json, admitted: Admitted, request: LlmRequest) -> Json:
        """Return the body itself: there is nothing in it that a budget changes."""
        return body

    def check(self, admitted: Admitted, request: LlmRequest) -> None:
        """Raise `TooLittleLeftError` for a fallback, and where not all of the answer fits."""
        asked, left = request.max_tokens or 0, admitted.max_tokens
        if admitted.model != request.model:
            raise TooLittleLeftError(f"the budget allows no {request.model}")
        if left is not None and left < asked:
            raise TooLittleLeftError(
                f"the budget allows an answer of {left} tokens, and one of {request.model} may "
                f"come to {asked}"
            )

    def answer(self, body: Any) -> ChatResponse:
        """Return the usage that an answer reports."""
        fields = as_dict(body)
        return answered("", "stop", fields.get("usage") or fields.get("usageMetadata"), body)

    def stream_reader(self, asked: LlmRequest) -> StreamReader:
        """Return a reader of the usage in the events of an answer."""
        return _OtherCallEvents()

    def _units(self, body: Json) -> dict[str, int]:
        """Return the units beside tokens that a price may be for."""
        if self.path.endswith("/speech"):
            spoken = body.get("input")
            text = spoken if isinstance(spoken, str) else str(spoken or "")
            return {"input_characters": len(text)}
        if "/audio/" in self.path:
            file = body.get("file")
            sound = Inline.of_bytes(file if isinstance(file, bytes) else self._content)
            return {"audio_seconds": sound.seconds()}
        return {}

    def _most(self, body: Json, units: dict[str, int]) -> int:
        """Return the most tokens that an answer has."""
        if "/images/" in self.path:
            return _IMAGE * max(1, as_count(body.get("n")) or 1)
        return _SPOKEN * units.get("input_characters", 0)


class _OtherCallEvents(StreamReader):
    def take(self, event: Json) -> tuple[str, bool]:
        """Read the usage in an event; all are passed on."""
        if isinstance(event.get("usage"), dict):
            self.report, self.final = event["usage"], True
        return "", True


def is_other_call(path: str, at_vendor: bool) -> bool:
    """Tell whether a `POST` to a path costs something: at a vendor all do that are not known."""
    if _FREE.fullmatch(path):
        return False
    return at_vendor or _BILLED.fullmatch(path) is not None


def _form(content: bytes, content_type: str) -> Json:
    """Return the fields of a form; of a `model` that comes twice all, as `models`.

    None of a form that a server might divide otherwise.
    """
    edge = content.partition(b"\r\n")[0]
    named = _BOUNDARY.findall(content_type)
    parts = content.split(edge, _MOST_FIELDS + 1)[1:]
    if len(parts) > _MOST_FIELDS or (named and [edge] != [b"--" + one.encode() for one in named]):
        return {}
    fields: Json = {}
    models = []
    for part in parts:
        head, _, value = part.partition(b"\r\n\r\n")
        found = _FIELD.search(head[:_MOST_HEAD])
        if found is None:
            continue
        value = value.removesuffix(b"\r\n")
        name = found[1].decode()
        is_file = b"filename" in head[:_MOST_HEAD]
        fields[name] = value if is_file else value[:_MOST_FIELD].decode("utf-8", "replace")
        if name == "model":
            models.append(fields[name])
    return {**fields, "models": models} if len(models) > 1 else fields
