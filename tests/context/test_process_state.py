"""What a process does at its end."""

import subprocess
import sys

from tests.paths import ROOT

ENDING = """
from budget_cpython.context.process_state import OPEN_CALLS, at_end

class Settled:
    def abandon(self):
        raise RuntimeError("another thread settles it")

calls = [Settled(), Settled()]
OPEN_CALLS.update(calls)
at_end(lambda: print("closed"))
"""


def test_a_call_that_cannot_be_abandoned_does_not_keep_ledgers_from_being_closed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("closed\n", "")
