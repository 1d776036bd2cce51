"""What one LLM call used, as its provider reported it.

Unknown is not zero: usage is measured, estimated, invalid or missing, and the difference stays
visible.
"""

MEASURED = "measured"
ESTIMATED = "estimated"
INVALID = "invalid"
MISSING = "missing"

MAX_TOKENS = 1 << 40  # a report of more than this is a mistake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Usage:
    """What one LLM call used, in tokens; `read_usage` makes it.

    - `input`: the whole prompt, tokens read from and written to a cache included.
    - `output`: the whole answer, reasoning included.
    - `cached`, `cache_written`: the parts of the input read from and written to a cache.
    - `reasoning`: the part of the output that the model spent on reasoning.
    - `total`: all of it.
    - `status`: how well it is known: `MEASURED`; `ESTIMATED` where the report says so itself
      (`"estimated": True`); `INVALID` where a value was not a count or a part was absent (what
      could be read still counts); or `MISSING` where nothing was reported.

    `input` and `output` are `None` where they were not reported.
    """

    input: int | None = None
    output: int | None = None
    total = cached = cache_written = reasoning = 0
    status = MISSING

    @property
    def other(self) -> int:
        """Tokens of the total that are neither input nor output, such as a tool's prompt."""
        return self.total - (self.input or 0) - (self.output or 0)


def read_usage(report: "Any") -> Usage:
    """Return what a report says was used; a `Usage` is returned as it is. Never raises.

    A report is a dict or an object in the manner of OpenAI, Anthropic or Gemini, or `None`.
    """
    if isinstance(report, Usage):
        return report
    try:  # the counts and details that most providers send; this runs on every call
        prompt = report["prompt_tokens"]
        completion = report["completion_tokens"]
        total = report["total_tokens"]
        cached = reasoning = 0
        known = 3
        if len(report) > 3:
            cached = report["prompt_tokens_details"]["cached_tokens"]
            known = 4
            if "completion_tokens_details" in report:
                reasoning = report["completion_tokens_details"]["reasoning_tokens"]
                known = 5
        if (
            type(prompt)
            is type(completion)
            is type(total)
            is type(cached)
            is type(reasoning)
            is int
            and prompt >= cached >= 0 <= reasoning <= completion
            and prompt + completion <= total <= MAX_TOKENS
            and len(report) == known
        ):
            usage = Usage()
            usage.input = prompt
            usage.output = completion
            usage.total = total
            usage.cached = cached
            usage.reasoning = reasoning
            usage.status = MEASURED
            return usage
    except Exception:  # noqa: BLE001, S110 - another form of report, or a broken one
        pass
    from budget_core.usage_reports import read_report  # loaded for the first of those

    return read_report(report)


def usage_of(response: "Any") -> Usage:
    """Return what an answer's own report says was used; never raises, also without an answer."""
    try:
        report = response.usage
    except Exception:  # noqa: BLE001 - a provider's answer may be any object
        report = None
    return read_usage(report)


def weigh(tokens: int, weight: float) -> int:
    """Return `tokens * weight`, truncated; the weight is taken to the nearest millionth."""
    return tokens * int(weight * 1_000_000 + 0.5) // 1_000_000
