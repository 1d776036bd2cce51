"""Name the keys of a ledger in Redis."""

from functools import lru_cache

from budget_core.errors import refuse
from budget_core.ledger.checks import chain, root


class Keys:
    """The keys below one prefix, encoded; those of one root share a hash tag, and so a slot."""

    def __init__(self, prefix: str) -> None:
        if not (isinstance(prefix, str) and prefix.isascii() and prefix.isprintable()) or (
            not prefix or "{" in prefix or "}" in prefix
        ):
            refuse("prefix", "printable ASCII characters without braces", prefix)
        self.prefix = prefix
        self.of_path = lru_cache(maxsize=1000)(self._of_path)  # the paths of calls recur
        self.accounts = f"{prefix}:{{#}}:accounts".encode()  # no root is named `#`
        self.roots = f"{prefix}:{{#}}:roots".encode()
        self.hours = f"{prefix}:{{#}}:hours".encode()
        names = ("events", "event-names", "last-event")  # see note.lua
        self.events = tuple(f"{prefix}:{{#}}:{name}".encode() for name in names)

    def hold(self, path: str, id: str) -> bytes:
        """Return the key of a hold."""
        return f"{self.prefix}:{{{root(path)}}}:hold:{id}".encode()

    def account(self, path: str) -> bytes:
        """Return the key of an account."""
        return f"{self.prefix}:{{{root(path)}}}:account:{path}".encode()

    def usage(self, hour: int) -> bytes:
        """Return the key of what was used in an hour."""
        return f"{self.prefix}:{{#}}:usage:{hour}".encode()

    def reply(self, id: str) -> bytes:
        """Return the key of what was replied to an operation that may be sent again."""
        return f"{self.prefix}:{{#}}:reply:{id}".encode()

    def _of_path(self, path: str) -> tuple[bytes, ...]:
        """Return the keys that come before a hold's: see shared.lua."""
        start = f"{self.prefix}:{{{root(path)}}}:"
        names = ["live", "cells"] + ["account:" + one for one in chain(path)]
        return tuple([(start + name).encode() for name in names])
