"""Read usage reports in any provider's dialect, however broken.

The dialects are OpenAI's (chat completions and responses), Anthropic's and Gemini's, each as a dict
or as an object.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core._types import UsageParts

_INPUT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_token_count")
_OUTPUT = (
    "completion_tokens",
    "output_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
)
_TOTAL = ("total_tokens", "totalTokenCount", "total_token_count")
_CACHED = ("cached_tokens", "cachedContentTokenCount", "cached_content_token_count")
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count")
_TOOL_INPUT = ("toolUsePromptTokenCount", "tool_use_prompt_token_count")


def take_report(usage: "UsageParts", report: object) -> None:
    """Fill an empty `Usage` with what a report in any dialect says was used; never raises."""
    fields = _Report(report, usage.MOST)
    prompt, completion, total = fields.count(_INPUT), fields.count(_OUTPUT), fields.count(_TOTAL)
    read = fields.count(("cache_read_input_tokens",)) or 0
    written = fields.count(("cache_creation_input_tokens",)) or 0
    cached = fields.count(_CACHED, ("prompt_tokens_details", "input_tokens_details"))
    cached = read if cached is None else cached
    # Anthropic's input_tokens leave out what was read from and written to a cache.
    outside = 0 if fields.get("prompt_tokens") is not None else read + written
    if prompt is None and completion is None and total is None and not outside:
        usage.status = usage.MISSING if fields.valid else usage.INVALID
        return
    if prompt is not None or outside:
        usage.input = (prompt or 0) + outside
    details = ("completion_tokens_details", "output_tokens_details")
    thoughts = fields.count(_THOUGHTS) or 0  # Gemini's are not part of its candidates
    usage.reasoning = thoughts + (fields.count(("reasoning_tokens",), details) or 0)
    if completion is not None or thoughts:
        usage.output = (completion or 0) + thoughts
    parts = (usage.input or 0) + (usage.output or 0) + (fields.count(_TOOL_INPUT) or 0)
    if total is None or total < parts:
        if prompt is None or completion is None or (total is not None and not outside):
            fields.valid = False
        total = parts
    if cached > (total if prompt is None else min(usage.input or 0, total)):
        fields.valid = False
        cached = 0
    usage.total = total
    usage.cached = cached
    usage.cache_written = written
    estimated = fields.get("estimated") is True
    known = usage.ESTIMATED if estimated else usage.MEASURED
    usage.status = known if fields.valid else usage.INVALID


class _Report:
    """A report's fields, and whether everything read from it so far made sense."""

    def __init__(self, report: object, most: int) -> None:
        self._report: Any = report
        self._most = most
        self.valid = True

    def get(self, name: str) -> "Any":
        """Return a field, or `None`; the properties of a foreign object may raise anything."""
        try:
            if isinstance(self._report, dict):
                return self._report.get(name)
            return getattr(self._report, name, None)
        except Exception:  # noqa: BLE001
            self.valid = False
            return None

    def count(self, names: "tuple[str, ...]", details: "tuple[str, ...]" = ()) -> int | None:
        """Return the first of `names` that holds a count, else the first in a field of `details`.

        A value that is not a count makes the report invalid.
        """
        for name in names:
            value = self.get(name)
            if value is not None:
                if self._is_count(value):
                    return int(value)
                self.valid = False
        for name in details:
            value = self.get(name)
            if value is not None:
                nested = _Report(value, self._most)
                count = nested.count(names[:1])
                foreign = isinstance(value, (bool, int, float, str, bytes, list, tuple))
                self.valid = self.valid and nested.valid and not foreign
                if count is not None:
                    return count
        return None

    def _is_count(self, value: object) -> bool:
        """Tell whether a value is a number of tokens: whole, not negative, not too high."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return 0 <= value <= self._most and value == int(value)
