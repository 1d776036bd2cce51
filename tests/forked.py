"""Do work in a forked process of this one."""

import os
import signal
import traceback
import warnings
from collections.abc import Callable

PATIENCE = 600  # seconds, after which a child that hangs is ended


def begin_in_child(work: Callable[[], object]) -> int:
    """Begin some work in a forked process, and return its id; `exit_code` waits for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from 3.12 on, where there are threads
        child = os.fork()
    if not child:
        code = 1
        try:
            signal.alarm(PATIENCE)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the parent learns of it by the exit code
            traceback.print_exc()
        finally:  # whatever comes: the rest of the tests is not for the child
            os._exit(code)
    return child


def exit_code(child: int) -> int:
    """Return the exit code of a forked process: 0 if its work raised nothing."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(work: Callable[[], object]) -> int:
    """Do some work in a forked process, and return its exit code."""
    return exit_code(begin_in_child(work))
