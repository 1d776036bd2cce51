"""What images, sounds, films and files come to, by the vendors' published rules."""

import base64
import json
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx2
import openai
import pytest

from budget_core.usage_estimate import estimate_tokens
from budget_cpython import Ledger, budgeted, parse_limits
from budget_cpython.vendors.attachments import MOST, attached_tokens
from tests.vendors.vectors import CHAT, GENERATE, MESSAGES, RESPONSES, format_at

ELSEWHERE = "https://example.com/a.png"


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\2\0\0\0"


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(9)


def jpeg(width: int, height: int) -> bytes:
    comment = b"\xff\xe1" + struct.pack(">H", 40_002) + bytes(40_000)
    frame = b"\xff\xc2\0\x11\x08" + struct.pack(">HH", height, width) + bytes(12)
    return b"\xff\xd8" + comment + frame


def webp(width: int, height: int, kind: bytes) -> bytes:
    sizes = {
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
        b"VP8L": b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14),
        b"VP8X": bytes(4) + struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3],
    }
    return b"RIFF\0\0\0\0WEBP" + kind + bytes(4) + sizes[kind] + bytes(9)


def wav(seconds: int) -> bytes:
    head = b"fmt \x10\0\0\0\1\0\1\0" + struct.pack("<II", 8_000, 16_000) + b"\2\0\x10\0"
    return b"RIFF\0\0\0\0WAVE" + head + b"data\0\0\0\0" + bytes(16_000 * seconds)


def mp4(seconds: int) -> bytes:
    times = struct.pack(">II", 1_000, seconds * 1_000)
    return b"\0\0\0\x18ftypisom" + bytes(5_000) + b"mvhd" + bytes(12) + times + bytes(80)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def image(data: bytes | None, detail: str | None = None) -> Any:
    url = ELSEWHERE if data is None else "data:image/png;base64," + encoded(data)
    inner = {"url": url} if detail is None else {"url": url, "detail": detail}
    return {"type": "image_url", "image_url": inner}


def tokens(part: Any, model: str) -> int:
    return attached_tokens([{"role": "user", "content": [part]}], model)


@pytest.mark.parametrize(
    ("model", "size", "expected"),
    [
        ("gpt-4o", (1024, 1024), 765),
        ("gpt-4o", (2048, 4096), 1105),
        ("openai/gpt-4o-2024-08-06", (512, 512), 255),
        ("gpt-4o", (20_000, 500), 85 + 170 * 4),
        ("gpt-4o-mini", (1024, 1024), 2833 + 4 * 5667),
        ("ft:gpt-4o-mini-2024-07-18:acme::x", (1024, 1024), 2833 + 4 * 5667),
        ("gpt-5", (1024, 1024), 70 + 4 * 140),
        ("o3", (1024, 1024), 75 + 4 * 150),
        ("gpt-4.1-mini", (1024, 1024), 1659),
        ("gpt-4.1-nano", (3000, 3000), 3779),
        ("o4-mini", (32, 32), 2),
        ("gpt-5.6", (1024, 1024), 1229),
        ("unheard-of", (9999, 9999), 3000),
        ("anthropic/claude-sonnet-4.5", (1000, 1000), 1334),
        ("claude-sonnet-4-5-20250929", (1092, 1092), 1590),
        ("claude-sonnet-4-20250514", (3000, 3000), 1600),
        ("claude-opus-4-7", (3000, 3000), 4784),
        ("claude-opus-5", (2000, 1500), 4000),
        ("gemini-2.5-flash", (384, 384), 258),
        ("gemini-2.5-flash", (960, 540), 6 * 258),
        ("gemini-3-pro-preview", (960, 540), 1120),
    ],
)
def test_an_image_comes_to_what_its_vendor_publishes(
    model: str, size: tuple[int, int], expected: int
) -> None:
    assert tokens(image(png(*size)), model) == expected


