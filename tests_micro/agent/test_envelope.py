"""A budget in use: its counts, its clock, and whom it draws on."""

from budget_core import Budget, Envelope, StopReason
from budget_core.agent.llm_call import Admission
from budget_core.thresholds import nearest
from tests_micro.support import NO_COUNTS, FakeClock, RecordingLock, raises, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

AXES = ("turns", "tokens", "nano_usd", "tool_calls", "reflections")


def opened(**limits: "Any") -> Envelope:
    """Return an envelope whose clock stands still."""
    return timed(**limits)[1]


def timed(**limits: "Any") -> "tuple[FakeClock, Envelope]":
    """Return a clock of milliseconds, and an envelope that reads it."""
    fake, clock = stopped_clock()
    return fake, Envelope.open(Budget(**limits), clock, RecordingLock())


def none_of(axis: str) -> "dict[str, Any]":
    return {"max_" + axis: 0}


def left_ms(envelope: Envelope) -> int | None:
    return envelope.deadline.to_wire(0)


def kind_of(reason: "Any") -> str:
    return "" if reason is None else str(reason.kind)


def figures(reason: "Any") -> "tuple[Any, ...]":
    assert isinstance(reason, StopReason)
    return reason.kind, reason.used, reason.limit, reason.kept, reason.scope


def test_every_axis_counts_here_and_above() -> None:
    top = opened()
    child = top.child()
    grandchild = child.child()
    for number, axis in enumerate(AXES):
        getattr(grandchild, axis).charge(number + 1)
        getattr(child, axis).charge(10)
    for envelope, more in ((grandchild, 0), (child, 10), (top, 10)):
        used = [envelope.usage()[axis] for axis in AXES]
        assert used == [number + 1 + more for number in range(5)]


def test_steps_and_turns_are_the_same() -> None:
    run = opened(max_turns=1, last_call=None)
    assert run.turns.claim()
    assert not run.turns.claim()
    assert run.steps is run.turns
    assert run.usage()["turns"] == 1


def test_the_chain_begins_with_the_nearest() -> None:
    top = opened()
    child = top.child(name="scout")
    grandchild = child.child()
    assert grandchild.chain() == [grandchild, child, top]
    assert [one.name for one in grandchild.chain()] == ["scout/child", "scout", "run"]


def test_a_child_takes_a_budget_or_its_fields_or_both() -> None:
    top = opened(max_turns=50)
    budget = Budget(max_turns=3, max_tokens=9)
    assert top.child(budget).budget.__dict__ == budget.__dict__
    assert top.child(max_turns=3).budget.max_turns == 3
    both = top.child(budget, max_turns=4).budget
    assert (both.max_turns, both.max_tokens) == (4, 9)
    raises(ValueError, top.child, max_turns=-1)
    raises(TypeError, top.child, max_turn=1)


def test_only_a_budget_is_opened() -> None:
    for bad in (None, 5, {"max_turns": 1}, opened()):
        assert "Budget" in str(raises(ValueError, Envelope.open, bad))


def test_more_time_than_the_clock_can_measure_is_refused() -> None:
    _, clock = stopped_clock()
    clock.reach_ms = 5000
    assert left_ms(Envelope.open(Budget(timeout=5), clock)) == 5000 - 500
    assert "5 s" in str(raises(ValueError, Envelope.open, Budget(timeout=5.001), clock))
    top = Envelope.open(Budget(), clock)
    raises(ValueError, top.child, timeout=6)


def test_a_child_of_zero_has_nothing_and_its_parent_all() -> None:
    for axis in AXES:
        top = opened()
        child = top.child(Budget(), **none_of(axis))
        assert child.remaining()[axis] == 0
        assert top.remaining()[axis] is None
        assert not getattr(child, axis).claim()
    child = opened().child(timeout=0)
    assert child.remaining()["time_ms"] == 0
    assert kind_of(child.check()) == StopReason.TIMEOUT
    for axis in ("turns", "tokens", "nano_usd"):
        child = opened().child(Budget(), **none_of(axis))
        assert child.check() is not None, axis
        child.begin_last_call()
        assert child.check() is not None, axis
    assert kind_of(Admission(opened().child(max_tokens=0)).claim()) == StopReason.TOKEN_BUDGET
    assert kind_of(Admission(opened().child(max_turns=0)).claim()) == StopReason.TURN_LIMIT


