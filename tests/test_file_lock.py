"""One state for two processes, or two stores: the second is told, and no write is lost."""

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

from budget_cpython import FileBudgetStore, StateCorruptError, StoreError, file_lock
from tests.racing import THREADS, in_threads, restless, unsettle
from tests.test_file_store import KINDS, LOCK, NAME, NEW, OLD, files, path, tracker_on

__all__ = ["path", "restless"]
ONE_TOKEN = {"total_tokens": 1}
RECORDS = 200
START = """\
import os, sys
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
FORK = """
tracker.record({"total_tokens": 5})
reading, writing = os.pipe()
child = os.fork()
if not child:
    tracker.record({"total_tokens": 1})
    said = [tracker.store_error]
    try:
        store.load()
    except Exception as error:
        said.append(error)
    store.close()
    os.write(writing, "\\n".join(map(str, said)).encode())
    os._exit(0)
os.waitpid(child, 0)
tracker.record({"total_tokens": 2})
print(os.getpid(), tracker.store_error, store.load()["tokens"])
print(os.read(reading, 4096).decode())
say("")
"""
FORK_IN_THE_MIDDLE = """
import signal
from budget_cpython import file_lock
with file_lock._guard:
    child = os.fork()
    if child:
        print(os.waitpid(child, 0)[1])
    else:
        signal.alarm(60)
        FileBudgetStore(sys.argv[1] + "2").load()
        os._exit(0)
"""
THREE_MORE = """
tracker.record({"total_tokens": 5})
before = os.listdir("/dev/fd")
for _ in range(3):
    other = FileBudgetStore(sys.argv[1] + "2")
    try:
        print(other.load() and other.save(other.load()))
    except Exception as error:
        print(error)
    del other
print(os.listdir("/dev/fd") == before)
"""
FORK_AND_TAKE_OVER = """
tracker.record({"total_tokens": 5})
store.close()
if os.fork():
    os.wait()
    try:
        store.save({})
    except Exception as error:
        print(error)
else:
    store.load()
    tracker.record({"total_tokens": 1})
    print(tracker.store_error, store.load()["tokens"], flush=True)
    os._exit(0)
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
    """Run another process that uses the path; yield it and what it says."""
    with start(path, program) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def said_by(path: Path, program: str) -> str:
    """Return what another process says; it must not complain."""
    with start(path, program) as process:
        out, err = process.communicate("\n\n")
    assert (process.returncode, err) == (0, "")
    return out.strip()


def tokens_in(path: Path) -> int:
    with FileBudgetStore(path) as store:
        state = store.load()
    assert state is not None
    return int(state["tokens"])


# ------------------------------------------------------------------------------- two processes


@pytest.mark.parametrize("use", ["load", "save", "clear"])
def test_a_second_process_is_told_who_has_the_path_and_changes_nothing(
    path: Path, use: str
) -> None:
    with holder(path) as (process, said):
        assert said == "None"
        before = path.read_bytes()
        given = (NEW,) if use == "save" else ()
        with pytest.raises(StoreError, match="SqliteLedger") as caught:
            getattr(FileBudgetStore(path), use)(*given)
        assert f"{str(path)!r} is in use by process {process.pid}:" in str(caught.value)
        assert not isinstance(caught.value, StateCorruptError)
        assert path.read_bytes() == before


def test_a_tracker_denies_until_the_other_process_was_killed_and_has_its_count_then(
    path: Path,
) -> None:
    with holder(path) as (process, _):
        tracker = tracker_on(path)
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
    del tracker
    assert tokens_in(path) == 7


def test_a_store_that_was_refused_writes_nothing_before_it_has_loaded(path: Path) -> None:
    store = FileBudgetStore(path)
    with holder(path) as (process, _):
        with pytest.raises(StoreError, match="in use by"):
            store.save(NEW)
        process.kill()
        process.wait()
    with pytest.raises(StoreError, match="Load it first"):
        store.save(NEW)
    assert store.load() == dict(OLD, tokens=5)
    store.save(NEW)
    assert store.load() == NEW


