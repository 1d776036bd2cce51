"""The holds and balances that a ledger hands out, and the process that asks it."""

from budget_core.durations import in_ms
from budget_core.errors import refuse
from budget_core.ledger.bucket import COMMITTED, EXPIRED, FAR, HELD, RELEASED
from budget_core.ledger.errors import BudgetExceededError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

    from budget_core.ledger.bucket import Bucket

TTL = 300  # seconds: longer than most calls take
MAX_TTL = 86_400
try:
    by_ledger: "Any" = __import__("weakref").WeakKeyDictionary
except (ImportError, AttributeError):
    by_ledger = dict  # on MicroPython ledgers live as long as the program
ROOMS: "MutableMapping[Any, Any]" = by_ledger()  # in which the calls of this process wait


class Process:
    """The process that asks a ledger: notes and facts of its own; this one has none.

    A ledger may have another one as its `process`.
    """

    def charged(self, held: "Any", outcome: "Any") -> None:
        """Note the charge of a call, by its hold and its `Settlement`."""

    def as_one_call(self, path: str, strict: bool, asking: "Any") -> "Any":
        """Return the coroutine to await for a call, which may ask the ledger several times.

        One that is not `strict` is made whatever the ledger says.
        """
        return asking

    def longest_answer(self, model: str, prompt: int) -> int:
        """Return the tokens of the longest answer to a prompt; 0 if they are not known."""
        return 0

    def seconds_left(self) -> float:
        """Return the seconds that the code which waits has until its deadline."""
        return MAX_TTL


_PLAIN = Process()


def process_of(ledger: "Any") -> Process:
    """Return the process that a ledger was given, else one that does nothing."""
    found = getattr(ledger, "process", None)
    return found if isinstance(found, Process) else _PLAIN


