"""Keep a tracker's state in three files written in turn, on littlefs, FAT and POSIX."""

import os
from errno import EEXIST, EIO, ENOENT

from budget_core.checks import check_count, check_text
from budget_core.checksum import decode, encode
from budget_core.errors import StateCorruptError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SLOTS = 3  # two to write in turn, and one more in case FAT loses one
SLOT_BYTES = 128  # a file of this size lies in littlefs's own metadata: an update costs no block


class FileBudgetStore:
    """Three slots with a checksum each, of which the newest whole one counts; made for chips.

    `path` is a folder. A save overwrites the oldest slot where it lies, so that neither a power cut
    nor a flash that wears out touches the newest one; each slot has a folder to itself, because FAT
    rewrites a file's folder with it. A state has at most 128 bytes, its checksum included.

    A flipped bit is repaired. A slot that a power cut left half written, or took, or that can no
    longer be read or written, gives way to the next. Where none is whole, two are half written, or
    one has lost a part, which no power cut does, the state cannot be trusted. That all are missing
    means a new board only where `provision` never came to its end: it leaves a file `made`.
    `provisioned` says the same from outside, for a board whose file system is formatted anew when
    it cannot be mounted. `allowance` is how many tokens a day with a state that cannot be trusted
    may still use. One store writes to a folder: another one gets a `StoreError` at its next save,
    and writes nothing before it has loaded. Raises `ValueError` for an empty path.
    """

    def __init__(self, path: str, provisioned: bool = False, allowance: int = 0) -> None:
        self.path = check_text("path", path).rstrip("/")
        if self.path[:1] != "/":
            self.path = os.getcwd().rstrip("/") + "/" + self.path
        self.provisioned = provisioned
        self.allowance = check_count("allowance", allowance)
        self._turns: list[int] = []  # not looked at yet
        self._number = -1
        self._due = 1  # slots that the next save writes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, allowance={self.allowance!r})"

    def load(self) -> "dict[str, Any] | None":
        """Return the state, or `None` where nothing was saved yet.

        Raises `StateCorruptError` for slots that cannot be trusted, `StoreError` for a file that
        cannot be read.
        """
        try:
            slots = [self._slot(slot) for slot in range(SLOTS)]
            self._turns = _turns(slots)
            self._due = slots.count("cut") or 1
            newest = slots[self._turns[-1]]
            self._number = max(0, _number(newest))
            used = slots.count("missing") < SLOTS or self.provisioned or self._is_made()
            whole = isinstance(newest, dict)
            for slot in slots:
                if isinstance(slot, OSError) and not whole:
                    raise slot
        except OSError as error:
            self._turns = []
            raise StoreError(f"cannot read budget state {self.path!r}: {error}", error)
        if used and (not whole or "cut" in slots or slots.count("torn") > 1):
            raise StateCorruptError(
                f"the slots of {self.path!r} are {', '.join(_words_for(slots))}"
            )
        if not whole:
            return None
        newest.pop("seq")
        return newest or None

    def save(self, state: "dict[str, Any]") -> None:
        """Overwrite the oldest slot; `StoreError` where that fails, and the newest one stays.

        It fails as well where another store has saved since this one last loaded or saved. Two
        that save in the same instant notice at the next save: there is no lock.
        """
        if not self._turns:
            try:
                self.load()
            except StateCorruptError:
                pass
        try:
            if not self._is_made():
                self.provision()
            while self._due:
                self._save(state)
                self._due -= 1
            self._due = 1
        except OSError as error:
            self._turns = []  # whatever it was, it may be over next time
            raise StoreError(f"cannot write budget state {self.path!r}: {error}", error)

    def _save(self, state: "dict[str, Any]") -> None:
        data = encode(dict(state, seq=self._number + 1), SLOT_BYTES, True)
        while True:
            slot = self._turns[0]
            if _number(self._slot(slot)) > self._number:
                raise StoreError(f"{self.path!r} was saved to by another store: one writes to it")
            self._turns.pop(0)
            try:
                self._write(slot, data)
                break
            except OSError:
                if len(self._turns) < 2:  # the newest is not written over
                    raise
        self._turns.append(slot)
        self._number += 1

    def clear(self) -> None:
        """Forget the state; `StoreError` where that fails."""
        for _ in range(SLOTS):
            self.save({})

    def provision(self) -> None:
        """Make the slots, and then the file that says so; what is whole stays as it is.

        Raises `StoreError` where that fails.
        """
        try:
            for slot in range(SLOTS):
                if not isinstance(self._slot(slot), dict):
                    self._write(slot, encode({"seq": 0}, SLOT_BYTES, True))
            _put(self.path + "/made", "wb", b"")
        except OSError as error:
            raise StoreError(f"cannot make budget state {self.path!r}: {error}", error)

    def slots(self) -> "list[str]":
        """Return what each slot is: newest, older, empty, damaged, unreadable or missing."""
        return _words_for([self._slot(slot) for slot in range(SLOTS)])

    def _is_made(self) -> bool:
        return _size(self.path + "/made") is not None

    def _file(self, slot: int) -> str:
        return f"{self.path}/{slot}/state.json"

    def _slot(self, slot: int) -> "Any":
        """Return a slot's state with its number, or what it is instead: a word or an error."""
        try:
            with open(self._file(slot), "rb") as file:
                data = file.read(SLOT_BYTES + 1)
        except OSError as error:
            # FAT says of a folder in the file's place that nothing is there.
            there = error.errno != ENOENT or _size(self._file(slot)) is not None
            return error if there else "missing"
        if len(data) != SLOT_BYTES:
            return "cut"
        try:
            state: Any = decode(data)
        except StateCorruptError:
            from budget_core.bit_repair import repaired  # loaded for the first broken slot

            state = repaired(data)
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


def _words_for(slots: "list[Any]") -> "list[str]":
    from budget_core.slot_report import words_for  # loaded when it is asked for

    return words_for([None if isinstance(slot, OSError) else slot for slot in slots])


def _number(slot: "Any") -> int:
    number = slot.get("seq") if isinstance(slot, dict) else None
    return -1 if isinstance(number, bool) or not isinstance(number, int) else number


def _put(path: str, mode: str, data: bytes) -> None:
    with open(path, mode) as file:
        file.write(data)
        file.flush()


def _turns(slots: "list[Any]") -> "list[int]":
    """Return the slots in the order to write them, the newest last.

    One that cannot be read, or that FAT lost, is left alone while two are there: to make it anew,
    FAT rewrites the table of what is in use, and a cut in the midst of that costs the file system.
    """
    turns = sorted(range(SLOTS), key=lambda slot: (_number(slots[slot]), slot))
    there = [
        slot for slot in turns if slots[slot] != "missing" and not isinstance(slots[slot], OSError)
    ]
    return there if len(there) > 1 else turns


def _size(path: str) -> int | None:
    """Return a file's size, or `None` where nothing is."""
    try:
        return os.stat(path)[6]
    except OSError as error:
        if error.errno != ENOENT:
            raise
        return None
