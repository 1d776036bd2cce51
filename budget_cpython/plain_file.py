"""Plain files for their owner alone: read without following links, replaced durably."""

import errno
import os
import stat
from contextlib import suppress

_SAFELY = sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))


class NotPlainError(OSError):
    """The path names something else than a plain file with one name."""


def check_plain(path: str, status: "os.stat_result") -> None:
    """Raise `NotPlainError` for a link, a folder, a FIFO, a device, a file with two names."""
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        text = f"{path!r} is not a plain file with one name: find out who put it there"
        raise NotPlainError(text)


def open_plain(path: str, flags: int) -> int:
    """Open a plain file, without following links or waiting; `NotPlainError`, `OSError`.

    With `O_CREAT` in `flags` a missing file is made, for its owner alone.
    """
    with suppress(FileNotFoundError):
        check_plain(path, os.lstat(path))  # first, as opening a device may set it off
    file = os.open(path, flags | _SAFELY, 0o600)
    try:
        check_plain(path, os.fstat(file))
    except OSError:
        os.close(file)
        raise
    return file


def read_plain(path: str, max_bytes: int) -> "tuple[bytes, os.stat_result]":
    """Return up to `max_bytes` of a plain file, and its status; `NotPlainError`, `OSError`."""
    with open(path, "rb", opener=open_plain) as file:
        return file.read(max_bytes), os.fstat(file.fileno())


def replace_file(path: str, data: bytes) -> None:
    """Replace a file durably; `OSError`, and then the old one stays.

    The new file is `path` + `.microbudget.tmp` until it is synced; after a failure it stays until
    the next replacement. Where only the last step fails, syncing the folder, a crash may leave
    either file.
    """
    new = path + ".microbudget.tmp"
    with suppress(FileNotFoundError):
        os.unlink(new)
    write_new(new, data)
    os.replace(new, path)
    sync_folder(os.path.dirname(path) or os.curdir)


def write_new(path: str, data: bytes) -> None:
    """Make a file for its owner alone, and sync its data, not its name; `OSError`."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def make_folder(path: str) -> None:
    """Make a folder and its missing parents, for their owner alone, durably; `OSError`."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    make_folder(parent)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
        try:
            sync_folder(parent)
        except OSError:
            os.rmdir(path)  # the next attempt makes and syncs it
            raise


def sync_folder(path: str) -> None:
    """Make the names in a folder durable; some network file systems refuse that with `EINVAL`."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(folder)


class SafePath:
    """A file's path, made absolute at once, that does not lead into an agent's workspace.

    Raises `ValueError` if it names no file, or leads into `workspace`, through links or not.
    """

    def __init__(
        self, path: "str | os.PathLike[str]", workspace: "str | os.PathLike[str] | None" = None
    ) -> None:
        path = os.fspath(path) if hasattr(path, "__fspath__") else path
        if not isinstance(path, str) or not os.path.basename(path) or "\0" in path:
            raise ValueError(f"path must name a file, not {path!r}")
        self.path = os.path.join(os.getcwd(), path)
        self._workspace = None if workspace is None else os.path.join(os.getcwd(), workspace)
        if self.is_exposed():
            raise ValueError(f"path {path!r} is inside the agent's workspace {workspace!r}")

    def is_exposed(self) -> bool:
        """Tell whether it leads into the workspace by now: an agent may have made a link."""
        return self._workspace is not None and _leads_into(self.path, self._workspace)


def _leads_into(path: str, folder: str) -> bool:
    """Tell whether a path is spelt through, lies in, or leads into a folder."""
    folder = os.path.realpath(folder)
    parent, name = os.path.split(path)
    place = os.path.join(os.path.realpath(parent), name)
    return any(
        _is_in(one, folder) for one in (os.path.abspath(path), place, os.path.realpath(place))
    )


def _is_in(place: str, folder: str) -> bool:
    """Compare names, and identities: a folder that is mounted twice has two names."""
    if place == folder:
        return True
    with suppress(OSError):
        if os.path.samefile(place, folder):
            return True
    parent = os.path.dirname(place)
    return parent != place and _is_in(parent, folder)
