"""The service of a fleet, on a clock that the campaign moves: `microbudget serve` but for that.

    python -m tests.fleet.service FOLDER PORT

The folder has the ledger, the keys, and the clock: a file with Unix seconds.
"""

import struct
import sys
from pathlib import Path

from budget_cpython.ledger.sqlite import SqliteLedger
from budget_cpython.serve.app import make_app
from budget_cpython.web.addresses import ListenAddress
from budget_cpython.web.connections import ConnectionLimits
from budget_cpython.web.keys import KeyFile
from budget_cpython.web.server import run_service

NUMBER = struct.Struct("<q")


def set_clock(folder: Path, now: int) -> None:
    """Have the service believe that it is so many Unix seconds."""
    (folder / "next").write_bytes(NUMBER.pack(now))
    (folder / "next").replace(folder / "clock")


def main(folder: Path, port: int) -> int:
    """Serve until killed."""

    def clock() -> float:
        found: int = NUMBER.unpack((folder / "clock").read_bytes())[0]
        return found

    ledger = SqliteLedger(folder / "ledger.db", clock=clock, timeout=120)
    app = make_app(ledger, KeyFile(folder / "keys.json"), engine_timeout=120, clock=clock)
    address = ListenAddress.parse(f"127.0.0.1:{port}")
    return run_service(app, address, ConnectionLimits(1000, 1000, 60), grace=5)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