def test_a_process_that_is_killed_frees_the_path_though_a_process_it_forked_lives_on(
    path: Path,
) -> None:
    with holder(path, HOLD_WITH_A_CHILD) as (process, child):
        process.kill()
        process.wait()
        os.kill(int(child), 0)
        assert tracker_on(path).total_tokens == 5


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


def test_a_forked_process_has_no_part_in_the_lock_and_takes_none_from_its_parent(
    path: Path,
) -> None:
    with holder(path, FORK) as (process, said):
        assert said == f"{process.pid} None 7"
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(2)]
        assert f"in use by process {process.pid}, from which this one was forked" in told[0]
        assert f"in use by process {process.pid}:" in told[1]
        with pytest.raises(StoreError, match=f"in use by process {process.pid}:"):
            FileBudgetStore(path).load()


def test_a_path_that_was_given_up_before_a_fork_is_the_childs_who_loads_it(path: Path) -> None:
    told = said_by(path, FORK_AND_TAKE_OVER).splitlines()
    assert told[0] == "None 6"
    assert "the store was closed. Load it first" in told[1]
    assert tokens_in(path) == 6


def test_a_process_forked_while_a_lock_was_being_taken_takes_others(path: Path) -> None:
    assert said_by(path, FORK_IN_THE_MIDDLE) == "0"


# ------------------------------------------------------------------------------- one process


def test_of_two_trackers_in_one_process_the_newer_goes_on_and_the_older_is_told(
    path: Path,
) -> None:
    older = tracker_on(path)
    older.record({"total_tokens": 3})
    newer = tracker_on(path)
    assert newer.total_tokens == 3
    older.record({"total_tokens": 10})
    assert "another store of this process" in str(older.store_error)
    assert repr(str(path)) in str(older.store_error)
    assert older.is_at_limit()
    newer.record({"total_tokens": 4})
    older.maybe_auto_reset()
    assert older.is_at_limit()
    assert newer.store_error is None
    assert newer.total_tokens == 7
    del newer
    older.maybe_auto_reset()
    assert older.is_at_limit()
    assert tokens_in(path) == 7


def test_two_spellings_are_one_path(path: Path) -> None:
    path.with_name("link").symlink_to(path.parent)
    store = FileBudgetStore(path)
    store.save(OLD)
    FileBudgetStore(path.parent / "link" / NAME).save(NEW)
    with pytest.raises(StoreError, match="another store of this process"):
        store.save(OLD)
    assert store.load() == NEW


@pytest.mark.usefixtures("restless")
def test_stores_that_threads_open_at_once_lose_nothing_that_was_acknowledged(path: Path) -> None:
    def record() -> int:
        done = 0
        for _ in range(3):
            tracker = tracker_on(path)
            tracker.record(ONE_TOKEN)
            done += tracker.store_error is None
        return done

    acknowledged = sum(in_threads(record))
    assert 0 < acknowledged <= 3 * THREADS
    assert tokens_in(path) == acknowledged


@pytest.mark.usefixtures("restless")
def test_a_claim_that_threads_use_first_at_once_is_theirs(path: Path) -> None:
    claim = unsettle(file_lock.PathClaim(str(path)))

    def use() -> None:
        with claim.used():
            pass

    in_threads(use)


@pytest.mark.usefixtures("restless")
def test_claims_that_threads_read_by_at_once_are_all_had(path: Path) -> None:
    claims = [unsettle(file_lock.PathClaim(str(path))) for _ in range(THREADS)]
    left = list(claims)

    def use() -> None:
        with left.pop().used(reading=True):
            pass

    in_threads(use)
    assert len([claim for claim in claims if claim._file]) == 1


# ------------------------------------------------------------------------------- its end


def close(store: FileBudgetStore) -> None:
    store.close()


def leave(store: FileBudgetStore) -> None:
    with store as entered:
        assert entered is store


def close_twice(store: FileBudgetStore) -> None:
    store.close()
    store.close()