def test_a_child_without_limits_has_what_its_parent_has() -> None:
    top = opened(max_turns=5, max_tokens=100, max_tool_calls=3, timeout=2)
    child = top.child()
    assert child.remaining() == top.remaining()
    assert kind_of(child.check()) == ""
    top.tokens.charge(95)
    assert child.remaining()["tokens"] == 0
    assert figures(child.check()) == (StopReason.TOKEN_BUDGET, 95, 100, 10, "run")


def test_three_children_of_five_turns_under_a_parent_of_ten_take_ten() -> None:
    for last_call, kept in ((None, 0), (0.1, 1)):
        top = opened(max_turns=10, last_call=last_call)
        children = [top.child(max_turns=5, last_call=None) for _ in range(3)]
        taken = [0, 0, 0]
        for _ in range(9):
            for index, child in enumerate(children):
                taken[index] += child.turns.claim()
        assert sum(taken) == 10 - kept
        top.begin_last_call()
        assert not children[2].turns.claim()
        assert [top.turns.claim() for _ in range(2)] == [kept == 1, False]
        assert top.turns.used == 10


def test_what_is_kept_is_for_the_last_call_and_not_for_children() -> None:
    _, top = timed(max_turns=10, max_tokens=1000, max_nano_usd=100, timeout=10)
    child = top.child()
    for envelope in (top, child):
        left = envelope.remaining()
        assert (left["turns"], left["tokens"], left["nano_usd"]) == (9, 900, 90)
        assert left["time_ms"] == 9000
    top.begin_last_call()
    left = top.remaining()
    assert (left["turns"], left["tokens"], left["nano_usd"]) == (10, 1000, 100)
    assert left["time_ms"] == 10_000
    assert child.remaining()["tokens"] == 900
    assert child.remaining()["time_ms"] == 9000


def test_at_a_limit_the_last_call_is_possible_and_then_no_more() -> None:
    top = opened(max_turns=3, max_tokens=100)
    top.turns.charge(2)
    assert figures(top.check()) == (StopReason.TURN_LIMIT, 2, 3, 1, "run")
    assert kind_of(Admission(top).claim()) == StopReason.TURN_LIMIT
    top.begin_last_call()
    assert top.check() is None
    hold = Admission(top)
    assert hold.claim() is hold
    assert hold.limit == 100
    assert figures(top.check()) == (StopReason.TURN_LIMIT, 3, 3, 0, "run")
    assert figures(Admission(top).claim()) == (StopReason.TURN_LIMIT, 3, 3, 0, "run")


def test_a_childs_last_call_gets_nothing_of_what_its_parent_keeps() -> None:
    top = opened(max_tokens=100)
    child = top.child(max_tokens=100)
    top.tokens.charge(90)
    child.begin_last_call()
    assert figures(child.check()) == (StopReason.TOKEN_BUDGET, 90, 100, 10, "run")
    reason = Admission(child).claim()
    assert figures(reason) == (StopReason.TOKEN_BUDGET, 90, 100, 10, "run")
    top.begin_last_call()
    assert figures(Admission(child).claim())[3:] == (10, "run")
    assert isinstance(Admission(top).claim(), Admission)


def test_lacking_tool_calls_do_not_keep_the_last_call_from_being_made() -> None:
    top = opened(max_turns=9, max_tool_calls=1)
    child = top.child()
    assert [child.claim_tool_call() for _ in range(2)] == [True, False]
    for envelope in (child, top):
        assert kind_of(envelope.check()) == StopReason.TOOL_CALL_LIMIT
        envelope.begin_last_call()
        assert envelope.check() is None


