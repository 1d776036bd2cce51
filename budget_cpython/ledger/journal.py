"""What a ledger tells operators: balances and holds of many accounts, events, usage by model."""

from collections.abc import Iterable, Sequence
from json import dumps, loads
from typing import Any, NamedTuple, Protocol

from budget_core.errors import refuse
from budget_core.ledger._types import AsyncLedgerProtocol, LedgerProtocol
from budget_core.ledger.checks import MOST, check_amounts, check_axis, check_path
from budget_core.ledger.hold import Balance
from budget_core.until import LAST_DATE
from budget_cpython.ledger.selection import check_selected

KEEP_EVENTS_S = 90 * 86_400
KEEP_USAGE_S = 400 * 86_400
MOST_EVENTS = 100_000  # of a ledger: the oldest go first
HOUR_S = 3600
DEEPEST = 20  # lists and objects in one another, of details
LONGEST_TEXT = 500  # characters of an event's kind and name, and of a model's or a tool's


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

    @property
    def times(self) -> int:
        """How many refusals it stands for."""
        said = self.details.get("times")
        return said if type(said) is int and 0 < said <= MOST else 1


class OpenHold(NamedTuple):
    """A hold that is not settled: `taken_at` and `expires_at` are Unix seconds."""

    path: str
    id: str
    amounts: dict[str, int]
    taken_at: int
    expires_at: int


class HourOfUsage(NamedTuple):
    """The usage of one model, or of one tool, on a path within an hour.

    `hour` is the Unix second in which it began; `tool` is empty for a model's calls, and `model`
    for a tool's. `amounts` are whole numbers by axis.
    """

    hour: int
    path: str
    model: str
    tool: str
    amounts: dict[str, int]


class Journal(Protocol):
    """The operations for operators of every ledger of CPython, beside `LedgerProtocol`'s.

    A `path` of these methods selects that path and all below it; an empty one selects all. Each
    raises `ValueError` for a malformed path, event or row; all but those of the ledger in memory
    may raise `LedgerUnavailableError`.
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
        """Add usage of calls to the sums of its hour, path, model and tool.

        Hours are kept for 400 days.
        """

    def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        """Return the usage of hours that began at `since` or later, in Unix seconds."""


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
        """Add usage of calls to the sums of its hour, path, model and tool."""

    async def usage(self, path: str = "", since: int = 0) -> list[HourOfUsage]:
        """Return the usage of hours that began at `since` or later, in Unix seconds."""


class AsyncJournaledLedger(AsyncLedgerProtocol, AsyncJournal, Protocol):
    """A ledger that is awaited, and what it tells operators."""


def checked_events(events: Sequence[LedgerEvent]) -> list[LedgerEvent]:
    """Return events with details as JSON returns them; raise `ValueError` for a malformed one."""
    found = []
    for event in events:
        check_selected(event.account)
        if not event.kind:
            refuse("kind", "a word", event.kind)
        for name in ("kind", "name"):
            _check_text(name, getattr(event, name))
        try:
            text = dumps(event.details, ensure_ascii=False, allow_nan=False)
            details = loads(text.encode(errors="replace"))  # a lone surrogate could not be sent
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"details must be what JSON can hold: {error}") from error
        if not _fits(details, DEEPEST):
            raise ValueError(f"details must be nested at most {DEEPEST} deep")
        found.append(event._replace(details=details))
    return found


def _fits(value: Any, levels: int) -> bool:
    if not isinstance(value, (dict, list)):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_fits(one, levels - 1) for one in inner)


def checked_usage(rows: Iterable[HourOfUsage]) -> list[HourOfUsage]:
    """Return rows with whole amounts; raise `ValueError` for a malformed one."""
    found = []
    for row in rows:
        check_path(row.path)
        if type(row.hour) is not int or not 0 <= row.hour <= LAST_DATE or row.hour % HOUR_S:
            refuse("hour", "the Unix second in which an hour begins", row.hour)
        for name in ("model", "tool"):
            _check_text(name, getattr(row, name))
        amounts = check_amounts(row.amounts)
        for axis in amounts:
            check_axis(axis)
        found.append(row._replace(amounts=amounts))
    return found


def _check_text(name: str, text: Any) -> None:
    try:
        if len(text.encode()) > 4 * LONGEST_TEXT or len(text) > LONGEST_TEXT or "\0" in text:
            raise ValueError
    except (AttributeError, ValueError):  # a lone surrogate is one too
        refuse(name, f"a text of up to {LONGEST_TEXT} characters, without NUL", text)


def sum_of_usage(rows: Iterable[HourOfUsage]) -> list[HourOfUsage]:
    """Return one row for each hour, path, model and tool, in their order."""
    sums: dict[tuple[int, str, str, str], dict[str, int]] = {}
    for hour, path, model, tool, amounts in rows:
        total = sums.setdefault((hour, path, model, tool), {})
        for axis in amounts:
            total[axis] = total.get(axis, 0) + amounts[axis]
    return [HourOfUsage(*place, sums[place]) for place in sorted(sums)]
