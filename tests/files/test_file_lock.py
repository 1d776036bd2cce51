"""One store at a time uses a path: a second one is refused, and no acknowledged write is lost."""

import errno
import gc
import importlib.util
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from budget_core.errors import StateCorruptError, StoreError
from budget_cpython import DailyBudgetTracker, FileBudgetStore
from budget_cpython.files import lock as file_lock
from tests.files.test_file_store import (
    DAILY,
    LOCK,
    NAME,
    NEW,
    NOON,
    OLD,
    PUT,
    files,
    is_open,
    path,
    tracker_on,
)
from tests.forked import in_child
from tests.racing import in_threads, restless

__all__ = ["path", "restless"]
RECORDS = 200
START = """\
import logging, os, sys
logging.disable()  # what is denied is read from the store's error
from budget_cpython import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore
config = DailyBudgetConfig(daily_budget=1000, enforcement="cutoff")
store = FileBudgetStore(sys.argv[1])
tracker = DailyBudgetTracker(config, lambda: 20_000 * 86_400 + 43_200, store)
def say(what):
    print(what, flush=True)
    sys.stdin.readline()
"""
HOLD = """
tracker.record({"total_tokens": 5})
say(tracker.store_error)
"""
HOLD_WITH_A_CHILD = """
tracker.record({"total_tokens": 5})
if not os.fork():
    say(os.getpid())
    os._exit(0)
os.wait()
"""
LOAD = """
print(store.load()["tokens"] if not tracker.store_error else tracker.store_error)
"""
RECORD_MANY = """
say("ready")
done = 0
while done < 200:
    tracker.maybe_auto_reset()
    if tracker.store_error is None:
        tracker.record({"total_tokens": 1})
        done += tracker.store_error is None
print(done)
"""


