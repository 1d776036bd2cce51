"""What one LLM call used, as its provider reported it.

Unknown is not zero: usage is measured, estimated, invalid or missing, and the difference stays
visible.
"""

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

    MEASURED = "measured"
    ESTIMATED = "estimated"
    INVALID = "invalid"
    MISSING = "missing"
    UNCLEAR = (INVALID, MISSING)
    MOST = _MOST  # a report of more than this is a mistake

    input: int | None = None
    output: int | None = None
    total = cached = cache_written = reasoning = 0
    status = MISSING
    report: "Any" = None


def read_usage(report: "Any") -> Usage:
    """Return the usage in a report; a `Usage` is returned as it is. Never raises.

    A report is a dict or an object in the manner of OpenAI, Anthropic or Gemini, or `None`.
    """
    if isinstance(report, Usage):
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
            and prompt >= 0
            and completion >= 0
            and prompt + completion == total
            and total <= _MOST
            and (len(report) == 3 or _has_plain_details(usage, report))
        ):
            usage.status = usage.MEASURED
            return usage
    except Exception:  # noqa: BLE001, S110 - another form of report, or a broken one
        pass
    from budget_core.usage_reports import take_report  # loaded for the first of those

    usage = Usage()
    take_report(usage, report)
    return usage


def _has_plain_details(usage: Usage, report: "dict[str, Any]") -> bool:
    """Take over the cache reads and the reasoning; `False` if there is more in the report."""
    usage.cached = _only(report["prompt_tokens_details"], "cached_tokens", usage.input)
    if len(report) > 4:
        details = report["completion_tokens_details"]
        usage.reasoning = _only(details, "reasoning_tokens", usage.output)
    return len(report) < 6


def _only(details: "dict[str, Any]", name: str, most: "Any") -> int:
    """Return a part of `most` tokens; raise `ValueError` where another part is not zero."""
    part = 0
    for key, count in details.items():
        if key == name:
            part = count
        elif count:
            raise ValueError
    if type(part) is not int or not 0 <= part <= most:
        raise ValueError
    return part
