"""What an executor tells others: what tools used, and what came too late."""

import sys
from collections.abc import Callable
from typing import Any

from budget_core.dialects import token_counts
from budget_cpython.executor.outcome import ToolOutcome
from budget_cpython.turn import TurnRuntimeState


class Hooks:
    """Functions of the user's, called by whatever thread a tool ends in; `error` is their last."""

    def __init__(
        self,
        on_usage: Callable[[Any], object] | None,
        on_late: Callable[[ToolOutcome], object] | None,
    ) -> None:
        self._on_usage = on_usage
        self._on_late = on_late
        self.error: Exception | None = None

    def settle(self, state: TurnRuntimeState, result: Any) -> None:
        """Record the usage that a tool's result carries, if it carries any."""
        if result is None or isinstance(result, str):
            return
        try:
            usage = result.get("usage") if isinstance(result, dict) else result.usage
        except Exception:  # noqa: BLE001 - most results have none, a foreign one may raise anything
            return
        if usage is not None:
            state.add_tokens(**token_counts(usage))
            if self._on_usage:
                self.call(self._on_usage, usage)

    def too_late(self, outcome: ToolOutcome) -> None:
        """Tell what was suppressed."""
        if self._on_late:
            self.call(self._on_late, outcome)

    def call(self, hook: Callable[..., object], *arguments: object) -> None:
        """Call a function that must not break the call; the first error is printed."""
        try:
            hook(*arguments)
        except Exception as error:  # noqa: BLE001 - a hook may raise anything, the turn goes on
            if self.error is None:
                print(f"microbudget: a hook of the tool executor raised {error!r}", file=sys.stderr)
            self.error = error
