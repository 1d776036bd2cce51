"""Draw blocks of a budget from a ledger, and keep them."""

from budget_core.errors import refuse
from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    LedgerError,
    UnknownHoldError,
)
from budget_core.ledger.limit import check_amounts
from budget_core.ledger.records import check_ttl

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.ledger.leased_block import Share
    from budget_core.ledger.outbox import Upstream
    from budget_core.ledger.records import Hold


class Blocks:
    """Draws for shares: a `block` at a time, held upstream for `ttl` seconds."""

    def __init__(self, upstream: "Upstream", block: "dict[str, int]", ttl: float) -> None:
        self.upstream = upstream
        self.block = check_amounts(block)
        if not block:
            refuse("block", "amounts of at least one axis", block)
        self._ttl = ttl
        self._ttl_ms = check_ttl(ttl)

    async def extend(self, share: "Share") -> None:
        """Keep what a share holds upstream for `ttl` from now; look when its window ends."""
        asked = self.upstream.now()
        hold = None
        for lease in share.batch.holds:
            try:
                hold = await self.upstream.ask("extend", lease, self._ttl)
            except (HoldSettledError, UnknownHoldError):
                share.batch.expires = 0
                return
        share.batch.expires = asked + self._ttl_ms
        share.extend_at = asked + self._ttl_ms // 2
        if hold is not None:
            balances = await self.upstream.ask("balance", share.path)
            share.see(balances, (hold.expires or 0) - self._ttl_ms, asked)

    async def draw(self, share: "Share", asked: "dict[str, int]") -> None:
        """Hold another block upstream, or what is left of one, for a claim that lacks something."""
        upstream = self.upstream
        await upstream.settle()
        first = not share.batch.holds
        balances = await upstream.ask("balance", share.path) if first else []
        now = upstream.now()
        hold = await self._lease(share, asked)
        if first:
            share.extend_at = now + self._ttl_ms // 2
            share.see(balances, (hold.expires or 0) - self._ttl_ms, now)
        share.add(hold, now + self._ttl_ms)
        share.batch.pass_up(upstream, share.path)
        try:
            await upstream.settle()
        except LedgerError:
            pass  # it stays in the queue, and the block is drawn

    async def _lease(self, share: "Share", asked: "dict[str, int]") -> "Hold":
        want, lack = share.wanted(asked, self.block)
        while True:
            key = self.upstream.key()
            try:
                lease: Hold = await self.upstream.ask("reserve", share.path, want, key, self._ttl)
                return lease
            except BudgetExceededError as error:
                axis, least = error.axis, lack.get(error.axis, 0)
                if error.left < least or not want.get(axis):
                    raise _refusal(error, asked.get(axis, 0), share.batch.free(axis))
                want = dict(want)
                want[axis] = max(least, error.left // 2)
                if not want[axis]:
                    del want[axis]
            except LedgerError as error:
                if getattr(error, "applied", False) is None:
                    self._forget(share.path, want, key)
                raise
            except Exception:
                raise
            except BaseException:  # cancelled, while the ledger may be holding it
                self._forget(share.path, want, key)
                raise

    def _forget(self, path: str, amounts: "dict[str, int]", key: str) -> None:
        self.upstream.redeem(path, amounts, key, self._ttl, dict.fromkeys(amounts, 0))


def _refusal(error: BudgetExceededError, asked: int, free: int) -> BudgetExceededError:
    """Return the error of whoever asked: what is leased and free was left to them as well."""
    held = max(0, error.held - max(0, free))
    place = (error.scope, error.axis, error.window)
    return BudgetExceededError(*place, asked, error.limit, error.spent, held, error.resets_at)
