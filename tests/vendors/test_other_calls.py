"""Requests that are no call of a known format: free, or one call at what their price says."""

import base64
from typing import Any

import httpx2
import pytest
from openai import APIStatusError, OpenAI

from budget_cpython import Ledger, Limit, Price, budgeted
from budget_cpython.vendors.registry import find_format
from tests.vendors.test_attachments import wav

OPENAI = "https://api.openai.com/v1"
IMAGE_USAGE = {
    "input_tokens": 50,
    "input_tokens_details": {"text_tokens": 50, "image_tokens": 0},
    "output_tokens": 1_056,
    "total_tokens": 1_106,
}
PICTURE = {"created": 1, "data": [{"b64_json": base64.b64encode(b"x").decode()}]}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/images/generations",
        "/v1/images/edits",
        "/v1/audio/speech",
        "/v1/audio/transcriptions",
        "/v1/batches",
        "/v1/messages/batches",
        "/v1/fine_tuning/jobs",
        "/v1/videos",
        "/v1beta/models/m:embedContent",
        "/openai/deployments/d/images/generations",
    ],
)
def test_what_costs_something_is_known_by_its_path_on_any_server(path: str) -> None:
    wire = find_format("POST", path)
    assert wire is not None
    assert (wire.known, wire.held) == (False, True)
    assert find_format("GET", path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files",
        "/v1/uploads/u/parts",
        "/v1/moderations",
        "/v1/vector_stores/v/search",
        "/v1/threads",
        "/v1/threads/t/messages",
        "/v1/responses/r/cancel",
        "/v1/responses/input_tokens",
        "/v1/traces/ingest",
    ],
)
def test_what_vendors_take_nothing_for_is_free(path: str) -> None:
    assert find_format("POST", path, at_vendor=True) is None


@pytest.mark.parametrize("path", ["/v1/threads/runs", "/v1/threads/t/runs", "/v9/new", "/"])
def test_at_a_vendor_anything_else_costs_something(path: str) -> None:
    assert find_format("POST", path) is None
    assert find_format("POST", path, at_vendor=True) is not None


class Made:
    """A budgeted client whose server answers all alike."""

    def __init__(self, answer: Any, *limits: Limit, url: str = OPENAI, **options: Any) -> None:
        self.ledger = Ledger()
        self.ledger.set_limits("a", list(limits))
        self.sent: list[httpx2.Request] = []

        def serve(request: httpx2.Request) -> httpx2.Response:
            request.read()
            self.sent.append(request)
            if isinstance(answer, bytes):
                return httpx2.Response(200, content=answer)
            return httpx2.Response(200, json=answer)

        transport = httpx2.Client(transport=httpx2.MockTransport(serve))
        plain = OpenAI(base_url=url, api_key="k", max_retries=0, http_client=transport)
        self.client = budgeted(plain, ledger=self.ledger, account="a", **options)

    def spent(self, axis: str) -> int:
        """Return what is spent on an axis."""
        [row] = [row for row in self.ledger.balance("a") if row.axis == axis]
        assert row.held == 0
        return row.spent


def test_images_count_calls() -> None:
    made = Made(PICTURE, Limit("calls", 2))
    for _ in range(2):
        made.client.images.generate(model="dall-e-3", prompt="a tomato")
    with pytest.raises(APIStatusError, match="0 of 2 calls"):
        made.client.images.generate(model="dall-e-3", prompt="a tomato")
    assert made.spent("calls") == len(made.sent) == 2


def test_images_without_a_price_are_refused_where_money_is_limited() -> None:
    made = Made(PICTURE, Limit("usd", 5))
    with pytest.raises(APIStatusError, match="no price is known for dall-e-3"):
        made.client.images.generate(model="dall-e-3", prompt="a tomato")
    with pytest.raises(APIStatusError, match="no price is known for batches"):
        made.client.batches.create(
            input_file_id="f", endpoint="/v1/chat/completions", completion_window="24h"
        )
    assert made.sent == []


def test_images_cost_what_the_user_says_for_each() -> None:
    prices = {"dall-e-3": Price(0, 0, request="0.04")}
    made = Made(PICTURE, Limit("usd", "0.10"), prices=prices)
    for _ in range(2):
        made.client.images.generate(model="dall-e-3", prompt="a tomato")
    assert made.spent("nano_usd") == 80_000_000
    with pytest.raises(APIStatusError, match="per run left, not"):
        made.client.images.generate(model="dall-e-3", prompt="a tomato")


