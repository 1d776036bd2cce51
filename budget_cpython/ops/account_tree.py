"""The tree of accounts, with the state of each of their limits."""

from collections.abc import Iterable, Iterator, Mapping

from budget_core.ledger.hold import Balance
from budget_cpython.ops.forecast import LimitStatus, limit_status

Place = tuple[str, str, str]  # an account, an axis and a window


class AccountStatus:
    """An account: its `path`, its `limits` by axis and window, and the accounts `below` it.

    An account lies below the nearest one above it: `org/team/ann` below `org`, if `org/team` has
    no limits.
    """

    __slots__ = ("below", "limits", "parent", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.limits: list[LimitStatus] = []  # at least one, once they are known
        self.parent: AccountStatus | None = None
        self.below: list[AccountStatus] = []

    @property
    def name(self) -> str:
        """Its path below its parent."""
        return self.path if self.parent is None else self.path[len(self.parent.path) + 1 :]

    @property
    def nearest(self) -> LimitStatus:
        """The limit that is nearest its end."""
        return max(self.limits, key=lambda limit: limit.urgency)

    @property
    def state(self) -> str:
        """The state of the limit that is nearest its end."""
        return self.nearest.state

    @property
    def urgency(self) -> tuple[int, float]:
        """The key that sorts accounts; the one nearest its end has the greatest."""
        return self.nearest.urgency

    def walk(self, depth: int = 0) -> "Iterator[tuple[int, AccountStatus]]":
        """Yield this account and all below it, each after its parent, with their depths."""
        yield depth, self
        for account in self.below:
            yield from account.walk(depth + 1)

    def __repr__(self) -> str:
        return f"<AccountStatus {self.path!r}: {self.state}>"


def accounts_of(
    balances: Iterable[Balance], now: int, rates: Mapping[Place, int] | None = None
) -> dict[str, AccountStatus]:
    """Return the accounts of balances, as `Journal.balances` returns them, by path.

    `now` is in Unix seconds. `rates` are what an hour spends of limits, where that is known better
    than from their windows. Those without a `parent` are the roots of the tree.
    """
    found: dict[str, AccountStatus] = {}
    for row in sorted(balances, key=lambda row: (row.account, row.axis, row.window)):
        rate = rates.get((row.account, row.axis, row.window)) if rates else None
        account = found.get(row.account)
        if account is None:
            account = found[row.account] = AccountStatus(row.account)
        account.limits.append(limit_status(row, now, rate))
    for path, account in found.items():
        above = path.rpartition("/")[0]
        while above and above not in found:
            above = above.rpartition("/")[0]
        if above:
            account.parent = found[above]
            found[above].below.append(account)
    return found


def roots(accounts: Mapping[str, AccountStatus]) -> list[AccountStatus]:
    """Return the accounts that have none above them, by path."""
    return [account for account in accounts.values() if account.parent is None]


def by_urgency(accounts: Mapping[str, AccountStatus]) -> list[AccountStatus]:
    """Return accounts, those nearest their end first, else by path."""
    return sorted(accounts.values(), key=lambda account: account.urgency, reverse=True)
