"""A board's `sys` where it poses as another board."""
# mypy: ignore-errors

import sys
from collections import namedtuple
from sys import *  # noqa: F403 - it takes that module's place

path = sys.path
_Implementation = namedtuple("implementation", ("name", "version", "_machine", "_mpy"))


def pose(name, machine):
    """Show another platform and machine than the unix port's."""
    global platform, implementation
    own = sys.implementation
    platform = name
    implementation = _Implementation(own.name, own.version, machine, own._mpy)
    sys.modules["sys"] = sys.modules["_sys"]
