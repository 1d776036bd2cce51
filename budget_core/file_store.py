"""Keep a tracker's state in three files written in turn, on littlefs, FAT and POSIX."""

import os
from errno import EEXIST, EIO, ENOENT

from budget_core.checks import check_count, check_text
from budget_core.checksum import decode, encode
from budget_core.errors import StateCorruptError, StoreError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SLOTS = 3  # two to write in turn, and a spare for one that FAT loses
SLOT_BYTES = 128  # a file of this size lies in littlefs's own metadata: an update costs no block


class FileBudgetStore:
    """Three slots with a checksum each, of which the newest whole one counts; made for chips.

    `path` is a folder. A save overwrites the oldest slot in place, so that neither a power cut nor
    worn flash touches the newest one; each slot has its own folder, because FAT rewrites a file's
    folder with it. A state has at most 128 bytes, its checksum included.

    A flipped bit is repaired. A slot that is half written, gone, unreadable or worn out gives way
    to the next one. If no slot is whole, two are half written, or one has another size, which no
    power cut does, the state is damaged. If all are missing, the board is new, unless `provision`
    was finished, which leaves a file `made`. `provisioned` says so from outside, for a board that
    formats its flash when it cannot be mounted. `allowance` is how many tokens a day may still use
    whose state is damaged.

    Files of others in the place of the slots are left alone: without `made` and a whole slot, they
    give a `StoreError`. One store writes to a folder: another one gets a `StoreError` at its next
    save. Raises `ValueError` if the path is empty.
    """

    def __init__(self, path: str, provisioned: bool = False, allowance: int = 0) -> None:
        self.path = check_text("path", path).rstrip("/")
        if self.path[:1] != "/":
            self.path = os.getcwd().rstrip("/") + "/" + self.path
        self._made = self.path + "/made"
        self.provisioned = provisioned
        self.allowance = check_count("allowance", allowance)
        self._turns: list[int] = []  # empty until the slots are read
        self._number = -1
        self._due = 1  # slots that the next save writes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, allowance={self.allowance!r})"

    def load(self) -> "dict[str, Any] | None":
        """Return the state, or `None` if nothing was saved yet.

        Raises `StateCorruptError` if the slots cannot be trusted, `StoreError` if one cannot be
        read.
        """
        try:
            slots, used = self._look()
            self._turns = _turns(slots)
            self._due = slots.count("cut") or 1
            newest = slots[self._turns[-1]]
            self._number = max(0, _number(newest))
        except OSError as error:
            self._turns = []
            raise StoreError(f"cannot read budget state {self.path!r}: {error}", error)
        whole = isinstance(newest, dict)
        if (used or self.provisioned) and (not whole or "cut" in slots or slots.count("torn") > 1):
            words = ", ".join(self.slots())
            raise StateCorruptError(
                f"budget state {self.path!r} is damaged: its slots are {words}. "
                "The day counts as spent; reset the state to begin it again"
            )
        if not whole:
            return None
        newest.pop("seq")
        return newest or None

    def save(self, state: "dict[str, Any]") -> None:
        """Overwrite the oldest slot; raise `StoreError` if that fails, and keep the newest one.

        It also fails if another store has saved since this one last loaded or saved. Two that save
        in the same instant notice at the next save: there is no lock.
        """
        if not self._turns:
            try:
                self.load()
            except StateCorruptError:
                pass
        try:
            if _size(self._made) is None:
                self.provision()
            while self._due:
                self._save(state)
                self._due -= 1
            self._due = 1
        except OSError as error:
            self._turns = []  # read them again: the error may be over next time
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
        """Forget the state; raise `StoreError` if that fails."""
        for _ in range(SLOTS):
            self.save({})

    def provision(self) -> None:
        """Make the slots that are not whole, then the file `made`; may raise `StoreError`."""
        try:
            slots, _ = self._look()
            for slot in range(SLOTS):
                if not isinstance(slots[slot], dict):
                    self._write(slot, encode({"seq": 0}, SLOT_BYTES, True))
            _put(self._made, "wb", b"")
        except OSError as error:
            raise StoreError(f"cannot make budget state {self.path!r}: {error}", error)

    def slots(self) -> "list[str]":
        """Return what each slot is: newest, older, empty, damaged, unreadable or missing."""
        from budget_core.slot_report import words  # loaded for a report only

        return words([self._slot(slot) for slot in range(SLOTS)])

    def _look(self) -> "tuple[list[Any], bool]":
        """Return the slots and whether the folder is a store's; refuse files of others."""
        slots = [self._slot(slot) for slot in range(SLOTS)]
        made = _size(self._made) is not None
        found = slots.count("missing") < SLOTS
        if found and not any(isinstance(slot, dict) for slot in slots):
            for slot in slots:
                if isinstance(slot, OSError):
                    raise slot
            if not made:
                raise StoreError(
                    f"{self.path!r} is not a budget state: it is left alone; "
                    "move it away or use another path"
                )
        return slots, made or found

    def _file(self, slot: int) -> str:
        return f"{self.path}/{slot}/state.json"

    def _slot(self, slot: int) -> "Any":
        """Return a slot's state with its number; else "missing", "cut", "torn" or an error."""
        try:
            with open(self._file(slot), "rb") as file:
                data = file.read(SLOT_BYTES + 1)
        except OSError as error:
            # Opening a folder in the file's place is ENOENT on FAT.
            there = error.errno != ENOENT or _size(self._file(slot)) is not None
            return error if there else "missing"
        if len(data) != SLOT_BYTES:
            return "cut"
        try:
            state: Any = decode(data)
        except StateCorruptError:
            from budget_core.bit_repair import repaired  # loaded for the first damaged slot

            state = repaired(data)
        return "torn" if _number(state) < 0 else state

    def _write(self, slot: int, data: bytes) -> None:
        path = self._file(slot)
        if _size(path) == SLOT_BYTES:
            _put(path, "r+b", data)
        else:
            end = path.find("/", 1)
            while end > 0:
                try:
                    os.mkdir(path[:end])
                except OSError as error:
                    if error.errno != EEXIST:
                        raise
                end = path.find("/", end + 1)
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


def _number(slot: "Any") -> int:
    number = slot.get("seq") if isinstance(slot, dict) else None
    return -1 if isinstance(number, bool) or not isinstance(number, int) else number


def _put(path: str, mode: str, data: bytes) -> None:
    with open(path, mode) as file:
        file.write(data)
        file.flush()


def _turns(slots: "list[Any]") -> "list[int]":
    """Return the slots in the order to write them, the newest last.

    A slot that cannot be read, or that FAT lost, is left alone while there are two others: to make
    it, FAT rewrites its allocation table, and a power cut during that costs the file system.
    """
    turns = sorted(range(SLOTS), key=lambda slot: (_number(slots[slot]), slot))
    there = [
        slot for slot in turns if slots[slot] != "missing" and not isinstance(slots[slot], OSError)
    ]
    return there if len(there) > 1 else turns


def _size(path: str) -> int | None:
    """Return a file's size, or `None` if there is none."""
    try:
        return os.stat(path)[6]
    except OSError as error:
        if error.errno != ENOENT:
            raise
        return None
