"""How long the operators' page takes on 10,000 accounts, each with two limits and some usage.

The ledger is an SQLite file on this disk, behind `microbudget serve`. The first view reads all
balances, holds, events and the usage of a day; those within the next two seconds read nothing.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from benchmarks.figures import Figure
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.journal import HOUR_S, HourOfUsage
from budget_cpython.ledger.sqlite import SqliteLedger
from budget_cpython.serve.app import make_app
from budget_cpython.web.server import running

MOST_S = 2.0
_ACCOUNTS, _FEW = 10_000, 200
_HOURS = 3  # with usage
_DISK = Path(__file__).parent.parent / ".local"  # other places may be in memory
_TIMEOUT_S = 60
_USED = {"nano_usd": 10_000_000, "tokens": 1000, "calls": 1}


def measure(quick: bool = False) -> list[Figure]:
    """Return the seconds of the first view, of the next one, and the bytes of it."""
    count = _FEW if quick else _ACCOUNTS
    _DISK.mkdir(exist_ok=True)
    with (
        TemporaryDirectory(dir=_DISK) as folder,
        SqliteLedger(Path(folder) / "ledger.db") as ledger,
    ):
        _fill(ledger, count)
        with (
            running(make_app(ledger), "127.0.0.1:0") as url,
            httpx.Client(timeout=_TIMEOUT_S) as client,
        ):
            seconds, size = [], 0
            for _ in range(2):
                began = time.perf_counter()
                answer = client.get(f"{url}/microbudget/").raise_for_status()
                seconds.append(time.perf_counter() - began)
                size = len(answer.content)
    name = f"page of {count:,} accounts"
    return [
        Figure(f"{name}, first view", seconds[0], "s", MOST_S),
        Figure(f"{name}, view from what was read", seconds[1], "s", MOST_S),
        Figure(f"{name}, size", size, "B"),
    ]


def _fill(ledger: SqliteLedger, count: int) -> None:
    paths = [f"org/team-{number % 40}/agent-{number}" for number in range(count)]
    for path in paths:
        ledger.set_limits(path, [Limit("usd", 1, "day"), Limit("calls", 100, "hour")])
    now = int(time.time()) // HOUR_S * HOUR_S
    hours = [now - HOUR_S * number for number in range(_HOURS)]
    ledger.add_usage(
        [HourOfUsage(hour, path, "gpt-5", "", _USED) for path in paths for hour in hours]
    )
