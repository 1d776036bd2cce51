"""Draw blocks of a budget from a ledger, and extend them."""

from budget_core.errors import refuse
from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    LedgerError,
    UnknownHoldError,
)
from budget_core.ledger.limit import check_amounts
from budget_core.ledger.outbox import new_key
from budget_core.ledger.records import Hold, check_ttl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.ledger.leased_block import PathLease
    from budget_core.ledger.upstream import Upstream


class LeaseRefill:
    """Draws a `block` at a time from a ledger, and holds it there for `ttl` seconds."""

    def __init__(self, upstream: "Upstream", block: "dict[str, int]", ttl: float) -> None:
        self.block = check_amounts(block)
        if not block:
            refuse("block", "amounts of at least one axis", block)
        self._upstream = upstream
        self._ttl = ttl
        self._ttl_ms = check_ttl(ttl)

    async def extend(self, lease: "PathLease") -> None:
        """Extend what is held upstream for a path to `ttl` from now; note when its window ends."""
        upstream = self._upstream
        asked = upstream.now()
        hold = None
        for held in lease.block.leases:
            try:
                hold = await upstream.ask("extend", held, self._ttl)
            except (HoldSettledError, UnknownHoldError):
                lease.block.expires = 0
                return
        lease.block.expires = asked + self._ttl_ms
        lease.extend_at = asked + self._ttl_ms // 2
        if hold is not None:
            balances = await upstream.ask("balance", lease.path)
            lease.note_windows(balances, (hold.expires or 0) - self._ttl_ms, asked)

    async def draw(self, lease: "PathLease", asked: "dict[str, int]") -> None:
        """Hold another block upstream, or what is left of one, for a claim that lacks something."""
        upstream = self._upstream
        await upstream.deliver()
        first = not lease.block.leases
        balances = await upstream.ask("balance", lease.path) if first else []
        now = upstream.now()
        hold = await self._reserve(lease, asked)
        if first:
            lease.extend_at = now + self._ttl_ms // 2
            lease.note_windows(balances, (hold.expires or 0) - self._ttl_ms, now)
        lease.add(hold, now + self._ttl_ms)
        lease.block.settle(upstream.outbox, lease.path)
        try:
            await upstream.deliver()
        except LedgerError:
            pass  # it stays in the outbox, and the block is drawn

    async def _reserve(self, lease: "PathLease", asked: "dict[str, int]") -> Hold:
        want, lack = lease.wanted(asked, self.block)
        while True:
            key = new_key()
            in_doubt = True
            try:
                held: Hold = await self._upstream.ask("reserve", lease.path, want, key, self._ttl)
                in_doubt = False
                return held
            except BudgetExceededError as error:
                in_doubt = False
                axis, least = error.axis, lack.get(error.axis, 0)
                if error.left < least or not want.get(axis):
                    raise _refusal(error, asked.get(axis, 0), lease.block.free(axis))
                want = dict(want)
                want[axis] = max(least, error.left // 2)
                if not want[axis]:
                    del want[axis]
            except LedgerError as error:
                in_doubt = getattr(error, "applied", False) is None
                raise
            except Exception:
                in_doubt = False
                raise
            finally:
                if in_doubt:  # cancelled, or the answer was lost: the ledger may be holding it
                    undo = Hold(lease.path, key, want)
                    self._upstream.outbox.redeem(undo, self._ttl, dict.fromkeys(want, 0))


def _refusal(error: BudgetExceededError, asked: int, free: int) -> BudgetExceededError:
    """Return the error for the caller, to whom what is leased and free was left as well."""
    held = max(0, error.held - max(0, free))
    place = (error.scope, error.axis, error.window)
    return BudgetExceededError(*place, asked, error.limit, error.spent, held, error.resets_at)
