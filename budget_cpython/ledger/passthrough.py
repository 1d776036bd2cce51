"""Pass on to a ledger what is not kept apart from it."""

from collections.abc import Sequence
from typing import cast

from budget_core.ledger.limit import Limit
from budget_core.ledger.records import Balance
from budget_core.ledger.upstream import Upstream


class Through:
    """The operations on accounts, done by the ledger upstream."""

    upstream: Upstream

    async def set_limits(self, path: str, limits: Sequence[Limit]) -> None:
        """Give an account these limits and no others; with none it is an account no more."""
        await self.upstream.ask("set_limits", path, limits)

    async def limits(self, path: str) -> list[Limit]:
        """Return an account's own limits."""
        return cast(list[Limit], await self.upstream.ask("limits", path))

    async def accounts(self) -> list[str]:
        """Return the paths of all accounts, sorted."""
        return cast(list[str], await self.upstream.ask("accounts"))

    async def history(self, path: str) -> list[Balance]:
        """Return what an account's own limits counted in windows that are over."""
        return cast(list[Balance], await self.upstream.ask("history", path))
