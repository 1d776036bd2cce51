"""What a model may call, and what comes of it."""

from budget_core.checks import check_count, check_text
from budget_core.durations import in_ms
from budget_core.lazy_call import lazy_call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from budget_core._types import Dollars


class Tool:
    """Something a model may call.

    - `parameters`: the JSON schema of its arguments, an object; what does not satisfy it never
      reaches `run`.
    - `run`: takes the arguments as keywords and returns a text, or a `ToolOutput`, at once or
      awaited. What it raises goes to the model as an error.
    - `cap_s`: seconds that one call may take.
    - `cooperative`: it also takes a keyword `token`, a `DeadlineToken`, and ends early with what it
      has when that says so.
    - `draws`: it also takes a keyword `budget`, the run's `Envelope`, to open a child of for a
      sub-agent.
    - `essential`: it is still offered when a run winds down and other tools are not.

    Raises `ValueError` naming what is wrong.
    """

    SCHEMAS = "budget_core.agent.json_schema"  # loaded for each check

    def __init__(
        self,
        name: str,
        description: str,
        run: "Callable[..., Any]",
        parameters: "dict[str, Any] | None" = None,
        cap_s: float | None = None,
        cooperative: bool = False,
        draws: bool = False,
        essential: bool = False,
    ) -> None:
        self.name = check_text("name", name)
        self.description = description
        if not callable(run):
            raise ValueError(f"run of {name} must be a function, not {run!r}")
        self.run = run
        empty: dict[str, Any] = {"type": "object", "properties": {}}
        where = f"parameters of {name}"
        self.parameters: dict[str, Any] = lazy_call(
            self.SCHEMAS, "check_schema", where, parameters or empty
        )
        if cap_s is not None:
            in_ms(f"cap_s of {name}", cap_s)
        self.cap_s = cap_s
        self.cooperative = cooperative
        self.draws = draws
        self.essential = essential

    def definition(self) -> "dict[str, Any]":
        """Return the tool as chat completions describe one."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }


class ToolOutput:
    """What a tool returns: a text, and whether the run is to stop with it.

    `stop_reason` is `None` if the run continues. `usage` is a report of what the tool itself used
    of a model, counted with the run's. What it cost, if known, is `nano_usd`, or in dollars `usd`;
    a tool that costs something else than tokens has it too.
    """

    def __init__(
        self,
        content: str,
        stop_reason: str | None = None,
        usage: "Any" = None,
        nano_usd: int | None = None,
        usd: "Dollars | None" = None,
    ) -> None:
        if usd is not None:
            from budget_core.money import in_nano  # loaded for the first cost in dollars

            nano_usd = in_nano("usd", usd)
        self.content = content if isinstance(content, str) else str(content)
        self.stop_reason = stop_reason
        self.usage = usage
        self.nano_usd = None if nano_usd is None else check_count("nano_usd", nano_usd)

    @classmethod
    def stop(cls, reason: str, content: str = "") -> "Self":
        """Return an output that ends the run: the work is done, or should not continue.

        `content` becomes the run's text.
        """
        return cls(content, reason)
