"""What a ledger takes of a chip: leases over HTTP, beside an agent, on MicroPython.

A real service holds the budget, and its log counts the requests. The agent is that of
`benchmarks.agent`; after its run it gives back what it leased.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import agent
from benchmarks.figures import Figure
from benchmarks.mpy import ROOT, run_micropython
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.http import HttpLedger
from scripted_model import ScriptedEndpoint

MAX_LEDGER = 24 * 1024
CALLS = 100
_ACCOUNT = "boards"
# The agent's client has made a call before, so that what HTTP needs is there already.
_PROGRAM = """
import asyncio, gc, sys
{place}
from budget_core import ChatClient, Operative
client = ChatClient({url!r}, "scripted")
operative = Operative(client)
asyncio.run(client.chat([{{"role": "user", "content": "Hello!"}}]))
async def use(ledger, calls):
    for _ in range(calls):
        hold = await ledger.reserve("boards/pico", {{"tokens": 900, "calls": 1}})
        await ledger.commit(hold, {{"tokens": 400}})
gc.collect()
start = gc.mem_alloc()
from budget_core.ledger.http_client import HttpLedger
from budget_core.ledger.lease import LeasedLedger
ledger = LeasedLedger(HttpLedger({service!r}), {{"tokens": 20_000, "calls": 20}})
asyncio.run(use(ledger, 3))
gc.collect()
print(gc.mem_alloc() - start)
asyncio.run(use(ledger, {calls} - 3))
"""


def measure_ledger(micropython: str, folder: Path, bits: str) -> list[Figure]:
    """Return what leases take of a heap beside the agent, and the requests that they make.

    `folder` has what `agent.build` made.
    """
    figures = []
    with ScriptedEndpoint() as endpoint, service() as (url, log):
        for in_flash, home in ((False, "folder"), (True, "ROMFS")):
            where = f"{home}, {bits}"
            place = agent.FROM_FLASH if in_flash else ""
            program = _PROGRAM.format(place=place, url=endpoint.base_url, service=url, calls=CALLS)
            before = _count(log)
            used = int(run_micropython(micropython, program, folder, "lib"))
            held = _count(log) - before
            seen = agent.run(micropython, folder, endpoint.base_url, False, in_flash, service=url)
            of_run = _count(log) - before - held
            target = MAX_LEDGER if where == "ROMFS, 32-bit" else None
            figures += [
                Figure(f"heap: leases over HTTP, beside the agent, {where}", used, "B", target),
                Figure(f"heap: agent at work on leases over HTTP, {where}", seen["peak"], "B"),
            ]
    return [
        *figures,
        Figure(f"requests: {CALLS} calls on leases of 20, {bits}", held),
        Figure(f"requests: agent's run of {agent.STEPS} calls on a lease, {bits}", of_run),
    ]


@contextmanager
def service() -> Iterator[tuple[str, Path]]:
    """Serve a ledger in memory; yield its URL, and the file that has a line for each request."""
    options = ["serve", "--engine", "memory:", "--listen", "127.0.0.1:0", "--access-log"]
    with TemporaryDirectory() as folder, Path(folder, "log").open("w+b") as log:
        process = subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-m", "budget_cpython.cli", *options],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        with process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().strip()
                with closing(HttpLedger(url)) as ledger:
                    limits = [Limit("tokens", 10_000_000, "day"), Limit("calls", 10_000, "day")]
                    ledger.set_limits(_ACCOUNT, limits)
                yield url, Path(log.name)
            finally:
                process.terminate()


def _count(log: Path) -> int:
    """Return how many requests were answered so far."""
    return log.read_text().count(" /v1/")
