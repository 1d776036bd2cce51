"""Let a thousand devices share one budget over outages, power cuts and clocks that are not set.

They lease from one service over HTTP for two simulated days. Some are MicroPython processes, the
others run the core under CPython. In the first outage, of an hour, the service is killed; in the
second, of a day, the network is away, and the day of the budget ends. Before each a storm cuts the
power of many devices in the midst of a turn. The exit code is 1 if more was used than the limit or
than the service counted, if more than 1 % of a day's budget is stranded in the end, or if a device
did not come back by itself.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.web.keys import RIGHTS, KeyFile
from tests.fleet.device import DAY_MS, MILLION
from tests.fleet.service import set_clock
from tests.paths import ROOT
from tests.ports import kept_port

START = 1_772_323_200  # 2026-03-01 00:00 UTC
HOUR_MS = 3_600_000
HOURS = 48
KILLED = (1, 2)  # hours in which there is no service
AWAY = (8, 32)  # hours in which there is no network
BACK_H = 5.5  # after an outage, within which each device is back
SHARE = 5_000  # tokens of a day for each device, less than they would use
STRANDED = 0.01
PATIENCE = 600


class BrokenPromiseError(Exception):
    """What became of the fleet is not what was promised."""


@dataclass
class Sample:
    """The fleet at an hour: what was used, and what the service counts, of the day that it is."""

    hour: float
    used: int
    spent: int
    held: int


@dataclass
class Outcome:
    """What became of a fleet; tokens by day."""

    devices: int
    limit: int
    used: list[int] = field(default_factory=list)
    spent: list[int] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    late: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def stranded(self) -> list[float]:
        """Return the share of each day's budget that counts as spent and was not used."""
        return [
            (spent - used) / self.limit for spent, used in zip(self.spent, self.used, strict=True)
        ]

    def check(self, stranded: float = STRANDED) -> None:
        """Raise `BrokenPromiseError`."""
        wrong = self.late + self.failures[:5]
        for day, (used, spent) in enumerate(zip(self.used, self.spent, strict=True), 1):
            if not used <= spent <= self.limit:
                wrong.append(f"day {day}: {used} used, {spent} counted, limit {self.limit}")
        if max(self.stranded) > stranded:
            wrong.append(f"stranded: {self.stranded}")
        if wrong:
            raise BrokenPromiseError("; ".join(wrong))


