"""How LLM calls end, and what each is then charged: one table for all that settles calls.

A call has a prompt of 10 tokens and may have an answer of 100. Its price is 1,000 nano-USD for a
token of the prompt and 10,000 for one of the answer. A case has:

- `stream`: the pieces of the answer as they come, and reports between them; absent if it is whole.
- `answer`: the response at the end, or `error`: the name of an error in its place, of `ERRORS`.
- `used`: the input, the output and the status of its usage; `billed`: whether it may cost anything.
- `cost`: its nano-USD, and whether that is all of it.
- `charged`: the tokens and nano-USD that it is charged, at least the hold where the usage was not
  measured; with `estimates`, an estimate counts as measured. Both are `None` for a free call.
- `no_http`: given for what no response of HTTP has.
"""

import asyncio

from budget_core.errors import ProviderError
from budget_core.prices import Price
from budget_core.provider import ChatResponse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MESSAGES = [{"role": "user", "content": "How do tomatoes grow?"}]
PROMPT = 10  # tokens of MESSAGES, as `estimate_tokens` has it
LIMIT = 100
PRICE = Price(1, 10)
HELD = (110, 1_010_000)
MODEL = "big"

_THIRTY = {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30}
_MORE = {"prompt_tokens": 50, "completion_tokens": 100, "total_tokens": 150}
_WORDS = ["word "] * 3


class ContextWindowExceededError(Exception):
    """A prompt is too long for its model; exoclaw's name for that."""


def unsent() -> Exception:
    """Return the error of a call that was never sent."""
    error = ProviderError(0, "no route")
    error.sent = False
    return error


# by name, each with the HTTP status that stands for it, 0 for a connection that breaks off
ERRORS: "dict[str, tuple[Any, Any]]" = {
    "slow down": (lambda: ProviderError(429, "slow down"), 429),
    "down": (lambda: ProviderError(500, "down"), 500),
    "too long": (lambda: ContextWindowExceededError("9000 tokens"), 400),
    "never sent": (unsent, None),
    "no answer": (lambda: ProviderError(0, "broke off"), 0),
    "broken off": (lambda: ProviderError(200, "broke off"), 0),
    "connection": (lambda: OSError(104), 0),
    "late": (asyncio.TimeoutError, None),
}

