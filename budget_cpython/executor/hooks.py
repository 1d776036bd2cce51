"""What an executor tells others: what tools used, and what came too late."""

import sys
from collections.abc import Callable
from typing import Any

from budget_core.agent.stop import in_words
from budget_cpython.executor.outcome import ToolOutcome


class Hooks:
    """The user's functions, called in the thread in which a tool ends; `error` is their last.

    An error of theirs never breaks a call. They should be quick: the call waits for them.
    """

    def __init__(
        self,
        on_usage: Callable[[Any], object] | None,
        on_late: Callable[[ToolOutcome], object] | None,
    ) -> None:
        self.on_usage = on_usage
        self.on_late = on_late
        self.error: BaseException | None = None

    def call(self, hook: Callable[..., object], *arguments: object) -> None:
        """Call a function and keep what it raises; the first error is printed."""
        try:
            hook(*arguments)
        except BaseException as error:  # noqa: BLE001 - a tool's outcome must not be lost with it
            if self.error is None:
                text = f"microbudget: a hook of the tool executor raised {in_words(error)}"
                print(text, file=sys.stderr)
            self.error = error