def test_deadlines_are_the_earliest_here_and_above() -> None:
    fake, top = timed(timeout=10, last_call=None)
    child = top.child(timeout=4, last_call=None)
    late = top.child(timeout=60, last_call=None)
    assert (left_ms(top), left_ms(child), left_ms(late)) == (10_000, 4000, 10_000)
    fake.advance(3000)
    grandchild = child.child(timeout=5, last_call=None)
    assert (left_ms(grandchild), left_ms(top.child())) == (1000, 7000)
    fake.advance(1000)
    assert child.is_expired()
    assert grandchild.is_expired()
    assert not late.is_expired()
    assert left_ms(opened().child()) is None


def test_who_is_out_of_time_is_told() -> None:
    fake, top = timed(timeout=10)
    child = top.child(timeout=5, last_call=None, name="child")
    grandchild = child.child(name="grandchild")
    fake.advance(5000)
    for envelope in (child, grandchild):
        assert figures(envelope.out_of_time()) == (StopReason.TIMEOUT, 5000, 5000, 0, "child")
        assert figures(envelope.check()) == (StopReason.TIMEOUT, 5000, 5000, 0, "child")
    assert top.check() is None
    late = top.child(timeout=60, name="late")
    fake.advance(4000)
    assert figures(late.out_of_time()) == (StopReason.TIMEOUT, 9000, 10_000, 1000, "run")
    assert figures(late.check()) == (StopReason.TIMEOUT, 9000, 10_000, 1000, "run")
    top.begin_last_call()
    assert top.check() is None
    assert figures(late.check()) == (StopReason.TIMEOUT, 9000, 10_000, 1000, "run")
    fake.advance(1000)
    assert figures(top.out_of_time()) == (StopReason.TIMEOUT, 10_000, 10_000, 0, "run")
    assert figures(top.check()) == (StopReason.TIMEOUT, 10_000, 10_000, 0, "run")


def test_who_keeps_time_for_itself_is_out_of_time_before_a_child_that_would_have_some() -> None:
    fake, top = timed(timeout=10)
    child = top.child(timeout=9.5, last_call=None)
    fake.advance(9000)
    assert child.is_expired()
    assert figures(child.out_of_time()) == (StopReason.TIMEOUT, 9000, 10_000, 1000, "run")


def test_of_two_that_end_together_the_nearer_is_named() -> None:
    fake, top = timed(timeout=5, max_tokens=10, last_call=None)
    child = top.child(timeout=5, max_tokens=10, last_call=None, name="child")
    fake.advance(5000)
    child.tokens.charge(10)
    assert child.out_of_time().scope == "child"
    assert child.lacking("tokens").scope == "child"
    assert figures(child.check())[4] == "child"


def test_no_time_passes_while_paused() -> None:
    fake, run = timed(timeout=10, last_call=None)
    fake.advance(1000)
    with run.paused("approval"):
        fake.advance(60_000)
        assert left_ms(run) is None
        assert run.usage()["elapsed_ms"] == 1000
        assert run.check() is None
    assert left_ms(run) == 9000
    assert run.pauses == [{"reason": "approval", "ms": 60_000}]
    fake.advance(9000)
    assert kind_of(run.check()) == StopReason.TIMEOUT
    assert run.is_expired()


def test_pauses_that_overlap_count_once() -> None:
    fake, run = timed(timeout=10, last_call=None)
    first, second = run.paused("first"), run.paused("second")
    first.__enter__()
    fake.advance(1000)
    second.__enter__()
    fake.advance(2000)
    first.__exit__(None, None, None)
    fake.advance(4000)
    assert run.usage()["elapsed_ms"] == 0
    second.__exit__(None, None, None)
    fake.advance(500)
    assert run.usage()["elapsed_ms"] == 500
    assert left_ms(run) == 9500
    assert run.pauses == [{"reason": "first", "ms": 3000}, {"reason": "second", "ms": 6000}]


def test_pauses_one_within_and_one_after_the_other_add_up() -> None:
    fake, run = timed(timeout=10, last_call=None)
    with run.paused():
        fake.advance(100)
        with run.paused():
            fake.advance(200)
        fake.advance(400)
        assert run.usage()["elapsed_ms"] == 0
    fake.advance(1)
    with run.paused():
        fake.advance(800)
    fake.advance(2)
    assert run.usage()["elapsed_ms"] == 3
    assert left_ms(run) == 9997


