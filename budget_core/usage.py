"""Turn a provider's usage report into what it costs a budget.

Unknown is not zero: a report is measured, estimated, invalid or missing, and the difference stays
visible.
"""

MEASURED = "measured"
ESTIMATED = "estimated"
INVALID = "invalid"
MISSING = "missing"

MAX_TOKENS = 1 << 40  # more than this in one report is a mistake, not a count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def plain_total(usage: "Any") -> int:
    """Return the total of a well-formed OpenAI report without cache reads, -1 for any other."""
    try:
        prompt = usage["prompt_tokens"]
        completion = usage["completion_tokens"]
        total = usage["total_tokens"]
        if (
            type(prompt) is type(completion) is type(total) is int
            and prompt >= 0 <= completion
            and prompt + completion <= total <= MAX_TOKENS
        ):
            if len(usage) == 3:
                return total
            known = 5 if "completion_tokens_details" in usage else 4
            if len(usage) == known and usage["prompt_tokens_details"]["cached_tokens"] == 0:
                return total
    except Exception:  # noqa: BLE001, S110 - a report of any shape may come, this is one of many
        pass
    return -1


def charge_for(usage: object, cached_weight: float) -> "tuple[int, str]":
    """Return `(tokens, status)`: what a call costs, and how well that is known.

    `usage` is a report in the manner of OpenAI, Anthropic or Gemini, a dict or an object.
    `cached_weight` is what a prompt token read from a cache counts for. `status` is `MEASURED`;
    `ESTIMATED` where the report says so itself (`"estimated": True`); `INVALID` where a value was
    no count or a part was absent (what could be read still counts); or `MISSING` where nothing was
    reported. Never raises, never below zero.
    """
    from budget_core.usage_reports import (
        read_report,  # loaded for the first report that is not plain
    )

    tokens, cached, status = read_report(usage)
    return tokens - cached + weigh(cached, cached_weight), status


def weigh(tokens: int, weight: float) -> int:
    """Return `tokens * weight`, truncated; the weight is taken to the nearest millionth."""
    return tokens * int(weight * 1_000_000 + 0.5) // 1_000_000
