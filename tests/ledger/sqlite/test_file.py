"""Where a ledger's file lies, who may read it, what is in it, and what a fork does to it."""

import os
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_core.ledger.window import Window, parse_window
from budget_cpython.context.process_state import close_before_forks
from budget_cpython.ledger.errors import LedgerCorruptError
from budget_cpython.ledger.sqlite import SqliteLedger, schema
from tests.forked import in_child
from tests.ledger.patience import NO_HURRY
from tests.paths import ROOT

UNSEEN_FORK = """
import ctypes, os, sys
from budget_core.ledger.errors import LedgerUnavailableError
from budget_cpython.ledger.sqlite import SqliteLedger

ledger = SqliteLedger(sys.argv[1], clock=lambda: 1_728_043_200)
ledger.accounts()
child = ctypes.CDLL(None).fork()
if not child:
    code = 1
    try:
        ledger.charge("org", {"tokens": 1})
    except LedgerUnavailableError as error:
        code = 0 if "make the ledger anew after the fork" in str(error) else 2
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
ledger.charge("org", {"tokens": 1})
"""  # in a program of one thread: others might keep the child from ever running
NOON = 20_000 * 86_400 + 43_200
ONE = {"tokens": 1}


def open_at(path: Path, **options: object) -> SqliteLedger:
    ledger = SqliteLedger(path, clock=lambda: NOON, timeout=NO_HURRY, **options)  # type: ignore[arg-type]
    ledger.set_limits("org", [Limit("tokens", 100, "day")])
    return ledger


def spent(ledger: SqliteLedger) -> int:
    return ledger.balance("org")[0].spent


@pytest.fixture
def any_umask() -> Iterator[Callable[[int], int]]:
    before = os.umask(0)
    os.umask(before)
    yield os.umask
    os.umask(before)


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_the_files_are_for_their_owner_alone_under_any_umask(
    tmp_path: Path, any_umask: Callable[[int], int], mask: int
) -> None:
    any_umask(mask)
    with open_at(tmp_path / "ledger.db") as ledger:
        ledger.charge("org", ONE)
        names = sorted(path.name for path in tmp_path.iterdir())
        modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert names == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]
    assert modes == {0o600}


def test_a_mistyped_path_makes_no_folder(tmp_path: Path) -> None:
    with SqliteLedger(tmp_path / "bugdet" / "ledger.db") as ledger:
        for _ in range(2):
            with pytest.raises(LedgerUnavailableError, match=r"folder of the ledger .* not exist"):
                ledger.set_limits("org", [Limit("tokens", 100)])
        assert list(tmp_path.iterdir()) == []
        (tmp_path / "bugdet").mkdir()
        assert ledger.accounts() == []


def test_a_new_file_may_be_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with SqliteLedger(path, create=False) as ledger:
        with pytest.raises(LedgerUnavailableError, match="there is no ledger"):
            ledger.accounts()
        assert list(tmp_path.iterdir()) == []
        path.touch()  # as a crash or another program may leave it
        with pytest.raises(LedgerUnavailableError, match="there is no ledger"):
            ledger.accounts()
        assert path.read_bytes() == b""
        open_at(path).close()
        assert ledger.accounts() == ["org"]


def test_a_file_of_one_byte_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(b"7")  # which SQLite takes for an empty file
    with SqliteLedger(path) as ledger, pytest.raises(LedgerCorruptError, match="is not a ledger"):
        ledger.accounts()
    assert path.read_bytes() == b"7"


@pytest.mark.parametrize("beside", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize(
    "kind", ["a symbolic link", "a hard link", "a folder", "a FIFO", "a socket"]
)
def test_anything_but_a_plain_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, beside: str
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    target, place = tmp_path / "other", Path("ledger.db" + beside)
    target.write_bytes(b"")
    if kind == "a symbolic link":
        place.symlink_to(target)
    elif kind == "a hard link":
        place.hardlink_to(target)
    elif kind == "a folder":
        place.mkdir()
    elif kind == "a FIFO":
        os.mkfifo(place)
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(place))
    ledger = SqliteLedger(tmp_path / "ledger.db", clock=lambda: NOON)
    for use in (ledger.accounts, lambda: SqliteLedger.view(tmp_path / "ledger.db")):
        with pytest.raises(LedgerUnavailableError, match=f"{beside}' is not a plain file"):
            use()
    assert target.read_bytes() == b""


