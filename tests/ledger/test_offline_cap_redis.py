"""A Redis that hangs: what was granted and leased meanwhile counts once, whatever was applied."""

from contextlib import closing

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.hold import Balance
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.lease import LeasedLedger
from budget_cpython.ledger.offline_cap import OfflineCapLedger
from budget_cpython.ledger.redis import RedisLedger
from tests.ledger.patience import PATIENCE
from tests.ledger.redis.server import RedisServer, empty_server, hurry, server

PATH = "org/agent"
HASTE = 0.1  # seconds


def fresh() -> RedisServer:
    running = empty_server()
    with closing(RedisLedger(running.url, timeout=PATIENCE)) as ledger:
        ledger.set_limits("org", [Limit("calls", 100)])
    return running


def stands() -> tuple[int, int]:
    with closing(RedisLedger(server().url, timeout=PATIENCE)) as ledger:
        (found,) = ledger.balance("org")
    assert isinstance(found, Balance)
    return found.spent, found.held


def test_what_is_granted_while_the_server_hangs_counts_once() -> None:
    running = fresh()
    client = running.client()
    upstream = RedisLedger(client)
    ledger = OfflineCapLedger(upstream, {"calls": 10})
    before = ledger.reserve(PATH, {"calls": 7})
    running.pause()
    hurry(client, HASTE)
    try:
        granted = ledger.reserve(PATH, {"calls": 4})
        ledger.commit(before, {"calls": 5})
        ledger.commit(granted, {"calls": 3})
        ledger.release(ledger.reserve(PATH, {"calls": 6}))
        ledger.charge(PATH, {"calls": 2})
        assert ledger.unsettled > 0
    finally:
        running.go_on()
    hurry(client, PATIENCE)
    ledger.close()
    client.close()
    assert stands() == (10, 0)


def test_a_block_goes_on_while_the_server_hangs_and_nothing_stays_held() -> None:
    running = fresh()
    client = running.client()
    upstream = RedisLedger(client)
    leased = LeasedLedger(upstream, {"calls": 10})
    leased.commit(leased.reserve(PATH, {"calls": 1}))
    running.pause()
    hurry(client, HASTE)
    refused = 0
    try:
        for _ in range(12):
            try:
                leased.commit(leased.reserve(PATH, {"calls": 1}))
            except LedgerUnavailableError:
                refused += 1
    finally:
        running.go_on()
    assert refused == 3
    hurry(client, PATIENCE)
    leased.close()
    client.close()
    assert stands() == (10, 0)
