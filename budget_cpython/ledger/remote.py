"""Ask a ledger that somebody else keeps: what all engines behind a connection share.

The operations are written once, as coroutines. A ledger that blocks runs the same ones to their end
at once, since nothing that it awaits ever waits.
"""

import secrets
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeVar

from budget_core.checks import check_count
from budget_core.errors import refuse
from budget_core.ledger.errors import (
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
    refusal,
)
from budget_core.ledger.limit import Limit, LimitReader, check_amounts, check_key, check_path
from budget_core.ledger.records import TTL, Balance, Hold, bounded, check_ttl
from budget_core.wall_clock import DAY
from budget_cpython.ledger.windows import Window, parse_window
from budget_cpython.wall_clock import WALL

MAX_KEEP = 10**10
SWEEP_EVERY = 1000  # reservations of this ledger

T = TypeVar("T")
Bounds = dict[str, tuple[int, int, int]]


class Connection(Protocol):
    """What an engine does: one operation, in one step, on the server.

    `call` takes the operation's name and its arguments, `now` (Unix milliseconds, `None` for the
    server's clock) and `bounds` among them, and returns `(word, *details)`:

    - `ok`, and what the operation gives: a hold's `(path, id, amounts, state, expires, actual)`, a
      balance's `(account, axis, window, cap, spent, held, start, end)`, times in milliseconds;
    - `roll`, the server's milliseconds and the names of windows: call again with their `bounds`;
    - `refused`, a list of `(end, account, axis, window, asked, cap, spent, held)`;
    - `no account`; `no hold`; `reused`; `settled` and the hold's state; `full` and a text.

    Trouble is a `LedgerUnavailableError` or a `LedgerFullError`.
    """

    async def call(self, operation: str, arguments: dict[str, Any]) -> Sequence[Any]:
        """Do one operation."""

    async def close(self) -> None:
        """Give up what is open."""