def test_a_path_in_the_workspace_is_refused_now_and_later(tmp_path: Path) -> None:
    workspace, outside = tmp_path / "work", tmp_path / "outside"
    workspace.mkdir()
    outside.mkdir()
    (tmp_path / "link").symlink_to(workspace)
    for path in (workspace / "a.db", tmp_path / "link" / "a.db", outside / ".." / "work" / "a.db"):
        with pytest.raises(ValueError, match="inside the agent's workspace"):
            SqliteLedger(path, workspace=workspace)
    ledger = SqliteLedger(outside / "a.db", workspace=workspace, clock=lambda: NOON)
    outside.rmdir()
    outside.symlink_to(workspace)
    with pytest.raises(LedgerUnavailableError, match="inside the agent's workspace by now"):
        ledger.accounts()
    assert list(workspace.iterdir()) == []


def test_a_path_must_name_a_file_and_a_timeout_be_seconds() -> None:
    for path in ("", "folder/", "a\0b", b"bytes"):
        with pytest.raises(ValueError, match="path must name a file"):
            SqliteLedger(path)  # type: ignore[arg-type]
    for timeout in (-1.0, float("nan"), 3601.0):
        with pytest.raises(ValueError, match="timeout must be seconds"):
            SqliteLedger("ledger.db", timeout=timeout)


def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE theirs (id)")
    before = path.read_bytes()
    for use in (SqliteLedger(path).accounts, lambda: SqliteLedger.view(path)):
        with pytest.raises(LedgerUnavailableError, match="another program's database"):
            use()
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["theirs.db"]


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    open_at(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerUnavailableError, match="schema version 99, and this program knows 3"):
        SqliteLedger(path).accounts()


def test_an_older_schema_is_migrated_in_order_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def migrate(*later: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, *later))
            schema.migrate(db, str(path))
            assert schema.check(db, str(path)) == 3 + len(later)

    path = tmp_path / "ledger.db"
    with open_at(path) as ledger:
        ledger.charge("org", ONE)
    second = "CREATE TABLE more (n INTEGER); INSERT INTO more SELECT accounts FROM totals"
    third = "UPDATE more SET n = n + 10"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            migrate(second, "DROP TABLE gone")
        assert schema.check(db, str(path)) == 3
        for _ in range(2):
            migrate(second, third)
            assert db.execute("SELECT n FROM more").fetchall() == [(11,)]


def test_limits_that_cannot_be_set_change_nothing(tmp_path: Path) -> None:
    asked: list[int] = []

    def bounds(now: int) -> tuple[int, int]:
        asked.append(now)
        if len(asked) == 2:
            raise ValueError("no such day")
        return 0, now + 1

    def read(name: str) -> Window:
        return Window("odd", bounds) if name == "run odd" else parse_window(name)

    with SqliteLedger(tmp_path / "ledger.db", clock=lambda: NOON, windows=read) as ledger:
        ledger.set_limits("org", [Limit("calls", 5, "day")])
        ledger.charge("org", {"calls": 1})
        with pytest.raises(ValueError, match="no such day"):
            ledger.set_limits("org", [Limit("calls", 99, "day"), Limit("tokens", 9, "run odd")])
        assert ledger.limits("org") == [Limit("calls", 5, "day")]


def test_a_view_reads_the_numbers_and_writes_nothing(tmp_path: Path) -> None:
    now = NOON
    ledger = SqliteLedger(tmp_path / "ledger.db", clock=lambda: now)
    ledger.set_limits("org", [Limit("calls", None), Limit("tokens", 100, "rolling 7200/2")])
    for _ in range(4):  # two buckets are over for good, one still counts
        ledger.charge("org", {"tokens": 7, "calls": 1})
        now += 3600
    ledger.reserve("org", {"tokens": 5}, key="k", ttl=60)
    day = NOON // 86_400 * 86_400
    with closing(SqliteLedger.view(tmp_path / "ledger.db")) as view:
        assert view.execute("SELECT * FROM balances ORDER BY axis").fetchall() == [
            ("org", "calls", "run", None, 4, 0, None, 0, None),
            ("org", "tokens", "rolling 7200/2", 100, 14, 5, 81, now, now + 3600),
        ]
        found = [
            (one.axis, one.spent, one.held, one.left, one.begins_at, one.resets_at)
            for one in ledger.balance("org")
        ]
        query = 'SELECT axis, spent, held, "left", begins_at, resets_at FROM balances ORDER BY axis'
        assert view.execute(query).fetchall() == found
        assert view.execute("SELECT * FROM holds_live").fetchall() == [
            ("org", "k", '{"tokens": 5}', now + 60, now)
        ]
        history = view.execute("SELECT axis, spent, begins_at FROM history ORDER BY begins_at")
        assert history.fetchall() == [("tokens", 7, day + hour * 3600) for hour in range(12, 16)]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            view.execute("DELETE FROM holds")
    ledger.close()


