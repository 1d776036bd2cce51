"""Leases and grants through any order of outages, restarts, claims and settlements."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from budget_core.ledger.backoff import MOST_MS
from budget_core.ledger.errors import BudgetExceededError, LedgerUnavailableError
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_cpython.ledger.lease import LeasedLedger
from budget_cpython.ledger.offline_cap import OfflineCapLedger
from tests.properties import examples
from tests_micro.ledger.faults import DAY, Faulty
from tests_micro.support import FakeClock, stopped_clock

LIMIT = 60
BLOCK = 10
CAP = 15
TTL = 100
AXES = ("calls", "tokens")
paths = st.sampled_from(("org", "org/a", "org/b"))
amounts = st.fixed_dictionaries({}, optional={"calls": st.integers(0, 14), "tokens": st.just(9)})
workers = st.integers(0, 1)


class Fleet(RuleBasedStateMachine):
    """Two processes below one limit; the ledger they share goes away and comes back."""

    @initialize()
    def begin(self) -> None:
        self.clock = FakeClock(DAY)
        self.ticks, self.monotonic = stopped_clock()
        self.shared = Ledger(self.clock)
        self.shared.set_limits("org", [Limit("calls", LIMIT), Limit("tokens", None)])
        self.switches = [Faulty(self.shared) for _ in range(2)]
        self.fleet = [self.start(switch) for switch in self.switches]
        self.holds: list[list[Hold]] = [[], []]
        self.used = dict.fromkeys(AXES, 0)
        self.back = [0.0, 0.0]
        self.outages = 0
        self.over = 0  # what commits used beyond their holds
        self.lost = dict.fromkeys(AXES, 0)  # what dead processes may have left to expire

    def start(self, switch: Faulty) -> Any:
        raise NotImplementedError

    def admitted(self) -> int:
        """Return how much may be used, all in all, if commits use no more than they hold."""
        raise NotImplementedError

    def is_told(self, worker: Any) -> bool:
        """Whether a process owes the ledger nothing at the moment."""
        raise NotImplementedError

    @rule(worker=workers, down=st.sampled_from(("", "", "before", "after")))
    def switch(self, worker: int, down: str) -> None:
        if self.switches[worker].down and not down:
            self.back[worker] = self.ticks.now
        self.outages += bool(down) and not self.switches[worker].down
        self.switches[worker].down = down

    @rule(worker=workers, path=paths, asked=amounts)
    def reserve(self, worker: int, path: str, asked: dict[str, int]) -> None:
        try:
            hold = self.fleet[worker].reserve(path, asked, ttl=5000)
        except BudgetExceededError:
            return
        except LedgerUnavailableError:
            assert self.switches[worker].down or self.ticks.now < self.back[worker] + MOST_MS
            return
        self.holds[worker].append(hold)

    @rule(worker=workers, at=st.integers(0, 20), part=st.sampled_from((0, 50, 100, 100, 150)))
    def commit(self, worker: int, at: int, part: int) -> None:
        if self.holds[worker]:
            hold = self.holds[worker].pop(at % len(self.holds[worker]))
            actual = {axis: hold.amounts[axis] * part // 100 for axis in hold.amounts}
            self.fleet[worker].commit(hold, actual)
            self.fleet[worker].commit(hold, dict.fromkeys(AXES, 10**6))
            for axis in actual:
                self.used[axis] += actual[axis]
            self.over += max(0, actual.get("calls", 0) - hold.amounts.get("calls", 0))

    @rule(
        worker=workers,
        at=st.integers(0, 20),
        part=st.sampled_from((0, 50, 100, 150)),
        asked=amounts,
    )
    def renew(self, worker: int, at: int, part: int, asked: dict[str, int]) -> None:
        if not self.holds[worker]:
            return
        hold = self.holds[worker][at % len(self.holds[worker])]
        actual = {axis: hold.amounts[axis] * part // 100 for axis in hold.amounts}
        taken = []
        try:
            taken.append(self.fleet[worker].renew(hold, actual, asked, ttl=5000))
        except BudgetExceededError:
            return
        except LedgerUnavailableError as error:
            assert self.switches[worker].down or self.ticks.now < self.back[worker] + MOST_MS
            if error.applied is False:
                return
            self.fleet[worker].commit(hold, actual)  # as it may be by now
        self.holds[worker].remove(hold)
        self.holds[worker] += taken
        for axis in actual:
            self.used[axis] += actual[axis]
        self.over += max(0, actual.get("calls", 0) - hold.amounts.get("calls", 0))

    @rule(worker=workers, at=st.integers(0, 20))
    def release(self, worker: int, at: int) -> None:
        if self.holds[worker]:
            self.fleet[worker].release(self.holds[worker].pop(at % len(self.holds[worker])))

    @rule(worker=workers, used=st.integers(0, 5))
    def charge(self, worker: int, used: int) -> None:
        self.fleet[worker].charge("org", {"calls": used})
        self.used["calls"] += used
        self.over += used

    @rule(worker=workers)
    def expire(self, worker: int) -> None:
        try:
            self.fleet[worker].expire()
        except LedgerUnavailableError:
            assert self.switches[worker].down

    @rule(seconds=st.sampled_from((1, 1, 20, 40)))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.ticks.advance(seconds * 1000)

    @invariant()
    def no_more_is_admitted_than_may_be(self) -> None:
        live = sum(hold.amounts.get("calls", 0) for one in self.holds for hold in one)
        assert self.used["calls"] - self.over + live <= self.admitted()

    @invariant()
    def all_that_was_used_stands_upstream_once_it_is_told(self) -> None:
        if all(self.is_told(worker) for worker in self.fleet):
            for found in self.shared.balance("org"):
                assert found.spent + found.held >= self.used[found.axis]

    def come_back(self) -> None:
        for switch in self.switches:
            switch.down = ""
        self.wait(40)

    def teardown(self) -> None:
        if not hasattr(self, "fleet"):
            return
        self.come_back()
        for worker in range(2):
            while self.holds[worker]:
                self.commit(worker, 0, 100)
            self.fleet[worker].close()
        for found in self.shared.balance("org"):
            assert found.held == 0
            least = self.used[found.axis]
            assert least <= found.spent <= least + self.lost[found.axis]


class LeasingFleet(Fleet):
    """Processes that lease; one may die with what it holds."""

    def start(self, switch: Faulty) -> LeasedLedger:
        block = {"calls": BLOCK, "tokens": 20}
        return LeasedLedger(switch, block, TTL, self.clock, self.monotonic, idle=30)

    def admitted(self) -> int:
        return LIMIT

    def is_told(self, worker: LeasedLedger) -> bool:
        return not worker._leased.upstream.outbox.entries and not worker._leased.is_due

    @rule(worker=workers)
    def die(self, worker: int) -> None:
        """What was used but not passed up is within the blocks that expire."""
        if self.fleet[worker]._leased.upstream.outbox.entries:  # charges that nobody else knows of
            return
        for lease in self.fleet[worker]._leased._leases.values():
            for block in (lease.block, *lease.ended):
                for hold in block.leases:  # which may have expired upstream, unseen, by now
                    for axis in hold.amounts:
                        self.lost[axis] += hold.amounts[axis]
        self.holds[worker] = []
        self.fleet[worker] = self.start(self.switches[worker])

    def teardown(self) -> None:
        if hasattr(self, "fleet") and any(self.lost.values()):
            self.come_back()
            self.wait(TTL)
        super().teardown()


class AllowingFleet(Fleet):
    """Processes that grant up to a cap while the ledger is away."""

    def start(self, switch: Faulty) -> OfflineCapLedger:
        return OfflineCapLedger(switch, {"calls": CAP}, self.clock, self.monotonic)

    def is_told(self, worker: OfflineCapLedger) -> bool:
        return not worker.unsettled

    def admitted(self) -> int:
        return LIMIT + CAP * self.outages


def test_process_dies_once_its_block_has_expired() -> None:
    fleet = LeasingFleet()
    fleet.begin()
    fleet.reserve(worker=0, path="org", asked={"calls": 0})
    fleet.wait(TTL)
    fleet.die(worker=0)
    assert fleet.lost == {"calls": BLOCK, "tokens": 0}
    fleet.teardown()


TestLeasingFleet = LeasingFleet.TestCase
TestAllowingFleet = AllowingFleet.TestCase
TestLeasingFleet.settings = examples(60, stateful_step_count=40)
TestAllowingFleet.settings = TestLeasingFleet.settings
