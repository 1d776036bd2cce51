"""The MicroPython of the machine: where it is, and what heap it can be given."""

import os
import re
import shutil

_HEAP = re.compile(r"([1-9][0-9]{0,9})w?([km]?)", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20}
_LEAST_HEAP = 32 << 10
_MOST_HEAP = 1 << 30
_HOW_TO_GET_IT = """\
there is no MicroPython: install it and have it on the PATH, or name it with MICROPYTHON=/path/to/it
  Debian 13, Ubuntu 26.04 and later:  apt install micropython
  Homebrew:                           brew install micropython
  in a checkout of microbudget:       make micropython"""


def find_micropython() -> str:
    """Return `$MICROPYTHON`, or the one on the PATH. Raises `FileNotFoundError`."""
    named = os.environ.get("MICROPYTHON")
    found = shutil.which(named or "micropython")
    if found is None and named:
        raise FileNotFoundError(
            f"MICROPYTHON={named} is not a program: set it to the path of one, or unset it"
        )
    if found is None:
        raise FileNotFoundError(_HOW_TO_GET_IT)
    return found


def check_heap(heap: str) -> None:
    """Raise `ValueError` if it is not a size, or not that of a board's heap."""
    size = _HEAP.fullmatch(heap)
    if size is None:
        raise ValueError(f"a heap is a size in bytes, as in 96k, or 1m, not {heap!r}")
    if not _LEAST_HEAP <= int(size[1]) * _UNITS[size[2].lower()] <= _MOST_HEAP:
        raise ValueError(f"a heap has from 32k to 1024m, as in 96k, not {heap!r}")
