"""What one LLM call used, as its provider reported it.

Unknown is not zero: usage is measured, estimated, invalid or missing, and the difference stays
visible.
"""

MEASURED = "measured"
_MOST = 1 << 40

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
    - `report`: the report, where it says more than plain counts; `None` otherwise. A price looks
      there for what else is billed.
    - `status`: how well the tokens are known: `MEASURED`; `ESTIMATED` where the report says so
      itself (`"estimated": True`); `INVALID` where a value was not a count or a part was absent
      (what could be read still counts); or `MISSING` where nothing was reported.

    `input` and `output` are `None` where they were not reported.
    """

    MEASURED = MEASURED
    ESTIMATED = "estimated"
    INVALID = "invalid"
    MISSING = "missing"
    MOST = _MOST  # a report of more than this is a mistake

    input: int | None = None
    output: int | None = None
    total = cached = cache_written = reasoning = 0
    status = MISSING
    report: "Any" = None

    @property
    def other(self) -> int:
        """Tokens of the total that are neither input nor output."""
        return self.total - (self.input or 0) - (self.output or 0)


def read_usage(report: "Any") -> Usage:
    """Return what a report says was used; a `Usage` is returned as it is. Never raises.

    A report is a dict or an object in the manner of OpenAI, Anthropic or Gemini, or `None`.
    """
    if type(report) is Usage:
        return report
    if report is None:
        return Usage()
    try:  # the counts and details that most providers send; this runs on every call
        usage = Usage()
        usage.cached = 0
        usage.input = prompt = report["prompt_tokens"]
        usage.output = completion = report["completion_tokens"]
        usage.total = total = report["total_tokens"]
        if (
            type(prompt) is type(completion) is type(total) is int
            and prompt >= 0 <= completion
            and prompt + completion == total <= _MOST
            and (len(report) == 3 or _has_plain_details(usage, report))
        ):
            usage.status = MEASURED
            return usage
    except Exception:  # noqa: BLE001, S110 - another form of report, or a broken one
        pass
    from budget_core.usage_reports import take_report  # loaded for the first of those

    usage = Usage()
    take_report(usage, report)
    return usage


def _has_plain_details(usage: Usage, report: "dict[str, Any]") -> bool:
    """Take over the cache reads and the reasoning; `False` if there is more in the report."""
    details = report["prompt_tokens_details"]
    usage.cached = cached = details["cached_tokens"]
    if len(details) > 1 and (sum(details.values()) != cached or min(details.values()) < 0):
        return False
    reasoning, known = 0, 4
    if "completion_tokens_details" in report:
        details = report["completion_tokens_details"]
        reasoning, known = details["reasoning_tokens"], 5
        if len(details) > 1 and (sum(details.values()) != reasoning or min(details.values()) < 0):
            return False
    usage.reasoning = reasoning
    return (
        type(cached) is type(reasoning) is int
        and 0 <= cached <= (usage.input or 0)
        and 0 <= reasoning <= (usage.output or 0)
        and len(report) == known
    )
