"""What every ledger does, as type checkers and editors know it; no chip loads this."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from budget_core.ledger.hold import TTL, Balance, Hold, Process
from budget_core.ledger.limit import Limit

if TYPE_CHECKING:
    from budget_core.ledger.outbox import Entry, Outbox


class LedgerProtocol(Protocol):
    """A ledger that blocks; `budget_core.Ledger` says in detail what each method does.

    All but the one in memory may raise `LedgerUnavailableError`.
    """

    def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Replace an account's limits by these; an empty list removes the account."""

    def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""

    def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""

    def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts on every limit of the path and of the accounts above it, or raise.

        Where others hold what is missing, it waits up to `wait` seconds for its turn.
        """

    def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        """Record amounts as spent, without asking."""

    def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        """Settle a hold with what the call used."""

    def renew(
        self,
        hold: Hold,
        actual: dict[str, Any] | None,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Commit a hold and take the next one on its path, in one step, or raise."""

    def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""

    def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for at least `ttl` seconds from now."""

    def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""

    def expire(self) -> int:
        """Count expired holds as spent; return how many there were."""

    def balance(self, path: str) -> list[Balance]:
        """Return the balance of each limit of the path and of the accounts above it."""

    def history(self, path: str) -> list[Balance]:
        """Return the balances of an account's own limits in past windows."""

    def close(self) -> None:
        """Settle what can be settled, and close the ledger."""


class AsyncLedgerProtocol(Protocol):
    """A ledger whose methods are awaited; they are those of `LedgerProtocol`."""

    async def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Replace an account's limits by these; an empty list removes the account."""

    async def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""

    async def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""

    async def reserve(
        self,
        path: str,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
        wait: float | None = None,
    ) -> Hold:
        """Hold amounts on every limit of the path and of the accounts above it, or raise.

        Where others hold what is missing, it waits up to `wait` seconds for its turn.
        """

    async def charge(self, path: str, amounts: dict[str, Any], key: str | None = None) -> Hold:
        """Record amounts as spent, without asking."""

    async def commit(self, hold: Hold, actual: dict[str, Any] | None = None) -> Hold:
        """Settle a hold with what the call used."""

    async def renew(
        self,
        hold: Hold,
        actual: dict[str, Any] | None,
        amounts: Mapping[str, Any],
        key: str | None = None,
        ttl: float = TTL,
    ) -> Hold:
        """Commit a hold and take the next one on its path, in one step, or raise."""

    async def release(self, hold: Hold) -> Hold:
        """Give back a hold whose call was never made."""

    async def extend(self, hold: Hold, ttl: float = TTL) -> Hold:
        """Keep a hold live for at least `ttl` seconds from now."""

    async def hold(self, path: str, id: str) -> Hold:
        """Return a hold by its path and `id`."""

    async def expire(self) -> int:
        """Count expired holds as spent; return how many there were."""

    async def balance(self, path: str) -> list[Balance]:
        """Return the balance of each limit of the path and of the accounts above it."""

    async def history(self, path: str) -> list[Balance]:
        """Return the balances of an account's own limits in past windows."""

    async def close(self) -> None:
        """Settle what can be settled, and close the ledger."""


AnyLedger = LedgerProtocol | AsyncLedgerProtocol


class HoldAccount(Protocol):
    """What an `LlmHold` and a `CachedBalance` ask of the `LedgerAccount` that made them."""

    ledger: Any
    path: str
    max_tokens: int | None
    ttl: float
    wait_ms: int
    error: Exception | None
    in_flight: Any
    outbox: "Outbox"
    process: Process

    def share(self, free: int, model: str = "", prompt: int = 0) -> int:
        """Return the limit of an answer that has none, where so many tokens are free."""

    def learn(self, held: Any, tokens: int) -> None:
        """Note a call's usage, for the answers that are expected of the next ones."""

    def note_charge(self, held: Any) -> None:
        """Note the charge of a call, once it is known."""

    async def deliver(self, entry: "Entry") -> None:
        """Commit, release or charge now, or keep the entry."""

    def deliver_soon(self) -> None:
        """Deliver the outbox in a task of its own."""
