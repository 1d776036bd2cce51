"""A thousand calls at once on a budget of a dollar spend at most that dollar."""

from pathlib import Path
from typing import Any

import pytest

from budget_cpython import Ledger
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger import many_calls
from tests.ledger.many_calls import ACCOUNT, BUDGET, CENT, MOST_CENTS, WAYS, Provider, on_ledger
from tests.ledger.patience import NO_HURRY


@pytest.fixture(params=["memory", "sqlite"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield Ledger()
        return
    ledger = SqliteLedger(tmp_path / "ledger.db", timeout=NO_HURRY)
    yield ledger
    ledger.close()


def recorded(ledger: Any) -> tuple[int, int]:
    """Return what the ledger has as spent and as held."""
    [row] = ledger.balance(ACCOUNT)
    return row.spent, row.held


@pytest.mark.parametrize("way", WAYS)
def test_where_answers_are_cut_no_more_is_spent_than_there_is(way: str, ledger: Any) -> None:
    provider = Provider(together=2)
    WAYS[way](on_ledger(ledger, provider))
    least = BUDGET // MOST_CENTS  # where each call that was let through costs a cent of five held
    assert least <= provider.nano_usd <= BUDGET
    assert provider.most_in_flight > 1
    assert recorded(ledger) == (provider.nano_usd, 0)


def test_a_budget_can_be_spent_to_its_last_token() -> None:
    provider = Provider()
    many_calls.at_once(on_ledger(Ledger(), provider), calls=60, tries=120)
    assert provider.nano_usd == BUDGET


@pytest.mark.parametrize("way", WAYS)
def test_a_model_that_ignores_its_bound_spends_more_by_that_of_the_calls_in_flight(
    way: str, ledger: Any
) -> None:
    provider = Provider(obedient=False)
    WAYS[way](on_ledger(ledger, provider, expected_cents=1))
    in_flight = BUDGET // CENT  # at most: each call holds a cent, and costs up to five
    assert provider.most_in_flight <= in_flight
    assert BUDGET <= provider.nano_usd <= BUDGET + in_flight * (MOST_CENTS - 1) * CENT
    assert recorded(ledger) == (provider.nano_usd, 0)
