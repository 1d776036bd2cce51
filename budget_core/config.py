"""What a turn and a day are allowed, and what happens at the limit.

Every field's name, default and rule stand here once; `budget_cpython` derives its dataclasses.
"""

from budget_core.checks import check_kind, check_limit, check_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, ClassVar


class Enforcement:
    """What happens at 100 % of a budget; threshold warnings fire in every mode.

    - `OBSERVE`: count, do nothing.
    - `WARN`: tell the model once that the budget is spent, and continue.
    - `CUTOFF`: answer in the model's place; the provider is not called.
    - `FALLBACK`: demote the call to a cheaper model.

    Plain lower-case strings, so configurations can come from JSON.
    """

    OBSERVE = "observe"
    WARN = "warn"
    CUTOFF = "cutoff"
    FALLBACK = "fallback"


def check_enforcement(name: str, value: object) -> str:
    """Return the mode that `value` names; `ValueError` lists them for anything else."""
    modes = (Enforcement.OBSERVE, Enforcement.WARN, Enforcement.CUTOFF, Enforcement.FALLBACK)
    if not isinstance(value, str) or value not in modes:
        from budget_core.errors import refuse

        refuse(name, "one of " + ", ".join(modes), value)
    return modes[modes.index(value)]


def check_share(name: str, value: "Any", most: int = 1, optional: bool = False) -> "Any":
    """Accept a number from 0 to `most`, or `None` where `optional`; NaN is refused."""
    if value is None and optional:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= most:
        from budget_core.errors import refuse

        refuse(name, f"a number from 0 to {most}", value)
    return value


def check_each(name: str, values: "Any", check: "Callable[[str, Any], Any]") -> "tuple[Any, ...]":
    """Accept a tuple or list whose every element `check` accepts; a lone string is neither."""
    if not isinstance(values, (tuple, list)):
        from budget_core.errors import refuse

        refuse(name, "a tuple", values)
    return tuple([check(name, value) for value in values])


WHOLE = 1_000_000
"""The parts of a whole: shares, thresholds and weights are counted in them."""
NEVER = 1 << 100
"""A count that is never reached."""
OUTAGE = 8
"""What was announced of a failing store is kept as what was of a spent budget, times this."""


def in_ppm(share: float) -> int:
    """Return a share or weight in parts per million, to the nearest, also from 32-bit floats."""
    whole = int(share)
    return whole * WHOLE + int((share - whole) * WHOLE + 0.5)


_MAX_WEIGHT = 1_000_000