def test_a_pause_ends_also_where_its_body_raises() -> None:
    fake, run = timed(timeout=10, last_call=None)
    try:
        with run.paused("approval"):
            fake.advance(1000)
            raise ValueError
    except ValueError:
        pass
    fake.advance(1)
    assert (left_ms(run), len(run.pauses)) == (9999, 1)


def test_a_pause_of_the_parent_is_not_the_childs_nor_the_other_way_round() -> None:
    fake, top = timed(timeout=10, last_call=None)
    child = top.child(timeout=6, last_call=None)
    with top.paused():
        fake.advance(1000)
        assert (left_ms(top), left_ms(child)) == (None, 5000)
        with child.paused():
            fake.advance(2000)
            assert (left_ms(top), left_ms(child)) == (None, None)
        fake.advance(500)
    assert (left_ms(top), left_ms(child)) == (10_000, 4500)
    with child.paused():
        fake.advance(7000)
        assert (left_ms(top), left_ms(child)) == (3000, 3000)
        assert (child.usage()["elapsed_ms"], top.usage()["elapsed_ms"]) == (1500, 7000)
        fake.advance(3000)
        assert child.is_expired()
        assert figures(child.check()) == (StopReason.TIMEOUT, 10_000, 10_000, 0, "run")
        assert child.out_of_time().scope == "run"
    assert child.pauses == [{"reason": "", "ms": 2000}, {"reason": "", "ms": 10_000}]
    assert len(top.pauses) == 1


def test_pauses_of_parent_and_child_that_overlap_are_each_their_own() -> None:
    fake, top = timed(timeout=10, last_call=None)
    child = top.child(timeout=8, last_call=None)
    outer, inner = top.paused(), child.paused()
    outer.__enter__()
    fake.advance(1000)
    inner.__enter__()
    fake.advance(2000)
    outer.__exit__(None, None, None)
    assert (left_ms(top), left_ms(child)) == (10_000, 10_000)
    fake.advance(4000)
    inner.__exit__(None, None, None)
    assert (left_ms(top), left_ms(child)) == (6000, 6000)
    assert (top.usage()["elapsed_ms"], child.usage()["elapsed_ms"]) == (4000, 1000)


def test_a_pause_that_is_about_to_end_has_not_yet_cost_any_time() -> None:
    fake, clock = stopped_clock()
    run = Envelope.open(Budget(timeout=10, last_call=None), clock)
    seen: "list[Any]" = []
    pause = run.paused()
    pause.__enter__()
    fake.advance(60_000)

    def read() -> int:
        clock.read = fake
        seen.append((run.usage()["elapsed_ms"], run.check()))
        return int(fake.now)

    clock.read = read
    pause.__exit__()
    assert seen == [(0, None)]
    assert left_ms(run) == 10_000


def test_an_extension_adds_to_what_is_limited() -> None:
    _, run = timed(max_turns=2, max_tokens=100, timeout=1, max_tool_calls=0, last_call=None)
    run.turns.charge(2)
    run.extend(max_turns=3, max_tokens=50, timeout=0.5, max_tool_calls=1, max_nano_usd=5)
    left = run.remaining()
    assert (left["turns"], left["tokens"], left["tool_calls"]) == (3, 150, 1)
    assert left["time_ms"] == 1500
    assert left["nano_usd"] is None
    run.extend()
    run.extend(max_turns=0, timeout=0)
    assert run.remaining() == left


def test_what_is_above_holds_however_a_child_is_extended() -> None:
    _, top = timed(max_tokens=100, timeout=10, last_call=None)
    child = top.child(max_tokens=10, timeout=1, last_call=None)
    child.extend(max_tokens=1000, timeout=1000)
    assert (child.remaining()["tokens"], left_ms(child)) == (100, 10_000)
    top.extend(max_tokens=400)
    assert child.remaining()["tokens"] == 500


