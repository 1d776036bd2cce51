"""Models that fail or misbehave on purpose, chosen by their names."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple

from scripted_model.calls import Answer
from scripted_model.checks import ApiError
from scripted_model.formats.vendors import OPENAI
from scripted_model.http_handler import JSON, HttpHandler

DRIP_SECONDS: Final = 0.05
CONTEXT_TOKENS: Final = 200

Act = Callable[[HttpHandler, Answer], object]


class Fault(NamedTuple):
    """What a special model name does, and its line of help.

    `act` gets the connection, and the answer that a correct model would send.
    """

    act: Act
    says: str


def answer_as(model: str) -> Act:
    """Return the function that answers requests for `model`."""
    if model in FAULTS:
        return FAULTS[model].act
    if model.startswith("error-"):
        return _fail(404, param="model", code="model_not_found")
    return HttpHandler.send_answer


def _fail(status: int, **details: Any) -> Act:
    def act(http: HttpHandler, answer: Answer) -> None:
        message = f"{answer.asked.model}: the model's name asks for this."
        raise ApiError(status, message, **details)

    return act


def _hang(http: HttpHandler, answer: Answer) -> None:
    http.client_leaves(None)
    http.close_connection = True


def _drip(http: HttpHandler, answer: Answer) -> None:
    http.send_head(200, {"Content-Type": JSON, "Connection": "close"})
    while not http.client_leaves(DRIP_SECONDS):
        http.wfile.write(b" ")


def _huge(http: HttpHandler, answer: Answer) -> None:
    http.send_head(200, {"Content-Type": JSON, "Connection": "close"})
    http.wfile.write(b'{"id": "')
    while True:
        http.wfile.write(b"x" * 65536)


def _truncated(http: HttpHandler, answer: Answer) -> None:
    payload = json.dumps(http.format.whole(answer)).encode()
    http.send_head(200, {"Content-Type": JSON, "Content-Length": str(len(payload))})
    http.wfile.write(payload[: len(payload) // 2])
    http.close_connection = True


def _not_json(http: HttpHandler, answer: Answer) -> None:
    http.send_bytes(200, b"<html><body>Bad gateway</body></html>", "text/html")


def _bad_arguments(http: HttpHandler, answer: Answer) -> None:
    calls = [call._replace(arguments='["not an object"]') for call in answer.reply.calls]
    http.send_answer(replace(answer, reply=replace(answer.reply, calls=tuple(calls))))


def _no_usage(http: HttpHandler, answer: Answer) -> None:
    http.send_answer(replace(answer, usage=None))


def _stream_cut(http: HttpHandler, answer: Answer) -> bool:
    """Send half of a stream; an answer that is not streamed is sent whole."""
    events = http.events(answer)
    if not events:
        http.send_answer(answer)
        return False
    http.send_events(events[: len(events) // 2])
    http.close_connection = True
    return True


def _stream_hang(http: HttpHandler, answer: Answer) -> None:
    if _stream_cut(http, answer):
        http.client_leaves(None)


def _stream_error(http: HttpHandler, answer: Answer) -> None:
    message = f"{answer.asked.model}: the model's name asks for this."
    refusal = ApiError(503, message, kind="server_error", code="server_error")
    events, failure = http.events(answer), http.format.failure
    if not events or failure is None:
        raise refusal
    half = events[: len(events) // 2]
    http.send_events([*half, failure(refusal, len(half))])
    http.end_events()


def _busy(http: HttpHandler, answer: Answer) -> None:
    if answer.number % 2:
        message = "Rate limit reached."
        details: Any = {"kind": "requests", "code": "rate_limit_exceeded"}
        raise ApiError(429, message, headers={"Retry-After": "0"}, **details)
    http.send_answer(answer)


def _other_limit(http: HttpHandler, answer: Answer) -> None:
    if http.vendor is OPENAI and answer.asked.body.get("max_tokens") is not None:
        message = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead."
        )
        raise ApiError(400, message, param="max_tokens", code="unsupported_parameter")
    http.send_answer(answer)


def _small_context(http: HttpHandler, answer: Answer) -> None:
    tokens = answer.usage.prompt if answer.usage else 0
    if tokens > CONTEXT_TOKENS:
        message = http.vendor.too_long.format(tokens=tokens, limit=CONTEXT_TOKENS)
        raise ApiError(400, message, param="messages", code="context_length_exceeded")
    http.send_answer(answer)


FAULTS: Final = {
    "error-400": Fault(_fail(400, param="model"), "answers 400"),
    "error-401": Fault(_fail(401, code="invalid_api_key"), "answers 401"),
    "error-429": Fault(
        _fail(429, kind="requests", code="rate_limit_exceeded", headers={"Retry-After": "1"}),
        "answers 429 with Retry-After",
    ),
    "error-500": Fault(_fail(500, kind="server_error"), "answers 500"),
    "busy": Fault(_busy, "answers every other request with 429, the first one too"),
    "other-limit": Fault(_other_limit, "takes max_completion_tokens only"),
    "small-context": Fault(_small_context, f"takes prompts of {CONTEXT_TOKENS} tokens at most"),
    "hang": Fault(_hang, "accepts the request and never answers"),
    "drip": Fault(_drip, "sends one byte now and then, without end"),
    "huge": Fault(_huge, "sends a body without end"),
    "truncated": Fault(_truncated, "sends less than its Content-Length, then closes"),
    "not-json": Fault(_not_json, "answers 200 with a page of HTML"),
    "bad-arguments": Fault(_bad_arguments, "calls tools with arguments that are not a JSON object"),
    "no-usage": Fault(_no_usage, "leaves out the usage"),
    "stream-cut": Fault(_stream_cut, "drops the connection in the middle of a stream"),
    "stream-error": Fault(_stream_error, "ends a stream in its middle with an error; else 503"),
    "stream-hang": Fault(_stream_hang, "sends half of a stream, then nothing more"),
}
