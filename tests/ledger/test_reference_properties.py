"""The ledger in memory against a model that counts nothing and adds everything up each time."""

from functools import partial
from typing import Any, cast

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    UnknownAccountError,
)
from budget_core.ledger.limit import Limit
from budget_cpython.ledger import Ledger
from tests.ledger.reference_model import NOON, SIZES, Model, Rule
from tests.properties import examples
from tests.racing import in_threads, restless, unsettle

__all__ = ["restless"]

paths = st.sampled_from(["a", "a", "a", "a/b", "a/b", "a/b", "a/b/c", "a/d", "z"])
amounts = st.dictionaries(st.sampled_from(["t", "c"]), st.integers(0, 6), max_size=2)
moves = st.sampled_from(["on", "on", "on", "on", "on", "on", "back", "lost"])
keys = st.sampled_from([None, None, None, None, "k1", "k2"])
caps = st.one_of(st.none(), st.integers(4, 15), st.integers(4, 15), st.just(0))
spots = st.tuples(st.sampled_from(["t", "c"]), st.sampled_from(["run", *SIZES]))
ttls = st.sampled_from([1, 60, 900, 86_400])
charges = st.sampled_from([False, False, True])
which = st.integers(0, 4)  # of the latest


class Reference(RuleBasedStateMachine):
    """Do the same to both, and compare all that is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.ledger = Ledger(lambda: self.model.now // 1000, axes=["t", "c"], keep=1 << 40)
        self.set_limits("a", {("t", "rolling 7200/2"): 12, ("c", "day"): 9})
        self.taken: list[Any] = []

    @rule(by=st.sampled_from([1, 60, 900, 3600, 3600, 86_400]), how=moves)
    def wait(self, by: int, how: str) -> None:
        now = self.model.now or NOON
        steps = {"on": by, "back": -by if now > NOON else by, "lost": -now // 1000}
        self.model.now = now + steps[how] * 1000

    @rule(path=paths, rows=st.dictionaries(spots, caps, min_size=1, max_size=3))
    def set_limits(self, path: str, rows: dict[tuple[str, str], int | None]) -> None:
        now = self.model.now
        before = {(one.axis, one.window): one for one in self.model.accounts.pop(path, [])}
        own = []
        for axis, window in sorted(rows):
            one = before.get((axis, window)) or Rule(path, axis, window, None, now)
            one.cap = rows[axis, window]
            one.move(now)
            if now and (one.span.start or 0) > now:
                one.go(now)
            own.append(one)
        if own:
            self.model.accounts[path] = own
        self.ledger.set_limits(path, [Limit(axis, rows[axis, at], at) for axis, at in rows])

    @rule(path=st.sampled_from(["a/b", "z"]))
    def give_up(self, path: str) -> None:
        self.set_limits(path, {})

    @rule(
        path=paths,
        amounts=amounts,
        key=keys,
        ttl=ttls,
        charge=st.sampled_from([False, False, True]),
    )
    def take(
        self, path: str, amounts: dict[str, int], key: str | None, ttl: int, charge: bool
    ) -> None:
        call: Any = self.ledger.charge if charge else self.ledger.reserve
        more = (key,) if charge else (key, ttl)
        known = self.model.known(path, key)
        same = known and (known["path"], known["amounts"]) == (path, amounts)
        if known and not (same and (known["expires"] is None) == charge):
            assert isinstance(outcome(call, path, amounts, *more), KeyReusedError)
        elif known:
            self.model.expire(known)
            self.compare(known, call(path, amounts, *more))
        elif not self.model.chain(path):
            assert isinstance(outcome(call, path, amounts, *more), UnknownAccountError)
        elif not charge and self.model.refusing(path, amounts):
            refused = outcome(call, path, amounts, *more)
            self.refused(refused, self.model.refusing(path, amounts), amounts)
        else:
            hold = self.model.add(
                path, amounts, key, None if charge else self.model.now + ttl * 1000
            )
            real = call(path, amounts, *more)
            self.taken.append((hold, real))
            self.compare(hold, real)

    def refused(self, error: Any, rules: list[Rule], amounts: dict[str, int]) -> None:
        assert isinstance(error, BudgetExceededError)

        def first(one: Rule) -> Any:
            spent = self.model.sums(one, one.counting())[0]
            is_only_held = spent + amounts[one.axis] <= (one.cap or 0)
            return is_only_held, -(one.ends() or 1 << 60), -len(one.path), one.axis, one.window

        one = min(rules, key=first)
        assert (error.scope, error.axis, error.window) == (one.path, one.axis, one.window)
        assert (error.spent, error.held) == self.model.sums(one, one.counting())
        ends = one.ends()
        assert error.resets_at == (None if ends is None else ends // 1000)

    @precondition(lambda self: self.taken)
    @rule(at=which, actual=st.one_of(st.none(), amounts))
    def commit(self, at: int, actual: dict[str, int] | None) -> None:
        hold, real = self.taken[-1 - at % len(self.taken)]
        if hold["state"] != "committed":
            hold.update(state="committed", actual={**hold["amounts"], **(actual or {})})
        self.compare(hold, self.ledger.commit(real, actual))

    @precondition(lambda self: self.taken)
    @rule(at=which, actual=st.one_of(st.none(), amounts), asked=amounts, ttl=ttls)
    def renew(
        self, at: int, actual: dict[str, int] | None, asked: dict[str, int], ttl: int
    ) -> None:
        hold, real = self.taken[-1 - at % len(self.taken)]
        path, was = hold["path"], dict(hold)
        rules = self.model.chain(path)
        if hold["state"] != "committed":
            hold.update(state="committed", actual={**hold["amounts"], **(actual or {})})
        if not rules:
            hold.update(was)
            found = outcome(self.ledger.renew, real, actual, asked, None, ttl)
            assert isinstance(found, UnknownAccountError)
        elif refusing := self.model.refusing(path, asked):
            self.refused(
                outcome(self.ledger.renew, real, actual, asked, None, ttl), refusing, asked
            )
            hold.update(was)
        else:
            taken = self.model.add(path, asked, None, self.model.now + ttl * 1000)
            next_real = self.ledger.renew(real, actual, asked, None, ttl)
            self.taken.append((taken, next_real))
            self.compare(taken, next_real)
        self.compare(hold, real)

    @precondition(lambda self: self.taken)
    @rule(at=which)
    def release(self, at: int) -> None:
        hold, real = self.taken[-1 - at % len(self.taken)]
        self.model.expire(hold)
        if hold["state"] == "held":
            hold.update(state="released", actual={})
        self.compare(hold, self.ledger.release(real))

    @precondition(lambda self: self.taken)
    @rule(at=which, ttl=ttls)
    def extend(self, at: int, ttl: int) -> None:
        hold, real = self.taken[-1 - at % len(self.taken)]
        self.model.expire(hold)
        if hold["state"] == "held":
            hold["expires"] = max(hold["expires"], self.model.now + ttl * 1000)
            self.compare(hold, self.ledger.extend(real, ttl))
        else:
            error = outcome(self.ledger.extend, real, ttl)
            assert isinstance(error, HoldSettledError)
            assert error.state == hold["state"]

    @rule()
    def expire(self) -> None:
        assert self.ledger.expire() == sum([self.model.expire(hold) for hold in self.model.holds])

    @rule(path=paths)
    def look(self, path: str) -> None:
        for place in [path, *sorted(self.model.accounts)]:
            self.look_at(place)

    def look_at(self, path: str) -> None:
        rules = self.model.chain(path)
        if not rules:
            assert isinstance(outcome(self.ledger.balance, path), UnknownAccountError)
            assert isinstance(outcome(self.ledger.history, path), UnknownAccountError)
            return
        for hold in self.model.holds:
            self.model.expire(hold)
        for hold, real in self.taken:
            if hold["state"] == "expired" and real.id[0] != "#":
                self.compare(hold, self.ledger.hold(hold["path"], real.id))
        rows = self.ledger.balance(path)
        assert [(row.account, row.axis, row.window, row.limit) for row in rows] == [
            (one.path, one.axis, one.window, one.cap) for one in rules
        ]
        for row, one in zip(rows, rules, strict=True):
            assert (row.spent, row.held) == self.model.sums(one, one.counting())
            assert row.begins_at == (one.span.start or 0) // 1000
        over = []
        for one in self.model.accounts.get(path, []):
            past = [span for span in one.spans if span is not one.span]
            for span in sorted(past, key=lambda span: -(span.start or 0)):
                over.append((one.axis, (span.start or 0) // 1000, *self.model.sums(one, [span])))
        seen = [(row.axis, row.begins_at, row.spent, row.held) for row in self.ledger.history(path)]
        assert seen == over

    @invariant()
    def the_same_accounts_are_known(self) -> None:
        assert self.ledger.accounts() == sorted(self.model.accounts)

    def compare(self, hold: dict[str, Any], real: Any) -> None:
        assert (real.path, real.amounts) == (hold["path"], hold["amounts"])
        assert (real.state, real.actual) == (hold["state"], hold["actual"])
        assert real.expires_ms == hold["expires"]


def outcome(call: Any, *args: Any) -> Any:
    """Return what a call gives or raises."""
    try:
        return call(*args)
    except Exception as error:  # noqa: BLE001 - whichever: the test says which it must be
        return error


TestReference = Reference.TestCase
TestReference.settings = examples(100, stateful_step_count=40)


# Threads


def opened(*limits: Limit) -> Ledger:
    ledger = unsettle(Ledger(lambda: NOON // 1000))
    ledger.set_limits("org", list(limits))
    return cast(Ledger, ledger)


def test_64_threads_are_granted_the_limit_exactly() -> None:
    ledger = opened(Limit("calls", 1000, "day"))
    ledger.set_limits("org/a", [Limit("calls", None, "hour")])

    def claims() -> int:
        granted = 0
        for _ in range(20):
            try:
                ledger.commit(ledger.reserve("org/a", {"calls": 1}))
            except BudgetExceededError:
                continue
            granted += 1
        return granted

    assert sum(in_threads(claims)) == 1000
    assert [(row.spent, row.held) for row in ledger.balance("org/a")] == [(1000, 0), (1000, 0)]


def test_64_threads_lose_no_charge_and_no_release() -> None:
    ledger = opened(Limit("calls", None, "day"), Limit("calls", None, "rolling 60/6"))

    def work() -> None:
        for _ in range(10):
            hold = ledger.reserve("org", {"calls": 3})
            ledger.charge("org", {"calls": 1})
            ledger.release(hold)

    in_threads(work)
    assert [(row.spent, row.held) for row in ledger.balance("org")] == [(640, 0), (640, 0)]


def test_64_threads_with_one_key_get_one_hold() -> None:
    for _ in range(5):
        ledger = opened(Limit("calls", 5, "day"))
        holds = in_threads(partial(ledger.reserve, "org", {"calls": 5}, "k"))
        assert len({id(hold) for hold in holds}) == 1
        assert ledger.balance("org")[0].held == 5
