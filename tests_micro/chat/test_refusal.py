"""What the chat client makes of the reasons that an endpoint gives."""

import json
import sys

import budget_core.chat.tls
from budget_core import Budget, ChatClient, Operative, ProviderError
from budget_core.chat.refusal import ContextWindowExceededError
from budget_core.chat.tls import tls_context
from tests_micro.support import raises, raises_async
from tests_micro.wire import KEY, URL, Client, Wire, answer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HI = answer(b'{"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}]}')
RENAMED = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. "
    "Use 'max_completion_tokens' instead."
)
# as OpenAI, vLLM, llama.cpp, Anthropic, OpenRouter and Bedrock word it
TOO_LONG: "list[dict[str, Any]]" = [
    {
        "message": "This model's maximum context length is 8192 tokens. However, ...",
        "type": "invalid_request_error",
        "param": "messages",
        "code": "context_length_exceeded",
    },
    {"message": "This model's maximum context length is 4096 tokens.", "code": 400},
    {"message": "the request exceeds it", "type": "exceed_context_size_error", "code": 400},
    {"message": "prompt is too long: 210000 tokens > 200000 maximum", "type": "invalid"},
    {"message": "This endpoint's maximum context length is 131072 tokens.", "code": 400},
    {"message": "Input is too long for requested model."},
]


def refusal(error: "Any", status: int = 400) -> bytes:
    """Return the answer that refuses a request with this error."""
    return answer(json.dumps({"error": error}).encode(), f"{status} x")


async def refused(*pieces: bytes) -> ProviderError:
    """Return the error that a call comes to."""
    return await raises_async(ProviderError, Client(URL, "small", KEY).ask, Wire(*pieces))


async def test_a_prompt_too_long_for_the_model_is_an_error_of_its_own() -> None:
    for error in TOO_LONG:
        for status in (400, 413):
            found = await refused(refusal(error, status))
            assert isinstance(found, ContextWindowExceededError), error
            assert (found.status, found.message) == (status, error["message"])


async def test_another_refusal_is_none_of_a_prompt_too_long() -> None:
    for error, status in (
        (TOO_LONG[0], 500),
        (TOO_LONG[0], 401),
        ({"message": "Invalid model.", "code": "model_not_found"}, 400),
        ({"message": "Invalid 'temperature'."}, 400),
        ("Because.", 400),
    ):
        assert type(await refused(refusal(error, status))) is ProviderError, error


async def test_the_code_of_a_refusal_is_kept_where_it_is_a_word() -> None:
    for error, code in (
        (
            {"message": "No.", "code": "rate_limit_exceeded", "type": "requests"},
            "rate_limit_exceeded",
        ),
        ({"message": "No.", "code": None, "type": "server_error"}, "server_error"),
        ({"message": "No.", "code": 429}, None),
        ({"message": "No.", "code": ["x"]}, None),
        ("No.", None),
    ):
        found = await refused(refusal(error, 403))
        assert (found.code, found.message) == (code, "No."), error


async def test_a_prompt_too_long_ends_a_run_for_that_reason() -> None:
    operative = Operative(Client(URL, "small"), (), Budget(max_turns=3))

    async def run() -> "Any":
        return await operative.begin("Hello?").finish()

    result = await Wire(refusal(TOO_LONG[0])).connected(run)
    assert result.reason.kind == "context_limit"
    assert isinstance(result.reason.error, ContextWindowExceededError)
    assert result.usage["tokens"] == 0


def limits(wire: Wire) -> "list[Any]":
    """Return the limits of each request that was sent, by name."""
    found = []
    for request in wire.sent.split(b"POST ")[1:]:
        body = json.loads(request.partition(b"\r\n\r\n")[2])
        found.append({name: body[name] for name in body if "tokens" in name})
    return found


async def test_a_limit_goes_out_under_the_name_that_the_model_takes() -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        wire = Wire(HI)
        await Client(URL, "small", limit_name=name).ask(wire, max_tokens=7)
        assert limits(wire) == [{name: 7}]


