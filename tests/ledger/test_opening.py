"""Ledgers opened by their URLs."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from budget_cpython.ledger.http import AsyncHttpLedger, HttpLedger
from budget_cpython.ledger.lease import AsyncLeasedLedger, LeasedLedger
from budget_cpython.ledger.offline_cap import AsyncOfflineCapLedger, OfflineCapLedger
from budget_cpython.ledger.opening import open_async_ledger, open_ledger
from budget_cpython.ledger.sqlite import SqliteLedger

LIMITS = [Limit("calls", 10)]


def test_a_ledger_in_memory_is_the_own_one_and_takes_its_options() -> None:
    ledger = open_ledger("memory:", axes=["calls"])
    assert isinstance(ledger, Ledger)
    with pytest.raises(ValueError, match="axis"):
        ledger.set_limits("org", [Limit("tokens", 1)])


@pytest.mark.parametrize(
    "url", ["sqlite:budget.db", "sqlite://{}/budget.db", "sqlite:{}/budget.db"]
)
def test_a_file_is_named_from_here_or_from_the_root(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger(url.format(tmp_path))
    ledger.set_limits("org", LIMITS)
    assert SqliteLedger(tmp_path / "budget.db").limits("org") == LIMITS


@pytest.mark.parametrize(
    ("url", "module", "name"),
    [
        ("redis://:secret@127.0.0.1:1/0", "redis", "RedisLedger"),
        ("rediss://:secret@127.0.0.1:1/0", "redis", "RedisLedger"),
        ("redis+cluster://:secret@127.0.0.1:1,127.0.0.1:2", "redis", "RedisLedger"),
        ("rediss+cluster://:secret@127.0.0.1:1", "redis", "RedisLedger"),
        ("unix:///nowhere.sock", "redis", "RedisLedger"),
        ("postgres://me:secret@127.0.0.1:1/db", "postgres", "PostgresLedger"),
        ("postgresql://me:secret@127.0.0.1:1/db", "postgres", "PostgresLedger"),
        ("http://127.0.0.1:1", "http", "HttpLedger"),
    ],
)
def test_a_server_is_found_by_its_scheme_and_its_password_is_never_shown(
    url: str, module: str, name: str
) -> None:
    pytest.importorskip({"postgres": "psycopg", "redis": "redis"}.get(module, "json"))
    ledger = open_ledger(url, timeout_s=1) if module == "http" else open_ledger(url, timeout=1)
    assert type(ledger).__name__ == name
    with pytest.raises(LedgerUnavailableError) as caught:
        ledger.balance("org")
    assert "secret" not in f"{caught.value} {ledger!r} {caught.value.cause!r}"
    ledger.close()


def test_https_is_served_by_the_same_client() -> None:
    assert isinstance(open_ledger("https://127.0.0.1:1", key="k"), HttpLedger)
    assert isinstance(open_async_ledger("https://127.0.0.1:1", key="k"), AsyncHttpLedger)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "memory",
        "memory:x",
        "sqlite:",
        "sqlite:/",
        "sqlite::memory:",
        "sqlite://secret/budget.db",
        "sqlite:budget.db?mode=secret",
        "mysql://me:secret@host/db",
        "redis:secret",
        "REDIS",
        "/secret/budget.db",
        None,
        5,
    ],
)
def test_any_other_url_is_refused_without_showing_it(url: Any) -> None:
    for opens in (open_ledger, open_async_ledger):
        with pytest.raises(ValueError, match="URL is") as caught:
            opens(url)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"on_unavailable": "ignore"},
        {"on_unavailable": "allow"},
        {"on_unavailable": "allow", "cap": {}},
        {"on_unavailable": "allow", "cap": {"calls": 1}, "block": {"calls": 1}},
        {"on_unavailable": "local", "cap": {"calls": 1}},
        {"on_unavailable": "local", "block": {}},
        {"cap": {"calls": 1}},
        {"block": {"calls": 1}},
    ],
)
def test_an_unknown_or_incomplete_choice_is_refused(options: Any) -> None:
    for opens in (open_ledger, open_async_ledger):
        with pytest.raises(ValueError, match=r"on_unavailable|cap|block"):
            opens("memory:", **options)


def test_what_happens_in_an_outage_is_chosen_when_opening(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path}/budget.db"
    allowing = open_ledger(url, "allow", cap={"calls": 5})
    leasing = open_ledger(url, "local", block={"calls": 4})
    assert (type(allowing), type(leasing)) == (OfflineCapLedger, LeasedLedger)
    allowing.set_limits("org", LIMITS)
    leasing.commit(leasing.reserve("org", {"calls": 1}))
    assert allowing.balance("org")[0].held == 4
    leasing.close()
    assert allowing.balance("org")[0].held == 0
    assert isinstance(open_ledger(url, "local"), LeasedLedger)


def test_the_same_for_asyncio(tmp_path: Path) -> None:
    async def check() -> None:
        url = f"sqlite:{tmp_path}/budget.db"
        plain = open_async_ledger(url)
        allowing = open_async_ledger(url, "allow", cap={"calls": 5})
        leasing = open_async_ledger(url, "local", block={"calls": 4})
        assert (type(allowing), type(leasing)) == (AsyncOfflineCapLedger, AsyncLeasedLedger)
        await plain.set_limits("org", LIMITS)
        await leasing.commit(await leasing.reserve("org", {"calls": 1}))
        assert [one.held for one in await allowing.balance("org")] == [4]
        for one in (leasing, allowing, plain):
            await one.close()

    asyncio.run(check())
    memory = open_async_ledger("memory:")
    asyncio.run(memory.set_limits("org", LIMITS))
    assert asyncio.run(memory.accounts()) == ["org"]


def test_a_sqlite_ledger_is_opened_without_what_other_options_need(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from budget_cpython.ledger.opening import open_ledger\n"
        "open_ledger('sqlite:' + sys.argv[1]).close()\n"
        "names = ('lease', 'offline_cap', 'threaded')\n"
        "others = ['budget_cpython.ledger.' + name for name in names]\n"
        "print([name for name in [*others, 'asyncio'] if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "budget.db")]
    assert subprocess.check_output(command, text=True).strip() == "[]"
