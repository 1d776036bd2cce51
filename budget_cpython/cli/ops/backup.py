"""The command `microbudget backup`."""

import argparse
import os

from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.cli.command import LEDGER, command
from budget_cpython.cli.ops.command import ledger_url, print_json
from budget_cpython.ledger.opening import sqlite_path


@command(f"FILE {LEDGER} --json")
def backup(options: argparse.Namespace) -> int:
    """Copy an SQLite ledger, also while it is in use.

    FILE is new, and for you alone. docs/operating.md says how to restore one, and how to back up
    Redis, Postgres and a service.

    examples:
      microbudget backup ledger-backup.db
      microbudget backup ledger-backup.db --ledger sqlite:/var/lib/budget.db
    """
    from budget_cpython.ledger.sqlite import SqliteLedger

    url = ledger_url(options)
    if not url.startswith("sqlite:"):
        raise ValueError(
            "backup is for an SQLite ledger: pg_dump copies Postgres, redis-cli --rdb Redis, and "
            "a service's ledger is copied where the service runs"
        )
    path = sqlite_path(url.partition(":")[2])
    if not os.path.lexists(path):
        raise LedgerUnavailableError(f"there is no ledger {path!r}")
    SqliteLedger.back_up(path, options.file)
    size = os.path.getsize(options.file)
    if options.json:
        print_json({"file": os.path.abspath(options.file), "bytes": size})
    else:
        print(f"{options.file}: {size:,} bytes")
    return 0
