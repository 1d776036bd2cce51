"""The usage of calls through a proxy, by model."""

from dataclasses import dataclass, replace
from threading import Lock

from budget_cpython.telemetry.labels import BoundedLabels

MOST_MODELS = 1000
OTHER_MODELS = "(other models)"


@dataclass
class ModelUsage:
    """The charges of one model's calls.

    `calls` counts those that were sent, `input` and `output` are tokens, `cached` the part of the
    input that was read from a cache. `nano_usd` is what they cost as far as their price is known.
    `estimated` calls broke off or reported no usage: they are charged at least what was held.
    `unpriced` calls have no price, or one that does not cover all that they used.
    """

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    nano_usd: int = 0
    estimated: int = 0
    unpriced: int = 0

    @property
    def dollars(self) -> float:
        """Their cost in US dollars."""
        return self.nano_usd / 1_000_000_000

    def add(self, other: "ModelUsage") -> None:
        """Add what other calls used."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)


class UsageByModel:
    """A `ModelUsage` for each model, in the order of their first calls; safe for threads.

    Beyond 1,000 models the others are counted together. Names come from clients: what a terminal
    would act on is escaped, and long ones are cut.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._labels = BoundedLabels(MOST_MODELS, OTHER_MODELS)
        self._rows: dict[str, ModelUsage] = {}

    def add(self, model: str, one: ModelUsage) -> None:
        """Add what one call, or several, used."""
        label = self._labels.label(model)
        with self._lock:
            self._rows.setdefault(label, ModelUsage()).add(one)

    def rows(self) -> dict[str, ModelUsage]:
        """Return a copy of what is counted now."""
        with self._lock:
            return {model: replace(row) for model, row in self._rows.items()}

    def total(self) -> ModelUsage:
        """Return the sum over all models."""
        whole = ModelUsage()
        for row in self.rows().values():
            whole.add(row)
        return whole
