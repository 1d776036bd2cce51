"""Watch what a ledger does to its SQLite file, and make it fail."""

import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

from tests.ledger import patience

NOON = 20_000 * 86_400 + 43_200
ONE = {"tokens": 1}
STALLED = 300  # seconds: a busy disk may take many to sync
Step = Callable[[str, Any], None]
until = partial(patience.until, patience=STALLED)


def nothing(statement: str, values: Any) -> None:
    """Do nothing."""


class Watch:
    """The connections that ledgers have opened, and each statement with its values.

    `before` and `after` are called with those around each statement, and may raise; `committing`
    is called before a commit.
    """

    def __init__(self) -> None:
        self.connections: list[sqlite3.Connection] = []
        self.statements: list[str] = []
        self.committing: Callable[[], None] = lambda: None
        self.before: Step = nothing
        self.after: Step = nothing

    @property
    def db(self) -> sqlite3.Connection:
        """The connection that was opened last."""
        return self.connections[-1]

    @property
    def commits(self) -> int:
        return self.statements.count("COMMIT")


@contextmanager
def watched() -> Iterator[Watch]:
    """Watch the ledgers that open their files meanwhile."""
    watch = Watch()

    class Watched(sqlite3.Connection):
        def execute(self, statement: str, values: Any = (), /) -> sqlite3.Cursor:
            watch.statements.append(statement)
            if statement == "COMMIT":
                watch.committing()
            watch.before(statement, values)
            cursor = super().execute(statement, values)
            watch.after(statement, values)
            return cursor

        def executemany(self, statement: str, rows: Any, /) -> sqlite3.Cursor:
            watch.statements.append(statement)
            watch.before(statement, rows)
            cursor = super().executemany(statement, rows)
            watch.after(statement, rows)
            return cursor

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        db: sqlite3.Connection = real(*args, **{"factory": Watched, **options})
        watch.connections.append(db)
        return db

    real = sqlite3.connect
    with mock.patch("sqlite3.connect", connect):
        yield watch


class InThread(threading.Thread):
    """An action in a thread of its own; `result` is what it returned, or raised."""

    def __init__(self, action: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._action = action
        self.result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._action()
        except BaseException as error:  # noqa: BLE001 - it is the result
            self.result = error

    def finish(self) -> Any:
        self.join(STALLED)
        assert not self.is_alive(), "it waits for nothing"
        return self.result


def waits(thread: int | None) -> bool:
    """Whether a thread's operation waits for another thread's transaction."""
    frame = sys._current_frames().get(thread or 0)
    caller = frame and frame.f_code.co_name == "wait" and frame.f_back  # of a condition
    return bool(caller and caller.f_code.co_name == "_leads")


def while_it_commits(
    watch: Watch, act: Callable[[], Any], actions: Sequence[Callable[[], Any]]
) -> list[Any]:
    """Begin actions, each in a thread, while another commits, and let them wait for that.

    Returns what each of them returned or raised.
    """
    threads: list[InThread] = []

    def begin() -> None:
        watch.committing = lambda: None
        threads.extend(InThread(action) for action in actions)
        until(lambda: all(waits(one.ident) for one in threads))

    watch.committing = begin
    act()
    return [one.finish() for one in threads]