@pytest.mark.parametrize("end", [close, leave, close_twice])
def test_a_closed_store_leaves_the_path_to_another_process(
    path: Path, end: Callable[[FileBudgetStore], None]
) -> None:
    store = FileBudgetStore(path)
    store.save(OLD)
    assert f"in use by process {os.getpid()}:" in said_by(path, LOAD)
    end(store)
    assert said_by(path, LOAD) == "400"
    with pytest.raises(StoreError, match=r"the store was closed\. Load it first"):
        store.save(NEW)
    assert store.load() == OLD
    store.save(NEW)
    assert "in use by" in said_by(path, LOAD)


def test_a_store_that_was_never_used_is_closed_too(path: Path) -> None:
    with FileBudgetStore(path):
        pass
    assert files(path) == []


def test_a_store_that_nobody_refers_to_leaves_the_path_to_another_process(path: Path) -> None:
    store = FileBudgetStore(path)
    store.save(OLD)
    del store
    gc.collect()
    assert said_by(path, LOAD) == "400"


def test_an_older_store_that_ends_takes_nothing_from_the_newer(path: Path) -> None:
    older, newer = FileBudgetStore(path), FileBudgetStore(path)
    older.save(OLD)
    newer.load()
    older.close()
    del older
    gc.collect()
    assert "in use by" in said_by(path, LOAD)
    newer.save(NEW)


def test_no_store_leaves_a_descriptor_open(path: Path) -> None:
    other = Path(f"{path}2")
    FileBudgetStore(other).save(OLD)
    assert said_by(path, THREE_MORE).splitlines() == ["None"] * 3 + ["True"]
    with holder(other) as (process, _):
        *errors, same = said_by(path, THREE_MORE).splitlines()
    assert [f"in use by process {process.pid}:" in error for error in errors] == [True] * 3
    assert same == "True"


# ------------------------------------------------------------------------------- the lock file


def test_the_lock_file_says_who_has_it_to_its_owner_alone_and_stays(path: Path) -> None:
    with FileBudgetStore(path) as store:
        store.save(OLD)
        lock = Path(f"{path}.lock")
        assert lock.read_text() == f"{os.getpid()}\n"
        lock.chmod(0o666)
        was = lock.stat()
        store.clear()
    FileBudgetStore(path).load()
    assert os.path.samestat(lock.stat(), was)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o600
    assert files(path) == [LOCK]


def test_a_process_id_that_was_longer_leaves_nothing_behind(path: Path) -> None:
    Path(f"{path}.lock").write_text("1234567890123\n")
    store = FileBudgetStore(path)
    store.save(OLD)
    assert f"in use by process {os.getpid()}:" in said_by(path, LOAD)


def test_a_lock_file_that_cannot_say_who_has_it_locks_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "full")

    store = FileBudgetStore(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fail)
        assert store.load() is None
    store.save(OLD)
    assert "in use by another process:" in said_by(path, LOAD)


def test_a_lock_file_that_was_removed_is_made_again(path: Path) -> None:
    store = FileBudgetStore(path)
    store.save(OLD)
    os.unlink(f"{path}.lock")
    store.save(NEW)
    assert files(path) == [NAME, LOCK]
    assert "in use by" in said_by(path, LOAD)


def test_a_folder_that_was_removed_is_made_again(path: Path) -> None:
    store = FileBudgetStore(path)
    store.save(OLD)
    for file in path.parent.iterdir():
        file.unlink()
    path.parent.rmdir()
    store.save(NEW)
    assert store.load() == NEW


def test_a_process_that_locked_a_new_lock_file_is_not_written_over(path: Path) -> None:
    tracker = tracker_on(path)
    tracker.record({"total_tokens": 1})
    os.unlink(f"{path}.lock")
    with holder(path) as (process, said):
        assert said == "None"
        tracker.record({"total_tokens": 10})
        assert "its lock file was replaced" in str(tracker.store_error)
        process.kill()
        process.wait()
    assert tracker.is_at_limit()
    assert tokens_in(path) == 6