def test_only_what_can_be_added_extends_and_else_nothing_is_changed() -> None:
    run = opened(max_turns=2, max_tokens=5, timeout=1)
    before = run.remaining()
    for name in ("max_turns", "max_tokens", "max_nano_usd", "max_tool_calls", "max_reflections"):
        for bad in NO_COUNTS:
            assert name in str(raises(ValueError, run.extend, **{name: bad})), (name, bad)
    for bad in (-1, float("nan"), True, "5", None):
        assert "timeout" in str(raises(ValueError, run.extend, timeout=bad)), bad
    unknown: "tuple[Any, ...]" = ("max_turn", "turns", "max_", "last_call", "max_tokens_per_turn")
    for name in unknown:
        assert name in str(raises(ValueError, run.extend, **{name: 1}))
        raises(ValueError, run.extend, **{"max_turns": 5, "timeout": 5, name: 1})
    assert run.remaining() == before
    lock: "Any" = run.lock
    assert not lock.held


def test_a_sum_that_is_no_limit_any_more_is_refused() -> None:
    run = opened(max_tokens=10, last_call=None)
    raises(ValueError, run.extend, max_tokens=(1 << 60) - 10)
    assert run.remaining()["tokens"] == 10
    run.extend(max_tokens=(1 << 60) - 11)
    assert run.remaining()["tokens"] == (1 << 60) - 1
    assert run.check() is None


def test_what_is_kept_stays_when_a_run_is_extended() -> None:
    run = opened(max_tokens=100)
    run.extend(max_tokens=100)
    assert run.remaining()["tokens"] == 190


def test_an_infinite_extension_ends_the_timeout() -> None:
    fake, run = timed(timeout=5, max_turns=3)
    run.extend(timeout=float("inf"))
    fake.advance(60_000)
    assert run.check() is None
    assert left_ms(run) is None
    assert left_ms(run.continuation()) is None
    run.extend(timeout=1)
    assert left_ms(run) is None


def test_an_extension_neither_undoes_a_stop_nor_a_last_call() -> None:
    run = opened(max_turns=2, last_call=None)
    run.stop("enough")
    run.extend(max_turns=5)
    assert kind_of(run.check()) == StopReason.EXPLICIT_STOP
    assert kind_of(Admission(run).claim()) == StopReason.EXPLICIT_STOP
    closing = opened(max_turns=3)
    closing.begin_last_call()
    closing.extend(max_turns=5)
    assert closing.closing
    assert closing.remaining()["turns"] == 8


def test_a_refused_tool_call_is_forgotten_when_there_are_more() -> None:
    run = opened(max_turns=9, max_tool_calls=1)
    assert [run.claim_tool_call() for _ in range(2)] == [True, False]
    run.extend(max_turns=1)
    assert kind_of(run.check()) == StopReason.TOOL_CALL_LIMIT
    run.extend(max_tool_calls=2)
    assert [run.claim_tool_call() for _ in range(2)] == [True, True]
    assert run.check() is None
    assert not run.claim_tool_call()
    assert figures(run.check())[:3] == (StopReason.TOOL_CALL_LIMIT, 4, 3)


def test_a_stop_reaches_all_below_and_none_above() -> None:
    top = opened()
    child, sibling = top.child(name="child"), top.child()
    grandchild = child.child()
    child.stop("wrong way")
    for envelope in (child, grandchild):
        reason = envelope.check()
        assert reason is not None
        assert str(reason) == "explicit stop (child): wrong way"
        assert envelope.why_stopped() is reason
    assert top.check() is sibling.check() is None
    assert grandchild.stopped is None
    top.stop("home", StopReason.CANCELLED)
    assert kind_of(sibling.check()) == StopReason.CANCELLED
    assert grandchild.why_stopped() is child.stopped


def test_the_first_reason_stays() -> None:
    run = opened()
    run.stop("first")
    run.stop("second", StopReason.CANCELLED)
    assert str(run.check()) == "explicit stop: first"


def test_a_stop_comes_before_any_limit() -> None:
    run = opened(max_turns=0)
    run.stop("enough")
    assert kind_of(run.check()) == StopReason.EXPLICIT_STOP


