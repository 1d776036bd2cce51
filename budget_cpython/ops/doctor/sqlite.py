"""The checks of a ledger in an SQLite file."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

from budget_cpython.finding import Finding, fails, ok, warning
from budget_cpython.ledger.opening import sqlite_path
from budget_cpython.ledger.sqlite import SqliteLedger
from budget_cpython.ops.doctor.engine import Check, answers

_BESIDE = ("", "-wal", "-shm")
_AHEAD_S = 60
_SHARED = ("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "fuse.sshfs")
_IN_MEMORY = ("tmpfs", "ramfs")
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def sqlite_checks(url: str, now: int, options: dict[str, Any], timeout_s: float) -> list[Check]:
    """Return the checks of the file of a URL."""
    path = os.path.abspath(sqlite_path(url.partition(":")[2]))
    fix = "make it with `microbudget limits set`, let this user write it, "
    fix += "or restore it as docs/operating.md says"
    version = f"SQLite {sqlite3.sqlite_version} with {path}"
    return [
        ("engine", answers(url, {"create": False}, lambda: version, fix)),
        ("clock", lambda: _check_clock(path, now)),
        ("durability", lambda: _check_durability(path)),
        ("files", lambda: _check_files(path)),
    ]


def _check_clock(path: str, now: int) -> Finding:
    """Compare this machine's clock with the times at which the file was written."""
    written = max(os.stat(path + one).st_mtime for one in _BESIDE if os.path.exists(path + one))
    ahead = round(written - now)
    if ahead > _AHEAD_S:
        found = f"the file was written {ahead:,} s in the future: this machine's clock went back"
        return warning(found, "let it follow NTP, as with chrony or systemd-timesyncd")
    return ok("this machine's, which is not behind the file's")


def _check_durability(path: str) -> Finding:
    with closing(SqliteLedger.view(path)) as db:
        (mode,) = db.execute("PRAGMA journal_mode").fetchone()
    if mode != "wal":
        fix = "have no other program change it: a ledger sets the journal mode WAL"
        return fails(f"the journal mode is {mode}, not wal", fix)
    kind = _file_system(path)
    if kind in _SHARED:
        fix = "keep it on a disk of this machine, or use Redis, Postgres or `microbudget serve`"
        return fails(f"the file is on {kind}, where SQLite's locks do not hold", fix)
    if kind in _IN_MEMORY:
        fix = "keep it on a disk: `--ledger sqlite:FILE`, or $XDG_STATE_HOME"
        return warning(f"the file is on {kind}, and gone after a restart of the machine", fix)
    return ok("journal mode WAL; ledgers write with synchronous=FULL")


def _file_system(path: str) -> str:
    """Return the type of the file system of a file; empty where this system does not say."""
    try:
        rows = [line.split() for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return ""
    real = os.path.realpath(path)
    held = [row for row in rows if real.startswith(row[1].rstrip("/") + "/")]
    return max(held, key=lambda row: len(row[1]))[2] if held else ""


def _check_files(path: str) -> Finding:
    """Check that the files are for their owner alone, and that no other can replace them."""
    folder = os.path.dirname(path)
    for name in (path + one for one in _BESIDE if os.path.exists(path + one)):
        mode = stat.S_IMODE(os.stat(name).st_mode)
        if mode & _OTHERS:
            return warning(f"{name} has the mode {mode:04o}", f"chmod 600 {name}")
    mode = os.stat(folder).st_mode
    if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
        found = f"others may replace the file: {folder} has the mode {stat.S_IMODE(mode):04o}"
        return fails(found, f"chmod go-w {folder}")
    return ok("mode 0600, in a folder that others cannot write")
