"""A ledger whose accounts and holds are kept by a server: what its engines have in common."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Protocol, TypedDict, Unpack

from budget_core.checks import check_count
from budget_core.errors import refuse
from budget_core.ledger.checks import check_amounts, check_key, check_path, root
from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
    refusal,
)
from budget_core.ledger.hold import TTL, Balance, Hold, check_hold, check_ttl, wake
from budget_core.ledger.limit import Limit, LimitReader
from budget_core.ledger.waiting import reserve_waiting
from budget_core.log import log
from budget_core.until import stamp
from budget_core.wall_clock import DAY
from budget_cpython.context.process_state import begin_again_in_children
from budget_cpython.ledger.limit_changes import change_of, changed_by
from budget_cpython.ledger.operations import OPERATIONS
from budget_cpython.ledger.outages import OutageLog
from budget_cpython.ledger.passthrough import BlockingLedger
from budget_cpython.ledger.refusals import RefusalLog
from budget_cpython.ledger.remote_journal import RemoteJournal
from budget_cpython.ledger.usage_log import flush_usage_awaited
from budget_cpython.ledger.windows import Window, parse_window
from budget_cpython.wall_clock import WALL

MAX_KEEP = 10**10
SWEEP_EVERY = 1000  # reservations of this ledger


class Backend(Protocol):
    """Does a ledger's operations on a server, each in one atomic step.

    `call` takes the operation's name and its arguments, `now` (Unix milliseconds, `None` for the
    server's clock) and `bounds` among them, and returns `(word, *details)`:

    - `ok` and the result: a hold's `(path, id, amounts, state, expires, actual)`, a balance's
      `(account, axis, window, cap, spent, held, start, end)`, times in milliseconds, an open
      hold's `(path, id, amounts, taken, expires)`, an event's `(number, at, kind, account, name,
      details)`, of JSON, and usage as `(hour, path, model, tool, axis, amount)`;
    - `roll`, the server's milliseconds and the names of windows: call again with their `bounds`;
    - `refused` and a list of `(end, account, axis, window, asked, cap, spent, held)`;
    - `uncounted` and an axis of the argument `counted` that no limit on the path counts;
    - `no account`; `no hold`; `reused`; `settled` and the hold's state; `full` and a text.

    Raises `LedgerUnavailableError` and `LedgerFullError`. One that `is_spread` has the accounts of
    several roots in several places, of which one may be out of reach alone.
    """

    is_spread: bool

    async def call(self, operation: str, arguments: dict[str, Any]) -> Sequence[Any]:
        """Do one operation."""

    async def close(self) -> None:
        """Close the connections."""


class RemoteOptions(TypedDict, total=False):
    """The options of a ledger behind a backend; `AsyncRemoteLedger` says what they are."""

    clock: Callable[[], float] | None
    windows: Callable[[Any], Window]
    axes: Sequence[str] | None
    max_accounts: int
    keep: int


class AsyncRemoteLedger(RemoteJournal):
    """A ledger behind a backend, for asyncio; `budget_core.Ledger` says what each method does.

    `clock` returns Unix seconds; the default is the server's clock. `windows`, `axes`,
    `max_accounts` and `keep` are as in `budget_core.Ledger`. Every method may raise
    `LedgerUnavailableError`. An operation whose outcome is unknown is sent once more; it still
    counts once.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        clock: Callable[[], float] | None = None,
        windows: Callable[[Any], Window] = parse_window,
        axes: Sequence[str] | None = None,
        max_accounts: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        self._reader = LimitReader(windows, axes)
        if clock is not None and not callable(clock):
            refuse("clock", "a function that returns Unix seconds", clock)
        self._backend = backend
        self._clock = clock
        self._max_accounts = check_count("max_accounts", max_accounts)
        if check_count("keep", keep) > MAX_KEEP:
            refuse("keep", f"at most {MAX_KEEP} seconds", keep)
        self._keep_ms = keep * 1000
        self._refusals = RefusalLog(self)
        self._outages = OutageLog()
        self._is_spread = backend.is_spread
        self._reserved = secrets.randbelow(SWEEP_EVERY)  # programs may be short
        self.begin_again()
        begin_again_in_children(self)

    def begin_again(self) -> None:
        """Give holds without a key ids that no other process gives."""
        self._ids = map(f"#{secrets.token_hex(8)}.{{}}".format, count())

    def _new_id(self) -> str:
        return next(self._ids)

    async def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Replace an account's limits by these; an empty list removes the account."""
        rows = [(axis, window.name, cap) for axis, window, cap in self._reader.read(limits)]
        most, before = self._max_accounts, await self.limits(path)
        await self._ask("set_limits", check_path(path), limits=rows, max_accounts=most)
        after = [Limit(axis, cap, window) for axis, window, cap in rows]
        try:
            await self.note(change_of(path, before, after, changed_by()))
        except LedgerError as error:
            log("debug", f"a change of limits could not be noted: {error}")

    async def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        rows = await self._ask("limits", check_path(path))
        return [Limit(axis, cap, window) for axis, window, cap in rows]

    async def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return sorted(await self._ask("accounts", ""))

    async def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts on every limit of the path and of the accounts above it, or raise."""
        if wait:
            return await reserve_waiting(self, path, amounts, key, ttl, wait)
        return await self._take("reserve", path, amounts, key, ttl)

    async def _take(
        self,
        operation: str,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None,
        ttl: float,
        **former: Any,
    ) -> Hold:
        asked = self._check_axes(check_amounts(amounts, True))
        held = {axis: asked[axis] for axis in asked if asked[axis] is not None}
        given = {
            "amounts": held,
            "unbounded": [axis for axis in asked if axis not in held],
            "counted": [axis for axis in asked if axis not in self._reader.known],
            "id": self._new_id() if key is None else check_key(key),
            "ttl_ms": check_ttl(ttl),
        }
        try:
            hold = Hold(*await self._ask(operation, check_path(path), **given, **former))
        except BudgetExceededError as error:
            await self._refusals.add_awaited(path, error)
            raise
        self._reserved += 1
        if self._reserved % SWEEP_EVERY == 0:
            with suppress(LedgerError):  # the reservation stands all the same
                await self.expire()  # abandoned holds
        return hold

    async def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        """Record amounts as spent, without asking."""
        used = self._check_axes(check_amounts(amounts))
        named = {"id": self._new_id() if key is None else check_key(key)}
        return Hold(*await self._ask("charge", check_path(path), amounts=used, **named))

    async def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        """Settle a hold with what the call used."""
        return await self._ask_hold("commit", hold, actual=self._used(actual))

    async def renew(
        self,
        hold: Hold,
        actual: dict[str, Any] | None,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Commit a hold and take the next one on its path, in one step, or raise."""
        path, former = check_hold(hold).path, _hold_id(hold.id)
        if key == former:
            raise KeyReusedError(path, former)
        given = {"former": former, "actual": self._used(actual)}
        return await self._take("renew", path, amounts, key, ttl, **given)

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        return await self._ask_hold("release", hold)

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for at least `ttl` seconds from now."""
        return await self._ask_hold("extend", hold, ttl_ms=check_ttl(ttl))

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        return await self._ask_hold("hold", Hold(path, id))

    async def expire(self) -> int:
        """Count expired holds as spent; return how many there were."""
        await self._refusals.flush_awaited()
        return int(await self._ask("expire", ""))

    async def balance(self, path: str) -> list[Balance]:
        """Return the balance of each limit of the path and of the accounts above it."""
        return [Balance.read(*row) for row in await self._ask("balance", check_path(path))]

    async def history(self, path: str) -> list[Balance]:
        """Return the counts of an account's own limits in windows that are over."""
        return [Balance.read(*row) for row in await self._ask("history", check_path(path))]

    async def close(self) -> None:
        """Close the connections."""
        await self._refusals.flush_awaited()
        await flush_usage_awaited(self)
        await self._backend.close()

    async def _ask_hold(self, operation: str, hold: Hold, **arguments: Any) -> Hold:
        path, id_ = check_path(check_hold(hold).path), _hold_id(hold.id)
        return Hold(*await self._ask(operation, path, id=id_, **arguments))

    async def _ask(self, operation: str, path: str, **arguments: Any) -> Any:
        """Do an operation; send it once more if its outcome is unknown: it counts once."""
        now = None if self._clock is None else int(self._clock() * 1000)
        arguments.update(path=path, keep_ms=self._keep_ms, now=now, bounds={})
        place = root(path) if path and self._is_spread else ""
        in_doubt = False
        while True:
            try:
                reply = await self._backend.call(operation, arguments)
            except LedgerUnavailableError as error:
                if in_doubt:
                    error.applied = None  # the first may have been applied, whatever this one says
                if in_doubt or error.applied is not None:
                    self._outages.begin(error, place)
                    raise
                in_doubt = True
                continue
            if reply[0] == "ok":
                if OPERATIONS[operation].settles:
                    wake(self, path or None)
                outages = self._outages
                if outages.since is not None and outages.place == place and operation != "note":
                    await outages.end_awaited(self)
                return reply[1]
            if reply[0] == "uncounted":
                self._reader.check_axis(reply[1], False)
            if reply[0] != "roll":
                raise _error(reply, path, arguments)
            arguments["bounds"] = self._bounds(reply[1], reply[2])
            in_doubt = False

    def _bounds(self, now: int, names: Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """Return the bounds of windows at the server's `now`: the server knows no calendar.

        Raises `LedgerUnavailableError` if the server's clock is more than a day off this machine's.
        """
        if self._clock is None:
            own = WALL()
            if own and abs(now // 1000 - own) > DAY:
                raise LedgerUnavailableError(
                    f"the ledger's server says it is {stamp(now // 1000)}, this machine says "
                    f"{stamp(own)}: set the clock that is wrong"
                )
        found = {}
        for name in names:
            found[name] = _, start, end = self._reader.window(name).bounds(now)
            if not start <= now < end:
                raise LedgerUnavailableError(f"no {name} has {now} ms in it: set the clock")
        return found

    def _used(self, actual: dict[str, Any] | None) -> dict[str, int] | None:
        return None if actual is None else self._check_axes(check_amounts(actual))

    def _check_axes(self, amounts: dict[str, int]) -> dict[str, int]:
        for axis in amounts:
            self._reader.check_axis(axis)
        return amounts


class RemoteLedger(BlockingLedger):
    """A ledger behind a backend, for threads; `AsyncRemoteLedger` says what the options are."""

    def __init__(self, backend: Backend, **options: Unpack[RemoteOptions]) -> None:
        super().__init__(AsyncRemoteLedger(backend, **options))


def _hold_id(id: str) -> str:
    """Accept a hold's id: a key, or one that a ledger gave."""
    made = id[:1] == "#" and id.isascii() and id.isprintable()
    return id if made else check_key(id)


def _error(reply: Sequence[Any], path: str, arguments: dict[str, Any]) -> Exception:
    word, name = reply[0], arguments.get("id", "")
    if word == "refused":
        now = WALL() * 1000 if arguments["now"] is None else arguments["now"]
        return refusal([(row[0], tuple(row[1:4]), *row[4:]) for row in reply[1]], now)
    if word == "settled":
        return HoldSettledError(name, reply[1])
    if word == "full":
        return LedgerFullError(reply[1])
    unknown = UnknownHoldError(path, arguments.get("former", name))
    errors = {"no account": UnknownAccountError(path), "no hold": unknown}
    return errors.get(word) or KeyReusedError(path, name)
