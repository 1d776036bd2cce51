"""A tree of envelopes under any order of events, against a model in a few words."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from budget_core import Budget, Envelope, Price
from budget_core.agent.llm_call import Admission
from tests.properties import examples
from tests_micro.support import RecordingLock, stopped_clock

DEPTH = 4
AXES = ("turns", "tokens", "nano_usd", "tool_calls", "reflections")
CLAIMED = ("reflections", "tool_calls", "turns")
picks = st.integers(0, 10**6)
caps = st.one_of(st.none(), st.integers(0, 40))
limits = st.fixed_dictionaries(
    {
        "max_turns": caps,
        "max_tokens": st.one_of(st.none(), st.integers(0, 400)),
        "max_nano_usd": st.one_of(st.none(), st.integers(0, 4000)),
        "max_tool_calls": caps,
        "max_reflections": caps,
        "timeout": st.one_of(st.none(), st.integers(0, 30)),
        "last_call": st.sampled_from([None, 0, 0.1, 0.5]),
    }
)


class Node:
    """The model of an envelope: sums of what happened below, no rule of its own but those here."""

    def __init__(self, limit: dict[str, Any], parent: "Node | None", now: int) -> None:
        self.parent = parent
        self.cap = {axis: limit["max_" + axis] for axis in AXES}
        share = {None: 0, 0: 0, 0.1: 1, 0.5: 5}[limit["last_call"]]
        timeout = limit["timeout"]
        self.time = None if timeout is None else round(timeout * 1000)
        self.kept = dict.fromkeys(AXES, 0)
        for axis in ("tokens", "nano_usd"):
            self.kept[axis] = self.part(self.cap[axis], share)
        self.kept_time = self.part(self.time, share)
        turns = self.cap["turns"]
        self.kept["turns"] = 1 if limit["last_call"] is not None and turns and turns > 1 else 0
        self.used = dict.fromkeys(AXES, 0)
        self.held = dict.fromkeys(AXES, 0)
        self.over = dict.fromkeys(AXES, 0)  # what was used without asking, or above a hold
        self.stopped: str | None = None
        self.closing = False
        self.begun = now
        self.idle = 0
        self.pauses: list[int] = []

    @staticmethod
    def part(cap: int | None, share: int) -> int:
        return min(cap - 1, cap * share // 10) if cap else 0

    def line(self) -> "list[Node]":
        return [self] + ([] if self.parent is None else self.parent.line())

    def left(self, axis: str, holds: bool = True) -> int | None:
        rooms = []
        for node in self.line():
            cap = node.cap[axis]
            if cap is not None:
                kept = 0 if node is self and node.closing else node.kept[axis]
                held = node.held[axis] if holds else 0
                rooms.append(max(0, cap - node.used[axis] - kept - held))
        return min(rooms, default=None)

    def for_call(self, axis: str, prompt: int, holds: bool) -> int | None:
        """Return what one call may use: half of its own where its prompt is counted."""
        rooms = [self.left(axis, holds)]
        cap = self.cap[axis]
        if prompt and self.kept[axis] and not self.closing and cap is not None:
            held = self.held[axis] if holds else 0
            rooms.append(max(0, cap - self.used[axis] - self.kept[axis] - held) // 2)
        return min([room for room in rooms if room is not None], default=None)

    def elapsed(self, now: int) -> int:
        return (self.pauses[0] if self.pauses else now) - self.begun - self.idle

    def time_left(self, now: int) -> int | None:
        lefts = []
        for node in self.line():
            if node.time is not None and not node.pauses:
                kept = 0 if node is self and node.closing else node.kept_time
                lefts.append(max(0, node.time - kept - node.elapsed(now)))
        return min(lefts, default=None)

    def reasons(self) -> list[str]:
        return [node.stopped for node in self.line() if node.stopped is not None]


class TreeMachine(RuleBasedStateMachine):
    """Runs in a tree that claim, hold, settle, stop, pause, extend, end and go on, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.fake, self.clock = stopped_clock()
        self.lock = RecordingLock()
        self.tree: list[tuple[Envelope, Node]] = []
        self.holds: list[tuple[Admission, Node, int, int]] = []
        self.open_pauses: list[tuple[Any, Node]] = []

    def now(self) -> int:
        return int(self.fake.now)

    def any_of(self, pick: int) -> tuple[Envelope, Node]:
        return self.tree[pick % len(self.tree)]

    def record(self, node: Node, axis: str, count: int, asked: int) -> None:
        """Note use along the line, and how much of it was never granted."""
        for one in node.line():
            one.used[axis] += count
            one.over[axis] += max(0, count - asked)

    @initialize(limit=limits)
    def begin(self, limit: dict[str, Any]) -> None:
        envelope = Envelope.open(Budget(**limit), self.clock, self.lock)
        self.tree.append((envelope, Node(limit, None, self.now())))

    @precondition(lambda self: len(self.tree) < 12)
    @rule(pick=picks, limit=limits)
    def spawn(self, pick: int, limit: dict[str, Any]) -> None:
        shallow = [(one, node) for one, node in self.tree if len(node.line()) < DEPTH]
        envelope, node = shallow[pick % len(shallow)]
        before = envelope.remaining()
        child = envelope.child(Budget(**limit))
        self.tree.append((child, Node(limit, node, self.now())))
        assert envelope.remaining() == before

    @rule(pick=picks, axis=st.sampled_from(CLAIMED))
    def claim(self, pick: int, axis: str) -> None:
        envelope, node = self.any_of(pick)
        expected = node.left(axis) != 0
        claim = envelope.claim_tool_call if axis == "tool_calls" else getattr(envelope, axis).claim
        assert claim() is expected
        if expected:
            self.record(node, axis, 1, 1)

    @rule(pick=picks, axis=st.sampled_from(AXES), count=st.integers(0, 60))
    def charge(self, pick: int, axis: str, count: int) -> None:
        envelope, node = self.any_of(pick)
        getattr(envelope, axis).charge(count)
        self.record(node, axis, count, 0)

    @rule(
        pick=picks,
        prompt=st.integers(0, 50),
        limit=st.one_of(st.none(), st.integers(1, 100)),
        per_token=st.sampled_from([None, 0, 1, 7]),
    )
    def hold(self, pick: int, prompt: int, limit: int | None, per_token: int | None) -> None:
        envelope, node = self.any_of(pick)
        price = None if per_token is None else Price(per_token / 1000, per_token / 1000)
        hold = Admission(envelope, prompt, limit, price, "model")
        answer = hold.claim()
        room = self.room(node, prompt, limit, per_token, True)
        assert (answer is hold) is (not node.reasons() and room != 0)
        if answer is not hold:
            never = bool(node.reasons()) or self.room(node, prompt, limit, per_token, False) == 0
            assert (answer is not None) is never
            return
        assert hold.limit == room
        tokens = 0 if room is None else prompt + room
        money = (prompt + (room or 0)) * (per_token or 0)
        self.record(node, "turns", 1, 1)
        for one in node.line():
            one.held["tokens"] += tokens
            one.held["nano_usd"] += money
        self.holds.append((hold, node, tokens, money))

    def room(
        self, node: Node, prompt: int, limit: int | None, per_token: int | None, holds: bool
    ) -> int | None:
        """Return the completion tokens that a call may have: 0 for no call."""
        rooms = [] if limit is None else [limit]
        tokens, money = (node.for_call(axis, prompt, holds) for axis in ("tokens", "nano_usd"))
        if node.left("turns") == 0 or (money is not None and per_token is None):
            return 0
        if tokens is not None:
            rooms.append(max(0, tokens - prompt))
        if money is not None and per_token:
            rooms.append(max(0, money // per_token - prompt))
        return min(rooms, default=None)

    @precondition(lambda self: self.holds)
    @rule(
        pick=picks,
        share=st.integers(0, 10),
        more=st.one_of(st.just(0), st.integers(0, 200)),
    )
    def settle(self, pick: int, share: int, more: int) -> None:
        hold, node, tokens, money = self.holds.pop(pick % len(self.holds))
        used, spent = tokens * share // 10 + more, money * share // 10 + more
        hold.settle(used, spent)
        for one in node.line():
            one.held["tokens"] -= tokens
            one.held["nano_usd"] -= money
        self.record(node, "tokens", used, tokens)
        self.record(node, "nano_usd", spent, money)

    @rule(pick=picks, axis=st.sampled_from([*AXES, "timeout"]), count=st.integers(0, 30))
    def extend(self, pick: int, axis: str, count: int) -> None:
        envelope, node = self.any_of(pick)
        if axis == "timeout":
            envelope.extend(timeout=count)
            node.time = None if node.time is None else node.time + 1000 * count
            return
        more: Any = {f"max_{axis}": count}
        envelope.extend(**more)
        cap = node.cap[axis]
        node.cap[axis] = None if cap is None else cap + count

    @rule(pick=picks, why=st.sampled_from(["first", "second"]))
    def stop(self, pick: int, why: str) -> None:
        envelope, node = self.any_of(pick)
        envelope.stop(why)
        node.stopped = node.stopped or why

    @rule(pick=picks)
    def begin_last_call(self, pick: int) -> None:
        envelope, node = self.any_of(pick)
        envelope.begin_last_call()
        node.closing = True

    @precondition(lambda self: len(self.tree) < 12)
    @rule(pick=picks)
    def go_on(self, pick: int) -> None:
        shallow = [(one, node) for one, node in self.tree if len(node.line()) < DEPTH]
        envelope, node = shallow[pick % len(shallow)]
        left: dict[str, Any] = {}
        for axis in AXES:
            cap = node.cap[axis]
            rest = None if cap is None else max(0, cap - node.used[axis] - node.held[axis])
            left["max_" + axis] = rest
        passed = node.elapsed(self.now())
        left["timeout"] = None if node.time is None else max(0, node.time - passed) / 1000
        left["last_call"] = envelope.budget.last_call
        again = envelope.continuation()
        node.stopped, node.closing, node.kept_time = None, False, 0
        node.kept = dict.fromkeys(AXES, 0)
        self.tree.append((again, Node(left, node, self.now())))

    @rule(ms=st.integers(0, 5000))
    def wait(self, ms: int) -> None:
        self.fake.advance(ms)

    @rule(pick=picks)
    def pause(self, pick: int) -> None:
        envelope, node = self.any_of(pick)
        pause = envelope.paused()
        pause.__enter__()
        node.pauses.append(self.now())
        self.open_pauses.append((pause, node))

    @precondition(lambda self: self.open_pauses)
    @rule(pick=picks)
    def resume(self, pick: int) -> None:
        pause, node = self.open_pauses.pop(pick % len(self.open_pauses))
        pause.__exit__(None, None, None)
        began = node.pauses[0]
        node.pauses.pop()  # they only tell how many there are, and when the first began
        if not node.pauses:
            node.idle += self.now() - began

    @invariant()
    def counts_agree_and_what_is_used_below_is_used_above(self) -> None:
        for envelope, node in self.tree:
            used = envelope.usage()
            assert {axis: used[axis] for axis in AXES} == node.used
            assert used["elapsed_ms"] == node.elapsed(self.now())
            for axis in AXES:
                below = [one.used[axis] for _, one in self.tree if one.parent is node]
                assert getattr(envelope, axis).held == node.held[axis] >= 0
                assert used[axis] >= sum(below)

    @invariant()
    def what_is_left_agrees(self) -> None:
        for envelope, node in self.tree:
            left = envelope.remaining()
            assert {axis: left[axis] for axis in AXES} == {axis: node.left(axis) for axis in AXES}
            assert left["time_ms"] == node.time_left(self.now())
            assert envelope.is_expired() is (left["time_ms"] == 0)

    @invariant()
    def no_cap_is_passed_but_by_what_was_never_asked_for(self) -> None:
        for _, node in self.tree:
            for axis in AXES:
                cap = node.cap[axis]
                taken = node.used[axis] + node.held[axis]
                assert cap is None or taken <= cap + node.over[axis]

    @invariant()
    def only_its_own_last_call_takes_what_is_kept(self) -> None:
        for _, node in self.tree:
            for axis in AXES:
                cap = node.cap[axis]
                if cap is not None and not node.closing:
                    taken = node.used[axis] + node.held[axis]
                    assert taken <= cap - node.kept[axis] + node.over[axis]

    @invariant()
    def a_run_is_over_when_something_is_used_up_or_it_was_stopped(self) -> None:
        for envelope, node in self.tree:
            reason = envelope.check()
            reasons = node.reasons()
            if reasons:
                assert reason is not None
                assert reason.reason == reasons[0]
                continue
            spent = [
                axis for axis in ("turns", "tokens", "nano_usd") if node.left(axis, False) == 0
            ]
            if spent or self.is_out_of_time(node):
                assert reason is not None
            elif reason is not None:
                assert reason.kind == "tool_call_limit"
                assert not node.closing

    def is_out_of_time(self, node: Node) -> bool:
        """Tell whether a time here or above is over, also where it stands still now."""
        for one in node.line():
            kept = 0 if one is node and one.closing else one.kept_time
            if one.time is not None and one.elapsed(self.now()) >= one.time - kept:
                return True
        return False

    def teardown(self) -> None:
        assert not self.lock.held


TestTree: Any = TreeMachine.TestCase
TestTree.settings = examples(150, stateful_step_count=40)
