"""The shared vectors say what the ledger in memory does, and would notice if it did otherwise."""

from budget_core.ledger.bucket import EXPIRED, RELEASED
from budget_core.ledger.memory import Ledger
from tests_micro.ledger.cases import cases, moment, run
from tests_micro.support import raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def failing(make_ledger: "Callable[..., Any]", most: int) -> "list[str]":
    """Return what went wrong in the first few cases that fail."""
    found: list[str] = []
    for case in cases():
        try:
            run(case, make_ledger)
        except AssertionError as error:
            found.append(str(error))
        if len(found) >= most:
            break
    return found


def test_the_ledger_in_memory_does_what_every_vector_says() -> None:
    assert failing(Ledger, 5) == []


def test_there_are_at_least_two_hundred_vectors_and_no_two_of_one_name() -> None:
    names = [case["name"] for case in cases()]
    assert len(names) >= 200
    assert len(set(names)) == len(names)


def test_times_are_read_as_the_calendar_has_them() -> None:
    known = {
        "1970-01-01": 0,
        "2000-02-29": 951_782_400,
        "2026-03-01": 1_772_323_200,
        "2026-12-31 23:59:59": 1_798_761_599,
        "2100-03-01": 4_107_542_400,
    }
    for text in known:
        assert moment(text) == known[text] * 1000, text
    assert moment("1970-01-01 00:01:02.125") == 62_125


def test_a_step_that_is_misspelt_fails() -> None:
    step = {"set_limits": ["org", [["calls", 1]]]}
    for wrong in ({"reserv": ["org", {}]}, dict(step, give=1)):
        error = raises(AssertionError, run, {"name": "x", "steps": [wrong]}, Ledger)
        assert "x" in str(error)


def test_a_difference_fails_and_names_the_case_and_the_step() -> None:
    limits = {"set_limits": ["org", [["calls", 9]]]}
    for step in (
        {"reserve": ["org", {"calls": 9}], "gives": "committed"},
        {"reserve": ["org", {"calls": 9}], "refused": ["org", "calls", "run", 9, 9, 0, 0, None]},
        {"reserve": ["org", {"calls": 10}]},
        {"reserve": ["org", {"calls": 10}], "raises": "ValueError"},
        {"reserve": ["org", {"calls": 10}], "refused": ["org", "calls", "run", 10, 9, 1, 0, None]},
        {"reserve": ["org", {"calls": 9}], "gives": {"expires_at": "1970-01-02"}},
        {"balance": "org", "gives": []},
        {"balance": "org", "gives": [["org", "calls", "run", 9, 0, 1]]},
        {"balance": "org", "gives": [["org", "calls", "run", 9, 0, 0, "1970-01-01", 0]]},
        {"limits": "org", "gives": []},
        {"accounts": True, "gives": ["org", "org/a"]},
        {"expire": True, "gives": 1},
    ):
        case = {"name": "a case", "steps": [limits, step]}
        error = raises(AssertionError, run, case, Ledger)
        assert "a case, step 2 " in str(error), step


# Each of these ledgers breaks one rule; the vectors must find it.


class GivesOrphansBack(Ledger):
    def _expire_one(self, hold: "Any", now: int) -> None:
        if hold.state == "held" and now >= (hold.expires_ms or 0):
            self._settle(hold, RELEASED, {})


class ExpiresTooLate(Ledger):
    def _expire_one(self, hold: "Any", now: int) -> None:
        super()._expire_one(hold, now - 1)


class LosesLateCommits(Ledger):
    def commit(self, hold: "Any", actual: "Any" = None) -> "Any":
        found = self._find(hold)
        return found if found.state == EXPIRED else super().commit(hold, actual)


class LosesCommitsAfterReleases(Ledger):
    def commit(self, hold: "Any", actual: "Any" = None) -> "Any":
        found = self._find(hold)
        return found if found.state == RELEASED else super().commit(hold, actual)


class CommitsNoMoreThanWasHeld(Ledger):
    def commit(self, hold: "Any", actual: "Any" = None) -> "Any":
        amounts = self._find(hold).amounts
        used = {one: min(actual[one] or 0, amounts.get(one, 0)) for one in actual or {}}
        return super().commit(hold, used)


class CommitsMissingAxesAsZero(Ledger):
    def commit(self, hold: "Any", actual: "Any" = None) -> "Any":
        if actual:
            actual = dict(dict.fromkeys(self._find(hold).amounts, 0), **actual)
        return super().commit(hold, actual)


class CommitsInTheWindowOfNow(Ledger):
    def commit(self, hold: "Any", actual: "Any" = None) -> "Any":
        found = self._find(hold)
        try:
            found.buckets = self._buckets(found.path, self._now())
        except Exception:  # noqa: BLE001, S110 - an account that is gone is another vector's
            pass
        return super().commit(hold, actual)


