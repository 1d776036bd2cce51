"""The steps for the keys of a service."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budget_core.ledger.errors import LedgerError
from budget_cpython import SqliteLedger, parse_limits
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.web.keys import KeyFile
from tests.ledger.patience import NO_HURRY
from tests.operating.support import Operator
from tests.serve.support import Service

RIGHTS = ["reserve", "charge", "read"]


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path, "sqlite:budget.db")


@pytest.fixture
def key(operator: Operator) -> str:
    """The key `pico`, for an account of the ledger."""
    with SqliteLedger(operator.folder / "budget.db") as ledger:
        ledger.set_limits("org/lab/pico", parse_limits("100 calls/month"))
    return KeyFile(operator.folder / "keys.json").add("pico", "org/lab/pico", RIGHTS)


@pytest.fixture
def service(operator: Operator, key: str) -> Iterator[Service]:
    engine, keys = f"sqlite:{operator.folder / 'budget.db'}", operator.folder / "keys.json"
    options = ("--engine", engine, "--keys", keys, "--listen", "127.0.0.1:0")
    with Service(*options) as started:
        yield started


def ask(service: Service, key: str) -> None:
    """Make a call with a key."""
    with closing(HttpLedger(service.url, key, timeout_s=NO_HURRY)) as ledger:
        ledger.commit(ledger.reserve("org/lab/pico", {"calls": 1}), {"calls": 1})


def test_a_key_is_rotated_and_no_call_is_lost(
    service: Service, key: str, operator: Operator
) -> None:
    ask(service, key)
    new = operator.follow("Rotate a key").split()[-1]
    ask(service, key)
    ask(service, new)
    listed = operator.follow("Rotate a key", 1)
    assert [line.split()[0] for line in listed.splitlines()] == ["pico-2"]
    ask(service, new)
    with pytest.raises(LedgerError):
        ask(service, key)


def test_a_leaked_key_is_revoked_and_what_it_did_is_seen(
    service: Service, key: str, operator: Operator
) -> None:
    operator.run("microbudget limits export --output limits-backup.toml")
    with closing(HttpLedger(service.url, key, timeout_s=NO_HURRY)) as ledger:
        ledger.reserve("org/lab/pico", {"calls": 60}, ttl=3600)
    operator.run("microbudget limits set org/lab/pico '900 calls/month' --yes")
    said = operator.follow("A leaked key")
    assert "60 calls" in said
    assert "+ 100 calls/month" in said
    with pytest.raises(LedgerError):
        ask(service, key)


def test_keys_are_backed_up_with_their_mode(key: str, operator: Operator) -> None:
    operator.follow("Back up a service")
    copy = operator.folder / "keys-backup.json"
    assert [one.name for one in KeyFile(copy).keys().values()] == ["pico"]
    assert copy.stat().st_mode & 0o777 == 0o600