def test_a_continuation_has_all_that_is_left_and_no_more() -> None:
    fake, run = timed(
        max_turns=10, max_tokens=1000, max_nano_usd=100, max_reflections=4, timeout=10
    )
    run.turns.charge(4)
    run.tokens.charge(300)
    run.reflections.charge(1)
    fake.advance(2500)
    run.begin_last_call()
    run.stop("full context")
    again = run.continuation()
    assert again.check() is None
    caps = [getattr(again, axis).cap for axis in AXES]
    assert caps == [6, 700, 100, None, 3]
    left = again.remaining()
    assert [left[axis] for axis in AXES] == [5, 630, 90, None, 3]
    assert left["time_ms"] == 7500 - 750
    assert again.usage() == dict.fromkeys(again.usage(), 0)
    again.begin_last_call()
    left = again.remaining()
    assert [left[axis] for axis in AXES] == [6, 700, 100, None, 3]
    assert left["time_ms"] == 7500
    again.tokens.charge(700)
    assert (run.tokens.used, run.remaining()["tokens"]) == (1000, 0)
    assert (again.name, run.stopped, run.closing) == ("run", None, False)


def test_a_continuation_of_an_extended_run_has_the_extension_too() -> None:
    fake, run = timed(max_turns=2, timeout=1)
    run.extend(max_turns=5, timeout=3)
    run.turns.charge(1)
    fake.advance(500)
    again = run.continuation("again")
    again.begin_last_call()
    assert (again.remaining()["turns"], left_ms(again), again.name) == (6, 3500, "again")


def test_a_continuation_of_what_is_used_up_has_nothing() -> None:
    fake, run = timed(max_turns=2, timeout=1)
    run.turns.charge(3)
    fake.advance(5000)
    again = run.continuation()
    assert (again.remaining()["turns"], left_ms(again)) == (0, 0)
    assert not again.turns.claim()
    assert again.check() is not None


def test_a_continuation_below_a_parent_that_was_stopped_is_stopped() -> None:
    top = opened()
    child = top.child(max_turns=5)
    top.stop("home")
    assert kind_of(child.continuation().check()) == StopReason.EXPLICIT_STOP


def test_a_continuation_may_go_on_without_the_tool_calls_that_were_refused() -> None:
    run = opened(max_turns=9, max_tool_calls=1, max_calls={"read": 2})
    assert [run.claim_tool_call() for _ in range(2)] == [True, False]
    again = run.continuation()
    assert again.check() is None
    assert again.remaining()["tool_calls"] == 0
    assert not again.claim_tool_call()
    assert kind_of(again.check()) == StopReason.TOOL_CALL_LIMIT


def test_the_calls_of_single_tools_go_on_in_a_continuation() -> None:
    run = opened(max_calls={"read": 3})
    assert run.claim_tool_call("read")
    again = run.continuation()
    assert [again.claim_tool_call("read") for _ in range(3)] == [True, True, False]
    assert again.claim_tool_call("write")


def test_continuations_of_continuations_still_know_their_limits() -> None:
    run = opened(max_turns=40, max_calls={"read": 40}, timeout=60)
    top = run
    for _ in range(30):
        assert run.turns.claim()
        assert run.claim_tool_call("read")
        run = run.continuation()
    assert (top.turns.used, run.turns.cap, left_ms(run)) == (30, 10, 54_000)
    assert sum([run.claim_tool_call("read") for _ in range(40)]) == 10


def test_tool_calls_are_bounded_by_the_tool_and_by_all_of_them() -> None:
    run = opened(max_tool_calls=5, max_calls={"read": 2, "off": 0})
    assert [run.claim_tool_call("read") for _ in range(3)] == [True, True, False]
    assert not run.claim_tool_call("off")
    assert run.tool_calls.used == 2
    assert run.check() is None
    assert [run.claim_tool_call("write") for _ in range(4)] == [True, True, True, False]
    assert not run.claim_tool_call("read")
    assert run.calls("read").used == 2


