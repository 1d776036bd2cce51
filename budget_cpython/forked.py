"""Begin again in a process that was forked.

What its parent locked, leased, granted and owes remains the parent's: used by both, it would count
once.
"""

import os
import weakref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class Forkable(Protocol):
        """An object whose part of a budget belongs to one process."""

        def begin_again(self) -> None:
            """Have nothing, owe nothing, and have new locks."""


_known: "weakref.WeakSet[Forkable]" = weakref.WeakSet()


def begin_again_in_children(one: "Forkable") -> None:
    """Have an object begin again in every process that is forked from this one."""
    _known.add(one)


def _in_child() -> None:
    for one in list(_known):
        one.begin_again()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
