"""Name what happens when a budget is spent."""


class Enforcement:
    """What happens at 100 % of a budget; threshold warnings fire in every mode.

    - `OBSERVE`: count, do nothing.
    - `WARN`: tell the model once that the budget is spent, and go on.
    - `CUTOFF`: answer in the model's place; the provider is not called.
    - `FALLBACK`: demote the call to a cheaper model.

    Plain lower-case strings, so configurations can come from JSON. Source: seed 001.
    """

    OBSERVE = "observe"
    WARN = "warn"
    CUTOFF = "cutoff"
    FALLBACK = "fallback"


def check_enforcement(name: str, value: object) -> str:
    """Accept a known mode; `ValueError` lists them for anything else."""
    if value not in ("observe", "warn", "cutoff", "fallback"):
        raise ValueError(f"{name} must be observe, warn, cutoff or fallback, not {value!r}")
    return value  # type: ignore[return-value]