def test_a_tools_own_cap_holds_for_all_below() -> None:
    top = opened(max_calls={"read": 3})
    children = [top.child(max_calls={"read": 2}), top.child(), top.child(max_calls={"write": 0})]
    granted = [0, 0, 0]
    for _ in range(4):
        for index, child in enumerate(children):
            granted[index] += child.claim_tool_call("read")
    assert granted == [1, 1, 1]
    assert top.calls("read").used == top.tool_calls.used == 3
    assert not children[2].claim_tool_call("write")
    assert children[0].claim_tool_call("write")


def test_a_childs_cap_on_a_tool_does_not_bind_its_parent() -> None:
    top = opened()
    child = top.child(max_calls={"read": 1})
    assert [child.claim_tool_call("read") for _ in range(2)] == [True, False]
    assert [top.claim_tool_call("read") for _ in range(2)] == [True, True]
    assert child.tool_calls.used == 1


def test_a_call_that_the_sum_refuses_uses_none_of_the_tools_own() -> None:
    run = opened(max_tool_calls=0, max_calls={"read": 5})
    assert not run.claim_tool_call("read")
    assert (run.calls("read").used, run.tool_calls.used) == (0, 0)


def test_a_completion_is_no_longer_than_any_of_the_chain_allows() -> None:
    top = opened(max_tokens_per_turn=500)
    child = top.child(max_tokens_per_turn=100)
    grandchild = child.child(max_tokens_per_turn=200)
    assert grandchild.max_tokens_per_turn == 100
    assert top.child().max_tokens_per_turn == 500
    assert opened().child().max_tokens_per_turn is None
    assert opened().child(max_tokens_per_turn=7).max_tokens_per_turn == 7
    assert top.child(max_tokens_per_turn=0).max_tokens_per_turn == 0


def test_a_prompt_fits_the_smallest_context_of_the_chain() -> None:
    top = opened(max_context_tokens=100)
    for own, fits in ((None, 100), (500, 100), (100, 100), (30, 30), (0, 0)):
        assert top.child(max_context_tokens=own).child().max_context_tokens == fits, own
    assert opened().child().max_context_tokens is None


def test_watchers_hear_of_every_change_in_the_tree_and_no_lock_is_held() -> None:
    top = opened(max_tokens=100, timeout=5)
    child = top.child()
    lock: "Any" = top.lock
    heard: "list[bool]" = []

    def watcher() -> None:
        heard.append(lock.held)
        top.remaining()

    child.add_watcher(watcher)
    top.stop()
    child.stop()
    top.extend(max_tokens=1)
    with child.child().paused():
        assert heard == [False] * 4
    assert heard == [False] * 5
    hold = Admission(top.continuation())
    assert hold.claim() is hold
    hold.settle(1, 1)
    assert heard == [False] * 6
    child.remove_watcher(watcher)
    top.changed()
    assert len(heard) == 6


def test_a_watcher_may_leave_while_all_are_told() -> None:
    run = opened()
    heard: "list[str]" = []

    def once() -> None:
        heard.append("once")
        run.remove_watcher(once)

    run.add_watcher(once)
    run.add_watcher(lambda: heard.append("always"))
    run.changed()
    run.changed()
    assert heard == ["once", "always", "always"]


def test_nothing_that_is_read_waits_for_the_lock_that_it_holds() -> None:
    _, top = timed(max_turns=5, max_tokens=50, timeout=9, max_calls={"read": 1})
    child = top.child(max_turns=2)
    assert child.lock is top.lock
    lock: "Any" = top.lock
    reads: "tuple[Callable[[], object], ...]" = (
        child.usage,
        child.remaining,
        child.axes,
        child.check,
        child.limits,
        child.out_of_time,
        child.begin_last_call,
        child.continuation,
        child.stop,
        child.extend,
        child.turns.claim,
        child.reflections.claim,
        child.remaining_s,
        child.is_expired,
    )
    for read in reads:
        read()
        assert not lock.held
    child.claim_tool_call("read")
    assert not lock.held


def test_a_tool_call_takes_the_lock_once() -> None:
    top = opened(max_calls={"read": 5})
    lock: "Any" = top.lock
    before = lock.taken
    assert top.child().claim_tool_call("read")
    assert lock.taken == before + 1