class Hold:
    """The amounts that are set aside for one call, and their end.

    A hold that nothing settles before it expires, as its process died, counts as spent in full; a
    late commit corrects that, as docs/hold.md says. In memory `MemoryHolds` does so; SQLite's
    engine uses it, Redis and Postgres do the same in Lua and SQL.

    - `path`, `amounts`: whose account, and how much of each axis.
    - `id`: its key, or one that begins with `#`.
    - `state`: `HELD`, `COMMITTED`, `RELEASED` or `EXPIRED`.
    - `actual`: what counts as spent for it once it is settled, by axis; `None` before.

    Only its ledger changes it. `expires_ms` is `expires_at` in milliseconds, for engines.
    """

    HELD = HELD
    COMMITTED = COMMITTED
    RELEASED = RELEASED
    EXPIRED = EXPIRED

    __slots__ = ("actual", "amounts", "buckets", "expires_ms", "id", "path", "state")

    def __init__(
        self,
        path: str,
        id: str,
        amounts: "dict[str, int] | None" = None,
        state: str = HELD,
        expires_ms: int | None = None,
        actual: "dict[str, int] | None" = None,
        buckets: "dict[str, tuple[Bucket, ...]] | None" = None,
    ) -> None:
        self.path = path
        self.id = id
        self.amounts = {} if amounts is None else amounts
        self.state = state
        self.expires_ms = expires_ms
        self.actual = actual
        self.buckets = buckets

    @property
    def expires_at(self) -> int | None:
        """The Unix second by which it expires if it is not settled; `None` for a charge."""
        return None if self.expires_ms is None else -(-self.expires_ms // 1000)

    def __repr__(self) -> str:
        return f"<Hold {self.id!r} on {self.path!r}: {self.state} {self.amounts!r}>"


class Balance:
    """What stands against one limit in one window.

    - `account`, `axis`, `window`, `limit`: whose and which limit; `None` for unlimited.
    - `spent`, `held`: what was used, and what is set aside for calls in flight.
    - `left`: what may still be used, `None` for unlimited; `debt`: what was used past the limit.
    - `begins_at`, `resets_at`: from when until when, in Unix seconds, `None` for never; of a
      rolling window, its current bucket.
    """

    __slots__ = (
        "account", "axis", "begins_at", "held", "limit", "resets_at", "spent", "window"
    )  # fmt: skip

    def __init__(
        self,
        account: str,
        axis: str,
        window: str,
        limit: int | None,
        spent: int,
        held: int,
        begins_at: int,
        resets_at: int | None,
    ) -> None:
        self.account = account
        self.axis = axis
        self.window = window
        self.limit = limit
        self.spent = spent
        self.held = held
        self.begins_at = begins_at
        self.resets_at = resets_at

    @classmethod
    def of(cls, bucket: "Bucket", spent: int, held: int) -> "Balance":
        """Return the balance of a bucket, of which so much is spent and held."""
        times = (bucket.start, bucket.end)
        return cls.read(*bucket.place, bucket.cap, spent, held, *times)

    @classmethod
    def read(cls, *row: "Any") -> "Balance":
        """Return a balance of its values in their order, its window in Unix milliseconds."""
        start, end = row[6:]
        times = (start // 1000, None if end >= FAR else end // 1000)
        return cls(*(row[:6] + times))

    @property
    def left(self) -> int | None:
        """What may still be used; `None` for unlimited."""
        return None if self.limit is None else max(0, self.limit - self.spent - self.held)

    @property
    def debt(self) -> int:
        """What was used past the limit, until its window ends."""
        return 0 if self.limit is None else max(0, self.spent - self.limit)

    def __repr__(self) -> str:
        from budget_core.ledger.window_words import per
        from budget_core.notices import show_on

        show, unit = show_on(per(self.axis, self.window))
        cap = "no limit" if self.limit is None else show(self.limit)
        return (
            f"<Balance of {self.account!r}: {show(self.spent)} of {cap}{unit} spent, "
            f"{show(self.held)} held>"
        )


def bounded(asked: "dict[str, Any]", balances: "list[Balance]") -> "dict[str, int]":
    """Return amounts without those that have no bound, for a ledger that cannot admit these.

    Raises `BudgetExceededError` if an account limits one of them.
    """
    for row in balances:
        if asked.get(row.axis, 0) is None and row.limit is not None:
            place = (row.account, row.axis, row.window)
            raise BudgetExceededError(*place, None, row.limit, row.spent, row.held, row.resets_at)
    return {axis: asked[axis] for axis in asked if asked[axis] is not None}


def check_hold(hold: "Any") -> Hold:
    """Accept a hold, with an id that is a string."""
    if not isinstance(hold, Hold):
        refuse("hold", "a Hold, as reserve returns it", hold)
    if not isinstance(hold.id, str):
        refuse("id", "a string", hold.id)
    return hold


def check_ttl(ttl: "Any") -> int:
    """Accept seconds above 0 and up to a day, and return milliseconds."""
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl <= MAX_TTL:
        refuse("ttl", f"seconds above 0, up to {MAX_TTL}", ttl)
    return max(1, int(ttl * 1000))


def check_wait(wait: "Any") -> int:
    """Accept seconds of 0 or more, or `None`, up to a day, and return milliseconds."""
    ms = in_ms("wait", 0 if wait is None else wait)
    return MAX_TTL * 1000 if ms is None else min(MAX_TTL * 1000, ms)


def time_to_wait(ledger: "Any", wait: "Any") -> int:
    """Return the milliseconds that a call may wait now: `wait` seconds, within its deadline."""
    return min(check_wait(wait), check_wait(process_of(ledger).seconds_left()))


def origin(ledger: "Any") -> "Any":
    """Return the ledger that an `IS_VIEW` is a view of: another way to ask it, as from asyncio.

    What a ledger is owed, and who waits for it, is the same for all its views.
    """
    is_view = getattr(type(ledger), "IS_VIEW", False)
    return getattr(ledger, "view_of", ledger) if is_view else ledger


def wake(ledger: "Any", place: "Any" = None) -> None:
    """Have the calls that wait for a ledger ask again: something was settled there.

    `place` is the hold or the path; without it, all of them do.
    """
    room = ROOMS.get(origin(ledger))
    if room is not None:
        room.wake(getattr(place, "path", place))
