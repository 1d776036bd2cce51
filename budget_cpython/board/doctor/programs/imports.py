"""Print the files on the board's search path, and where the firmware's modules come from.

It imports none of them to print that: a file that is in the way of one may be broken.
"""
# mypy: ignore-errors

import os
import sys


def _names(folder):
    """Return the names in a folder, those of folders with a slash; `None` where there is none."""
    inside = (folder or os.getcwd()).rstrip("/") + "/"
    try:
        found = os.listdir(inside[:-1] or "/")
    except OSError:
        return None
    return [name + "/" if os.stat(inside + name)[0] & 0x4000 else name for name in found]


def _below(folder):
    """Return the paths of the files below a folder."""
    found = []
    for name in _names(folder) or ():
        path = folder + "/" + name
        found += _below(path[:-1]) if name.endswith("/") else [path]
    return found


def _place(name):
    """Return the file or the folder of a module, empty without one, `None` if it cannot run."""
    try:
        module = __import__(name)
    except ImportError:
        return ""
    except Exception:  # noqa: BLE001 - the firmware's raise nothing
        return None
    return getattr(module, "__file__", getattr(module, "__path__", ""))


path = [(folder, _names(folder)) for folder in sys.path]
print(repr((path, _below(LIBRARY), [(name, _place(name)) for name in FIRMWARE])))  # noqa: F821