@pytest.mark.parametrize(
    "data",
    [
        png(1000, 700),
        gif(1000, 700),
        jpeg(1000, 700),
        webp(1000, 700, b"VP8 "),
        webp(1000, 700, b"VP8L"),
        webp(1000, 700, b"VP8X"),
    ],
)
def test_the_size_is_read_from_the_image(data: bytes) -> None:
    assert tokens(image(data), "claude-sonnet-4-5") == 934


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4.1-mini", "claude-opus-5", "gemini-2.5-pro"])
def test_an_image_of_unknown_size_comes_to_the_most(model: str) -> None:
    largest = tokens(image(png(60_000, 20_000)), model)
    broken = (None, b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xe0", b"BM" + bytes(60))
    for data in (*broken, png(0, 700), jpeg(5, 5)[:100]):
        assert tokens(image(data), model) >= largest > 0


def test_low_detail_comes_to_less_and_original_to_more() -> None:
    assert tokens(image(None, "low"), "gpt-4o") == 85
    assert tokens(image(png(4000, 4000), "low"), "gpt-5.6") == 308
    assert tokens(image(None, "original"), "gpt-5.6") == 12_000


def test_sound_and_film_come_to_what_they_last() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": encoded(wav(10)), "format": "wav"}}
    assert tokens(sound, "gpt-4o-audio-preview") in (100, 110)
    assert tokens(sound, "gemini-2.5-flash") in (320, 352)
    mp3 = b"ID3\4\0\0\0\0\0\x0a" + bytes(10) + b"\xff\xfb\x90\0" + bytes(15_996)
    part = {"inlineData": {"mimeType": "audio/mpeg", "data": encoded(mp3)}}
    assert tokens(part, "gemini-2.5-flash") == 64  # at 128 kbit/s, just above a second
    unknown = {"inlineData": {"mimeType": "audio/x", "data": encoded(bytes(9_000))}}
    assert tokens(unknown, "gemini-2.5-flash") == 9 * 32
    film = {"inline_data": {"mime_type": "video/mp4", "data": encoded(mp4(20))}}
    assert tokens(film, "gemini-2.5-flash") == 20 * 300
    in_fragments = {"inlineData": {"mimeType": "VIDEO/MP4", "data": encoded(mp4(0))}}
    assert tokens(in_fragments, "gemini-2.5-flash") == 6 * 300  # by its size
    lie = wav(10).replace(struct.pack("<II", 8_000, 16_000), struct.pack("<II", 8_000, 1 << 31))
    sound["input_audio"] = {"data": encoded(lie), "format": "wav"}
    assert tokens(sound, "gpt-4o-audio-preview") in (100, 110)
    far = {"fileData": {"mimeType": "video/mp4", "fileUri": "https://youtu.be/x"}}
    assert tokens(far, "gemini-2.5-flash") == MOST


def test_a_file_comes_to_its_pages_or_its_text() -> None:
    pdf = b"%PDF-1.4\n" + b"<< /Type /Page /Parent 1 0 R >>\n" * 3 + b"<< /Type /Pages /Count 3 >>"
    part = {"type": "file", "file": {"file_data": "data:application/pdf;base64," + encoded(pdf)}}
    assert tokens(part, "gpt-4o") == 3 * (3_000 + 1_445)
    assert tokens({"type": "file", "file": {"file_id": "f"}}, "gpt-4o") == 100 * (3_000 + 1_445)
    google = {"inlineData": {"mimeType": "application/pdf", "data": encoded(pdf)}}
    assert tokens(google, "gemini-2.5-flash") == 3 * 258
    hidden = b"%PDF-1.7\n" + bytes(2_000)
    source = {"type": "base64", "media_type": "application/pdf", "data": encoded(hidden)}
    assert tokens({"type": "document", "source": source}, "claude-opus-4-5") == 8 * 4_600
    text = {"type": "document", "source": {"type": "text", "data": "tomato" * 100}}
    assert tokens(text, "claude-opus-4-5") == 150


def asked(path: str, body: Any) -> int:
    request = format_at(path).read(body)
    return estimate_tokens(request.messages)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"model": "gpt-4o", "messages": [{"role": "user", "content": [image(None)]}]}),
        (
            RESPONSES,
            {
                "model": "gpt-4o",
                "input": [
                    {"role": "user", "content": [{"type": "input_image", "image_url": ELSEWHERE}]}
                ],
            },
        ),
        (
            RESPONSES,
            {
                "model": "gpt-4o",
                "input": [
                    {
                        "type": "function_call_output",
                        "call_id": "1",
                        "output": [{"type": "input_image", "file_id": "f"}],
                    }
                ],
            },
        ),
        (
            MESSAGES,
            {
                "model": "claude-opus-4-5",
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {
                                "type": "tool_result",
                                "content": [
                                    {"type": "image", "source": {"type": "url", "url": ELSEWHERE}}
                                ],
                            }
                        ],
                    }
                ],
            },
        ),
        (
            GENERATE,
            {"contents": {"parts": [{"fileData": {"mimeType": "image/png", "fileUri": "u"}}]}},
        ),
    ],
)
def test_an_image_is_a_part_of_the_prompt_in_each_format(path: str, body: Any) -> None:
    assert asked(path, body) >= 1_000


@pytest.fixture
def sees_images() -> Iterator[tuple[Any, Ledger, list[Any]]]:
    """Yield a client with 10,000 tokens, its ledger, and what was sent."""
    sent: list[Any] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        usage = {"prompt_tokens": 774, "completion_tokens": 20, "total_tokens": 794}
        choice = {"index": 0, "message": {"role": "assistant", "content": "A tomato."}}
        body = {"model": "gpt-4o", "choices": [choice], "usage": usage}
        return httpx2.Response(200, json=body)

    ledger = Ledger()
    ledger.set_limits("a", parse_limits("10_000 tokens"))
    plain = openai.OpenAI(
        api_key="k",
        max_retries=0,
        http_client=httpx2.Client(transport=httpx2.MockTransport(serve)),
    )
    yield budgeted(plain, ledger=ledger, account="a"), ledger, sent
    plain.close()


def test_calls_with_images_stay_within_their_tokens(
    sees_images: tuple[Any, Ledger, list[Any]],
) -> None:
    client, ledger, sent = sees_images
    messages = [{"role": "user", "content": [image(png(1024, 1024))]}]
    for _ in range(50):
        with suppress(openai.APIStatusError):
            client.chat.completions.create(model="gpt-4o", messages=messages, max_tokens=20)
    assert sent[0]["messages"] == messages
    assert len(sent) == 12
    [row] = [row for row in ledger.balance("a") if row.axis == "tokens"]
    assert (row.spent, row.held) == (12 * 794, 0)
