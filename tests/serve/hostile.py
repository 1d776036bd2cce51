"""Good clients beside hostile ones: `python -m tests.serve.hostile`, or `make hostile`.

Good clients reserve, commit, release and charge, and repeat with its key what was not answered. In
turns they are alone, and beside hostile clients. At the end each account must have counted exactly
what was answered, and nothing may be held. The exit code is 1 if not.
"""

import argparse
import asyncio
import json
import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.web.keys import KeyFile
from tests.paths import ROOT
from tests.serve.attacks import BATCHED, CUT
from tests.serve.raw_client import Connection, GoneError, post
from tests.serve.support import PATIENCE, Service

ENGINES = ("memory", "sqlite")
ACCOUNTS = tuple(f"org-{number}/team" for number in range(4))
CLIENTS = 8
_CYCLE_S = 60.0
_RANDOM = random.SystemRandom()
_ALONE = 0.25  # of a cycle


@dataclass
class Found:
    """Seconds of the good clients' requests, what hostile clients tried, and what went wrong."""

    alone: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    tries: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def times_p99(self) -> float:
        """Return the 99th percentile beside hostile clients, as times of the one alone."""
        return p99(self.beside) / p99(self.alone)


def p99(times: list[float]) -> float:
    """Return the 99th percentile."""
    return quantiles(times, n=100)[98]


class Campaign:
    """A service with its clients."""

    def __init__(self, engine: str, folder: Path, kinds: Sequence[str] = ()) -> None:
        self._kinds = kinds
        self.found = Found()
        self._expected: Counter[str] = Counter()
        keys = KeyFile(folder / "keys.json")
        self._keys = {name: keys.add(name, name, ["reserve", "charge"]) for name in (CUT, BATCHED)}
        for account in ACCOUNTS:
            name = account.partition("/")[0]
            self._keys[account] = keys.add(name, name, ["reserve", "charge"])
        self._admin = keys.add("admin", "*", ["read", "limits"])
        self._options: list[Any] = ["--engine", "memory:", "--max-holds", 10_000_000]
        if engine == "sqlite":
            self._options = ["--engine", f"sqlite:{folder / 'ledger.db'}"]
        self._options += ["--keys", folder / "keys.json", "--listen", "127.0.0.1:0"]
        self._options += ["--idle-timeout", 5, "--connections", 100]

    def run(self, seconds: float) -> Found:
        """Serve for some seconds, and check what was counted."""
        with Service(*self._options) as service:
            with closing(HttpLedger(service.url, key=self._admin, timeout_s=PATIENCE)) as ledger:
                for account in (CUT, BATCHED, *ACCOUNTS):
                    ledger.set_limits(account, [Limit("tokens", 10**12, "run")])
                asyncio.run(self._cycles(service.port, seconds))
                for account in (CUT, BATCHED, *ACCOUNTS):
                    self._check(account, ledger.balance(account)[-1])
            code, complaints = service.end()
            if code or "Traceback" in complaints:
                self.found.wrong.append(f"the service ended with {code}: {complaints[:2000]}")
        return self.found

    def _check(self, account: str, row: Any) -> None:
        if (row.spent, row.held) != (self._expected[account], 0):
            text = f"{account}: {row.spent} used, {row.held} held, not {self._expected[account]}"
            self.found.wrong.append(text)

    async def _cycles(self, port: int, seconds: float) -> None:
        count = max(1, round(seconds / _CYCLE_S))
        for _ in range(count):
            await self._serve_good(port, seconds / count * _ALONE, self.found.alone)
            await self._beside(port, seconds / count * (1 - _ALONE))

    async def _beside(self, port: int, seconds: float) -> None:
        arguments = (str(port), str(seconds), self._keys[CUT], self._keys[BATCHED], *self._kinds)
        attacks = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.serve.attacks", *arguments,
            cwd=ROOT, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, _ = await asyncio.gather(
            attacks.communicate(), self._serve_good(port, seconds, self.found.beside)
        )
        if attacks.returncode:
            raise RuntimeError("the hostile clients failed")
        charged, tries, wrong = json.loads(said[0])
        self._expected.update(charged)
        self.found.tries.update(tries)
        self.found.wrong += wrong

    async def _serve_good(self, port: int, seconds: float, times: list[float]) -> None:
        end = time.monotonic() + seconds
        clients = [ACCOUNTS[number % len(ACCOUNTS)] for number in range(CLIENTS)]
        await asyncio.gather(*(self._good(port, account, end, times) for account in clients))

    async def _good(self, port: int, account: str, end: float, times: list[float]) -> None:
        one: Connection | None = None

        async def ask(operation: str, fields: dict[str, Any]) -> None:
            nonlocal one
            body = json.dumps(fields).encode()
            data = post(f"/v1/{operation}/{account}", self._keys[account], body)
            begun, status = time.perf_counter(), 503
            while status == 503:
                with suppress(GoneError):
                    one = one or await Connection(port).__aenter__()
                    status, _ = await one.ask(data)
                if status == 503:
                    one = None
            times.append(time.perf_counter() - begun)
            if status != 200:
                self.found.wrong.append(f"a good client's {operation} was answered {status}")

        while time.monotonic() < end:
            key, amounts = secrets.token_hex(8), {"tokens": 5}
            kind = _RANDOM.choice(["commit", "commit", "release", "charge"])
            if kind == "charge":
                await ask("charge", {"amounts": amounts, "key": key})
            else:
                await ask("reserve", {"amounts": amounts, "key": key})
                fields = {"id": key, "actual": {"tokens": 4}} if kind == "commit" else {"id": key}
                await ask(kind, fields)
            self._expected[account] += {"commit": 4, "release": 0, "charge": 5}[kind]
            await asyncio.sleep(0.01)
        if one is not None:
            one.reset()


def run(engine: str, seconds: float, kinds: Sequence[str] = ()) -> Found:
    """Run a campaign on an engine, with all kinds of hostile clients or some."""
    disk = ROOT / ".local"  # other places may be in memory
    disk.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        return Campaign(engine, Path(folder), kinds).run(seconds)


def main(arguments: list[str] | None = None) -> int:
    """Run campaigns, print what was found, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.serve.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="of each engine (default: 60)")
    parser.add_argument("--engine", choices=ENGINES, help="default: each in turn")
    parser.add_argument("kinds", nargs="*", help="hostile clients, as batch (default: all kinds)")
    options = parser.parse_args(arguments)
    failed = False
    for engine in [options.engine] if options.engine else ENGINES:
        found = run(engine, options.seconds, options.kinds)
        print(
            f"{engine}: {len(found.alone)} good requests alone, {len(found.beside)} beside ", end=""
        )
        print(f"{sum(found.tries.values())} attacks {dict(found.tries)}; 99th percentile ", end="")
        print(f"{p99(found.alone) * 1e3:.1f} and {p99(found.beside) * 1e3:.1f} ms, ", end="")
        print(
            f"{found.times_p99():.2f} times; {len(found.wrong)} wrong", *found.wrong[:20], sep="\n"
        )
        failed = failed or bool(found.wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