class ShortensByExtending(Ledger):
    def extend(self, hold: "Any", ttl: float = 300) -> "Any":
        found = super().extend(hold, ttl)
        found.expires_ms = self._now() + int(ttl * 1000)
        return found


class RefusesCharges(Ledger):
    def charge(self, path: str, amounts: "Any", key: "Any" = None) -> "Any":
        self.release(self.reserve(path, amounts))
        return super().charge(path, amounts, key)


class LetsNothingThroughInDebt(Ledger):
    def reserve(self, path: str, amounts: "Any", *more: "Any", **named: "Any") -> "Any":
        some = {axis: amounts[axis] for axis in amounts if amounts[axis]}
        return super().reserve(path, some, *more, **named)


class ForgetsAtEveryChange(Ledger):
    def set_limits(self, path: str, limits: "Any") -> None:
        super().set_limits(path, [])
        super().set_limits(path, limits)


class ForgetsEarlierBuckets(Ledger):
    def _buckets(self, path: str, now: int) -> "Any":
        buckets = super()._buckets(path, now)
        for axis in buckets:
            for bucket in buckets[axis]:
                bucket.earlier = ()
        return buckets


class MovesBack(Ledger):
    def _buckets(self, path: str, now: int) -> "Any":
        for one in self._limits_along(path, now):
            if now < one.bucket.start:
                one.follow(now)
        return super()._buckets(path, now)


class NamesTheLimitThatResetsFirst(Ledger):
    def _admit(self, buckets: "Any", asked: "Any") -> None:
        for axis in sorted(asked):
            for bucket in sorted(buckets.get(axis, ()), key=lambda one: one.end):
                super()._admit({axis: (bucket,)}, asked)


class AcceptsOtherAmountsForAKey(Ledger):
    def _known(self, name: str, path: str, amounts: "Any", charged: bool) -> "Any":
        found = self._look_up(name)
        return super()._known(name, path, found.amounts if found else amounts, charged)


class AsksTheNearestLimitOnly(Ledger):
    def _buckets(self, path: str, now: int) -> "Any":
        buckets = super()._buckets(path, now)
        return {axis: buckets[axis][-1:] for axis in buckets}


class AdmitsWhatHasNoBound(Ledger):
    def reserve(self, path: str, amounts: "Any", *more: "Any", **named: "Any") -> "Any":
        some = {axis: amounts[axis] for axis in amounts or () if amounts[axis] is not None}
        return super().reserve(path, some, *more, **named)


class HoldsWhatHasNoBound(Ledger):
    def reserve(self, path: str, amounts: "Any", *more: "Any", **named: "Any") -> "Any":
        if isinstance(amounts, dict) and None in amounts.values():
            super().reserve(path, amounts)
            amounts = {axis: amounts[axis] or 1 for axis in amounts}
        return super().reserve(path, amounts, *more, **named)


class CommitsThoughTheNextHoldIsRefused(Ledger):
    def renew(self, hold: "Any", actual: "Any", *more: "Any", **named: "Any") -> "Any":
        found = self.commit(hold, actual)
        return self.reserve(found.path, *more, **named)


class TakesTheNextHoldBesideTheFormer(Ledger):
    def renew(self, hold: "Any", actual: "Any", *more: "Any", **named: "Any") -> "Any":
        found = self._find(hold)
        taken = self.reserve(found.path, *more, **named)
        self.commit(found, actual)
        return taken


class KeepsTheCountOfARefusedRenewal(Ledger):
    def _reopen(self, hold: "Any", *was: "Any") -> None:
        self._count(hold, hold.actual, 1)
        super()._reopen(hold, *was)


class KeepsTheHoldOfAKnownKey(Ledger):
    def renew(
        self, hold: "Any", actual: "Any", amounts: "Any", key: "Any" = None, ttl: float = 300
    ) -> "Any":
        if key is not None and self._look_up("org/" + str(key)):
            return self.reserve(hold.path, amounts, key, ttl)
        return super().renew(hold, actual, amounts, key, ttl)


WRONG = [
    GivesOrphansBack, ExpiresTooLate, LosesLateCommits, LosesCommitsAfterReleases,
    CommitsNoMoreThanWasHeld, CommitsMissingAxesAsZero, CommitsInTheWindowOfNow,
    ShortensByExtending, RefusesCharges, LetsNothingThroughInDebt, ForgetsAtEveryChange,
    ForgetsEarlierBuckets, MovesBack, NamesTheLimitThatResetsFirst, AcceptsOtherAmountsForAKey,
    AsksTheNearestLimitOnly, AdmitsWhatHasNoBound, HoldsWhatHasNoBound,
    CommitsThoughTheNextHoldIsRefused, TakesTheNextHoldBesideTheFormer,
    KeepsTheCountOfARefusedRenewal, KeepsTheHoldOfAKnownKey,
]  # fmt: skip


def test_a_ledger_that_breaks_a_rule_fails_some_vector() -> None:
    for wrong in WRONG:
        assert failing(wrong, 1), wrong.__name__
