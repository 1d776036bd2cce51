"""The steps for a ledger in Redis."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from redis import ConnectionError as RedisConnectionError
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.lease import LeasedLedger
from budget_cpython.ledger.redis import RedisLedger
from tests.ledger.patience import PATIENCE
from tests.ledger.redis.server import RedisServer, on_free_port
from tests.operating.support import Operator

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    data = tmp_path / "data"
    data.mkdir()
    with on_free_port(lambda port: RedisServer(data, *DURABLE, port=port)) as started:
        yield started
        again = Redis(port=started.port, retry=Retry(NoBackoff(), 0))  # which the page started
        with closing(again):
            try:
                again.shutdown(nosave=True)
            except RedisConnectionError:
                pass


@pytest.fixture
def url(server: RedisServer) -> str:
    return f"redis://127.0.0.1:{server.port}"


@pytest.fixture
def operator(tmp_path: Path, server: RedisServer, url: str) -> Operator:
    settings = tmp_path / "redis.conf"
    settings.write_text(
        f'port {server.port}\nbind 127.0.0.1\ndir "{server.folder}"\nsave ""\n'
        "appendonly yes\nappendfsync always\n"
    )
    data = {"DATA": str(server.folder), "CONF": str(settings)}
    return Operator(tmp_path, url, **data)


@pytest.fixture
def ledger(url: str) -> Iterator[RedisLedger]:
    with closing(RedisLedger(url, timeout=PATIENCE)) as ledger:
        ledger.set_limits("acme", [Limit("calls", 100, "month"), Limit("usd", "50.00", "month")])
        ledger.charge("acme", {"calls": 5})
        yield ledger


def calls(ledger: RedisLedger) -> int:
    return sum(row.spent for row in ledger.balance("acme") if row.axis == "calls")


def test_a_server_is_backed_up_and_restored(
    ledger: RedisLedger, operator: Operator, url: str
) -> None:
    assert "appendfsync always: a crash loses nothing" in operator.run("microbudget doctor")
    operator.follow("Back up Redis")
    ledger.charge("acme", {"calls": 50})
    assert "appendfsync always" in operator.follow("Restore Redis")
    with closing(RedisLedger(url, timeout=PATIENCE)) as other:
        assert calls(other) == 5
        other.charge("acme", {"calls": 1})
    operator.run(
        'redis-cli -u "$MICROBUDGET_ENGINE" SHUTDOWN NOSAVE; redis-server "$CONF" --daemonize yes'
    )
    operator.run('until redis-cli -u "$MICROBUDGET_ENGINE" PING | grep -q PONG; do :; done')
    with closing(RedisLedger(url, timeout=PATIENCE)) as other:
        assert calls(other) == 6  # the log is kept again


def test_a_server_that_is_gone_refuses_and_goes_on_when_it_is_back(
    ledger: RedisLedger, operator: Operator, server: RedisServer
) -> None:
    server.kill()
    with pytest.raises(LedgerUnavailableError):
        ledger.reserve("acme", {"calls": 1})
    assert "fails    engine" in operator.run("microbudget doctor", code=1)
    server.start()
    assert calls(ledger) == 5


def test_a_server_that_lost_everything_refuses_until_its_limits_are_back(
    ledger: RedisLedger, operator: Operator
) -> None:
    operator.follow("Back up Redis")
    operator.run('redis-cli -u "$MICROBUDGET_ENGINE" FLUSHALL')
    with pytest.raises(UnknownAccountError):
        ledger.reserve("acme", {"calls": 1})
    assert "recorded" in operator.follow("Redis lost everything")
    spent = {row.axis: row.spent for row in ledger.balance("acme")}
    assert spent == {"calls": 0, "nano_usd": 40_000_000_000}


def test_a_fleet_that_was_cut_off_goes_on_within_its_blocks(
    ledger: RedisLedger, operator: Operator, server: RedisServer, url: str
) -> None:
    leased = LeasedLedger(RedisLedger(url, timeout=PATIENCE), {"calls": 40})
    leased.commit(leased.reserve("acme/agent", {"calls": 1}), {"calls": 1})
    server.kill()
    for _ in range(3):
        leased.commit(leased.reserve("acme/agent", {"calls": 10}), {"calls": 10})
    with pytest.raises(LedgerUnavailableError):
        leased.reserve("acme/agent", {"calls": 60})
    server.start()
    (block,) = ledger.open_holds("acme")
    with pytest.raises(BudgetExceededError):
        ledger.reserve("acme/other", {"calls": 90})
    operator.variables["HOLD"] = block.id
    assert re.search(r"acme/agent +40 calls", operator.follow("A fleet with leases was cut off"))
    assert ledger.reserve("acme/other", {"calls": 90}, ttl=1).amounts == {"calls": 90}
    leased.close()
    assert calls(ledger) >= 36  # what was used counts, though the block had been given back
