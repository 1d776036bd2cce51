"""Images, sounds, films and files in a request, and the most tokens that each comes to.

The rules are the vendors' own; docs/money.md names them. What is not in the request itself, or
cannot be measured, comes to the most that its rule gives.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

from budget_core.usage_estimate import bytes_in, tokens_in
from budget_cpython.vendors.measures import Inline

MOST: Final = 1_048_576  # tokens of one: what the longest prompts of most models have
_PAGES: Final = 100  # of a file that cannot be read
_PAGE_TEXT: Final = 3_000  # tokens
_TILE, _LONG_SIDE, _SHORT_SIDE = 512, 2048, 768
_PATCH: Final = 32
_TILES: Final = 8  # of the longest image: four by two
_TILED: Final = (  # by the beginning of a name: tokens of each image, and of each of its tiles
    ("gpt-4o-mini", 2_833, 5_667),
    ("gpt-4", 85, 170),
    ("chatgpt-4o", 85, 170),
    ("gpt-5.", 0, 0),
    ("gpt-5", 70, 140),
    ("o1", 75, 150),
    ("o3", 75, 150),
    ("computer-use", 65, 129),
)
_PATCHED: Final = (  # tokens of a patch, in hundredths, and the most patches
    ("gpt-4.1-mini", 162, 1_536),
    ("gpt-4.1-nano", 246, 1_536),
    ("gpt-5-mini", 162, 1_536),
    ("gpt-5-nano", 246, 1_536),
    ("o4-mini", 172, 1_536),
)
_EARLY_CLAUDE: Final = re.compile(r"claude-(v?[123]|4-|4\.)|-4([-.][0-6](?!\d)|[-@]20|$)")
_EARLY_GEMINI: Final = re.compile(r"gemini-[12]\b")


@dataclass(frozen=True)
class Attachment:
    """A part that is not text: its `kind`, its content where that is in the request."""

    kind: str
    inline: Inline | None = None
    detail: str = ""


def attached_tokens(value: Any, model: str, family: str = "") -> int:
    """Return the most tokens of what is attached in messages or contents, for a model.

    `family` is the vendor whose rules count: else the model's name says it.
    """
    name = model.rpartition("/")[2].lower().removeprefix("ft:")
    family = family or next((word for word in ("claude", "gemini") if word in name), "openai")
    rule = {"claude": _claude, "gemini": _gemini}.get(family, _openai)
    return sum(min(MOST, rule(found, name)) for found in _attachments(value))


def with_attached(messages: list[Any], contents: Any, model: str) -> list[Any]:
    """Return messages for an estimate, with the tokens of what is attached in contents."""
    tokens = attached_tokens(contents, model)
    return [*messages, {"role": "user", "content": [{"tokens": tokens}]}] if tokens else messages


def _openai(found: Attachment, model: str) -> int:
    if found.kind == "image":
        return _openai_image(found, model)
    if found.kind == "audio":
        return _seconds(found) * 10
    return _of_file(found, _PAGE_TEXT + _openai_image(Attachment("image"), model))


def _openai_image(found: Attachment, model: str) -> int:
    patched = next((row for row in _PATCHED if model.startswith(row[0])), None)
    tiled = next((row for row in _TILED if model.startswith(row[0])), None)
    if patched is None and tiled is not None and tiled[1]:
        _, base, each = tiled
        return base if found.detail == "low" else base + each * _tiles(found)
    mini = 246 if "nano" in model else 162 if "mini" in model else 120
    _, each, most = patched or ("", mini, 10_000 if found.detail == "original" else 2_500)
    most = 256 if found.detail == "low" else most
    return ceil(_squares(found, _PATCH, most) * each / 100)


def _tiles(found: Attachment) -> int:
    size = None if found.inline is None else found.inline.size()
    if size is None:
        return _TILES
    scale = min(1, _LONG_SIDE / max(size))
    scale *= min(1, _SHORT_SIDE / (min(size) * scale))
    return min(_TILES, ceil(size[0] * scale / _TILE) * ceil(size[1] * scale / _TILE))


def _claude(found: Attachment, model: str) -> int:
    most = 1_600 if _EARLY_CLAUDE.search(model) else 4_784
    if found.kind == "image":
        size = None if found.inline is None else found.inline.size()
        area = 0 if size is None else ceil(size[0] * size[1] / 750)
        return min(most, max(area, _squares(found, 28, most)))
    return _of_file(found, _PAGE_TEXT + most)


def _gemini(found: Attachment, model: str) -> int:
    early = _EARLY_GEMINI.search(model) is not None
    if found.kind == "image":
        return 258 * _gemini_tiles(found) if early else 2_240 if found.detail else 1_120
    if found.kind == "audio":
        return _seconds(found) * 32
    if found.kind == "video":
        return _seconds(found) * 300
    return _of_file(found, 258 if early else 1_120, 1_000)


def _gemini_tiles(found: Attachment) -> int:
    size = None if found.inline is None else found.inline.size()
    if size is None:
        return 16
    if max(size) <= 384:
        return 1
    unit = min(768, max(256, min(size) / 1.5))
    return min(16, ceil(size[0] / unit) * ceil(size[1] / unit))


def _squares(found: Attachment, side: int, most: int) -> int:
    """Return how many squares cover an image; larger ones are made smaller, to that many."""
    size = None if found.inline is None else found.inline.size()
    return most if size is None else min(most, ceil(size[0] / side) * ceil(size[1] / side))


def _seconds(found: Attachment) -> int:
    return MOST if found.inline is None else found.inline.seconds()


def _of_file(found: Attachment, page: int, most: int = _PAGES) -> int:
    if found.inline is None:
        return most * page
    pages = found.inline.pages(most)
    return tokens_in(found.inline.length) if pages is None else pages * page


def _attachments(value: Any) -> Iterator[Attachment]:
    """Yield the attachments of a message, also those in parts and in results of tools."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            found = _attachment(item)
            if found is not None:
                yield found
            waiting += [item[name] for name in _INSIDE if isinstance(item.get(name), (list, dict))]


