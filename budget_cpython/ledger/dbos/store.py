"""Keep a tracker's state in a datasource of DBOS."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from dbos import SQLAlchemyDatasource
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from budget_core.checks import check_count
from budget_core.checksum import decode, encode
from budget_core.errors import StoreError
from budget_cpython.ledger.dbos.workflow import workflow

T = TypeVar("T")

MAX_NAME = 100
MAX_BYTES = 4096
_NEVER = ""  # the version of a state that was never saved

_TABLE = text(
    "CREATE TABLE IF NOT EXISTS microbudget_states"
    " (name VARCHAR(100) PRIMARY KEY, version VARCHAR(32) NOT NULL, state TEXT)"
)
_LOAD = text("SELECT version, state FROM microbudget_states WHERE name = :name")
_SAVE = text(
    "UPDATE microbudget_states SET version = :next, state = :state"
    " WHERE name = :name AND version IN (:known, :next)"
)
_FIRST = text(
    "INSERT INTO microbudget_states (name, version, state) VALUES (:name, :next, :state)"
    " ON CONFLICT (name) DO NOTHING"
)
_CLEAR = text("UPDATE microbudget_states SET version = :next, state = NULL WHERE name = :name")


class DBOSBudgetStore:
    """A row of a DBOS datasource, in SQLite or Postgres: what `save` has returned from stays.

    `datasource` is an `SQLAlchemyDatasource`, made before `DBOS.launch()`: on Postgres also of the
    database that DBOS has, with SQLite of another file, since the two would wait for each other.
    `name` tells several states in it apart. `allowance` is how many tokens a day whose state cannot
    be trusted may still use.

    A store is for one tracker. Of two that share a `name`, in one process or in many, the one that
    has not seen the other's last save gets a `StoreError` for its own, and writes nothing before it
    has loaded again.

    A tracker that outlives workflows belongs into their steps, around the call of the model: a step
    that was recorded is not run again, and nothing is counted again. In a workflow's own code,
    which is replayed, make a tracker and a store of its own; `load` and `save` are transactions
    there that happen once, a replayed `load` returns what it returned before, and a replayed `save`
    writes nothing. A store that was loaded elsewhere raises `StoreError` there.
    """

    def __init__(
        self, datasource: SQLAlchemyDatasource, name: str = "daily", allowance: int = 0
    ) -> None:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
            raise ValueError(f"name must be a string of 1 to {MAX_NAME} characters, not {name!r}")
        self.name = name
        self.allowance = check_count("allowance", allowance)
        self._datasource = datasource
        self._known: str | None = None  # the version that was last loaded or saved
        self._next = secrets.token_hex(8)  # the next one; it may be there if a save has failed
        self._loaded_in: str | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, allowance={self.allowance!r})"

    def load(self) -> dict[str, Any] | None:
        """Return the state, or `None` if none was saved.

        Raises `StateCorruptError` for one that cannot be trusted, `StoreError` if the database
        cannot be read.
        """
        state = self._look()
        return None if state is None else decode(state.encode())

    def save(self, state: dict[str, Any]) -> None:
        """Replace the state durably; `StoreError` if that fails, or others have saved since."""
        if self._known is None:
            self._look()
        if workflow() not in (None, self._loaded_in):
            raise StoreError(
                f"budget state {self.name!r} was loaded outside of this workflow, whose replay "
                "would count again: use its tracker in steps, or make one in the workflow"
            )
        row = {"name": self.name, "known": self._known, "next": self._next}
        row["state"] = encode(state, MAX_BYTES).decode()
        version = self._transact("save", lambda place: _save(place, row))
        if version is None:
            raise StoreError(
                f"budget state {self.name!r} was saved by another store since this one loaded it: "
                "a state is for one tracker at a time; a ledger is for many"
            )
        self._known = version
        self._next = secrets.token_hex(8)

    def clear(self) -> None:
        """Remove the state; every store that had loaded it has to load again."""
        row = {"name": self.name, "next": secrets.token_hex(8)}
        self._make_table()
        self._transact("clear", lambda place: _clear(place, row))

    def _look(self) -> str | None:
        self._make_table()
        self._known, state = self._transact("load", lambda place: _load(place, self.name))
        self._loaded_in = workflow()
        return state

    def _make_table(self) -> None:
        """Create the table if it is missing; in Postgres two that create it at once collide."""
        begin = self._datasource.engine.begin
        with self._told("prepare"), suppress(IntegrityError), begin() as connection:
            connection.execute(_TABLE)

    def _transact(self, what: str, action: Callable[[Connection], T]) -> T:
        """Do it at once, or in a workflow's own code as a step that happens once."""
        source = self._datasource
        with self._told(what):
            if workflow() is None:
                with source.engine.begin() as connection:
                    return action(connection)
            options: Any = {"name": f"microbudget.state.{what}"}
            return source.run_tx_step(options, lambda: action(source.sql_session().connection()))

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise StoreError(f"cannot {what} budget state {self.name!r}: {error}", error) from error


def _load(place: Connection, name: str) -> tuple[str, str | None]:
    row = place.execute(_LOAD, {"name": name}).one_or_none()
    return (_NEVER, None) if row is None else (row[0], row[1])


def _save(place: Connection, row: dict[str, Any]) -> str | None:
    """Save the row and return its version; `None` if it was saved by another store."""
    saved = place.execute(_SAVE, row).rowcount
    if not saved:
        saved = place.execute(_FIRST, row).rowcount
    return str(row["next"]) if saved else None


def _clear(place: Connection, row: dict[str, Any]) -> None:
    place.execute(_CLEAR, row)
