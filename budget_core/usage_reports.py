"""Read usage reports in any provider's dialect, however broken.

The dialects are those of OpenAI (chat completions, responses, embeddings) and all who speak it,
Anthropic, Gemini, Bedrock and Cohere, each as a dict or as an object.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from budget_core._types import UsageParts

_INPUT = (
    "prompt_tokens",
    "input_tokens",
    "promptTokenCount",
    "prompt_token_count",
    "inputTokens",
)
_OUTPUT = (
    "completion_tokens",
    "output_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
    "outputTokens",
)
_TOTAL = ("total_tokens", "totalTokenCount", "total_token_count", "totalTokens")
_CACHED = (
    "cached_tokens",
    "cachedContentTokenCount",
    "cached_content_token_count",
    "prompt_cache_hit_tokens",
    "cached_prompt_text_tokens",
)
_READ = ("cache_read_input_tokens", "cacheReadInputTokens")
_WRITTEN = ("cache_creation_input_tokens", "cacheWriteInputTokens")
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count")
_TOOL_INPUT = ("toolUsePromptTokenCount", "tool_use_prompt_token_count")
_INPUT_DETAILS = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details", "output_token_details")


def take_report(usage: "UsageParts", report: object) -> None:
    """Fill an empty `Usage` with what a report in any dialect says was used; never raises."""
    fields = _Report(report, usage.MOST)
    _take(usage, fields)
    iterations = fields.get("iterations")
    if iterations and isinstance(iterations, (list, tuple)):
        _take_iterations(usage, iterations)
    if report is not None:
        usage.report = report


def _take(usage: "UsageParts", fields: "_Report") -> None:
    estimated = fields.get("estimated") is True
    billed = fields.get("billed_units")  # Cohere's, beside the tokens of its tokenizer
    if billed is not None:
        fields = _Report(billed, usage.MOST)
    prompt, completion, total = fields.count(_INPUT), fields.count(_OUTPUT), fields.count(_TOTAL)
    read, written = fields.count(_READ) or 0, fields.count(_WRITTEN) or 0
    cached = fields.count(_CACHED, _INPUT_DETAILS, ("cached_tokens",))
    cached = read if cached is None else cached
    # Anthropic's input_tokens leave out what was read from and written to a cache.
    outside = 0 if fields.get("prompt_tokens") is not None else read + written
    if prompt is None and completion is None and total is None and not outside:
        usage.status = usage.MISSING if fields.valid else usage.INVALID
        return
    if billed is not None and prompt is not None:
        completion = completion or 0  # an embedding has none
    outside += fields.count(_TOOL_INPUT) or 0  # Gemini's prompt leaves it out
    if prompt is not None or outside:
        usage.input = (prompt or 0) + outside
    cited = _take_output(usage, fields, completion)
    parts = (usage.input or 0) + (usage.output or 0)
    if usage.reasoning and total == parts + usage.reasoning:  # xAI's completion leaves it out
        usage.output = (usage.output or 0) + usage.reasoning
        parts = total
    if total is None or total < parts:
        if prompt is None or completion is None or not (total is None or outside or cited):
            fields.valid = False
        total = parts
    usage.total = total
    if cached > (total if prompt is None else min(usage.input or 0, total)):
        fields.valid = False
        cached = 0
    written += fields.count((), _INPUT_DETAILS, ("cache_write_tokens",)) or 0
    if cached + written > (total if usage.input is None else usage.input):
        fields.valid = False
        written = 0
    usage.cached = cached
    usage.cache_written = written
    known = usage.ESTIMATED if estimated else usage.MEASURED
    usage.status = known if fields.valid else usage.INVALID


def _take_output(usage: "UsageParts", fields: "_Report", completion: int | None) -> bool:
    """Take the answer and its reasoning; return whether the total leaves something of them out."""
    within = ("reasoning_tokens", "thinking_tokens")
    reasoning = fields.count(("reasoning_tokens",), _OUTPUT_DETAILS, within) or 0
    beside = thoughts = fields.count(_THOUGHTS) or 0  # Gemini's candidates leave them out
    citations = fields.count(("citation_tokens",))
    if citations is not None:  # Perplexity's completion and total leave both out
        beside += citations + reasoning
    usage.reasoning = thoughts + reasoning
    if completion is not None or beside:
        usage.output = (completion or 0) + beside
    return citations is not None


def _take_iterations(usage: "UsageParts", iterations: "Sequence[object]") -> None:
    """Take the sum of a message's iterations, some of which Anthropic's own sum leaves out."""
    whole: dict[str, int] = {}
    valid = True
    for iteration in iterations:
        part: Any = type(usage)()
        fields = _Report(iteration, usage.MOST)
        _take(part, fields)
        valid = valid and part.status == usage.MEASURED and not fields.get("iterations")
        for name in ("input", "output", "total", "cached", "cache_written"):
            whole[name] = whole.get(name, 0) + (getattr(part, name) or 0)
    if usage.total <= whole["total"] <= usage.MOST:
        for name in whole:
            setattr(usage, name, whole[name])
        if not valid or usage.status == usage.MISSING:
            usage.status = usage.MEASURED if valid else usage.INVALID
    elif not valid:
        usage.status = usage.INVALID


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

    def count(
        self,
        names: "tuple[str, ...]",
        details: "tuple[str, ...]" = (),
        within: "tuple[str, ...]" = (),
    ) -> int | None:
        """Return the first of `names` that holds a count, else the first `within` one of `details`.

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
                count = nested.count(within)
                foreign = isinstance(value, (bool, int, float, str, bytes))  # Gemini's is a list
                self.valid = self.valid and nested.valid and not foreign
                if count is not None:
                    return count
        return None

    def _is_count(self, value: object) -> bool:
        """Tell whether a value is a number of tokens: whole, not negative, not too high."""
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return 0 <= value <= self._most and value == int(value)