class Service:
    """The service, which can be killed and started again where it was."""

    def __init__(self, folder: Path, port: int) -> None:
        self._command = [sys.executable, "-m", "tests.fleet.service", str(folder), str(port)]
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self._process = _start(self._command, os.environ)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def kill(self) -> None:
        """Kill it with SIGKILL, if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.communicate()
            self._process = None


class Worker:
    """A process with devices, on one of the runtimes."""

    def __init__(self, command: list[str], environment: Any) -> None:
        self._process = _start(command, environment)

    def say(self, line: list[Any]) -> None:
        """Tell all its devices what time it is."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(line) + "\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return what became of its devices so far."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.startswith("{"):
            raise BrokenPromiseError(f"a process ended: {line}{self._process.stdout.read()}")
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        """Kill it."""
        self._process.kill()
        self._process.communicate()


def _start(command: list[str], environment: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # each outage is a line of the log
        text=True,
    )


class Campaign:
    """Two days of a fleet; `progress` is called with a line now and then."""

    def __init__(self, options: argparse.Namespace, progress: Any = None) -> None:
        self._options = options
        self._progress = progress or (lambda line: None)
        self._step_ms = options.step * 60_000
        self.outcome = Outcome(options.devices, options.devices * SHARE)

    def run(self) -> Outcome:
        """Do it all, and return what became of the fleet."""
        with TemporaryDirectory(prefix="fleet-") as name, kept_port() as port:
            folder = Path(name)
            keys = KeyFile(folder / "keys.json")
            operator = keys.add("operator", "*", RIGHTS)
            key = keys.add("boards", "boards", ["reserve", "charge", "read"])
            set_clock(folder, START)
            service = Service(folder, port)
            service.start()
            try:
                with (
                    closing(HttpLedger(service.url, operator, PATIENCE)) as ledger,
                    self._workers(service.url, key) as workers,
                ):
                    ledger.set_limits("boards", [Limit("tokens", self.outcome.limit, "day")])
                    self._days(folder, service, ledger, workers)
                    self._end(folder, ledger, workers)
            finally:
                service.kill()
        return self.outcome

    @contextmanager
    def _workers(self, url: str, key: str) -> Iterator[list[Worker]]:
        options = self._options
        micropython = os.environ.get("MICROPYTHON", "micropython")
        plain = [sys.executable, "-W", "error"]
        small = [micropython, "-X", "heapsize=512k"]
        path = {**os.environ, "MICROPYPATH": f"{ROOT}:.frozen"}
        rest = options.devices - options.micropython
        shares = [rest // options.processes] * options.processes
        shares[0] += rest - sum(shares)
        workers: list[Worker] = []
        first = 0
        try:
            for count, runtime in [(one, plain) for one in shares if one] + [(1, small)] * (
                options.micropython
            ):
                numbers = [options.block, first, count, options.seed]
                command = [*runtime, "-m", "tests.fleet.device", url, key, *map(str, numbers)]
                workers.append(Worker(command, path))
                first += count
            yield workers
        finally:
            for worker in workers:
                worker.end()

    def _days(
        self, folder: Path, service: Service, ledger: HttpLedger, workers: list[Worker]
    ) -> None:
        serves, began = True, time.monotonic()
        for now in range(0, HOURS * HOUR_MS, self._step_ms):
            hour = now / HOUR_MS
            killed, away = (KILLED[0] <= hour < KILLED[1]), (AWAY[0] <= hour < AWAY[1])
            set_clock(folder, START + now // 1000)
            if killed and serves:
                service.kill()
            if serves is killed and not killed:
                service.start()
            serves = not killed
            storm = any(now + self._step_ms == start * HOUR_MS for start, _ in (KILLED, AWAY))
            told = self._tell(
                workers, [now, not away, int(self._options.storm * MILLION) if storm else 0]
            )
            if serves:
                self._sample(hour, ledger, told)
            for _, end in (KILLED, AWAY):
                if now == (end + BACK_H) * HOUR_MS and told["reached"] < end * HOUR_MS:
                    self.outcome.late.append(f"a device was not back {BACK_H} h after hour {end}")
            if now % HOUR_MS == 0:
                last = self.outcome.samples[-1]
                self._progress(
                    f"{hour:4.0f} h  {told['calls']:,} calls, {told['cuts']:,} power cuts; today "
                    f"{last.used:,} used, {last.spent:,} counted, {last.held:,} held"
                    f"  ({time.monotonic() - began:.0f} s)"
                )

    def _tell(self, workers: list[Worker], line: list[Any]) -> dict[str, Any]:
        """Have all processes do a step at once; return what became of all devices so far."""
        for worker in workers:
            worker.say(line)
        answers = [worker.answer() for worker in workers]
        total: dict[str, Any] = {"used": {}, "reached": min(one["reached"] for one in answers)}
        for name in ("calls", "refused", "unreachable", "cuts", "resets"):
            total[name] = sum(one[name] for one in answers)
        for one in answers:
            for day, used in one["used"].items():
                total["used"][day] = total["used"].get(day, 0) + used
        self.outcome.failures = [text for one in answers for text in one["failures"]]
        return total

    def _sample(self, hour: float, ledger: HttpLedger, told: dict[str, Any]) -> None:
        ledger.expire()
        (row,) = ledger.balance("boards")
        day = str(int(hour * HOUR_MS) // DAY_MS)
        used = told["used"].get(day, 0)
        self.outcome.samples.append(Sample(hour, used, row.spent, row.held))

    def _end(self, folder: Path, ledger: HttpLedger, workers: list[Worker]) -> None:
        """End all devices in order, let leases of lost ones expire, and count."""
        now = HOURS * HOUR_MS - 1
        self._tell(workers, [now, True, 0])
        told = self._tell(workers, [])
        set_clock(folder, START + HOURS * 3600 + 2 * 3600)
        ledger.expire()
        counted = {(row.begins_at - START) // 86_400: row for row in ledger.history("boards")}
        for day in range(HOURS // 24):
            self.outcome.used.append(told["used"].get(str(day), 0))
            self.outcome.spent.append(counted[day].spent)
        del told["used"], told["reached"]
        self.outcome.totals = told


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = argparse.ArgumentParser(
        prog="python -m tests.fleet.campaign",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    option = found.add_argument
    option("--devices", type=int, default=1000, help="how many")
    option(
        "--micropython", type=int, default=24, help="as many of them have a process of their own"
    )
    option("--processes", type=int, default=3, help="of CPython, for the others")
    option("--block", type=int, default=1000, help="tokens of a lease")
    option("--storm", type=float, default=0.05, help="share of the devices that a storm strikes")
    option("--step", type=int, default=10, help="minutes of a step")
    option("--seed", type=int, default=0, help="of what happens when")
    option("--data", type=Path, metavar="FILE", help="write the numbers as JSON")
    option("--plot", type=Path, metavar="FILE", help="write a plot as SVG")
    return found


def main() -> int:
    """Run from the command line; return the exit code."""
    options = parser().parse_args()
    began = time.monotonic()
    try:
        outcome = Campaign(options, lambda line: print(line, flush=True)).run()
        if options.data is not None:
            options.data.write_text(json.dumps(asdict(outcome)))
        if options.plot is not None:
            from tests.fleet.plot import draw

            options.plot.write_text(draw(outcome))
        outcome.check()
    except BrokenPromiseError as error:
        print(f"FAILED with --seed {options.seed}: {error}")
        return 1
    numbers = ", ".join(f"{count:,} {name}" for name, count in outcome.totals.items())
    stranded = " and ".join(f"{share:.2%}" for share in outcome.stranded)
    print(
        f"{options.devices:,} devices in {time.monotonic() - began:.0f} s: {numbers}; 0 over the "
        f"limit, {stranded} of the two days' budgets stranded, all devices came back"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
