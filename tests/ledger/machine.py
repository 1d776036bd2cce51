"""Random histories, on an engine and on the reference side by side, for hypothesis.

A class that inherits from `LedgerMachine` says how to `make` its ledger on a clock, and may `end`
it. Whatever one of the two gives or raises, the other must give or raise.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from budget_core.ledger.checks import MOST
from budget_core.ledger.errors import LedgerError
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger

KEEP = 10**8  # what is forgotten, and when, differs by engine
PATHS = ("org", "org/a", "org/a/x", "org/b", "other/c")
WINDOWS = ("run", "hour", "day", "rolling 7200/4")
AXES = ("tokens", "calls", "nano_usd")
BALANCE = ("account", "axis", "window", "limit", "spent", "held", "begins_at", "resets_at")
NOON = 20_000 * 86_400 + 43_200

paths = st.sampled_from(PATHS)
keys = st.sampled_from((None, "k1", "k2", "k3", "k1"))
amount = st.one_of(st.integers(0, 8), st.sampled_from((0, 1, 20, MOST)))
amounts = st.dictionaries(st.sampled_from(AXES), amount, max_size=3)
caps = st.sampled_from((None, 0, 5, 20))
limits = st.lists(
    st.tuples(st.sampled_from(AXES[:2]), caps, st.sampled_from(WINDOWS)),
    max_size=4,
    unique_by=lambda row: (row[0], row[2]),
)
ttls = st.sampled_from((1, 300, 5000))


class LedgerMachine(RuleBasedStateMachine):
    """Operations on both ledgers."""

    expires_by_root = False  # a look at the engine expires what is below its own root alone

    def make(self, clock: Any, keep: int) -> Any:
        raise NotImplementedError

    @initialize(rows=limits)
    def begin(self, rows: list[Any]) -> None:
        self.now = float(NOON)
        self.holds: list[tuple[Any, Any]] = []
        self.reference = Ledger(lambda: self.now, keep=KEEP)
        self.engine = self.make(lambda: self.now, KEEP)
        self.set_limits("org", rows or [("tokens", 20, "hour")])
        self.set_limits("org/a", [("tokens", 9, "day"), ("calls", 5, "rolling 7200/4")])

    def both(self, name: str, *args: Any, **named: Any) -> Any:
        """Do it on both, and compare what they give."""
        found = self.ask(name, *args, **named)
        self.compare(found, name, *args, **named)
        return found

    def ask(self, name: str, *args: Any, **named: Any) -> Any:
        """Do it on both; a hold in the arguments stands for each one's own."""
        found = []
        for at, ledger in enumerate((self.reference, self.engine)):
            own = [one[at] if isinstance(one, tuple) else one for one in args]
            try:
                found.append(getattr(ledger, name)(*own, **named))
            except (LedgerError, ValueError) as error:
                found.append(error)
        return tuple(found)

    def compare(self, found: Any, *asked: Any, **named: Any) -> None:
        expected, got = (comparable(one) for one in found)
        assert got == expected, (*asked, named)

    def took(self, found: Any) -> None:
        if not isinstance(found[0], Exception):
            self.holds = [pair for pair in self.holds if pair[0] is not found[0]][-9:] + [found]

    @rule(path=paths, rows=limits)
    def set_limits(self, path: str, rows: list[Any]) -> None:
        self.both("set_limits", path, [Limit(*row) for row in rows])

    @rule(path=paths, asked=amounts, key=keys, ttl=ttls)
    def reserve(self, path: str, asked: dict[str, int], key: str | None, ttl: int) -> None:
        self.took(self.both("reserve", path, asked, key=key, ttl=ttl))

    @rule(path=paths, used=amounts, key=keys)
    def charge(self, path: str, used: dict[str, int], key: str | None) -> None:
        self.took(self.both("charge", path, used, key=key))

    @rule(data=st.data(), name=st.sampled_from(("commit", "release", "extend", "hold")))
    def settle(self, data: Any, name: str) -> None:
        if not self.holds:
            return
        pair = data.draw(st.sampled_from(self.holds))
        if name == "hold":
            if pair[0].state == "held" or pair[0].id[0] != "#":  # memory forgets the others
                self.both("hold", pair[0].path, (pair[0].id, pair[1].id))
        elif name == "commit":
            self.both("commit", pair, data.draw(st.one_of(st.none(), amounts)))
        elif name == "extend":
            self.both("extend", pair, data.draw(ttls))
        else:
            self.both("release", pair)

    @rule(data=st.data(), asked=amounts, key=keys, ttl=ttls)
    def renew(self, data: Any, asked: dict[str, int], key: str | None, ttl: int) -> None:
        if self.holds:
            pair = data.draw(st.sampled_from(self.holds))
            used = data.draw(st.one_of(st.none(), amounts))
            self.took(self.both("renew", pair, used, asked, key=key, ttl=ttl))

    @rule()
    def expire(self) -> None:
        if self.expires_by_root:
            assert self.reference.expire() <= self.engine.expire()
        else:
            self.both("expire")

    @rule(path=paths, name=st.sampled_from(("balance", "history", "limits")))
    def look(self, path: str, name: str) -> None:
        self.both(name, path)

    @rule()
    def accounts(self) -> None:
        self.both("accounts")

    @rule(seconds=st.sampled_from((1, 200, 1800, 3600, 40_000, 90_000)))
    def pass_time(self, seconds: int) -> None:
        self.now += seconds

    def teardown(self) -> None:
        if hasattr(self, "engine"):
            for path in PATHS:
                self.both("balance", path)
            self.end()

    def end(self) -> None:
        self.engine.close()


def comparable(found: Any) -> Any:
    """Return what must be equal: ids that a ledger makes up are not."""
    if isinstance(found, Exception):
        return {**vars(found), "id": ""} | {"error": type(found)}
    if isinstance(found, list):
        return [comparable(one) for one in found]
    if hasattr(found, "amounts"):
        key = "" if found.id[0] == "#" else found.id
        return found.path, key, found.amounts, found.state, found.expires_at, found.actual
    if hasattr(found, "spent"):
        return [getattr(found, name) for name in BALANCE]
    return found
