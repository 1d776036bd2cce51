"""The durable file store, with disks, umasks, links and crashes against it."""

import errno
import importlib.util
import json
import os
import signal
import socket
import stat
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from budget_core.checksum import encode
from budget_core.errors import StateCorruptError, StoreError
from budget_cpython import DailyBudgetConfig, DailyBudgetTracker, FileBudgetStore, plain_file
from budget_cpython.files import store as file_store

OLD = {"day": 20_000, "tokens": 400, "ahead": 0, "warned": 0, "announced": 0, "behind": 0}
NEW = dict(OLD, tokens=401)
NOON = 20_000 * 86_400 + 43_200
DAILY = DailyBudgetConfig(daily_budget=1000, enforcement="cutoff")
NAME = "state.json"
LOCK = "state.json.lock"
WATCHED = {"close", "fsync", "mkdir", "open", "replace", "unlink"}
READS = {"fstat", "lstat", "open"}


class Calls:
    """The store's `os`: lists its calls, and fails the `nth` (and what follows, if `on`)."""

    def __init__(
        self,
        nth: int = -1,
        code: int = 0,
        on: bool = False,
        names: set[str] = WATCHED,
        **instead: Callable[..., Any],
    ) -> None:
        self.log: list[str] = []
        self.opened: dict[int, str] = {}
        self._nth, self._code, self._on = nth, code, on
        self._names = names
        self._instead = instead

    def __getattr__(self, name: str) -> Any:
        real = self._instead.get(name) or getattr(os, name)
        if name not in self._names:
            return real

        def call(target: Any, *args: Any, **options: Any) -> Any:
            self.log.append(f"{name} {self.opened.get(target) or os.path.basename(target)}")
            late = len(self.log) - 1 - self._nth if self._nth >= 0 else -1
            fails = late == 0 or (late > 0 and self._on)
            if name == "close" or not fails:
                result = real(target, *args, **options)
                if name == "open":
                    self.opened[result] = os.path.basename(target)
            if fails:
                raise OSError(self._code, os.strerror(self._code))
            return result

        return call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "kept"
    folder.mkdir()
    return folder / NAME


@pytest.fixture
def store(path: Path) -> FileBudgetStore:
    store = FileBudgetStore(path)
    store.save(OLD)
    return store


@pytest.fixture
def no_hang() -> Iterator[None]:
    def give_up(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 60)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def watch(monkeypatch: pytest.MonkeyPatch, **options: Any) -> Calls:
    calls = Calls(**options)
    for module in (file_store, plain_file):
        monkeypatch.setattr(module, "os", calls)
    return calls


def files(path: Path) -> list[str]:
    return sorted(os.listdir(path.parent))


def is_open(path: Path) -> bool:
    """Tell whether this process has a file open."""
    found = path.stat()
    for file in os.listdir("/dev/fd"):
        try:
            if os.path.samestat(os.fstat(int(file)), found):
                return True
        except OSError:  # the descriptor of the listing itself
            pass
    return False


def tracker_on(path: Path, **options: Any) -> DailyBudgetTracker:
    return DailyBudgetTracker(DAILY, clock=lambda: NOON, store=FileBudgetStore(path, **options))


def restarted(path: Path) -> int:
    """Return what a tracker counts after a restart."""
    with FileBudgetStore(path) as store:
        return DailyBudgetTracker(DAILY, lambda: NOON, store).total_tokens


def sealed(text: bytes) -> bytes:
    """Return `text` as a stored state with the right checksum, as a forger would."""
    return b'["%08x",' % zlib.crc32(text) + text + b"]"


def stored(state: dict[str, Any]) -> bytes:
    """Return what the file of that state contains."""
    return encode({"microbudget": 1, **state}, file_store.MAX_BYTES)


def text_of(state: dict[str, Any]) -> bytes:
    """Return a state's text, for `sealed`."""
    return json.dumps({"microbudget": 1, **state}, separators=(",", ":")).encode()


# ------------------------------------------------------------------------------- what it keeps


def test_what_is_saved_is_loaded(store: FileBudgetStore) -> None:
    store.close()
    assert FileBudgetStore(store.path).load() == OLD


