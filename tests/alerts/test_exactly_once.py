"""Two processes that are killed while they send: each crossing is one alert, and none is lost."""

import json
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.alerts.delivery import BACKOFF_S, LEASE_S
from budget_cpython.ledger.opening import open_ledger
from budget_cpython.ops.alert_log import undelivered
from tests.alerts.support import NOON, SECRET, Receiver
from tests.ledger.dbos.support import postgres_url
from tests.ledger.patience import NO_HURRY
from tests.ledger.redis import server as redis
from tests.paths import ROOT

PROCESSES = 2
THREADS = 4  # of a process, which send at once


class Campaign:
    """Starts two processes round after round, and kills them amid some of their requests."""

    def __init__(self, url: str, crossings: int, kills: int) -> None:
        self.now = NOON
        self.rounds = 0
        self.killed = 0
        self._url = url
        self._crossings = crossings
        self._step = crossings // (kills + 1)
        self._most_rounds = 3 * (kills + 1)
        self._kills = kills
        self._refused: set[str] = set()
        self._running: list[subprocess.Popen[str]] = []
        self._lock = threading.Lock()
        self.receiver = Receiver(self._answer)

    def _answer(self, number: int) -> int:
        """Kill one process, the other or both before some answers; refuse some alerts once."""
        with self._lock:
            if number % self._step == 0 and number // self._step <= self._kills:
                which = (slice(0, 1), slice(1, 2), slice(0, 2))[number // self._step % 3]
                for process in self._running[which]:
                    process.kill()
                    self.killed += 1
            sent = self.receiver.ids[number - 1]
            if number % 29 == 3 and sent not in self._refused:
                self._refused.add(sent)
                return 503
        return 200

    def run(self) -> None:
        """Let accounts cross their limits, and look until there is nothing left to do."""
        with closing(self._open()) as ledger:
            for number in range(self._crossings):
                ledger.set_limits(f"org/a{number}", [Limit("calls", 100, "day")])
                ledger.charge(f"org/a{number}", {"calls": 80 + number % 20})
        done = False
        while not done:
            self.rounds += 1
            assert self.rounds <= self._most_rounds
            done = self._look()
            self.now += max(LEASE_S, *BACKOFF_S[:3])

    def _look(self) -> bool:
        """Have both processes look once; tell whether that left nothing to do."""
        said = {"url": self._url, "now": self.now, "to": self.receiver.url, "secret": SECRET}
        command = [sys.executable, "-W", "error", "-m", "tests.alerts.watcher", json.dumps(said)]
        with self._lock:
            self._running = [
                subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE)
                for _ in range(PROCESSES)
            ]
        results = [process.communicate(timeout=NO_HURRY)[0] for process in self._running]
        codes = {process.returncode for process in self._running}
        assert codes <= {0, -9}
        return codes == {0} and all(json.loads(result) == [0, 0, 0] for result in results)

    def check(self) -> None:
        """Assert that each crossing is one alert."""
        with closing(self._open()) as ledger:
            noted = all_events(ledger, "threshold")
            alerts = all_events(ledger, "alert")
        assert len(noted) == self._crossings
        assert undelivered(alerts) == []
        accounts = [body["data"]["account"] for body in self.receiver.bodies]
        alerts_sent = set(zip(self.receiver.ids, accounts, strict=True))
        assert len(alerts_sent) == len(set(self.receiver.ids)) == self._crossings
        assert set(accounts) == {event.account for event in noted}
        delivered = [one.details["of"] for one in alerts if one.details["state"] == "delivered"]
        assert Counter(delivered) == Counter(event.name for event in noted)
        attempts = [one for one in alerts if one.details["state"] == "sending"]
        assert len(self.receiver.ids) <= len(attempts)
        assert len(attempts) <= self._crossings + len(self._refused) + self.killed * THREADS
        self.receiver.check_signatures()

    def _open(self) -> Any:
        return open_ledger(self._url, clock=lambda: self.now, timeout=NO_HURRY)


def all_events(ledger: Any, kind: str) -> list[Any]:
    """Return the events of a kind, page by page."""
    found: list[Any] = []
    while page := ledger.events(kinds=[kind], after=found[-1].number if found else 0):
        found += page
    return found


@contextmanager
def campaign(url: str, crossings: int, kills: int) -> Iterator[Campaign]:
    one = Campaign(url, crossings, kills)
    with one.receiver:
        yield one


def test_two_processes_and_a_crash_between(tmp_path: Path) -> None:
    with campaign(f"sqlite:{tmp_path / 'ledger.db'}", 40, 3) as one:
        one.run()
        one.check()
        assert one.killed >= 2


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", "redis", "postgres"])
def test_a_thousand_crossings_are_a_thousand_alerts(engine: str, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'ledger.db'}"
    if engine == "redis":
        redis.empty_server()
        url = redis.server().url
    elif engine == "postgres":
        url = postgres_url("alerts")
    with campaign(url, 1000, 12) as one:
        one.run()
        one.check()
        assert one.killed >= 10
