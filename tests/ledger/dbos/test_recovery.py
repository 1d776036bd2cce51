"""Workflows that are killed in the middle are recovered by DBOS: nothing lost, nothing doubled."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from budget_core.checksum import decode
from budget_cpython.ledger.postgres import PostgresLedger
from budget_cpython.ledger.sqlite import SqliteLedger
from tests.ledger.dbos.program import ASKED, CHARGED, KINDS, PLACES, STORE, USED, WORKFLOWS
from tests.ledger.dbos.support import SQLITE_TOO_OLD, SQLITE_WILL_DO, postgres_url
from tests.ledger.patience import NO_HURRY, PATIENCE
from tests.ledger.postgres.server import server

KILLED = -9

# What is spent and held where a workflow stops: its process is killed there.
STANDS = {
    "before-reserve": (0, 0),
    "after-reserve": (0, ASKED),
    "before-call": (0, ASKED),
    "in-call": (0, ASKED),
    "before-commit": (0, ASKED),
    "after-commit": (USED, 0),
    "after-charge": (USED + CHARGED, 0),
    "after-release": (USED + CHARGED, 0),
    "after-refusal": (USED + CHARGED, 0),
    "nowhere": (USED + CHARGED, 0),
}


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, str]:
    """Return where DBOS keeps its workflows, where trackers' states are, and the ledger."""
    if request.param == "sqlite":
        if not SQLITE_WILL_DO:
            pytest.skip(SQLITE_TOO_OLD)
        files = f"sqlite:///{tmp_path}/"
        return files + "dbos.db", files + "states.db", str(tmp_path / "ledger.db")
    url = postgres_url("recovery")
    return url, url, server().conninfo(dbname="recovery")


@pytest.fixture
def ledger(places: tuple[str, str, str]) -> Iterator[Any]:
    where = places[2]
    kind: Any = SqliteLedger if "=" not in where else PostgresLedger
    made = kind(where, timeout=PATIENCE)
    yield made
    made.close()


@pytest.mark.slow
def test_killed_workflows_are_recovered_exactly(
    places: tuple[str, str, str], ledger: Any, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    stopped = run(*places, calls, "stop")
    assert stopped.returncode == KILLED, stopped.stderr
    found = {name: balance(ledger, name) for name in WORKFLOWS}
    assert found == {f"{kind}-{place}": STANDS[place] for kind in KINDS for place in PLACES}
    assert saved(places[1]) == USED + CHARGED

    recovered = run(*places, calls, "go")
    assert (recovered.returncode, recovered.stdout) == (0, "recovered\n"), recovered.stderr
    for name in WORKFLOWS:
        assert balance(ledger, name) == (USED + CHARGED, 0), name
        assert balance(ledger, name, "calls") == (1, 0), name
    assert saved(places[1]) == USED + CHARGED
    made = Counter(calls.read_text().split())
    assert made == {name: 2 if name.endswith("in-call") else 1 for name in WORKFLOWS}


def run(
    database: str, states: str, where: str, calls: Path, what: str
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-W", "error", "-m", "tests.ledger.dbos.program"]
    return subprocess.run(
        [*command, database, states, where, str(calls), what],
        capture_output=True,
        text=True,
        timeout=NO_HURRY,
    )


def balance(ledger: Any, path: str, axis: str = "tokens") -> tuple[int, int]:
    (found,) = [one for one in ledger.balance(path) if one.axis == axis]
    return found.spent, found.held


def saved(states: str) -> int:
    """Return how many tokens the tracker of a workflow has stored."""
    engine = create_engine(make_url(states.replace("postgresql:", "postgresql+psycopg:")))
    query = text("SELECT state FROM microbudget_states WHERE name = :name")
    with engine.connect() as connection:
        state = decode(connection.execute(query, {"name": STORE}).scalar_one().encode())
    engine.dispose()
    return int(state["tokens"])
