"""Name the keys of a ledger in Redis."""

from functools import lru_cache

from budget_core.errors import refuse
from budget_core.ledger.limit import chain, root

PATHS = 4096  # whose keys are remembered


class Names:
    """The keys below one prefix; those of one root share a hash tag, and so a slot of a cluster."""

    def __init__(self, prefix: str) -> None:
        if not (isinstance(prefix, str) and prefix.isascii() and prefix.isprintable()) or (
            not prefix or "{" in prefix or "}" in prefix
        ):
            refuse("prefix", "printable ASCII characters without braces", prefix)
        self.prefix = prefix
        self.accounts = f"{prefix}:{{#}}:accounts"  # no root is named `#`
        self.roots = f"{prefix}:{{#}}:roots"
        self.of_path = lru_cache(PATHS)(self._of_path)

    def hold(self, path: str, id: str) -> str:
        """Return the key of a hold."""
        return f"{self.prefix}:{{{root(path)}}}:hold:{id}"

    def _of_path(self, path: str) -> tuple[str, ...]:
        """Return what the scripts take before a hold's key: see shared.lua."""
        tag = f"{self.prefix}:{{{root(path)}}}"
        return f"{tag}:live", f"{tag}:cells", *[f"{tag}:account:{one}" for one in chain(path)]