async def test_a_refused_limit_is_renamed_once_and_for_good() -> None:
    for error in (
        {"message": RENAMED, "param": "max_tokens", "code": "unsupported_parameter"},
        {"message": RENAMED},
        {"message": "max_tokens: unsupported", "code": "unsupported_parameter"},
    ):
        client, wire = Client(URL, "small", retries=0), Wire(refusal(error), HI, HI)
        response = await client.ask(wire, max_tokens=7)
        assert (response.content, response.attempts, client.waits) == ("Hi.", 2, [])
        await client.ask(wire, max_tokens=8)
        assert limits(wire) == [
            {"max_tokens": 7},
            {"max_completion_tokens": 7},
            {"max_completion_tokens": 8},
        ]
        assert client.limit_name == "max_completion_tokens"


async def test_a_limit_that_is_refused_under_both_names_is_an_error() -> None:
    wire = Wire(refusal({"message": RENAMED}), refusal({"message": RENAMED}), HI)
    error = await raises_async(ProviderError, Client(URL, "m").ask, wire, max_tokens=7)
    assert (error.status, error.attempts) == (400, 2)


async def test_nothing_is_renamed_for_another_reason() -> None:
    for error, status, options in (
        ({"message": RENAMED}, 400, {}),
        ({"message": RENAMED}, 500, {"max_tokens": 7}),
        ({"message": "Invalid 'top_p'.", "code": "unsupported_parameter"}, 400, {"max_tokens": 7}),
    ):
        client = Client(URL, "small")
        found = await raises_async(
            ProviderError, client.ask, Wire(refusal(error, status)), **options
        )
        assert (found.attempts, client.limit_name) == (1, "max_tokens"), error


async def test_an_error_within_a_stream_does_not_read_as_a_success() -> None:
    raw = b'HTTP/1.1 200 OK\r\n\r\ndata: {"error": {"message": "Overloaded."}}\n\n'

    async def hear(text: str) -> None:
        """Take a delta."""

    error = await raises_async(ProviderError, Client(URL, "small").ask, Wire(raw), on_delta=hear)
    assert str(error) == "the stream reported an error: Overloaded."
    assert error.status == 200


async def test_what_was_billed_and_served_is_in_the_answer() -> None:
    body = {
        "choices": [{"message": {"content": "Hi."}}],
        "usage": {"total_tokens": 7, "cost": 0.25},
        "service_tier": "flex",
    }
    stream: list[Any] = [{"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]}]
    stream += [{"choices": [], "usage": body["usage"], "service_tier": "flex"}]
    lines = b"".join([b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in stream])

    async def hear(text: str) -> None:
        """Take a delta."""

    for raw, options in ((json.dumps(body).encode(), {}), (lines, {"on_delta": hear})):
        response = await Client(URL, "small").ask(Wire(answer(raw)), **options)
        assert (response.cost, response.service_tier) == (0.25, "flex")


async def test_a_cost_or_tier_of_another_kind_is_none() -> None:
    odds: list[Any] = [None, "1", True, [], {}]
    for odd in odds:
        body: Any = {"choices": [{"message": {"content": "Hi."}}], "usage": {"cost": odd}}
        raw = json.dumps(dict(body, service_tier=odd if odd != "1" else 1)).encode()
        response = await Client(URL, "small").ask(Wire(answer(raw)))
        assert (response.cost, response.service_tier) == (None, None), odd
    body = {"choices": [{"message": {"content": "Hi."}}], "usage": ["cost"]}
    assert (await Client(URL, "small").ask(Wire(answer(json.dumps(body).encode())))).cost is None


def test_firmware_without_tls_says_so() -> None:
    def absent(name: str, *_: object) -> None:
        raise ImportError(name)

    module: Any = budget_core.chat.tls
    before = sys.modules.get("ssl")
    module.__import__ = absent  # of the module `tls`
    if before is not None:
        sys.modules["ssl"] = None  # type: ignore[assignment] # as if it were not there
    try:
        for build in (tls_context, lambda: ChatClient("https://host/v1", "small")):
            error = raises(ValueError, build)
            assert "this firmware has no TLS" in str(error)
        ChatClient("http://host/v1", "small")
    finally:
        del module.__import__
        if before is not None:
            sys.modules["ssl"] = before