class TurnBudgetConfig:
    """What one turn (a user's message to its final answer) may use.

    - `iteration_budget`, `token_budget`: caps on LLM calls and on tokens; whichever is spent first
      ends the turn. `None` is unlimited, `0` is nothing.
    - `warning_thresholds`: fractions of the budget at which the model is warned, each once.
    - `enforcement`, `fallback_model`: what happens at 100 %.
    - `tool_strip_threshold`: the fraction past which the model gets no tools, or none of those
      named in `tool_strip_disallow`; `None` never strips.
    - `cached_token_weight`: what a prompt token read from the provider's cache counts for.
    - `model_weights`: what a token of a model counts for, by model name; others count 1.
    - `last_call`: with `CUTOFF`, the share of tokens that is kept, with one LLM call where there
      are two or more, for a call without tools that answers; `None` keeps nothing.
    - templates: texts with `{scope} {pct} {used} {cap} {unit} {reserved}`, and `{disallow_clause}`
      in `tool_strip_template`; `None` is the standard text.

    Raises `ValueError` naming the field that is wrong.
    """

    __dataclass_fields__: "ClassVar[dict[str, Any]]"  # on CPython

    def __init__(
        self,
        iteration_budget: int | None = 50,
        token_budget: int | None = 1_500_000,
        warning_thresholds: "Sequence[float]" = (0.5, 0.8, 0.9),
        enforcement: str = Enforcement.CUTOFF,
        fallback_model: str | None = None,
        warning_template: str | None = None,
        cutoff_template: str | None = None,
        tool_strip_threshold: float | None = None,
        tool_strip_disallow: "Sequence[str]" = (),
        tool_strip_template: str | None = None,
        cached_token_weight: float = 0.1,
        model_weights: "dict[str, float] | None" = None,
        last_call: float | None = None,
    ) -> None:
        self.last_call = check_share("last_call", last_call, 1, True)
        self.iteration_budget = check_limit("iteration_budget", iteration_budget)
        self.token_budget = check_limit("token_budget", token_budget)
        self.warning_thresholds = check_each("warning_thresholds", warning_thresholds, check_share)
        self.enforcement = check_enforcement("enforcement", enforcement)
        self.fallback_model = check_text("fallback_model", fallback_model, True)
        self.warning_template = check_text("warning_template", warning_template, True)
        self.cutoff_template = check_text("cutoff_template", cutoff_template, True)
        self.tool_strip_threshold = check_share(
            "tool_strip_threshold", tool_strip_threshold, 1, True
        )
        self.tool_strip_disallow = check_each(
            "tool_strip_disallow", tool_strip_disallow, check_text
        )
        self.tool_strip_template = check_text("tool_strip_template", tool_strip_template, True)
        self.cached_token_weight = check_share(
            "cached_token_weight", cached_token_weight, _MAX_WEIGHT
        )
        weights = {} if model_weights is None else model_weights
        self.model_weights = dict(check_kind("model_weights", weights, dict))
        for model in self.model_weights:
            check_text("model_weights", model)
            check_share("model_weights", self.model_weights[model], _MAX_WEIGHT)


class DailyBudgetConfig:
    """What one day (UTC, from `reset_hour_utc`) may use.

    - `daily_budget`: tokens a day; `None` is unlimited, `0` is nothing.
    - `primary_models`: the models whose tokens count, never the `fallback_model`; empty counts all.
    - `warning_thresholds`, `enforcement`, `fallback_model`, `cached_token_weight`, `last_call` and
      the templates as for a turn; `fallback_template` is what the tracker's `at_limit_message()`
      says where enforcement is `FALLBACK`, which demotes without a word to the model.
    - `reset_hour_utc`: the hour, 0 to 23, at which a new day begins.

    Raises `ValueError` naming the field that is wrong.
    """

    __dataclass_fields__: "ClassVar[dict[str, Any]]"  # on CPython
    tool_strip_threshold = None
    tool_strip_disallow = ()

    def __init__(
        self,
        daily_budget: int | None = 35_000_000,
        primary_models: "Sequence[str]" = (),
        warning_thresholds: "Sequence[float]" = (),
        enforcement: str = Enforcement.FALLBACK,
        fallback_model: str | None = None,
        reset_hour_utc: int = 0,
        warning_template: str | None = None,
        cutoff_template: str | None = None,
        fallback_template: str | None = None,
        cached_token_weight: float = 0.1,
        last_call: float | None = None,
    ) -> None:
        from budget_core.day import check_hour  # which a turn does not need

        self.last_call = check_share("last_call", last_call, 1, True)
        self.daily_budget = check_limit("daily_budget", daily_budget)
        self.primary_models = check_each("primary_models", primary_models, check_text)
        self.warning_thresholds = check_each("warning_thresholds", warning_thresholds, check_share)
        self.enforcement = check_enforcement("enforcement", enforcement)
        self.fallback_model = check_text("fallback_model", fallback_model, True)
        self.reset_hour_utc = check_hour("reset_hour_utc", reset_hour_utc)
        self.warning_template = check_text("warning_template", warning_template, True)
        self.cutoff_template = check_text("cutoff_template", cutoff_template, True)
        self.fallback_template = check_text("fallback_template", fallback_template, True)
        self.cached_token_weight = check_share(
            "cached_token_weight", cached_token_weight, _MAX_WEIGHT
        )
