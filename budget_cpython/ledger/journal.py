"""What a ledger tells operators: balances and holds of many accounts, events, usage by model."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from budget_core.ledger._types import AsyncLedgerProtocol, LedgerProtocol
from budget_core.ledger.records import Balance

KEEP_EVENTS_S = 90 * 86_400
MOST_EVENTS = 100_000  # of a ledger: the oldest go first
HOUR_S = 3600


class LedgerEvent(NamedTuple):
    """Something that happened to an account, for operators; it has no prompt and no secret.

    - `kind`: a word, such as `refused`, `limits`, `threshold`, `alert`.
    - `account`: the path that it is about; empty for the whole ledger.
    - `details`: what JSON can hold, by names.
    - `name`: one that only one event of a ledger has; empty for none.
    - `at`: Unix seconds; 0 before it is noted.
    - `number`: its place in the log, from 1; 0 before it is noted.
    """

    kind: str
    account: str
    details: dict[str, Any]
    name: str = ""
    at: int = 0
    number: int = 0


class OpenHold(NamedTuple):
    """A hold that is not settled: `taken_at` and `expires_at` are Unix seconds."""

    path: str
    id: str
    amounts: dict[str, int]
    taken_at: int
    expires_at: int


class HourOfUsage(NamedTuple):
    """What calls of one model, or of one tool, used on a path within an hour.

    `hour` is the Unix second in which it began; `tool` is empty for a model's calls, and `model`
    for a tool's. `amounts` are whole numbers by axis.
    """

    hour: int
    path: str
    model: str
    tool: str
    amounts: dict[str, int]


class Journal(Protocol):
    """What every ledger of CPython tells operators, beside what `LedgerProtocol` says.

    A `path` of these methods selects that path and all below it; an empty one selects all. All but
    the one in memory may raise `LedgerUnavailableError`.
    """

    def balances(self, path: str = "") -> list[Balance]:
        """Return the balance of each account's own limits, by path, axis and window."""

    def open_holds(self, path: str = "", most: int = 1000) -> list[OpenHold]:
        """Return holds that are not settled, the oldest first."""

    def note(self, events: Sequence[LedgerEvent]) -> list[int]:
        """Append events in one step; return their numbers, 0 for a `name` that is known already.

        Events are kept for 90 days, the last 100,000 of them.
        """

    def events(
        self, path: str = "", kinds: Sequence[str] = (), after: int | None = None, most: int = 1000
    ) -> list[LedgerEvent]:
        """Return events of these kinds, of all without any, in their order.

        They are the last ones, or with `after` the first ones whose number is above it.
        """

    def add_usage(self, rows: Sequence[HourOfUsage]) -> None:
        """Add what calls used to what is known of their hour, path, model and tool."""

    def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        """Return what was used in hours that began at `since` or later, in Unix seconds."""


class JournaledLedger(LedgerProtocol, Journal, Protocol):
    """A ledger for threads, and what it tells operators."""


class AsyncJournal(Protocol):
    """A `Journal` whose methods are awaited."""

    async def balances(self, path: str = "") -> list[Balance]:
        """Return the balance of each account's own limits, by path, axis and window."""

    async def open_holds(self, path: str = "", most: int = 1000) -> list[OpenHold]:
        """Return holds that are not settled, the oldest first."""

    async def note(self, events: Sequence[LedgerEvent]) -> list[int]:
        """Append events in one step; return their numbers, 0 for a `name` that is known already."""

    async def events(
        self, path: str = "", kinds: Sequence[str] = (), after: int | None = None, most: int = 1000
    ) -> list[LedgerEvent]:
        """Return the last events of these kinds, or the first ones after a number."""

    async def add_usage(self, rows: Sequence[HourOfUsage]) -> None:
        """Add what calls used to what is known of their hour, path, model and tool."""

    async def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        """Return what was used in hours that began at `since` or later, in Unix seconds."""


class AsyncJournaledLedger(AsyncLedgerProtocol, AsyncJournal, Protocol):
    """A ledger that is awaited, and what it tells operators."""


def is_below(path: str, selected: str) -> bool:
    """Tell whether a path is the selected one or below it; an empty one selects all."""
    return not selected or path == selected or path.startswith(selected + "/")


def sum_of_usage(rows: Iterable[HourOfUsage]) -> list[HourOfUsage]:
    """Return one row for each hour, path, model and tool, in their order."""
    sums: dict[tuple[Any, ...], dict[str, int]] = {}
    for *place, amounts in rows:
        total = sums.setdefault(tuple(place), {})
        for axis in amounts:
            total[axis] = total.get(axis, 0) + amounts[axis]
    return [HourOfUsage(*place, sums[place]) for place in sorted(sums)]