@pytest.mark.parametrize(("put", "what"), KINDS)
def test_what_is_no_plain_file_in_the_locks_place_is_named_denied_and_left_alone(
    path: Path, put: Callable[[Path], None], what: str
) -> None:
    lock = Path(f"{path}.lock")
    lock.write_bytes(b"a victim")
    put(lock)
    for use, given in (("load", ()), ("save", (OLD,)), ("clear", ())):
        with pytest.raises(StoreError, match=f"is {what}, not a plain file") as caught:
            getattr(FileBudgetStore(path), use)(*given)
        assert not isinstance(caught.value, StateCorruptError)
    assert victims_in(path) <= {b"a victim"}
    assert not path.exists()
    lock.rmdir() if lock.is_dir() and not lock.is_symlink() else lock.unlink()
    FileBudgetStore(path).save(OLD)


@pytest.mark.parametrize("put", [put for put, _ in KINDS])
def test_what_takes_the_locks_place_after_the_first_look_is_not_written_to(
    path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path], None]
) -> None:
    lock = Path(f"{path}.lock")
    lock.write_bytes(b"a victim")
    seen = os.lstat(lock)
    put(lock)
    monkeypatch.setattr(os, "lstat", lambda path: seen)
    with pytest.raises(StoreError, match="cannot lock"):
        FileBudgetStore(path).save(OLD)
    monkeypatch.undo()
    assert victims_in(path) <= {b"a victim"}


def victims_in(path: Path) -> set[bytes]:
    return {file.read_bytes() for file in path.parent.iterdir() if file.is_file()}


def test_a_folder_swapped_for_a_link_into_the_workspace_gets_no_lock_file(path: Path) -> None:
    workspace = path.with_name("workspace")
    workspace.mkdir()
    folder = path.with_name("safe")
    store = FileBudgetStore(folder / NAME, workspace=workspace)
    folder.symlink_to(workspace)
    for use in (store.load, lambda: store.save(OLD), store.clear):
        with pytest.raises(StoreError, match="inside the agent's workspace"):
            use()
    assert os.listdir(workspace) == []


def test_where_nothing_can_be_locked_it_is_an_error_of_the_store(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    with monkeypatch.context() as patch:
        patch.setattr(file_lock, "_seize", fail)
        tracker = tracker_on(path)
        assert "cannot lock budget state" in str(tracker.store_error)
        assert tracker.is_at_limit()
        assert not is_open(Path(f"{path}.lock"))
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()


def is_open(path: Path) -> bool:
    """Tell whether this process has that file open."""
    found = path.stat()
    for file in os.listdir("/dev/fd"):
        try:
            if os.path.samestat(os.fstat(int(file)), found):
                return True
        except OSError:  # that of the listing itself
            pass
    return False


def test_a_lock_file_that_was_removed_before_it_was_locked_is_made_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seize = file_lock._seize

    def remove(file: int) -> None:
        monkeypatch.setattr(file_lock, "_seize", seize)
        os.unlink(f"{path}.lock")
        seize(file)

    monkeypatch.setattr(file_lock, "_seize", remove)
    store = FileBudgetStore(path)
    store.save(OLD)
    assert "in use by" in said_by(path, LOAD)


def test_a_platform_with_windows_locks_will_do(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: set[int] = set()

    def locking(file: int, mode: int, count: int) -> None:
        assert os.lseek(file, 0, os.SEEK_CUR) > 32  # a locked byte cannot be read
        place = os.fstat(file).st_ino
        if mode == windows.LK_NBLCK and place in locked:
            raise PermissionError(errno.EACCES, "locked")
        (locked.add if mode == windows.LK_NBLCK else locked.discard)(place)

    windows: Any = ModuleType("msvcrt")
    windows.LK_NBLCK, windows.LK_UNLCK, windows.locking = 2, 0, locking
    monkeypatch.setitem(sys.modules, "msvcrt", windows)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delattr(os, "register_at_fork")
    claims = [module.PathClaim(str(path)) for module in (there(), there())]  # as two processes
    with claims[0].used():
        assert len(locked) == 1
    with pytest.raises(StoreError, match=f"in use by process {os.getpid()}:"), claims[1].used():
        pass
    claims[0].release()
    assert not locked
    with claims[1].used(reading=True):
        assert len(locked) == 1
    claims[1].release()


def there() -> Any:
    spec = importlib.util.spec_from_file_location("file_lock_there", file_lock.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