def test_images_cost_the_tokens_that_are_reported() -> None:
    answer = {**PICTURE, "usage": IMAGE_USAGE}
    made = Made(answer, Limit("usd", 5), Limit("tokens", 20_000))
    made.client.images.generate(model="gpt-image-1", prompt="a tomato")
    assert made.spent("tokens") == 1_106
    assert made.spent("nano_usd") == 50 * 5_000 + 1_056 * 40_000
    small = Made(answer, Limit("tokens", 5_000))
    with pytest.raises(APIStatusError, match="may come to 6240"):
        small.client.images.generate(model="gpt-image-1", prompt="a tomato")
    assert small.sent == []


def test_speech_costs_its_characters() -> None:
    made = Made(b"\xff\xfb\x90 sound", Limit("usd", 5))
    found = made.client.audio.speech.create(model="tts-1", voice="alloy", input="x" * 1_000)
    assert found.content == b"\xff\xfb\x90 sound"
    assert made.spent("nano_usd") == 15_000_000


def test_a_transcription_costs_what_it_lasts() -> None:
    made = Made({"text": "a tomato"}, Limit("usd", 5))
    sound = ("a.wav", wav(60), "audio/wav")
    made.client.audio.transcriptions.create(model="whisper-1", file=sound)
    assert 6_000_000 <= made.spent("nano_usd") <= 6_200_000
    assert b"whisper-1" in made.sent[0].content
    assert wav(60) in made.sent[0].content


def test_of_two_models_in_a_form_the_dearest_is_held() -> None:
    ledger = Ledger()
    ledger.set_limits("a", [Limit("usd", 5)])
    prices = {"cheap": Price(0, 0), "dear": Price(0, 0, request=9)}
    client = budgeted(httpx2.Client(), ledger=ledger, account="a", prices=prices)
    form = b"".join(
        b'--e\r\nContent-Disposition: form-data; name="model"\r\n\r\n%s\r\n' % name
        for name in (b"dear", b"cheap")
    )
    kind = {"content-type": "multipart/form-data; boundary=e"}
    url = OPENAI + "/audio/transcriptions"
    assert client.post(url, content=form + b"--e--\r\n", headers=kind).status_code == 402


def field(name: bytes, value: bytes, edge: bytes = b"e") -> bytes:
    """Return a field of a form."""
    return b'--%s\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n' % (edge, name, value)


@pytest.mark.parametrize(
    "form",
    [
        field(b"model", b"cheap", b"f") + b"--f--\r\n" + field(b"model", b"dear"),
        b"".join(field(b"x%d" % i, b"") for i in range(1_000)) + field(b"model", b"dear"),
    ],
)
def test_a_form_that_a_server_may_divide_otherwise_names_no_model(form: bytes) -> None:
    wire = find_format("POST", "/v1/images/edits")
    assert wire is not None
    assert wire.decode(field(b"model", b"dear"), 'multipart/form-data; boundary="e"')
    body = wire.decode(form, "multipart/form-data; boundary=e")
    assert wire.read(body).model == "images/edits"  # which has no price


@pytest.mark.parametrize("head", [b"; name=" + b"a" * 1_000_000, b"; name=a\r\n" * 100_000])
def test_the_headers_of_a_form_are_read_in_linear_time(head: bytes) -> None:
    wire = find_format("POST", "/v1/audio/transcriptions")
    assert wire is not None
    wire.decode(b"--e\r\nContent-Disposition: form-data" + head, "multipart/form-data; boundary=e")


@pytest.mark.parametrize(
    "content",
    [
        b'{"model": "whisper-1", "file": "audio"}',
        b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\naudio\r\n--x--\r\n',
    ],
)
def test_a_sound_that_is_sent_as_text_is_measured_by_the_whole_body(content: bytes) -> None:
    wire = find_format("POST", "/v1/audio/transcriptions")
    assert wire is not None
    (seconds,) = (count for name, count in wire.read(wire.decode(content)).units)
    assert seconds == 1


def test_lists_and_files_are_free() -> None:
    made = Made({"object": "list", "data": [], "id": "f"}, Limit("calls", 0))
    made.client.models.list()
    made.client.files.create(file=b"x", purpose="batch")
    made.client.moderations.create(input="x", extra_body={})
    assert len(made.sent) == 3


def test_a_request_to_another_host_passes() -> None:
    ledger = Ledger()
    ledger.set_limits("a", [Limit("calls", 0)])
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200))
    client = budgeted(httpx2.Client(transport=transport), ledger=ledger, account="a")
    assert client.post("https://example.com/orders", json={}).status_code == 200
    assert client.post("https://oauth2.googleapis.com/token", json={}).status_code == 200
    assert client.post("https://api.openai.com/v9/new", json={}).status_code == 402