_ENDS: "list[dict[str, Any]]" = [
    {
        "case": "measured",
        "answer": {"usage": _THIRTY},
        "used": (10, 20, "measured"),
        "cost": (210_000, True),
        "charged": (30, 210_000),
        "estimates": (30, 210_000),
    },
    {
        "case": "more than was held",
        "answer": {"usage": _MORE},
        "used": (50, 100, "measured"),
        "cost": (1_050_000, True),
        "charged": (150, 1_050_000),
        "estimates": (150, 1_050_000),
    },
    {
        "case": "nothing reported",
        "answer": {"usage": {}},
        "used": (10, 5, "estimated"),
        "cost": (60_000, True),
        "charged": HELD,
        "estimates": (15, 60_000),
    },
    {
        "case": "a part reported",
        "answer": {"usage": {"prompt_tokens": 3}},
        "used": (10, 5, "estimated"),
        "cost": (60_000, True),
        "charged": HELD,
        "estimates": (15, 60_000),
    },
    {
        "case": "an impossible report",
        "answer": {"usage": {"prompt_tokens": -1, "completion_tokens": -1, "total_tokens": -1}},
        "used": (10, 5, "estimated"),
        "cost": (60_000, True),
        "charged": HELD,
        "estimates": (15, 60_000),
    },
    {
        "case": "a report that is a text",
        "answer": {"usage": "12"},
        "used": (10, 5, "estimated"),
        "cost": (60_000, True),
        "charged": HELD,
        "estimates": (15, 60_000),
        "no_http": True,
    },
    {
        "case": "an estimate in place of a report",
        "answer": {"usage": dict(_THIRTY, estimated=True)},
        "used": (10, 20, "estimated"),
        "cost": (210_000, True),
        "charged": HELD,
        "estimates": (30, 210_000),
        "no_http": True,
    },
    {
        "case": "a dearer cost reported",
        "answer": {"usage": _THIRTY, "cost": 0.002},
        "used": (10, 20, "measured"),
        "cost": (2_000_000, True),
        "charged": (30, 2_000_000),
        "estimates": (30, 2_000_000),
    },
    {
        "case": "a lower cost reported",
        "answer": {"usage": _THIRTY, "cost": 0.000001},
        "used": (10, 20, "measured"),
        "cost": (210_000, True),
        "charged": (30, 210_000),
        "estimates": (30, 210_000),
    },
    {
        "case": "a stream, reported at its end",
        "stream": _WORDS,
        "answer": {"usage": _THIRTY},
        "used": (10, 20, "measured"),
        "cost": (210_000, True),
        "charged": (30, 210_000),
        "estimates": (30, 210_000),
    },
    {
        "case": "a stream, reported on its way",
        "stream": _WORDS + [_THIRTY],
        "answer": {"usage": {}},
        "used": (10, 20, "measured"),
        "cost": (210_000, True),
        "charged": (30, 210_000),
        "estimates": (30, 210_000),
    },
    {
        "case": "a stream that reports nothing",
        "stream": _WORDS,
        "answer": {"usage": {}},
        "used": (10, 4, "estimated"),
        "cost": (50_000, True),
        "charged": HELD,
        "estimates": (14, 50_000),
    },
    {
        "case": "a stream that breaks off",
        "stream": _WORDS,
        "error": "broken off",
        "used": (10, 4, "estimated"),
        "cost": (50_000, True),
        "charged": HELD,
        "estimates": HELD,
    },
    {
        "case": "a stream that breaks off late",
        "stream": ["word "] * 90,
        "error": "broken off",
        "used": (10, 113, "estimated"),
        "cost": (1_140_000, True),
        "charged": (123, 1_140_000),
        "estimates": (123, 1_140_000),
    },
    {
        "case": "a stream that breaks off after its report",
        "stream": _WORDS + [_THIRTY],
        "error": "broken off",
        "used": (10, 20, "measured"),
        "cost": (210_000, True),
        "charged": HELD,
        "estimates": HELD,
    },
    {
        "case": "a stream that breaks off after a high report",
        "stream": _WORDS + [_MORE],
        "error": "broken off",
        "used": (50, 100, "measured"),
        "cost": (1_050_000, True),
        "charged": (150, 1_050_000),
        "estimates": (150, 1_050_000),
    },
    {
        "case": "an answer that breaks off",
        "error": "no answer",
        "used": (10, 0, "estimated"),
        "cost": (10_000, True),
        "charged": HELD,
        "estimates": HELD,
    },
    {
        "case": "a timeout",
        "error": "late",
        "used": (10, 0, "estimated"),
        "cost": (10_000, True),
        "charged": HELD,
        "estimates": HELD,
    },
    {
        "case": "a connection that is lost",
        "error": "connection",
        "used": (10, 0, "estimated"),
        "cost": (10_000, True),
        "charged": HELD,
        "estimates": HELD,
    },
]
_REFUSED: "list[dict[str, Any]]" = [
    {
        "case": "refused: " + name,
        "error": name,
        "used": (None, None, "missing"),
        "cost": (0, True),
        "charged": None,
        "estimates": None,
    }
    for name in ("slow down", "down", "too long", "never sent")
]
CASES = _ENDS + _REFUSED


def response_of(case: "dict[str, Any]") -> "Any":
    """Return the answer of a case, `None` for an error."""
    if "answer" not in case:
        return None
    streamed = [piece for piece in case.get("stream", ()) if isinstance(piece, str)]
    text = "".join(streamed) or "hi"
    return ChatResponse(text, **case["answer"])


def error_of(case: "dict[str, Any]") -> "Exception | None":
    """Return the error of a case, `None` for an answer."""
    error: Exception | None = ERRORS[case["error"]][0]() if "error" in case else None
    return error