def start(path: Path, program: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", START + program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def holder(path: Path, program: str = HOLD) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    """Run another process that uses the path; yield it and its first line."""
    with start(path, program) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def said_by(path: Path, program: str) -> str:
    """Return what another process prints; it must not complain."""
    with start(path, program) as process:
        out, err = process.communicate("\n\n")
    assert (process.returncode, err) == (0, "")
    return out.strip()


def tokens_in(path: Path) -> int:
    with FileBudgetStore(path) as store:
        state = store.load()
    assert state is not None
    return int(state["tokens"])


USES: dict[str, Callable[[FileBudgetStore], object]] = {
    "load": lambda store: store.load(),
    "save": lambda store: store.save(NEW),
    "clear": lambda store: store.clear(),
}
each_use = pytest.mark.parametrize("use", USES.values(), ids=USES)


# ------------------------------------------------------------------------------- two processes


@each_use
def test_a_second_process_is_told_who_has_the_path_and_changes_nothing(
    path: Path, use: Callable[[FileBudgetStore], object]
) -> None:
    with holder(path) as (process, said):
        assert said == "None"
        before = path.read_bytes()
        with pytest.raises(StoreError) as caught:
            use(FileBudgetStore(path))
        assert f"{str(path)!r} is in use by process {process.pid}," in str(caught.value)
        assert not isinstance(caught.value, StateCorruptError)
        assert path.read_bytes() == before


def test_a_tracker_denies_until_the_other_process_is_killed_and_then_has_its_count(
    path: Path,
) -> None:
    with holder(path) as (process, _), FileBudgetStore(path) as store:
        tracker = DailyBudgetTracker(DAILY, clock=lambda: NOON, store=store)
        assert str(process.pid) in str(tracker.store_error)
        assert tracker.is_at_limit()
        tracker.record({"total_tokens": 2})
        tracker.maybe_auto_reset()
        assert tracker.is_at_limit()
        process.send_signal(signal.SIGKILL)
        process.wait()
        tracker.maybe_auto_reset()
        assert tracker.store_error is None
        assert not tracker.is_at_limit()
        assert tracker.total_tokens == 7
    assert tokens_in(path) == 7


def test_two_processes_at_once_lose_nothing_that_was_acknowledged(path: Path) -> None:
    with holder(path, RECORD_MANY) as (one, _), holder(path, RECORD_MANY) as (other, _):
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        said = [process.communicate(timeout=300) for process in (one, other)]
    assert said == [(f"{RECORDS}\n", "")] * 2
    assert tokens_in(path) == 2 * RECORDS


# ------------------------------------------------------------------------------- forks


def test_a_forked_process_is_refused_by_the_store_it_copied_and_leaves_its_parents(
    path: Path,
) -> None:
    store = FileBudgetStore(path)
    tracker = DailyBudgetTracker(DAILY, clock=lambda: NOON, store=store)
    tracker.record({"total_tokens": 5})

    def use_the_copy() -> None:
        tracker.record({"total_tokens": 1})
        assert "was closed, here or by a fork" in str(tracker.store_error)
        assert tracker.is_at_limit()
        store.close()
        with pytest.raises(StoreError, match=f"in use by process {os.getppid()},"):
            FileBudgetStore(path).load()

    assert in_child(use_the_copy) == 0
    tracker.record({"total_tokens": 2})
    assert tracker.store_error is None
    with pytest.raises(StoreError, match="in use by"):
        FileBudgetStore(path).load()
    store.close()
    assert tokens_in(path) == 7


def test_a_store_that_was_not_used_before_a_fork_works_in_the_child(path: Path) -> None:
    store = FileBudgetStore(path)
    assert in_child(lambda: store.save(NEW)) == 0
    assert store.load() == NEW


def test_a_process_that_is_killed_frees_the_path_though_its_child_lives_on(path: Path) -> None:
    with holder(path, HOLD_WITH_A_CHILD) as (process, child):
        process.kill()
        process.wait()
        os.kill(int(child), 0)
        assert tracker_on(path).total_tokens == 5


def test_a_fork_while_another_thread_uses_a_store_hangs_no_close(path: Path) -> None:
    lock = file_lock.FileLock(str(path))
    with lock.held():  # as another thread of the parent
        assert in_child(lock.close) == 0


# ------------------------------------------------------------------------------- one process


@each_use
def test_a_second_store_of_one_process_is_refused_while_the_first_lives(
    path: Path, use: Callable[[FileBudgetStore], object]
) -> None:
    first, second = FileBudgetStore(path), FileBudgetStore(path)
    first.save(OLD)
    with pytest.raises(StoreError, match=f"in use by process {os.getpid()},"):
        use(second)
    assert first.load() == OLD
    del first
    gc.collect()
    use(second)


def test_two_spellings_are_one_path(path: Path) -> None:
    path.with_name("link").symlink_to(path.parent)
    store = FileBudgetStore(path)
    store.save(OLD)
    with pytest.raises(StoreError, match="in use by"):
        FileBudgetStore(path.parent / "link" / NAME).save(NEW)


@pytest.mark.usefixtures("restless")
def test_one_store_is_for_all_threads(path: Path) -> None:
    store = FileBudgetStore(path)

    def use() -> None:
        store.save(NEW)
        assert store.load() == NEW

    in_threads(use)


# ------------------------------------------------------------------------------- its end


def leave(store: FileBudgetStore) -> None:
    with store as entered:
        assert entered is store


def close_twice(store: FileBudgetStore) -> None:
    store.close()
    store.close()


@pytest.mark.parametrize("end", [FileBudgetStore.close, leave, close_twice])
def test_a_closed_store_leaves_the_path_to_others_and_is_of_no_further_use(
    path: Path, end: Callable[[FileBudgetStore], None]
) -> None:
    store = FileBudgetStore(path)
    store.save(OLD)
    assert f"in use by process {os.getpid()}," in said_by(path, LOAD)
    end(store)
    assert said_by(path, LOAD) == "400"
    for use in USES.values():
        with pytest.raises(StoreError, match="was closed"):
            use(store)
    assert tokens_in(path) == 400


def test_a_store_that_was_never_used_is_closed_too(path: Path) -> None:
    with FileBudgetStore(path):
        pass
    assert files(path) == []


def test_a_store_that_nothing_refers_to_leaves_the_path_to_others(path: Path) -> None:
    store = FileBudgetStore(path)
    store.save(OLD)
    del store
    gc.collect()
    assert said_by(path, LOAD) == "400"


def test_neither_a_refusal_nor_an_end_leaves_the_lock_file_open(path: Path) -> None:
    with holder(path), pytest.raises(StoreError, match="in use by"):
        FileBudgetStore(path).load()
    assert not is_open(path.with_name(LOCK))
    store = FileBudgetStore(path)
    store.load()
    assert is_open(path.with_name(LOCK))
    del store
    gc.collect()
    assert not is_open(path.with_name(LOCK))


# ------------------------------------------------------------------------------- the lock file


def test_the_lock_file_names_the_owner_for_its_user_alone_and_stays(path: Path) -> None:
    lock = path.with_name(LOCK)
    with FileBudgetStore(path) as store:
        store.save(OLD)
        assert lock.read_text() == f"{os.getpid()}\n"
        assert stat.S_IMODE(lock.stat().st_mode) == 0o600
        was = lock.stat()
        store.clear()
    FileBudgetStore(path).load()
    assert os.path.samestat(lock.stat(), was)
    assert files(path) == [LOCK]


def test_a_longer_process_id_of_an_earlier_owner_leaves_nothing_behind(path: Path) -> None:
    path.with_name(LOCK).write_text("1234567890123\n")
    store = FileBudgetStore(path)
    store.save(OLD)
    assert f"in use by process {os.getpid()}," in said_by(path, LOAD)


def test_a_lock_file_that_cannot_name_its_owner_locks_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    store = FileBudgetStore(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        assert store.load() is None
    assert "in use by another process," in said_by(path, LOAD)


@pytest.mark.parametrize("put", PUT)
def test_only_a_plain_file_is_locked_and_what_lies_there_is_left_alone(
    path: Path, put: Callable[[Path], None]
) -> None:
    lock = path.with_name(LOCK)
    lock.write_bytes(b"a victim")
    put(lock)
    for use in USES.values():
        with pytest.raises(StoreError, match="is not a plain file") as caught:
            use(FileBudgetStore(path))
        assert not isinstance(caught.value, StateCorruptError)
    assert {file.read_bytes() for file in path.parent.iterdir() if file.is_file()} <= {b"a victim"}
    assert not path.exists()
    lock.rmdir() if lock.is_dir() and not lock.is_symlink() else lock.unlink()
    FileBudgetStore(path).save(OLD)


def test_a_folder_that_became_a_link_into_the_workspace_gets_no_lock_file(path: Path) -> None:
    workspace = path.with_name("workspace")
    workspace.mkdir()
    folder = path.with_name("safe")
    store = FileBudgetStore(folder / NAME, workspace=workspace)
    folder.symlink_to(workspace)
    for use in USES.values():
        with pytest.raises(StoreError, match="inside the agent's workspace"):
            use(store)
    assert os.listdir(workspace) == []


def test_a_file_system_without_locks_denies_for_as_long_as_that_lasts(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    with monkeypatch.context() as patch:
        patch.setattr(file_lock, "_lock", fail)
        tracker = tracker_on(path)
        assert "no locks available" in str(tracker.store_error)
        assert tracker.is_at_limit()
        assert not is_open(path.with_name(LOCK))
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()


def test_a_platform_with_windows_locks_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: set[int] = set()

    def locking(file: int, mode: int, count: int) -> None:
        if os.fstat(file).st_ino in locked:
            raise PermissionError(errno.EACCES, "locked")
        locked.add(os.fstat(file).st_ino)

    windows: Any = ModuleType("msvcrt")
    windows.LK_NBLCK, windows.locking = 2, locking
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.spec_from_file_location("file_lock_there", file_lock.__file__)
    assert spec is not None
    assert spec.loader is not None
    there = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(there)
    one, other = there.FileLock(str(path)), there.FileLock(str(path))
    with one.held():
        assert len(locked) == 1
    with pytest.raises(StoreError, match="in use by"), other.held():
        pass
