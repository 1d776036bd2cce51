"""Reckon what an LLM call used, from its report or an estimate, and settle its hold."""

from budget_core.dialects import read_report, token_counts
from budget_core.usage import ESTIMATED, INVALID, MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.hold import Hold
    from budget_core.prices import Price
    from budget_core.received import Received
    from budget_core.shapes import *


def settle_call(
    hold: "Hold",
    price: "Price | None",
    received: "Received",
    response: "Any",
    asked: "dict[str, Any]",
    billed: bool,
    priced: bool,
) -> "Any":
    """Settle a call with what the provider reported, or an estimate, and return that report.

    `billed` is false for a call that the provider refused: it costs nothing. `priced` tells whether
    money is counted at all.
    """
    messages, tools = asked["messages"], asked["tools"]
    usage = received.settled(response, messages, tools)
    tokens, cached, status = read_report(usage)
    if billed and status in (INVALID, MISSING):
        estimate = _estimated(response, messages, tools)
        if estimate["total_tokens"] >= tokens:
            usage = estimate
            tokens, cached, status = read_report(usage)
    unclear = {ESTIMATED: ["estimated"], INVALID: ["missing"]}.get(status, [])
    nano_usd = 0
    if price is None and priced and billed:
        unclear.append("unpriced")
    elif price is not None:
        prompt = min(tokens, token_counts(usage)["input_tokens"] or 0)
        nano_usd = price.cost(prompt, tokens - prompt, cached)
    hold.settle(tokens, nano_usd, *unclear)
    return usage


def _estimated(response: "Any", messages: "Any", tools: "Any") -> "dict[str, Any]":
    from budget_core.estimate import estimate_tokens

    calls = getattr(response, "tool_calls", None)
    answer = {
        "content": getattr(response, "content", None),
        "tool_calls": [
            {"function": {name: getattr(call, name, None) for name in ("name", "arguments")}}
            for call in (calls if isinstance(calls, (list, tuple)) else ())
        ],
    }
    prompt = estimate_tokens(messages, tools)
    completion = 0 if response is None else estimate_tokens([answer])
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "estimated": True,
    }