_INSIDE: Final = ("content", "parts", "output", "source", "functionResponse", "function_response")


def _attachment(part: dict[str, Any]) -> Attachment | None:
    kind = part.get("type")
    if kind in ("image_url", "input_image", "computer_screenshot"):
        image = part.get("image_url")
        inner = image if isinstance(image, dict) else {"url": image}
        detail = inner.get("detail") or part.get("detail")
        return Attachment("image", Inline.of_url(inner.get("url")), str(detail or ""))
    if kind in ("input_audio", "video_url"):
        inner = _dict(part.get(kind))
        return Attachment(kind[6:] if kind == "input_audio" else "video", _inline(inner))
    if kind in ("file", "input_file"):
        inner = _dict(part.get("file")) or part
        return Attachment("file", Inline.of_url(inner.get("file_data") or inner.get("base64")))
    if isinstance(part.get("source"), dict):
        return _of_anthropic(kind, part["source"])
    if kind in ("image", "audio", "video"):  # as LangChain has them
        return Attachment(str(kind), Inline.of_url(part.get("base64") or part.get("data")))
    for name in ("inlineData", "inline_data", "fileData", "file_data"):
        if isinstance(part.get(name), dict):
            return _of_google(part[name], str(part.get("mediaResolution") or ""))
    return None


def _of_anthropic(kind: Any, source: dict[str, Any]) -> Attachment | None:
    if source.get("type") == "content":
        return None  # its own parts are attached
    if source.get("type") == "text":
        return Attachment("file", Inline("", bytes_in(source.get("data"))))
    return Attachment("image" if kind == "image" else "file", _inline(source))


def _of_google(data: dict[str, Any], resolution: str) -> Attachment:
    mime = str(data.get("mimeType") or data.get("mime_type") or "").lower()
    kind = mime.partition("/")[0]
    kind = kind if kind in ("image", "audio", "video") else "file"
    return Attachment(kind, _inline(data), "ultra" if "ULTRA" in resolution else "")


def _inline(data: dict[str, Any]) -> Inline | None:
    found = data.get("data")
    return Inline(found) if isinstance(found, str) and found else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