def test_no_file_is_no_state_and_clear_leaves_none(store: FileBudgetStore, path: Path) -> None:
    store.clear()
    assert store.load() is None
    assert files(path) == [LOCK]


def test_only_the_state_is_left_after_a_save(store: FileBudgetStore, path: Path) -> None:
    store.save(NEW)
    assert files(path) == [NAME, LOCK]


def test_the_path_stays_where_it_was_when_the_process_changes_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = FileBudgetStore("a/b.json")
    monkeypatch.chdir("/")
    store.save(OLD)
    assert (tmp_path / "a" / "b.json").is_file()


@pytest.mark.parametrize("bad", ["", "folder/", "nul\0.json", b"budget.json"])
def test_a_path_that_names_no_file_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="path must name a file"):
        FileBudgetStore(bad)


@pytest.mark.parametrize("umask", [0, 0o022, 0o077])
def test_files_are_0600_and_folders_0700_under_any_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        FileBudgetStore(tmp_path / "a" / "b" / NAME).save(OLD)
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(made.stat().st_mode) for made in sorted(tmp_path.rglob("*"))]
    assert modes == [0o700, 0o700, 0o600, 0o600]


def test_a_file_that_others_could_read_is_0600_after_the_next_save(
    store: FileBudgetStore, path: Path
) -> None:
    path.chmod(0o666)
    store.save(NEW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_path_through_a_folder_to_be_made_and_back_is_made(tmp_path: Path) -> None:
    store = FileBudgetStore(tmp_path / "new" / ".." / "other" / NAME)
    store.save(OLD)
    assert store.load() == OLD


# ------------------------------------------------------------------------------- durability


def test_a_save_syncs_the_whole_file_before_and_the_folder_after_the_rename(
    store: FileBudgetStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []

    def sync(file: int) -> None:
        new = Path(f"{path}.microbudget.tmp")
        synced.append(new.read_bytes() if new.exists() else b"")
        os.fsync(file)

    calls = watch(monkeypatch, fsync=sync)
    store.save(NEW)
    assert calls.log == [
        "open state.json",
        "unlink state.json.microbudget.tmp",
        "open state.json.microbudget.tmp",
        "fsync state.json.microbudget.tmp",
        "replace state.json.microbudget.tmp",
        "open kept",
        "fsync kept",
        "close kept",
    ]
    assert synced == [stored(NEW), b""]


def test_each_new_folder_is_synced_into_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = watch(monkeypatch)
    FileBudgetStore(tmp_path / "a" / "b" / NAME).save(OLD)
    kept = [line for line in calls.log if line.split()[0] in ("mkdir", "fsync")]
    expected = ["mkdir a", f"fsync {tmp_path.name}", "mkdir b", "fsync a"]
    assert kept == expected + ["fsync state.json.microbudget.tmp", "fsync b"]


def calls_of_a_save(folder: Path) -> list[str]:
    """Return the calls of a save that makes two folders, to fail each in turn."""
    with pytest.MonkeyPatch.context() as patch:
        folder.mkdir()
        calls = watch(patch)
        FileBudgetStore(folder / "a" / "b" / NAME).save(OLD)
        return calls.log


@pytest.mark.parametrize("on", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_whatever_call_of_a_save_fails_a_whole_state_stays_and_the_next_save_works(
    store: FileBudgetStore, path: Path, monkeypatch: pytest.MonkeyPatch, code: int, on: bool
) -> None:
    steps = watch(monkeypatch)
    store.save(OLD)
    for nth, step in enumerate(steps.log):
        watch(monkeypatch, nth=nth, code=code, on=on)
        with pytest.raises(StoreError, match="cannot write") as caught:
            store.save(NEW)
        assert isinstance(caught.value.cause, OSError)
        assert caught.value.cause.errno == code
        for module in (file_store, plain_file):
            monkeypatch.setattr(module, "os", os)
        renamed = nth > steps.log.index("replace state.json.microbudget.tmp")
        assert store.load() == (NEW if renamed else OLD), step
        store.save(OLD)
        assert files(path) == [NAME, LOCK]
        assert store.load() == OLD


@pytest.mark.parametrize("on", [False, True], ids=["once", "from then on"])
def test_whatever_call_of_a_first_save_fails_the_next_one_works(tmp_path: Path, on: bool) -> None:
    for nth, step in enumerate(calls_of_a_save(tmp_path / "dry")):
        store = FileBudgetStore(tmp_path / str(nth) / "a" / "b" / NAME)
        (tmp_path / str(nth)).mkdir()
        with pytest.MonkeyPatch.context() as patch:
            watch(patch, nth=nth, code=errno.EIO, on=on)
            with pytest.raises(StoreError):
                store.save(OLD)
        assert store.load() in (None, OLD), step
        store.save(NEW)
        assert store.load() == NEW, step


def test_a_folder_that_could_not_be_synced_into_its_parent_is_made_again(tmp_path: Path) -> None:
    nth = calls_of_a_save(tmp_path / "dry").index("fsync dry")
    (tmp_path / "wet").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        watch(patch, nth=nth, code=errno.EIO)
        with pytest.raises(StoreError):
            FileBudgetStore(tmp_path / "wet" / "a" / NAME).save(OLD)
    assert os.listdir(tmp_path / "wet") == []


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_state_that_cannot_be_read_now_is_an_error_but_not_corrupt(
    store: FileBudgetStore, path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    reads = watch(monkeypatch, names=READS)
    store.load()
    for nth, step in enumerate(reads.log):
        watch(monkeypatch, nth=nth, code=code, names=READS)
        with pytest.raises(StoreError, match="cannot read") as caught:
            store.load()
        assert not isinstance(caught.value, StateCorruptError), step
        assert not is_open(path), step


def test_a_file_system_that_cannot_sync_folders_will_do(
    store: FileBudgetStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = watch(monkeypatch)
    store.save(NEW)
    watch(monkeypatch, nth=steps.log.index("fsync kept"), code=errno.EINVAL)
    store.save(OLD)
    assert store.load() == OLD


def test_a_platform_without_the_posix_flags_will_do(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK"):
        monkeypatch.delattr(os, name)
    spec = importlib.util.spec_from_file_location("plain_file_there", plain_file.__file__)
    assert spec is not None
    assert spec.loader is not None
    there = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(there)
    for name in ("read_plain", "replace_file", "NotPlainError"):
        monkeypatch.setattr(file_store, name, getattr(there, name))
    store = FileBudgetStore(path)
    store.save(OLD)
    store.save(NEW)
    assert store.load() == NEW
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    with pytest.raises(StoreError, match="not a plain file"):
        store.load()


@pytest.mark.parametrize("keep", [0, 1, 60, None])
@pytest.mark.parametrize("before", [None, OLD])
def test_what_an_unfinished_save_left_is_never_read_and_goes_with_the_next(
    path: Path, before: dict[str, Any] | None, keep: int | None
) -> None:
    store = FileBudgetStore(path)
    if before:
        store.save(before)
    Path(f"{path}.microbudget.tmp").write_bytes(stored(NEW)[:keep])
    assert store.load() == before
    store.save(NEW)
    assert store.load() == NEW
    assert files(path) == [NAME, LOCK]


# ------------------------------------------------------------------------------- what lies there


def put_symlink(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def put_dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def put_endless(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def put_hard_link(path: Path) -> None:
    os.link(path, path.with_name("another name"))


def put_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def put_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def put_socket(path: Path) -> None:
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is at most some 100 bytes long
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


PUT = [put_symlink, put_dangling, put_endless, put_hard_link, put_folder, put_fifo, put_socket]


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("put", PUT)
def test_only_a_plain_file_is_used_and_anything_else_denies_and_is_left_alone(
    store: FileBudgetStore, path: Path, put: Callable[[Path], None]
) -> None:
    put(path)
    before = look_of(path.parent)
    for use in (store.load, lambda: store.save(NEW), store.clear):
        with pytest.raises(StoreError, match=r"state.json' is not a plain file.* left alone"):
            use()
    store.close()
    for _ in range(2):
        tracker = tracker_on(path)
        assert tracker.is_at_limit()
        assert "state.json' is not a plain file" in str(tracker.store_error)
        tracker.record({"total_tokens": 1})
        tracker.maybe_auto_reset()
        assert not tracker.flush()
    assert look_of(path.parent) == before


def look_of(folder: Path) -> dict[str, object]:
    """Return what every name in a folder is, and holds."""
    return {
        path.name: (
            path.lstat().st_mode,
            path.lstat().st_ino,
            path.read_bytes() if stat.S_ISREG(path.lstat().st_mode) else None,
        )
        for path in folder.iterdir()
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a device")
def test_a_device_is_refused_and_stays_a_device(path: Path) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except OSError:
        pytest.skip("devices cannot be made here")
    tracker = tracker_on(path)
    tracker.record({"total_tokens": 1})
    assert tracker.is_at_limit()
    assert "is not a plain file" in str(tracker.store_error)
    assert stat.S_ISCHR(path.lstat().st_mode)
    assert files(path) == [NAME]


FOREIGN = {
    "a configuration": b'{"model": "small-model", "retries": 3}\n',
    "a poem": b"Rough winds do shake the darling buds of May,\n",
    "a list": b"[1]",
    "a short list": b'["a"]',
    "a release": b'["1.0.0"]\n',
    "a record that names us": b'["notacrc!",{"microbudget":1}]',
    "a state of a newer version": sealed(
        text_of(OLD).replace(b'"microbudget":1', b'"microbudget":2')
    ),
    "a record": b'["a1b2c3d4",{"id":7}]',
    "a checked record": sealed(b'{"id":7}'),
    "a sealed list": sealed(b"[1]"),
    "another program's count": b'{"day_key": 20000, "total_tokens": 1}',
    "one byte": b"7",
    "a line end": b"\n",
    "nothing but zeros": bytes(160),
    "an erased sector": b"\xff" * 160,
    "deep": b"[" * 200_000,
    "a mark in front": b"\xef\xbb\xbf" + stored(OLD),
    "a space in front": b" " + stored(OLD),
    "more than a state has": stored(OLD) + b" " * 4096,
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN.keys())
def test_a_file_that_is_not_a_state_is_refused_by_name_and_left_as_it_was(
    path: Path, data: bytes
) -> None:
    path.write_bytes(data)
    path.chmod(0o644)
    before = look_of(path.parent)
    for _ in range(2):
        tracker = tracker_on(path)
        assert tracker.is_at_limit()
        assert f"{str(path)!r} is not a budget state" in str(tracker.store_error)
        assert tracker.state_error is None
        tracker.record({"total_tokens": 1})
        tracker.maybe_auto_reset()
        assert not tracker.flush()
    store = FileBudgetStore(path)
    for use in (store.load, lambda: store.save(NEW), store.clear):
        with pytest.raises(StoreError, match="another version: it is left alone"):
            use()
    assert look_of(path.parent) == before


def test_a_file_that_takes_the_states_place_is_left_as_it_was(path: Path) -> None:
    tracker = tracker_on(path)
    tracker.record({"total_tokens": 1})
    path.write_bytes(FOREIGN["a poem"])
    tracker.record({"total_tokens": 1})
    assert tracker.is_at_limit()
    assert path.read_bytes() == FOREIGN["a poem"]
    path.unlink()
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()
    assert json.loads(path.read_bytes())[1]["tokens"] == 2


def test_a_refused_file_that_is_moved_away_lets_the_day_begin(path: Path) -> None:
    path.write_bytes(FOREIGN["a configuration"])
    tracker = tracker_on(path)
    path.rename(path.with_name("config.json"))
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()


@pytest.mark.parametrize("data", [b"[[package]]\n", b"3.14\n", b"12 34", b"9" * 40])
def test_a_lock_file_that_is_something_else_is_left_as_it_was(path: Path, data: bytes) -> None:
    path.with_name(LOCK).write_bytes(data)
    tracker = tracker_on(path)
    assert tracker.is_at_limit() is (data != b"9" * 40)
    if tracker.is_at_limit():
        assert "state.json.lock' is not a lock" in str(tracker.store_error)
        assert path.with_name(LOCK).read_bytes() == data


def test_a_device_is_not_opened() -> None:
    with pytest.raises(plain_file.NotPlainError, match="'/dev/zero' is not a plain file"):
        plain_file.open_plain("/dev/zero", os.O_RDONLY)


@pytest.mark.usefixtures("no_hang")
@pytest.mark.parametrize("put", [put_symlink, put_fifo, put_endless, put_folder, put_hard_link])
def test_what_takes_the_files_place_after_the_first_look_is_not_read_either(
    store: FileBudgetStore, path: Path, monkeypatch: pytest.MonkeyPatch, put: Callable[[Path], None]
) -> None:
    seen = os.lstat(path)
    put(path)
    watch(monkeypatch, lstat=lambda path: seen)
    with pytest.raises(StoreError):
        store.load()


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("put", [put_symlink, put_dangling, put_hard_link, put_fifo, put_socket])
def test_anything_under_the_temporary_name_is_removed_and_not_written_to(
    store: FileBudgetStore, path: Path, put: Callable[[Path], None], first: bool
) -> None:
    if first:
        store.clear()
    new = Path(f"{path}.microbudget.tmp")
    new.write_bytes(b"a victim")
    put(new)
    store.save(NEW)
    assert store.load() == NEW
    assert not os.path.lexists(new)
    assert not path.with_name("nowhere").exists()
    for victim in ("elsewhere", "another name"):
        if path.with_name(victim).exists():
            assert path.with_name(victim).read_bytes() == b"a victim"


@pytest.mark.parametrize("put", [put_symlink, put_dangling, put_hard_link, put_fifo])
@pytest.mark.usefixtures("no_hang")
def test_what_appears_under_the_temporary_name_in_between_is_not_written_to(
    store: FileBudgetStore,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    put: Callable[[Path], None],
) -> None:
    new = Path(f"{path}.microbudget.tmp")
    new.write_bytes(b"a victim")
    put(new)
    victims = {file: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    watch(monkeypatch, unlink=lambda path: None)
    with pytest.raises(StoreError):
        store.save(NEW)
    assert {file: file.read_bytes() for file in victims} == victims
    assert not path.with_name("nowhere").exists()
    assert store.load() == OLD


def test_a_folder_under_the_temporary_name_keeps_the_old_state(
    store: FileBudgetStore, path: Path
) -> None:
    Path(f"{path}.microbudget.tmp").mkdir()
    with pytest.raises(StoreError):
        store.save(NEW)
    assert store.load() == OLD


DAMAGED = {
    "empty": b"",
    "a byte": b"[",
    "the head": stored(OLD)[:27],
    "half": stored(OLD)[:60],
    "half zeros": stored(OLD)[:60] + bytes(60),
    "another checksum": b'["01234567"' + stored(OLD)[11:],
    "edited": stored(OLD).replace(b"400", b"4"),
    "deep within bounds": sealed(b'{"microbudget":1,"tokens":' + b"[" * 4000),
    "a long integer": sealed(text_of(OLD).replace(b"400", b"9" * 3900)),
    "trailing": stored(OLD) + b"\n",
    "twice": stored(OLD) * 2,
    "negative": stored(dict(OLD, tokens=-5)),
    "not finite": sealed(text_of(OLD).replace(b"400", b"NaN")),
    "infinite": sealed(text_of(OLD).replace(b"400", b"1e999")),
    "fraction": stored(dict(OLD, tokens=0.5)),
    "text": stored(dict(OLD, tokens="1")),
    "boolean": stored(dict(OLD, tokens=True)),
    "nothing in it": stored({}),
}
UNREADABLE = [name for name in DAMAGED if sealed(DAMAGED[name][12:-1]) != DAMAGED[name]]


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_damaged_state_denies_and_stays_denied_after_a_restart(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert restarted(path) == 1000
    assert restarted(path) == 1000


def test_a_damaged_state_says_so_and_what_to_do(path: Path) -> None:
    path.write_bytes(DAMAGED["half"])
    for restarts in range(2):
        with FileBudgetStore(path) as store:
            tracker = DailyBudgetTracker(DAILY, lambda: NOON, store)
            for mode in ("cutoff", "fallback", "warn"):
                message = tracker.at_limit_message(mode)
                assert "damaged" in message, message
                assert "1000/1000" not in message
            if restarts == 0:
                reason = str(tracker.state_error)
                assert f"{str(path)!r}: stored state is damaged or was edited" in reason
                assert f"a copy is in '{path}.damaged'" in reason
                assert "stop the program and remove the file" in reason
    path.unlink()
    assert restarted(path) == 0


@pytest.mark.parametrize("name", UNREADABLE)
def test_the_bytes_of_a_damaged_state_are_kept_for_their_owner_alone(path: Path, name: str) -> None:
    kept = path.with_name(NAME + ".damaged")
    before = os.umask(0)
    try:
        path.write_bytes(DAMAGED[name])
        restarted(path)
        restarted(path)
    finally:
        os.umask(before)
    if name == "empty":
        assert not kept.exists()
    else:
        assert kept.read_bytes() == DAMAGED[name]
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_one_damaged_state_is_kept_the_newest(path: Path) -> None:
    for name in ("half", "edited", "empty"):
        path.write_bytes(DAMAGED[name])
        restarted(path)
    assert files(path) == [NAME, f"{NAME}.damaged", LOCK]
    assert path.with_name(NAME + ".damaged").read_bytes() == DAMAGED["edited"]


@pytest.mark.parametrize("put", [*PUT, None])
def test_a_damaged_state_is_not_kept_over_a_file_of_others(
    path: Path, put: Callable[[Path], None] | None
) -> None:
    kept = path.with_name(NAME + ".damaged")
    kept.write_bytes(FOREIGN["a poem"])
    if put:
        put(kept)
    before = look_of(path.parent)
    path.write_bytes(DAMAGED["half"])
    tracker = tracker_on(path)
    assert tracker.is_at_limit()
    assert "could not be copied: " in str(tracker.state_error)
    after = look_of(path.parent)
    assert {name: after[name] for name in before} == before


def test_a_disk_without_room_for_the_copy_denies_all_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sync(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path.write_bytes(DAMAGED["half"])
    watch(monkeypatch, fsync=sync)
    tracker = tracker_on(path)
    assert tracker.is_at_limit()
    assert "No space left" in str(tracker.state_error)
    assert path.read_bytes() == DAMAGED["half"]


def test_a_day_whose_file_is_damaged_may_use_the_allowance(path: Path) -> None:
    path.write_bytes(b"")
    tracker = tracker_on(path, allowance=100)
    assert tracker.total_tokens == 900
    assert not tracker.is_at_limit()


@pytest.mark.parametrize("allowance", [-1, 0.5, "1", True, None])
def test_an_allowance_is_a_whole_number(path: Path, allowance: Any) -> None:
    with pytest.raises(ValueError, match="allowance"):
        FileBudgetStore(path, allowance=allowance)


def test_a_key_stated_twice_never_lowers_the_count_below_its_last(path: Path) -> None:
    twice = text_of(OLD).replace(b'"day"', b'"tokens":1,"day"')
    path.write_bytes(sealed(twice))
    assert restarted(path) >= 400


def test_a_hundred_megabytes_are_not_read_into_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match="is not a budget state"):
            FileBudgetStore(path).load()
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_copy_from_an_earlier_day_does_not_count_for_today(path: Path) -> None:
    path.write_bytes(stored(dict(OLD, day=19_999)))
    assert restarted(path) == 0


def test_no_flipped_bit_and_no_truncation_lowers_a_count_or_raises(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch(monkeypatch, fsync=lambda file: None)
    whole = stored(OLD)
    damaged = [whole[:length] for length in range(len(whole))]
    for place in range(0, len(whole) * 8, 7):  # each bit of a byte in turn
        flipped = bytearray(whole)
        flipped[place // 8] ^= 1 << place % 8
        damaged.append(bytes(flipped))
    for data in damaged:
        path.write_bytes(data)
        assert restarted(path) == 1000


def test_a_disk_that_fails_denies_and_recovers_with_the_count_it_had(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileBudgetStore(path)
    tracker = DailyBudgetTracker(DAILY, lambda: NOON, store)
    tracker.record({"total_tokens": 100})
    watch(monkeypatch, nth=0, code=errno.ENOSPC, on=True)
    tracker.record({"total_tokens": 100})
    assert tracker.is_at_limit()
    for module in (file_store, plain_file):
        monkeypatch.setattr(module, "os", os)
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()
    store.close()
    assert restarted(path) == 200


# ------------------------------------------------------------------------------- workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Return an agent's folder, with links to it and out of it beside."""
    folder = tmp_path / "workspace"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "safe").mkdir()
    (tmp_path / "link").symlink_to("workspace")
    (tmp_path / "deep").symlink_to("workspace/sub")
    (tmp_path / "inward.json").symlink_to(folder / NAME)
    (folder / "outward").symlink_to(tmp_path / "safe")
    (folder / "outward.json").symlink_to(tmp_path / "safe" / NAME)
    (folder / "sub" / "outward.json").symlink_to(tmp_path / "safe" / NAME)
    return folder


INSIDE = [
    "workspace/state.json",
    "workspace",
    "workspace/sub/new/state.json",
    "safe/../workspace/state.json",
    "link/state.json",
    "deep/state.json",
    "deep/../state.json",
    "inward.json",
    "workspace/outward.json",
    "workspace/outward/state.json",
    "deep/outward.json",
]
OUTSIDE = [
    "safe/state.json",
    "workspace.json",
    "workspace2/state.json",
    "state.json",
    "workspace/../safe/state.json",
]


@pytest.mark.parametrize("spelt", ["workspace", "link", "./safe/../workspace/", "workspace/."])
@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("place", INSIDE)
def test_a_state_inside_the_workspace_is_refused_however_it_is_spelt(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, place: str, relative: bool, spelt: str
) -> None:
    monkeypatch.chdir(workspace.parent)
    root = "" if relative else f"{workspace.parent}/"
    with pytest.raises(ValueError, match="inside the agent's workspace"):
        FileBudgetStore(place, workspace=root + spelt)
    with pytest.raises(ValueError, match="inside the agent's workspace"):
        FileBudgetStore(root + place, workspace=Path(spelt))


@pytest.mark.parametrize("place", OUTSIDE)
def test_a_state_outside_the_workspace_is_kept(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(workspace.parent)
    store = FileBudgetStore(place, workspace="workspace")
    store.save(OLD)
    assert store.load() == OLD


@pytest.mark.parametrize("workspace", ["/", ".", ""])
def test_a_workspace_that_holds_everything_here_refuses_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workspace: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="inside the agent's workspace"):
        FileBudgetStore(NAME, workspace=workspace)


def test_a_workspace_known_by_another_name_is_recognised(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.path.realpath", os.path.abspath)  # as where it is mounted twice
    with pytest.raises(ValueError, match="inside the agent's workspace"):
        FileBudgetStore(workspace.parent / "link" / NAME, workspace=workspace)


def test_a_workspace_that_is_yet_to_be_made_is_recognised_through_links(workspace: Path) -> None:
    with pytest.raises(ValueError, match="inside the agent's workspace"):
        FileBudgetStore(workspace / "new" / NAME, workspace=workspace.parent / "link" / "new")


def test_the_workspace_stays_where_it_was_when_the_process_changes_folder(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace.parent)
    store = FileBudgetStore("safe/state.json", workspace="workspace")
    monkeypatch.chdir("/")
    (workspace.parent / "safe").rmdir()
    (workspace.parent / "safe").symlink_to("workspace")
    with pytest.raises(StoreError):
        store.save(OLD)


def test_a_folder_swapped_for_a_link_into_the_workspace_is_neither_written_nor_read(
    workspace: Path,
) -> None:
    safe = workspace.parent / "safe"
    store = FileBudgetStore(safe / NAME, workspace=workspace)
    store.save(OLD)
    safe.rename(safe.with_name("moved"))
    safe.symlink_to(workspace)
    (workspace / NAME).write_bytes(stored(dict(OLD, tokens=0)))
    with pytest.raises(StoreError, match="inside the agent's workspace by now"):
        store.save(NEW)
    with pytest.raises(StoreError, match="inside the agent's workspace by now"):
        store.load()
    assert json.loads((workspace / NAME).read_bytes())[1]["tokens"] == 0
    assert DailyBudgetTracker(DAILY, lambda: NOON, store).is_at_limit()


def test_a_workspace_turned_into_a_link_to_the_states_folder_is_noticed(workspace: Path) -> None:
    store = FileBudgetStore(workspace.parent / "safe" / NAME, workspace=workspace)
    workspace.rename(workspace.with_name("moved"))
    workspace.symlink_to("safe")
    with pytest.raises(StoreError):
        store.save(OLD)
