"""Make plain files for their owner alone, durably, and tell them from what else may lie there."""

import errno
import os
import stat
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_CREATE |= sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_BINARY"))
_FOLDER = getattr(os, "O_DIRECTORY", None)  # where there is none, folders cannot be synced
_KINDS = {
    stat.S_IFREG: "a hard link",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


def what_else(status: "os.stat_result") -> str | None:
    """Return what something is, where it is not a plain file with one name."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFREG and status.st_nlink <= 1:
        return None
    return _KINDS.get(kind, "a device")


def give_to_owner(chmod: "Callable[[Any, int], None]", target: int | str, mode: int) -> None:
    """Set the mode that the umask took from; FAT has no modes to set."""
    with suppress(PermissionError):
        chmod(target, mode)


def leads_into(path: str, folder: str) -> bool:
    """Tell whether a path is spelt through, lies in, or leads into a folder."""
    folder = os.path.realpath(folder)
    above, name = os.path.split(path)
    lies = os.path.join(os.path.realpath(above), name)
    places = (os.path.abspath(path), lies, os.path.realpath(lies))
    return any(is_within(place, folder) for place in places)


def is_within(place: str, folder: str) -> bool:
    """Compare names, and identities: a folder has several names where it is mounted twice."""
    while place != folder and not _is_same(place, folder):
        place, last = os.path.dirname(place), place
        if place == last:
            return False
    return True


def _is_same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def make_folder(path: str) -> None:
    """Make a folder, and those above it, for their owner alone, durably; `OSError`."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_folder(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if os.path.isdir(path):
            return
        raise
    try:
        give_to_owner(os.chmod, path, 0o700)
        sync_folder(parent)
    except OSError:
        os.rmdir(path)
        raise


def write_new(path: str, data: bytes) -> None:
    """Make a file for its owner alone, and sync its data, not its name; `OSError`."""
    file = os.open(path, _CREATE, 0o600)
    try:
        if hasattr(os, "fchmod"):
            give_to_owner(os.fchmod, file, 0o600)
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    finally:
        os.close(file)


def remove(path: str, tolerated: type[OSError] = FileNotFoundError) -> None:
    """Remove a file, if there is one."""
    with suppress(tolerated):
        os.unlink(path)


def sync_folder(path: str) -> None:
    """Make the names in a folder durable; some network file systems cannot, and say `EINVAL`."""
    if _FOLDER is None:
        return
    folder = os.open(path, os.O_RDONLY | _FOLDER)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(folder)
