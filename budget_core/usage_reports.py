"""Read usage reports in any provider's dialect, however broken.

Understood are OpenAI (chat completions and responses), Anthropic and Gemini, as dicts or objects.
"""

from budget_core.usage import ESTIMATED, INVALID, MAX_TOKENS, MEASURED, MISSING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from budget_core.prices import Price

_PROMPT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_token_count")
_COMPLETION = (
    "completion_tokens",
    "output_tokens",
    "candidatesTokenCount",
    "candidates_token_count",
)
_TOTAL = ("total_tokens", "totalTokenCount", "total_token_count")
_CACHED = ("cached_tokens", "cachedContentTokenCount", "cached_content_token_count")
_THOUGHTS = ("thoughtsTokenCount", "thoughts_token_count")
_TOOL_PROMPT = ("toolUsePromptTokenCount", "tool_use_prompt_token_count")


def read_report(usage: object) -> "tuple[int, int, str]":
    """Return `(tokens, cached, status)`: all tokens, those read from a cache, how well known.

    `tokens` is the reported total, or the sum of its parts; `cached` is never more than the prompt.
    `status` is as in `usage.charge_for`. Never raises.
    """
    if usage is None:
        return 0, 0, MISSING
    return _read(_Report(usage))


def token_counts(usage: object) -> "dict[str, int | None]":
    """Return a report as the keywords of `TurnRuntimeState.add_tokens`; never raises.

    `input_tokens` is the whole prompt, what was read from and written to a cache included. What was
    not reported is `None`, but 0 for the caches.
    """
    report = _Report(usage)
    prompt, cache_read, cache_written, outside = _prompt(report)
    return {
        "input_tokens": None if prompt is None and not outside else (prompt or 0) + outside,
        "output_tokens": report.count(*_COMPLETION),
        "cache_read_tokens": report.cached() or cache_read,
        "cache_creation_tokens": cache_written,
    }


def reckoned(usage: object, price: "Price | None") -> "tuple[int, int | None, str]":
    """Return `(tokens, nano_usd, status)` of a report; the money is `None` without a price."""
    tokens, cached, status = read_report(usage)
    if price is None:
        return tokens, None, status
    counts = token_counts(usage)
    prompt = min(tokens, counts["input_tokens"] or 0)
    written = counts["cache_creation_tokens"]
    parts = (prompt, tokens - prompt, cached) + ((written,) if written else ())
    return tokens, max(0, price.cost(*parts)), status


class _Report:
    """One usage report, and whether everything read from it so far made sense."""

    def __init__(self, usage: object) -> None:
        self._usage: Any = usage
        self.valid = True

    def get(self, name: str) -> "Any":
        """Return a field, or `None`; the properties of a foreign object may raise anything."""
        try:
            if isinstance(self._usage, dict):
                return self._usage.get(name)
            return getattr(self._usage, name, None)
        except Exception:  # noqa: BLE001
            self.valid = False
            return None

    def count(self, *names: str) -> int | None:
        """Return the first of `names` that holds a count."""
        for name in names:
            value = self.get(name)
            if value is not None:
                if _is_count(value):
                    return int(value)
                self.valid = False
        return None

    def cached(self) -> int | None:
        """Return the cache reads that are part of the prompt."""
        count = self.count(*_CACHED)
        for name in ("prompt_tokens_details", "input_tokens_details"):
            details = None if count is not None else self.get(name)
            if details is not None:
                nested = _Report(details)
                count = nested.count("cached_tokens")
                foreign = isinstance(details, (bool, int, float, str, bytes, list, tuple))
                self.valid = self.valid and nested.valid and not foreign
        return count


def _is_count(value: object) -> bool:
    """Tell whether a value is a number of tokens: whole, not negative, not absurd."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return 0 <= value <= MAX_TOKENS and value == int(value)


def _prompt(report: _Report) -> "tuple[int | None, int, int, int]":
    """Return `(prompt, cache_read, cache_written, outside)`: the last is not part of the first."""
    prompt = report.count(*_PROMPT)
    cache_read = report.count("cache_read_input_tokens") or 0
    cache_written = report.count("cache_creation_input_tokens") or 0
    if report.get("prompt_tokens") is not None:
        return prompt, cache_read, cache_written, 0
    # Anthropic's input_tokens leave out what was read from and written to the cache.
    return prompt, cache_read, cache_written, cache_read + cache_written


def _read(report: _Report) -> "tuple[int, int, str]":
    prompt, cache_read, _, outside = _prompt(report)
    completion = report.count(*_COMPLETION)
    total = report.count(*_TOTAL)
    cached = report.cached()
    if cached is None:
        cached = cache_read
    if prompt is None and completion is None and total is None and not outside:
        return 0, 0, MISSING if report.valid else INVALID
    asked = (prompt or 0) + outside
    parts = asked + (completion or 0)
    parts += (report.count(*_THOUGHTS) or 0) + (report.count(*_TOOL_PROMPT) or 0)
    if total is None or total < parts:
        whole = prompt is not None and completion is not None
        report.valid = report.valid and whole and (total is None or outside > 0)
        total = parts
    if cached > (total if prompt is None else min(asked, total)):
        report.valid = False
        cached = 0
    status = ESTIMATED if report.get("estimated") is True else MEASURED
    return total, cached, status if report.valid else INVALID