def test_what_is_told_of_several_axes_is_of_one_instant() -> None:
    top = opened(max_tokens=5)
    lock: "Any" = top.lock
    reads: "tuple[Callable[[], object], ...]" = (top.usage, top.remaining)
    for read in reads:
        before = lock.taken
        read()
        assert lock.taken == before + 1


def test_usage_counts_in_whole_numbers() -> None:
    fake, run = timed(max_turns=5)
    fake.advance(1234)
    run.tokens.charge(7)
    run.missing += 1
    assert run.usage() == {
        "turns": 0,
        "tokens": 7,
        "nano_usd": 0,
        "tool_calls": 0,
        "reflections": 0,
        "elapsed_ms": 1234,
        "estimated": 0,
        "missing": 1,
        "unpriced": 0,
        "retries": 0,
    }


def test_what_calls_in_flight_hold_does_not_remain() -> None:
    top = opened(max_tokens=100, last_call=None)
    child = top.child(max_tokens=60, last_call=None)
    assert isinstance(Admission(child, 10, 20).claim(), Admission)
    assert (child.remaining()["tokens"], top.remaining()["tokens"]) == (30, 70)
    assert child.usage()["tokens"] == 0


def test_the_nearest_limit_is_given_with_what_is_kept_of_it() -> None:
    fake, top = timed(max_turns=11, max_tokens=1000, timeout=100)
    child = top.child(max_turns=4, name="child", last_call=None)
    assert nearest(child.axes()) == ("child", "turns", 0, 4, 0)
    child.turns.charge(1)
    assert nearest(child.axes()) == ("child", "turns", 1, 4, 0)
    assert nearest(top.axes()) == ("run", "turns", 1, 11, 1)
    top.tokens.charge(450)
    assert nearest(child.axes()) == ("run", "tokens", 450, 1000, 100)
    fake.advance(90_000)
    assert nearest(child.axes()) == ("run", "ms", 90_000, 100_000, 10_000)
    child.turns.charge(3)
    assert nearest(child.axes()) == ("child", "turns", 4, 4, 0)


def test_a_cap_of_zero_is_no_limit_that_one_gets_nearer_to() -> None:
    run = opened(max_tool_calls=0, max_turns=3)
    run.claim_tool_call()
    assert nearest(run.axes()) == ("run", "turns", 0, 3, 1)


def test_a_reason_names_whose_limit_was_lacking() -> None:
    top = opened(max_tokens=100, max_turns=9)
    child = top.child(max_tokens=50, name="child", last_call=None)
    grandchild = child.child(name="grandchild")
    grandchild.tokens.charge(50)
    assert figures(grandchild.lacking("tokens")) == ("token_budget", 50, 50, 0, "child")
    top.tokens.charge(60)
    top.extend(max_turns=1)
    assert str(child.lacking("tokens", "why")) == "token budget: 50 of 50 tokens (child): why"
    child.extend(max_tokens=10)
    assert figures(grandchild.lacking("tokens")) == ("token_budget", 110, 100, 10, "run")


def test_its_own_limits_are_told_with_what_is_kept_of_each() -> None:
    run = opened(max_turns=5, max_tokens=100, max_nano_usd=10, max_tool_calls=2, timeout=1)
    assert run.limits() == [
        ("turns", 5, 1),
        ("tokens", 100, 10),
        ("nano_usd", 10, 1),
        ("tool_calls", 2, 0),
        ("elapsed_ms", 1000, 100),
    ]
    assert opened().limits() == []


def test_a_repr_says_what_is_used_of_what() -> None:
    assert repr(Envelope.open(Budget())) == "<Envelope run: unused, no limits>"
    envelope = Envelope.open(Budget(max_turns=3, max_tool_calls=9, max_usd="0.50"))
    child = envelope.child(Budget(max_turns=2), "scout")
    child.turns.claim()
    child.tokens.charge(40)
    child.nano_usd.charge(2_700_000)
    assert repr(child) == "<Envelope scout: 1 of 2 turns, 40 tokens, $0.0027>"
    above = "1 of 3 turns, 40 tokens, $0.0027 of $0.50, 0 of 9 tool calls"
    assert repr(envelope) == f"<Envelope run: {above}>"
