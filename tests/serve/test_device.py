"""A device leases blocks over HTTP, works on while the service is away, gives back what is left."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.limit import Limit
from budget_cpython.ledger.http import HttpLedger
from budget_cpython.web.keys import RIGHTS, KeyFile
from tests.paths import ROOT
from tests.ports import kept_port
from tests.serve.device import ACCOUNT, BLOCK
from tests.serve.support import LIFE, PATIENCE, Service


def command(runtime: str) -> tuple[list[str], dict[str, str]]:
    """Return what runs the program on a runtime, and its environment."""
    if runtime == "cpython":
        return [sys.executable, "-u", "-W", "error"], {"PYTHONPATH": str(ROOT)}
    micropython = os.environ.get("MICROPYTHON")
    if not micropython:
        pytest.fail("set MICROPYTHON to the path of MicroPython 1.24 or later: `make micropython`")
    return [micropython, "-X", "heapsize=512k"], {"MICROPYPATH": f"{ROOT}:.frozen"}


class Device(subprocess.Popen[str]):
    """The device's program."""

    def say(self, line: str) -> Any:
        """Tell it what to do; return what came of it."""
        assert self.stdin is not None
        assert self.stdout is not None
        self.stdin.write(line + "\n")
        self.stdin.flush()
        answer = self.stdout.readline()
        assert answer, self.communicate()[1]
        return json.loads(answer)


@contextmanager
def device(runtime: str, url: str, key: str) -> Iterator[Device]:
    """Run the device's program, for as long as the tests are patient."""
    program, environment = command(runtime)
    process = Device(
        [*program, "-m", "tests.serve.device", url, key],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    late = threading.Timer(LIFE, process.kill)
    late.start()
    with process:
        try:
            yield process
            _, complaints = process.communicate()
            assert process.returncode == 0, complaints
            for line in complaints.splitlines():
                assert "a ledger is out of reach" in line
        finally:
            late.cancel()
            process.kill()


def options_of(port: int, folder: Path, keys: KeyFile) -> tuple[str, ...]:
    """Return the options of a service that keeps its ledger in a folder."""
    place = f"127.0.0.1:{port}"
    return ("--engine", f"sqlite:{folder / 'ledger.db'}", "--keys", keys.path, "--listen", place)


@pytest.mark.parametrize("runtime", ["cpython", "micropython"])
def test_a_device_works_on_within_its_lease_and_gives_back_what_is_left(
    runtime: str, tmp_path: Path
) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    operator = keys.add("operator", "*", RIGHTS)
    token = keys.add("pico", ACCOUNT, ["reserve", "charge", "read"])
    with (
        kept_port() as port,
        Service(*options_of(port, tmp_path, keys)) as first,
        closing(HttpLedger(first.url, operator, PATIENCE)) as ledger,
        device(runtime, first.url, token) as pico,
    ):
        ledger.set_limits(ACCOUNT, [Limit("tokens", 250)])
        assert pico.say("claim 30") == {"state": "committed"}
        (row,) = ledger.balance(ACCOUNT)
        assert row.spent + row.held == BLOCK
        first.end(signal.SIGKILL)
        for _ in range(2):
            assert pico.say("claim 30") == {"state": "committed"}, "within its lease"
        assert pico.say("claim 30")["error"] == "LedgerUnavailableError", "beyond it"
        with Service(*options_of(port, tmp_path, keys)) as second:
            pico.say("later 2000")
            assert pico.say("claim 30") == {"state": "committed"}
            assert pico.say("claim 200")["error"] == "BudgetExceededError"
            (row,) = ledger.balance(ACCOUNT)
            assert 120 <= row.spent + row.held <= 250
            assert pico.say("close") == {"state": "closed"}
            (row,) = ledger.balance(ACCOUNT)
            assert (row.spent, row.held) == (120, 0)
            assert second.end() == (0, "")


@pytest.mark.parametrize("runtime", ["cpython", "micropython"])
def test_a_device_whose_key_is_refused_sees_the_refusal(runtime: str, tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    token = keys.add("pico", "org/other", ["reserve"])
    options = ("--engine", "memory:", "--keys", keys.path, "--listen", "127.0.0.1:0")
    with Service(*options) as service, device(runtime, service.url, token) as pico:
        answer = pico.say("claim 1")
        assert answer["error"] == "LedgerError"
        assert "403" in answer["says"]
        assert token not in answer["says"]
