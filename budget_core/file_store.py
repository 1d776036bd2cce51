"""Keep a tracker's state in two files written in turn, on littlefs, FAT and POSIX."""

import os
from errno import EEXIST, EIO, ENOENT

from budget_core.errors import StateCorruptError, StoreError
from budget_core.frame import decode, encode
from budget_core.limits import check_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from budget_core.shapes import *

SLOT_BYTES = 128  # a file of this size lies in littlefs's own metadata: an update costs no block


class FileBudgetStore:
    """Two slots with a checksum each, of which the newer whole one counts; made for chips.

    `path` is a folder. A save overwrites the older slot where it lies, so that neither a power cut
    nor a flash that wears out touches the newer one; each slot has a folder to itself, because FAT
    rewrites a file's folder with it. A state has at most 128 bytes, its checksum included.

    A flipped bit is mended. A slot that a power cut left half written, or took, gives way to the
    other. Where neither is whole, or one has lost a part, which no power cut does, the state cannot
    be trusted. That both are missing means a new board only where `provision` never came to its
    end: it leaves a file `made`. `provisioned` says the same from outside, for a board whose file
    system is formatted anew when it cannot be mounted. `allowance` is how many tokens a day with a
    state that cannot be trusted may still use. Source: seed 001.
    """

    def __init__(self, path: str, provisioned: bool = False, allowance: int = 0) -> None:
        self.path = str(path).rstrip("/")
        self.provisioned = provisioned
        self.allowance = check_count("allowance", allowance)
        self._older = self._number = -1  # not looked at yet

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, allowance={self.allowance!r})"

    def load(self) -> "dict[str, Any] | None":
        """Return the state, or `None` where nothing was saved yet.

        Raises `StateCorruptError` for slots that cannot be trusted, `StoreError` for a file that
        cannot be read.
        """
        try:
            slots = [self._slot(0), self._slot(1)]
            self._older = 1 if _number(slots[0]) > _number(slots[1]) else 0
            newest = slots[1 - self._older]
            self._number = max(0, _number(newest))
            used = self._number > 0 or self.provisioned or _size(self._made()) is not None
            if used and "cut" in slots:
                raise StateCorruptError(f"a slot of {self.path!r} has lost a part, or gained one")
            if isinstance(newest, dict):
                newest.pop("seq")
                return newest or None
            if used:
                raise StateCorruptError(f"neither slot of {self.path!r} is whole")
            return None
        except OSError as error:
            raise StoreError(f"cannot read budget state {self.path!r}: {error}", error)

    def save(self, state: "dict[str, Any]") -> None:
        """Overwrite the older slot; `StoreError` where that fails, and the newer one stays."""
        if self._older < 0:
            try:
                self.load()
            except StateCorruptError:
                pass
        try:
            if _size(self._made()) is None:
                self.provision()
            data = encode(dict(state, seq=self._number + 1), SLOT_BYTES, True)
            self._write(self._older, data)
        except OSError as error:
            raise StoreError(f"cannot write budget state {self.path!r}: {error}", error)
        self._older = 1 - self._older
        self._number += 1

    def clear(self) -> None:
        """Forget the state; `StoreError` where that fails."""
        self.save({})
        self.save({})

    def provision(self) -> None:
        """Make both slots, and then the file that says so; what is whole stays as it is."""
        for slot in (0, 1):
            if not isinstance(self._slot(slot), dict):
                self._write(slot, encode({"seq": 0}, SLOT_BYTES, True))
        with open(self._made(), "wb") as file:
            file.flush()

    def slots(self) -> "tuple[str, str]":
        """Return what each slot is: newest, older, empty, damaged or missing.

        Raises `StoreError` for a file that cannot be read.
        """
        try:
            found = [self._slot(0), self._slot(1)]
        except OSError as error:
            raise StoreError(f"cannot read budget state {self.path!r}: {error}", error)
        ahead = _number(found[1]) - _number(found[0])
        return _word(found[0], -ahead), _word(found[1], ahead)

    def _made(self) -> str:
        return self.path + "/made"

    def _file(self, slot: int) -> str:
        return f"{self.path}/{slot}/state.json"

    def _slot(self, slot: int) -> "Any":
        """Return a slot's state with its number, or the word for what it is instead."""
        try:
            with open(self._file(slot), "rb") as file:
                data = file.read(SLOT_BYTES + 1)
        except OSError as error:
            # FAT says of a folder in the file's place that nothing is there.
            if error.errno != ENOENT or _size(self._file(slot)) is not None:
                raise
            return "missing"
        if len(data) != SLOT_BYTES:
            return "cut"
        try:
            state: Any = decode(data)
        except StateCorruptError:
            from budget_core.repair import mended  # loaded for the first slot that is not whole

            state = mended(data)
        return "torn" if _number(state) < 0 else state

    def _write(self, slot: int, data: bytes) -> None:
        path = self._file(slot)
        if _size(path) == SLOT_BYTES:
            _put(path, "r+b", data)
        else:
            self._make_folders(path)
            _put(path + ".new", "wb", data)  # whole before it has the name: it is never "cut"
            try:
                os.remove(path)
            except OSError as error:
                if error.errno != ENOENT:
                    raise
            os.rename(path + ".new", path)
        sync = getattr(os, "sync", None)
        if sync is not None:
            sync()
        with open(path, "rb") as file:
            if file.read() != data:
                raise OSError(EIO)

    def _make_folders(self, path: str) -> None:
        end = path.find("/", 1)
        while end > 0:
            try:
                os.mkdir(path[:end])
            except OSError as error:
                if error.errno != EEXIST:
                    raise
            end = path.find("/", end + 1)


def _number(slot: "Any") -> int:
    number = slot.get("seq") if isinstance(slot, dict) else None
    return -1 if isinstance(number, bool) or not isinstance(number, int) else number


def _put(path: str, mode: str, data: bytes) -> None:
    with open(path, mode) as file:
        file.write(data)
        file.flush()


def _word(slot: "Any", ahead: int) -> str:
    if not isinstance(slot, dict):
        return "missing" if slot == "missing" else "damaged"
    if not slot.get("seq"):
        return "empty"
    return "newest" if ahead > 0 else "older"


def _size(path: str) -> int | None:
    """Return a file's size, or `None` where nothing is."""
    try:
        return os.stat(path)[6]
    except OSError:
        return None
