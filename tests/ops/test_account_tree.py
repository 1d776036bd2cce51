"""The tree of accounts."""

from budget_core.ledger.hold import Balance
from budget_cpython.ops.account_tree import AccountStatus, accounts_of, by_urgency, roots
from budget_cpython.ops.forecast import NEAR, OVER

NOW = 1_700_006_400 + 43_200


def row(path: str, spent: int, limit: int | None = 100, axis: str = "calls") -> Balance:
    return Balance(path, axis, "day", limit, spent, 0, NOW - 43_200, NOW + 43_200)


def shape(accounts: dict[str, AccountStatus]) -> list[tuple[int, str]]:
    return [(depth, one.name) for top in roots(accounts) for depth, one in top.walk()]


def test_an_account_lies_below_the_nearest_one_that_has_limits() -> None:
    paths = ["org/team/ann", "org", "org/team2", "org/team/ann/x/y", "other/team", "org-2"]
    found = accounts_of([row(path, 0) for path in paths], NOW)
    assert shape(found) == [
        (0, "org"),
        (1, "team/ann"),
        (2, "x/y"),
        (1, "team2"),
        (0, "org-2"),
        (0, "other/team"),
    ]


def test_an_account_has_the_state_of_the_limit_that_is_nearest_its_end() -> None:
    found = accounts_of([row("org", 85), row("org", 10, axis="tokens")], NOW)
    assert [one.balance.axis for one in found["org"].limits] == ["calls", "tokens"]
    assert found["org"].nearest.balance.axis == "calls"
    assert found["org"].state == NEAR


def test_accounts_nearest_their_end_come_first() -> None:
    rows = [row("a", 10), row("b", 70), row("c", 100), row("d", 5, None), row("e", 10)]
    order = [account.path for account in by_urgency(accounts_of(rows, NOW))]
    assert order == ["c", "b", "a", "e", "d"]


def test_a_rate_of_its_own_replaces_that_of_the_window() -> None:
    rates = {("org", "calls", "day"): 3600}
    found = accounts_of([row("org", 50), row("org", 50, axis="tokens")], NOW, rates)
    assert [one.rate for one in found["org"].limits] == [3600, 4]
    assert found["org"].limits[0].empty_at == NOW + 50


def test_nothing_has_no_accounts() -> None:
    assert accounts_of([], NOW) == {}
    assert roots({}) == []


def test_its_repr_names_the_account_and_its_state() -> None:
    assert repr(accounts_of([row("org", 100)], NOW)["org"]) == f"<AccountStatus 'org': {OVER}>"
