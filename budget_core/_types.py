"""Protocols that type checkers know by name; no program loads this.

Modules import it under `TYPE_CHECKING` only: MicroPython has no `typing`, and a name that is not
in a compiled module takes no memory there. It imports no concrete class.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

Hook = Callable[..., object]
Messages = list[dict[str, Any]]
Tools = list[dict[str, Any]]
Axis = tuple[str, str, int, int | None, int]


class Decimal(Protocol):
    """A `decimal.Decimal`, which ports lack."""

    def as_tuple(self) -> Any:
        """Return its sign, digits and exponent."""


Dollars = float | str | Decimal


class Lock(Protocol):
    """A context manager, such as `threading.Lock()`."""

    def __enter__(self) -> Any: ...

    def __exit__(self, __kind: Any, __error: Any, __traceback: Any) -> Any: ...


class TimeLimit(Protocol):
    """What a `Deadline` says of itself to the error that it raises."""

    def elapsed_seconds(self) -> float:
        """Return the seconds since it was set."""

    def allowed_seconds(self) -> float:
        """Return the seconds from when it was set to its instant."""

    def is_expired(self) -> bool:
        """Tell whether it has passed."""

    def to_wire(self, transit_s: float = 0.05) -> int | None:
        """Return the milliseconds left; `None` where it never passes."""


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


class UsageParts(Protocol):
    """A `Usage` that is being filled in."""

    MEASURED: str
    ESTIMATED: str
    INVALID: str
    MISSING: str
    MOST: int
    input: int | None
    output: int | None
    total: int
    cached: int
    cache_written: int
    reasoning: int
    status: str
    report: Any


class Tracker(Protocol):
    """What is asked and set of a tracker near its limit."""

    SCOPE: str
    config: Any
    lock: Any
    iteration_cap: int | None
    token_cap: int | None
    iterations_seen: int
    total_tokens: int
    warned_ppm: int
    announced: int
    last_consumed_threshold: float | None
    state_error: Exception | None
    store_error: Exception | None

    def axes(self) -> list[Axis]:
        """Return `(scope, unit, used, cap, kept)` of each axis."""

    def is_at_limit(self) -> bool:
        """Tell whether the budget is spent or cannot be known."""

    def is_out_of_reach(self) -> bool:
        """Tell whether its store or ledger fails."""

    def changed(self) -> None:
        """Store what was counted and announced; under the lock."""


class Enforcer(Protocol):
    """The settings and hooks of limits: a `BudgetWrapper`, or the account of an SDK's calls.

    Its tracker has the thresholds in its `config`, and remembers the warnings that were given.
    """

    @property
    def tracker(self) -> Any:
        """The tracker."""

    enforcement: str
    fallback_model: str | None
    on_threshold_crossed: Hook | None
    on_limit_reached: Hook | None
    hook_error: Exception | None
    estimates: bool

    def get_default_model(self) -> str:
        """Return the model that answers where a call names none."""


class CallAccount(Protocol):
    """Something that LLM calls draw on: a tracker, an envelope, an account of a ledger."""

    async def hold(self, call: Any) -> Any:
        """Take a hold for a `Call`: the most that it can use.

        It may change what is sent, set the call's `answer`, or raise: then nothing is held.
        """

    async def settle(self, hold: Any, outcome: Any) -> None:
        """Replace a hold by what the call's `Settlement` says, once.

        Nothing is awaited where the outcome is `closing`.
        """


class CallPrice(Protocol):
    """The price of one call: a `Price`, or that of the model which a table finds for it."""

    def cost(
        self, prompt: int, completion: int, cached: int = 0, written: int = 0, hour: int = 0
    ) -> int:
        """Return the nano-USD of a call, rounded up."""

    def affordable(self, nano_usd: int, prompt: int) -> int | None:
        """Return how many completion tokens money buys after a prompt; `None` is any number."""

    def cost_of(self, usage: Any, tier: Any = None) -> tuple[int, bool]:
        """Return the nano-USD of a call's usage, and whether it is billed for nothing else."""

    def answered_by(self, model: str) -> Any:
        """Return the price to charge where this model answered: this one if it knows no other."""


class EnvelopeView(Protocol):
    """What stop conditions, and calls that a run may cut short, read of an `Envelope`."""

    name: str
    clock: Any

    def used(self, axis: str) -> int:
        """Return the usage of an axis, for stop conditions."""

    def remaining_s(self) -> float:
        """Return the seconds left, infinity without a limit."""

    def why_stopped(self) -> Any:
        """Return the `StopReason` that was given to `stop`, or `None`."""

    def why_over(self) -> Any:
        """Return the `StopReason` for which calls in flight have to end, or `None`."""

    def add_watcher(self, watcher: Callable[[], object]) -> None:
        """Have `watcher()` called whenever a limit may have changed."""

    def remove_watcher(self, watcher: Callable[[], object]) -> None:
        """Stop calling a watcher."""


class RunCall(Protocol):
    """What a ledger reads and sets of an `LlmCall` that an envelope has admitted."""

    inner: Any
    envelope: Any
    messages: Messages
    tools: Tools | None
    model: str
    prompt: int
    limit: int | None
    price: Any
    reserve: Any
    is_last: bool
    ledger: Any


class Agent(Protocol):
    """What a run reads of its `Operative`."""

    provider: Provider
    tools: list[Any]
    system_prompt: str
    reflect: Callable[..., Any] | None
    on_event: Hook | None
    stream: bool
    gate: dict[str, Any]

    def state(self, envelope: Any) -> Any:
        """Return the state of one run, or `None`."""

    def toolbox(self, envelope: Any, state: Any) -> Any:
        """Return the `Toolbox` of one run."""


class TimedBudget(Protocol):
    """A `TurnBudget` or an `Envelope`, as far as its time goes."""

    def deadline_within(self, cap_s: float | None = None) -> Any:
        """Return the deadline, or the one `cap_s` seconds from now if that is earlier."""
