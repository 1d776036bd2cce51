"""How many requests a second `microbudget serve` answers beside a bare handler of the same JSON.

The bare handler is starlette's on uvloop and httptools: it parses a request's body and answers with
a hold of the same form. wrk sends to both from this machine over 50 connections, in turns, and the
median of the rounds counts. What it sends are reservations and commits with keys of their own, on
1,000 accounts under 8 roots, or all on one account; both have limits on each of two levels.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, ratio
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.opening import open_ledger
from tests.ledger.postgres.server import PostgresServer
from tests.ledger.redis.server import RedisServer
from tests.serve.support import Service

CONNECTIONS = 50
BATCH = 100
ROOTS, TEAMS = 8, 40
LIMITS = [Limit("tokens", 10**15, "day"), Limit("calls", 10**15, "hour")]
MOST_TIMES = {"memory": 1 / 0.8, "Redis": 1 / 0.55, "Postgres": 1 / 0.45, "SQLite": 1 / 0.55}
MOST_P99_TIMES = 2.5
MOST_OF_BATCHES = 1 / 15
_OF_BATCHES = (
    "15 times was wanted of batches when a single request cost three times as much. In a batch an "
    "operation costs the ledger's own work and the checks of its fields, some 20 µs; wrk has to "
    "write it too."
)
_SHARED = (
    "wrk, the service and its engine share two cores here: the rate falls with all that they take "
    "together, and with what else runs there. The processor time is the service's own."
)
_ROOT = Path(__file__).parent.parent
_DISK = _ROOT / ".local"  # other places may be in memory
_MOST_FAILED = 0.001  # of the requests: a commit may overtake its reservation
_SCRIPT = Path(__file__).with_name("serve.lua")
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")
_LATENCY = re.compile(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s)\s*$", re.MULTILINE)
_FAILED = re.compile(r"Non-2xx or 3xx responses: (\d+)|Socket errors: (.*)")
_TOTAL = re.compile(r"(\d+) requests in")
_IN_MS = {"us": 0.001, "ms": 1.0, "s": 1000.0}


@dataclass(frozen=True)
class Load:
    """What wrk found: requests a second, and the milliseconds of the median and of 99 in 100.

    `cpu_us` is the processor time of the server for each request.
    """

    rate: float
    p50_ms: float
    p99_ms: float
    cpu_us: float


@dataclass
class Side:
    """A server that is measured, and what wrk sends to it."""

    url: str
    pid: int
    accounts: str = "spread"
    each: int = 1
    loads: list[Load] = field(default_factory=list)

    def rate(self) -> float:
        """Return the requests a second."""
        return median(load.rate for load in self.loads)

    def p99_ms(self) -> float:
        """Return the 99th percentile."""
        return median(load.p99_ms for load in self.loads)

    def p50_ms(self) -> float:
        """Return the median of the times of requests."""
        return median(load.p50_ms for load in self.loads)

    def cpu_us(self) -> float:
        """Return the processor time of a request, of the round in which it was least disturbed."""
        return min(load.cpu_us for load in self.loads)


def measure(quick: bool = False) -> list[Figure]:
    """Return the rates, 99th percentiles and ratios for each engine; `RuntimeError` without wrk."""
    wrk = _wrk()
    seconds, rounds = (1, 1) if quick else (5, 5)
    figures: list[Figure] = []
    _DISK.mkdir(exist_ok=True)
    engines: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
        "memory": _memory,
        "Redis": _redis,
        "Postgres": _postgres,
        "SQLite": _sqlite,
    }
    for name, engine in engines.items():
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_DISK)))
            bare = Side(*stack.enter_context(_bare()))
            url = stack.enter_context(engine(folder))
            service = stack.enter_context(Service("--engine", url, "--listen", "127.0.0.1:0"))
            _set_limits(service.url)
            sides = [bare, Side(service.url, service.pid), Side(service.url, service.pid, "hot")]
            if name == "memory":
                sides.append(Side(service.url, service.pid, each=BATCH))
            for number in range(rounds):
                for side in sides:
                    side.loads.append(_load(wrk, side, seconds, number))
            figures += _figures(name, bare, sides[1], "")
            figures += _figures(name, bare, sides[2], ", one account")
            if name == "memory":
                figures += _of_batches(sides[1], sides[3])
    return figures


def _figures(name: str, bare: Side, ours: Side, where: str) -> list[Figure]:
    start = f"serve on {name}{where}"
    most = None if where else MOST_TIMES[name]
    note = "" if name == "memory" else _SHARED
    return [
        Figure(f"{start}: requests a second", round(ours.rate()), ""),
        Figure(f"{start}: median", ours.p50_ms(), "ms"),
        Figure(f"{start}: 99th percentile", ours.p99_ms(), "ms"),
        ratio(f"{start}: the bare handler's rate to ours", bare.rate(), ours.rate(), most, note),
        ratio(f"{start}: 99th percentile, to the bare one's", ours.p99_ms(), bare.p99_ms(),
              None if where else MOST_P99_TIMES),
        Figure(f"{start}: processor time of a request", ours.cpu_us(), "µs"),
        ratio(f"{start}: processor time of a request, to the bare one's",
              ours.cpu_us(), bare.cpu_us()),
    ]  # fmt: skip


def _of_batches(single: Side, batches: Side) -> list[Figure]:
    rate = batches.rate() * BATCH
    name = f"serve on memory, batches of {BATCH}"
    return [
        Figure(f"{name}: operations a second", round(rate), ""),
        ratio(
            f"{name}: the rate of single ones to it",
            single.rate(),
            rate,
            MOST_OF_BATCHES,
            _OF_BATCHES,
        ),
    ]


def _load(wrk: str, side: Side, seconds: int, number: int) -> Load:
    """Have wrk send for some seconds, and return what it found."""
    command = [wrk, "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", "-s", str(_SCRIPT)]
    command += [side.url, "--", side.accounts, str(side.each), str(number * 7919)]
    before = _cpu_s(side.pid)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603
    spent = _cpu_s(side.pid) - before
    failed = _FAILED.search(said)
    (total,) = _TOTAL.findall(said)
    if failed is not None and (failed[2] or int(failed[1]) > _MOST_FAILED * int(total)):
        raise RuntimeError(f"{failed[0]} of {total}")
    (rate,) = _RATE.findall(said)
    times = {share: float(time) * _IN_MS[unit] for share, time, unit in _LATENCY.findall(said)}
    return Load(float(rate), times["50"], times["99"], round(spent / int(total) * 1e6, 1))


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _set_limits(url: str) -> None:
    ledger = open_ledger(url)
    for root in range(ROOTS):
        ledger.set_limits(f"org-{root}", LIMITS)
    for number in range(TEAMS):
        ledger.set_limits(f"org-{number % ROOTS}/team-{number}", LIMITS)
    ledger.close()


@contextmanager
def _memory(folder: Path) -> Iterator[str]:
    yield "memory:"


@contextmanager
def _sqlite(folder: Path) -> Iterator[str]:
    yield f"sqlite:{folder}/ledger.db"


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    with RedisServer(folder) as server:
        yield server.url


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    server = PostgresServer(fsync=True)
    try:
        yield f"postgresql://postgres@/postgres?host={server.folder}"
    finally:
        server.stop()


@contextmanager
def _bare() -> Iterator[tuple[str, int]]:
    command = [sys.executable, "-m", "benchmarks.serve_bare"]
    with subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process.pid
        finally:
            process.kill()


def _wrk() -> str:
    done = subprocess.run([_ROOT / "scripts/wrk.sh"], stdout=subprocess.PIPE, text=True)  # noqa: S603
    if done.returncode:
        raise RuntimeError("wrk cannot be had here")
    return done.stdout.strip()
