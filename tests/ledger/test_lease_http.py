"""Blocks leased from a service over HTTP, which is killed and comes back."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.http_client import HttpLedger
from budget_core.ledger.lease import LeasedLedger
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.opening import open_ledger
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.patience import NO_HURRY
from tests.ports import kept_port
from tests.serve.support import Service

PATH = "org/device"
BLOCK = {"calls": 10}


@pytest.fixture
def port() -> Iterator[int]:
    """A port that nobody else can take while the service is gone."""
    with kept_port() as port:
        yield port


def test_devices_go_on_within_their_blocks_while_the_service_is_gone(
    tmp_path: Path, port: int
) -> None:
    file = tmp_path / "ledger.db"
    stored = SqliteLedger(file)
    stored.set_limits("org", [Limit("calls", 100)])
    command = ("--engine", f"sqlite:{file}", "--listen", f"127.0.0.1:{port}")
    chip = LeasedLedger(HttpLedger("http://127.0.0.1:1"), BLOCK)

    async def claim(count: int) -> None:
        for _ in range(count):
            await chip.commit(await chip.reserve(PATH, {"calls": 1}))

    with Service(*command) as service:
        chip = LeasedLedger(HttpLedger(service.url, timeout_s=NO_HURRY), BLOCK)
        server = open_ledger(service.url, "local", block=BLOCK, timeout_s=NO_HURRY)
        asyncio.run(claim(3))
        server.commit(server.reserve(PATH, {"calls": 4}))
        service.kill()
        service.communicate()
    (found,) = stored.balance("org")
    assert (found.spent, found.held) == (0, 20)
    asyncio.run(claim(7))
    in_flight = server.reserve(PATH, {"calls": 5})
    with pytest.raises(LedgerUnavailableError):
        asyncio.run(claim(1))
    with pytest.raises(LedgerUnavailableError):
        server.reserve(PATH, {"calls": 2})
    server.commit(in_flight, {"calls": 8})
    with Service(*command) as service:
        asyncio.run(chip.close())
        with closing(server):
            pass
        service.end()
    (found,) = stored.balance("org")
    assert (found.spent, found.held) == (22, 0)