class AsyncRemoteLedger:
    """A ledger behind a connection, for asyncio; `budget_core.Ledger` says what each method does.

    `clock` returns Unix seconds and is the server's unless given. `windows`, `axes`,
    `max_accounts` and `keep` are as there. Every method may raise `LedgerUnavailableError`; what it
    leaves in doubt is asked once more, which changes nothing twice.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Callable[[], float] | None = None,
        windows: Callable[[Any], Window] = parse_window,
        axes: Sequence[str] | None = None,
        max_accounts: int = 1_000_000,
        keep: int = 86_400,
    ) -> None:
        self._reader = LimitReader(windows, axes)
        self._connection = connection
        self._clock = clock
        self._max_accounts = check_count("max_accounts", max_accounts)
        if check_count("keep", keep) > MAX_KEEP:
            refuse("keep", f"at most {MAX_KEEP} seconds", keep)
        self._keep_ms = keep * 1000
        self._bounds: Bounds = {}
        self._reserved = secrets.randbelow(SWEEP_EVERY)  # programs may be short

    async def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others; with none it is an account no more."""
        rows = [(axis, window.name, cap) for axis, window, cap in self._reader.read(limits)]
        most = self._max_accounts
        await self._ask("set_limits", _path(path), limits=rows, max_accounts=most)

    async def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        rows = await self._ask("limits", _path(path))
        return [Limit(axis, cap, window) for axis, window, cap in rows]

    async def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return sorted(await self._ask("accounts", ""))

    async def reserve(
        self,
        path: str,
        amounts: Mapping[str, int | None],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Hold amounts on every limit of the path and of all above it, or raise."""
        asked = self._check_axes(check_amounts(amounts, True))
        if None in asked.values():
            asked = bounded(asked, await self.balance(path))
        named = {"id": _new_id() if key is None else check_key(key), "ttl_ms": check_ttl(ttl)}
        hold = Hold(*await self._ask("reserve", _path(path), amounts=asked, **named))
        self._reserved += 1
        if self._reserved % SWEEP_EVERY == 0:
            await self._sweep()
        return hold

    async def _sweep(self) -> None:
        """Settle what nobody has, from time to time; the reservation stands all the same."""
        try:
            await self.expire()
        except LedgerError:
            pass

    async def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
        """Record amounts as spent without asking."""
        used = self._check_axes(check_amounts(amounts))
        named = {"id": _new_id() if key is None else check_key(key)}
        return Hold(*await self._ask("charge", _path(path), amounts=used, **named))

    async def commit(self, hold: Hold, actual: dict[str, int] | None = None) -> Hold:
        """Record what a call used in the place of its hold."""
        used = None if actual is None else self._check_axes(check_amounts(actual))
        return Hold(*await self._ask("commit", _path(hold.path), id=hold.id, actual=used))

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        return Hold(*await self._ask("release", _path(hold.path), id=hold.id))

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now at least."""
        ttl_ms = check_ttl(ttl)
        return Hold(*await self._ask("extend", _path(hold.path), id=hold.id, ttl_ms=ttl_ms))

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        known = id if isinstance(id, str) and id[:1] == "#" else check_key(id)
        return Hold(*await self._ask("hold", _path(path), id=known))

    async def expire(self) -> int:
        """Count as spent what holds stand for that are over; return how many there were."""
        return int(await self._ask("expire", ""))

    async def balance(self, path: str) -> list[Balance]:
        """Return what stands against each limit of the path and of all above it."""
        return [Balance.read(*row) for row in await self._ask("balance", _path(path))]

    async def history(self, path: str) -> list[Balance]:
        """Return what an account's own limits counted in windows that are over."""
        return [Balance.read(*row) for row in await self._ask("history", _path(path))]

    async def close(self) -> None:
        """Give up the connection."""
        await self._connection.close()

    async def _ask(self, operation: str, path: str, **arguments: Any) -> Any:
        arguments.update(path=path, keep_ms=self._keep_ms)
        arguments["now"] = None if self._clock is None else int(self._clock() * 1000)
        arguments["bounds"] = self._bounds if arguments["now"] != 0 else {}
        reply = await self._call(operation, arguments)
        while reply[0] == "roll":
            arguments["bounds"] = self._roll(reply[1], reply[2])
            reply = await self._call(operation, arguments)
        if reply[0] != "ok":
            raise _error(reply, path, arguments)
        return reply[1]

    async def _call(self, operation: str, arguments: dict[str, Any]) -> Sequence[Any]:
        """Ask, and once more where it is not known what came of it: that changes nothing twice."""
        try:
            return await self._connection.call(operation, arguments)
        except LedgerUnavailableError as error:
            if error.applied is not None:
                raise
        try:
            return await self._connection.call(operation, arguments)
        except LedgerUnavailableError as error:
            error.applied = None  # whatever the second answer says of the first
            raise

    def _roll(self, now: int, names: Sequence[str]) -> Bounds:
        """Note which windows the server's `now` is in; a server that is a day off is not believed.

        The calendar is known here only, so that its rules stand in one place.
        """
        if self._clock is None:
            own = WALL()
            if own and abs(now // 1000 - own) > DAY:
                raise LedgerUnavailableError(
                    f"the ledger's server says it is {now // 1000} (Unix time), this machine says "
                    f"{own}: set the clock that is wrong"
                )
        found = dict(self._bounds)
        for name in names:
            found[name] = _, start, end = self._reader.window(name).bounds(now)
            if not start <= now < end:
                raise LedgerUnavailableError(f"no {name} has {now} ms in it: set the clock")
        self._bounds = found  # which no thread changes any more
        return found

    def _check_axes(self, amounts: dict[str, int]) -> dict[str, int]:
        for axis in amounts:
            self._reader.check_axis(axis)
        return amounts


class RemoteLedger:
    """The same for threads: each method waits for its answer."""

    def __init__(self, ledger: AsyncRemoteLedger) -> None:
        self._ledger = ledger

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others; with none it is an account no more."""
        finish(self._ledger.set_limits(path, limits))

    def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        return finish(self._ledger.limits(path))

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return finish(self._ledger.accounts())

    def reserve(
        self,
        path: str,
        amounts: Mapping[str, int | None],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Hold amounts on every limit of the path and of all above it, or raise."""
        return finish(self._ledger.reserve(path, amounts, key, ttl))

    def charge(self, path: str, amounts: dict[str, int], key: str | None = None) -> Hold:
        """Record amounts as spent without asking."""
        return finish(self._ledger.charge(path, amounts, key))

    def commit(self, hold: Hold, actual: dict[str, int] | None = None) -> Hold:
        """Record what a call used in the place of its hold."""
        return finish(self._ledger.commit(hold, actual))

    def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""
        return finish(self._ledger.release(hold))

    def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for `ttl` seconds from now at least."""
        return finish(self._ledger.extend(hold, ttl))

    def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""
        return finish(self._ledger.hold(path, id))

    def expire(self) -> int:
        """Count as spent what holds stand for that are over; return how many there were."""
        return finish(self._ledger.expire())

    def balance(self, path: str) -> list[Balance]:
        """Return what stands against each limit of the path and of all above it."""
        return finish(self._ledger.balance(path))

    def history(self, path: str) -> list[Balance]:
        """Return what an account's own limits counted in windows that are over."""
        return finish(self._ledger.history(path))

    def close(self) -> None:
        """Give up the connection."""
        finish(self._ledger.close())


def _path(path: Any) -> str:
    return _checked(path) if isinstance(path, str) else check_path(path)


_checked = lru_cache(4096)(check_path)


def finish(coroutine: Coroutine[Any, Any, T] | Awaitable[T]) -> T:
    """Return what a coroutine gives that never has to wait."""
    steps: Any = coroutine.__await__()
    try:
        steps.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    steps.close()
    raise RuntimeError("a ledger that blocks awaited something")


def _new_id() -> str:
    return "#" + secrets.token_hex(8)


def _error(reply: Sequence[Any], path: str, arguments: dict[str, Any]) -> Exception:
    word, name = reply[0], arguments.get("id", "")
    if word == "refused":
        return refusal([(row[0], tuple(row[1:4]), *row[4:]) for row in reply[1]])
    if word == "settled":
        return HoldSettledError(name, reply[1])
    if word == "full":
        return LedgerFullError(reply[1])
    errors = {"no account": UnknownAccountError(path), "no hold": UnknownHoldError(path, name)}
    return errors.get(word) or KeyReusedError(path, name)
