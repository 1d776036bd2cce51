"""What a turn's and a day's wrapper add to a call that is well within its budget, on CPython.

Ours and exoclaw-turn-budget's are stacked the same way round a provider that does nothing, and take
turns. Each is called in three forms: with messages alone; with tools and a model too; and with all
arguments, which are max_tokens and temperature besides. The best round of each counts, less that of
the bare provider called the same way. A usage report is plain, or has the details of OpenAI's.
"""

import asyncio
import time
from types import ModuleType
from typing import Any

import exoclaw_turn_budget  # type: ignore[import-untyped]
from exoclaw.providers.types import LLMResponse

import budget_cpython
from benchmarks.figures import Figure, ratio

MOST = 1.0
_ALL = "all arguments"
_DETAILS = "cache details"
_NOTES = {
    _ALL: "With all arguments the target is missed: exoclaw-turn-budget names each option, and "
    "sends its own default for one that was not given; ours passes on the options that were given, "
    "whatever they are called.",
    _DETAILS: "With cache details there is no target: exoclaw-turn-budget does not look into them "
    "and charges cached tokens in full, so the two do not do the same.",
}
_PLAIN = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
_CACHED = {"cached_tokens": 40, "audio_tokens": 0}
_REPORTS: dict[str, dict[str, Any]] = {
    "plain usage": _PLAIN,
    _DETAILS: {**_PLAIN, "prompt_tokens_details": _CACHED},
}
_PLENTY = 10**12
_MESSAGES = {"messages": [{"role": "user", "content": "hello"}]}
_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
_WITH_TOOL = {**_MESSAGES, "tools": [_TOOL], "model": "m"}
_FORMS: dict[str, dict[str, Any]] = {
    "messages alone": _MESSAGES,
    "tool and model": _WITH_TOOL,
    _ALL: {**_WITH_TOOL, "max_tokens": 10, "temperature": 0.5},
}


class NoOp:
    """A provider that answers at once, with the same usage each time."""

    def __init__(self, usage: dict[str, Any]) -> None:
        self.response = LLMResponse("hi", usage=usage)

    def get_default_model(self) -> str:
        """Return the one model there is."""
        return "m"

    async def chat(
        self,
        messages: list[dict[str, Any]],
        tools: list[dict[str, Any]] | None = None,
        model: str | None = None,
        max_tokens: int = 4096,
        temperature: float = 0.7,
        reasoning_effort: str | None = None,
        response_format: dict[str, Any] | None = None,
    ) -> LLMResponse:
        """Return the one answer there is."""
        return self.response


def measure(quick: bool = False) -> list[Figure]:
    """Return each side's nanoseconds a call and their ratio, for each form and usage report."""
    rounds, calls = (20, 300) if quick else (500, 300)  # short ones: some are undisturbed
    figures = []
    for usage, report in _REPORTS.items():
        for form, arguments in _FORMS.items():
            bare, ours, theirs = asyncio.run(_best(report, arguments, rounds, calls))
            name = f"overhead, {form}, {usage}"
            figures += [
                Figure(f"{name}: ours", ours - bare, "ns"),
                Figure(f"{name}: exoclaw-turn-budget", theirs - bare, "ns"),
                _ratio(f"{name}: ratio", usage, form, ours - bare, theirs - bare),
            ]
    return figures


def _ratio(name: str, usage: str, form: str, ours: float, theirs: float) -> Figure:
    if usage == _DETAILS:
        return ratio(name, ours, theirs, note=_NOTES[_DETAILS])
    return ratio(name, ours, theirs, MOST, _NOTES.get(form, ""))


async def _best(
    usage: dict[str, Any], arguments: dict[str, Any], rounds: int, calls: int
) -> tuple[float, float, float]:
    bare = NoOp(usage)
    contenders = (bare, _stack(budget_cpython, bare), _stack(exoclaw_turn_budget, bare))
    best = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for index, provider in enumerate(contenders):
            best[index] = min(best[index], await _time(provider, arguments, calls))
    return best[0], best[1], best[2]


def _stack(package: ModuleType, provider: NoOp) -> Any:
    turn = package.TurnBudgetConfig(iteration_budget=None, token_budget=_PLENTY)
    day = package.DailyBudgetConfig(daily_budget=_PLENTY, fallback_model="f")
    inner = package.BudgetWrapper(provider, package.DailyBudgetTracker(day))
    return package.BudgetWrapper(inner, package.TurnBudgetTracker(turn))


async def _time(provider: Any, arguments: dict[str, Any], calls: int) -> float:
    """Return the nanoseconds that a call with these arguments takes."""
    start = time.perf_counter_ns()
    for _ in range(calls):
        await provider.chat(**arguments)
    return (time.perf_counter_ns() - start) / calls