def test_a_view_of_a_missing_file_makes_no_file(tmp_path: Path) -> None:
    with pytest.raises(LedgerUnavailableError, match="cannot read"):
        SqliteLedger.view(tmp_path / "none.db")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_ledger_opens_again_when_it_is_used(tmp_path: Path) -> None:
    ledger = open_at(tmp_path / "ledger.db")
    ledger.charge("org", ONE)
    ledger.close()
    assert [path.name for path in tmp_path.iterdir()] == ["ledger.db"]
    ledger.charge("org", ONE)
    assert spent(ledger) == 2
    ledger.close()


def test_a_forked_process_and_its_parent_share_the_file(tmp_path: Path) -> None:
    ledger = open_at(tmp_path / "ledger.db")
    view = SqliteLedger.view(tmp_path / "ledger.db")
    hold = ledger.reserve("org", {"tokens": 2})
    told, tell = os.pipe()

    def charge_and_wait() -> None:
        os.close(tell)
        ledger.charge("org", ONE)
        os.read(told, 1)  # until the parent has closed the file
        ledger.charge("org", ONE)
        ledger.commit(hold)
        ledger.close()

    waiting = threading.Thread(target=lambda: codes.append(in_child(charge_and_wait)))
    codes: list[int] = []
    waiting.start()
    try:
        while waiting.is_alive() and not spent(ledger):
            waiting.join(0.001)
        ledger.charge("org", ONE)
        ledger.close()
    finally:
        os.close(tell)
        waiting.join()
        os.close(told)
    assert codes == [0]
    assert spent(ledger) == 5
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        view.execute("SELECT 1")
    ledger.close()


def test_forks_while_other_threads_write_lose_nothing(tmp_path: Path) -> None:
    ledger = open_at(tmp_path / "ledger.db")
    done = threading.Event()
    counted = []

    def write() -> None:
        count = 0
        while not done.is_set():
            ledger.charge("org", ONE)
            count += 1
        counted.append(count)

    writers = [threading.Thread(target=write) for _ in range(3)]
    for one in writers:
        one.start()
    try:
        codes = [in_child(lambda: ledger.charge("org", ONE)) for _ in range(10)]
    finally:
        done.set()
        for one in writers:
            one.join()
    assert codes == [0] * 10
    assert spent(ledger) == sum(counted) + 10
    ledger.close()


@pytest.mark.parametrize("reads", [False, True])
def test_what_a_thread_opens_during_a_fork_is_opened_after_it(tmp_path: Path, reads: bool) -> None:
    path = tmp_path / "ledger.db"
    ledger = open_at(path)
    opened, seen = threading.Event(), []

    def open_another() -> None:
        (SqliteLedger.view(path) if reads else SqliteLedger(path)).close()
        opened.set()

    class Forking:
        """What is closed before a fork, while another thread opens something."""

        def before_fork(self) -> None:
            thread.start()
            opened.wait(0.2)

        def after_fork(self, in_child: bool) -> None:
            seen.append(opened.is_set())

    thread, forking = threading.Thread(target=open_another), Forking()
    close_before_forks(forking)
    assert in_child(lambda: None) == 0
    thread.join()
    del forking
    assert seen == [False]
    assert spent(ledger) == 0
    ledger.close()


def test_a_fork_that_python_does_not_see_is_refused_in_the_child(tmp_path: Path) -> None:
    with open_at(tmp_path / "ledger.db") as ledger:
        command = [sys.executable, "-c", UNSEEN_FORK, str(tmp_path / "ledger.db")]
        subprocess.run(command, cwd=ROOT, check=True)
        assert spent(ledger) == 1


LEFT_OPEN = """
import atexit, builtins, sys
from budget_cpython import Limit, open_ledger
from budget_cpython.ledger.sqlite import connection

builtins.kept = open_ledger("sqlite:" + sys.argv[1])
builtins.kept.set_limits("org", [Limit("calls", 1)])
atexit.register(setattr, connection, "os", None)  # as an interpreter that ends clears modules
"""


def test_a_program_that_leaves_a_ledger_open_ends_without_complaint(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "dev", "-c", LEFT_OPEN, str(tmp_path / "ledger.db")]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stderr == ""
