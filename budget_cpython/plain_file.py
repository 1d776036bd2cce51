"""Tell a plain file from what else may lie in its place, and give it to its owner alone."""

import stat
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from typing import Any

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
