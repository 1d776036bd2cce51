"""The ledger of limits that have a window and no ledger, and the account of a program in it."""

import os
import re
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.limit import Limit
from budget_core.log import log
from budget_cpython.ledger.limit_words import limits_in_words

ENGINE_VARIABLE = "MICROBUDGET_ENGINE"
_STATE = {"darwin": "~/Library/Application Support", "win32": "~/AppData/Local"}
_LONGEST = 50  # characters of a name that are kept
_OTHERS_CODE = {"site-packages", "dist-packages"}


def default_url() -> str:
    """Return the URL of the default ledger.

    It is `$MICROBUDGET_ENGINE`, else `microbudget/ledger.db` in the user's state folder:
    `$XDG_STATE_HOME`, else the system's own.
    """
    return os.environ.get(ENGINE_VARIABLE) or f"sqlite:{_file()}"


def default_account(name: str, file: str | None = None) -> str:
    """Return `local/FOLDER/PROGRAM/NAME`, or `local/python/NAME` without a program's file.

    `file` is that of the program, by default this process's. Two folders of one name differ by a
    digest of their path.
    """
    file = file or _program()
    place = "python" if file is None else place_of(file)
    return f"local/{place}/{segment(name)}"


def place_of(file: str) -> str:
    """Return two segments of a path for a file: its folder, with a digest, and its name."""
    folder, name = os.path.split(os.path.realpath(file))
    return f"{segment(os.path.basename(folder) or 'root', folder)}/{segment(name)}"


def segment(name: str, place: str = "") -> str:
    """Return a segment of an account's path for any name; names that differ stay different."""
    import hashlib  # which loads OpenSSL

    plain = re.sub(r"[^A-Za-z0-9_.@+=-]", "_", name)[:_LONGEST]
    if plain == name and name.strip(".") and not place:
        return plain
    return f"{plain}-{hashlib.sha256((place or name).encode()).hexdigest()[:8]}"


def set_default_limits(ledger: Any, url: str, account: str, limits: Sequence[Limit]) -> None:
    """Set an account's limits in the default ledger, and log where they are.

    A new account and changed limits are warnings, so that a user sees them once; else it is info.
    A caller does this inside `usable_default`.
    """
    before = ledger.limits(account)
    ledger.set_limits(account, list(limits))
    where, now = _place(url), limits_in_words(limits)
    if set(before) == set(limits):
        log("info", f"{now} of {account} are counted in {where}")
    elif before:
        log(
            "warning",
            f"limits of {account} in {where} are {now} now, and were "
            f"{limits_in_words(before)}; what was spent stays",
        )
    else:
        log(
            "warning",
            f"{now} of {account} are counted in {where} from now on; another ledger or account may "
            "be named",
        )


@contextmanager
def usable_default(url: str) -> Iterator[None]:
    """Make the folder of the default ledger; where that fails, the error names alternatives."""
    try:
        if not os.environ.get(ENGINE_VARIABLE):
            Path(url.removeprefix("sqlite:")).parent.mkdir(0o700, parents=True, exist_ok=True)
        yield
    except (LedgerUnavailableError, OSError) as error:
        raise LedgerUnavailableError(
            f"limits with a window need a ledger, and the default one, {_place(url)}, cannot be "
            f"used: {str(error).rstrip('.')}. Name another: ledger='sqlite:budget.db' with "
            f"account=, or --ledger of a command, or ${ENGINE_VARIABLE}",
            error,
        ) from error


def _file() -> str:
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.expanduser(_STATE.get(sys.platform, "~/.local/state"))
    return os.path.join(state, "microbudget", "ledger.db")


def _place(url: str) -> str:
    """Return the default ledger's place as it may be shown: a URL may have a password."""
    engine = os.environ.get(ENGINE_VARIABLE)
    return f"${ENGINE_VARIABLE}" if engine else url.removeprefix("sqlite:")


def _program() -> str | None:
    """Return the file of the program; where others' code started it, the file that asks.

    Such as a web server or a test runner, which starts many programs.
    """
    if getattr(sys, "frozen", False):
        return sys.executable
    main: str | None = getattr(sys.modules.get("__main__"), "__file__", _parents())
    if main is not None and main.startswith("<"):
        return None  # such as <stdin>
    if main is None or not _is_others(os.path.realpath(main)):
        return main
    return _asking() or main


def _parents() -> str | None:
    """Return the file of the program that spawned this process as one of its workers."""
    parent_process = getattr(sys.modules.get("multiprocessing.process"), "parent_process", None)
    is_worker = parent_process is not None and parent_process() is not None
    return sys.argv[0] if is_worker and os.path.isfile(sys.argv[0]) else None


def _is_others(file: str) -> bool:
    """Tell whether a file is Python's own, or of an installed package."""
    folders = (sysconfig.get_path("scripts"), os.path.dirname(sys.executable))
    stdlib = os.path.realpath(sysconfig.get_path("stdlib"))
    return (
        os.path.dirname(file) in map(os.path.realpath, folders)
        or file.startswith(stdlib + os.sep)
        or not _OTHERS_CODE.isdisjoint(Path(file).parts)
    )


def _asking() -> str | None:
    """Return the file of the nearest caller outside this package, of the user's own if one is."""
    files = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        name, file = frame.f_globals.get("__name__", ""), frame.f_globals.get("__file__")
        if file and not name.startswith("budget_cpython."):
            files.append(file)
        frame = frame.f_back
    own = (file for file in files if not _is_others(os.path.realpath(file)))
    return next(own, next(iter(files), None))
