"""What type checkers know by name; no program loads this.

Modules import it under `TYPE_CHECKING` only: MicroPython has no `typing`, and a name that is not
in a compiled module takes no memory there.
"""

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

from budget_core.budget import Budget
from budget_core.config import Config
from budget_core.deadline import Deadline
from budget_core.deadline_token import DeadlineToken
from budget_core.envelope import Envelope
from budget_core.middleware import Middleware, Request
from budget_core.monotonic import MonotonicClock
from budget_core.prices import Price
from budget_core.provider import ChatResponse, ToolCall
from budget_core.stop import StopCondition, StopReason
from budget_core.tool import Tool, ToolOutput
from budget_core.tracker import BudgetTracker, TurnBudgetTracker
from budget_core.turn_budget import TurnBudget
from budget_core.turn_records import CitationAccumulator, ToolTraceEntry
from budget_core.turn_state import TurnRuntimeState
from budget_core.wrapper import BudgetWrapper

__all__ = [
    "Any",
    "AnyConfig",
    "AnyDeadline",
    "AnyEnvelope",
    "AnyOutput",
    "AnyToken",
    "AnyTurnBudget",
    "Awaitable",
    "Budget",
    "BudgetStateStore",
    "BudgetTracker",
    "BudgetWrapper",
    "Callable",
    "ChatResponse",
    "CitationAccumulator",
    "Coroutine",
    "Deadline",
    "DeadlineToken",
    "Envelope",
    "Hook",
    "IterationPolicy",
    "Lock",
    "Messages",
    "Middleware",
    "MonotonicClock",
    "NoReturn",
    "Price",
    "Provider",
    "Request",
    "Sequence",
    "StopCondition",
    "StopReason",
    "Tool",
    "ToolCall",
    "ToolTraceEntry",
    "Tools",
    "TurnBudget",
    "TurnBudgetTracker",
    "TurnRuntimeState",
]

AnyConfig = TypeVar("AnyConfig", bound=Config)
AnyDeadline = TypeVar("AnyDeadline", bound=Deadline)
AnyEnvelope = TypeVar("AnyEnvelope", bound=Envelope)
AnyOutput = TypeVar("AnyOutput", bound=ToolOutput)
AnyToken = TypeVar("AnyToken", bound=DeadlineToken)
AnyTurnBudget = TypeVar("AnyTurnBudget", bound=TurnBudget)
Hook = Callable[..., object]
Messages = list[dict[str, Any]]
Tools = list[dict[str, Any]]


class Lock(Protocol):
    """A context manager; what it gives on entry and whether it swallows errors is nobody's care."""

    def __enter__(self) -> Any: ...

    def __exit__(self, __kind: Any, __error: Any, __traceback: Any) -> Any: ...


class Provider(Protocol):
    """Something that answers `chat(messages, tools, model, …)` and names its default model."""

    @property
    def chat(self) -> Callable[..., Awaitable[Any]]:
        """The coroutine function that answers."""

    def get_default_model(self) -> str:
        """Return the model that answers where a call names none."""


class IterationPolicy(Protocol):
    """What a loop asks before each LLM call, counted from 0 at each turn's start."""

    async def should_continue(self, iteration: int, tools_used: list[str]) -> bool:
        """Allow the next LLM call, or end the turn."""

    async def on_limit_reached(self, iteration: int, tools_used: list[str]) -> str:
        """Return the text that ends the turn."""


class BudgetStateStore(Protocol):
    """Where a tracker's state survives: a flat dict of whole numbers, strings and `None`.

    One tracker, in one process, writes to a store. A store may have an attribute `allowance`: how
    many tokens a day may still use whose state cannot be trusted; taken for 0 where there is none.
    """

    def load(self) -> dict[str, Any] | None:
        """Return the last state saved, or `None` where there is none.

        Raises `StateCorruptError` (or any error whose `corrupt` is true) for a state that exists
        but cannot be trusted, any other error where the store cannot be read now.
        """

    def save(self, state: dict[str, Any]) -> None:
        """Keep `state` whole, or raise and keep the last one."""

    def clear(self) -> None:
        """Forget the state, for an operator."""
