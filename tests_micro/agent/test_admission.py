"""What an LLM call may use is set aside before it, and what it used is recorded after it."""

from budget_core import Budget, Envelope, Price, StopReason
from budget_core.agent.llm_call import Admission
from tests_micro.support import RecordingLock, stopped_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FREE = Price(0, 0)
PRICE = Price(1, 2)  # 1000 and 2000 nano-USD a token


def opened(lock: "Any" = None, **limits: "Any") -> Envelope:
    """Return an envelope that keeps nothing back."""
    budget = Budget(**dict({"last_call": None}, **limits))
    return Envelope.open(budget, stopped_clock()[1], lock or RecordingLock())


def held(envelope: Envelope, *arguments: "Any", **named: "Any") -> Admission:
    admission = Admission(envelope, *arguments, **named)
    assert admission.claim() is admission
    return admission


def refused(envelope: Envelope, *arguments: "Any", **named: "Any") -> StopReason:
    before = counts(envelope)
    reason = Admission(envelope, *arguments, **named).claim()
    assert isinstance(reason, StopReason), reason
    assert counts(envelope) == before
    return reason


def waits(envelope: Envelope, *arguments: "Any", **named: "Any") -> bool:
    before = counts(envelope)
    answer = Admission(envelope, *arguments, **named).claim()
    return answer is None and counts(envelope) == before


def counts(envelope: Envelope) -> "list[tuple[int, int]]":
    draws = (envelope.turns, envelope.tokens, envelope.nano_usd)
    return [(draw.used, draw.held) for draw in draws]


def figures(reason: StopReason) -> "tuple[Any, ...]":
    return reason.kind, reason.used, reason.limit, reason.scope


def test_without_limits_a_call_is_admitted_and_not_bounded() -> None:
    run = opened()
    hold = held(run, 50)
    assert hold.limit is None
    assert counts(run) == [(1, 0), (0, 0), (0, 0)]
    hold.settle(70, 9)
    assert counts(run) == [(1, 0), (70, 0), (9, 0)]


def test_a_completion_is_clamped_to_the_tokens_left() -> None:
    run = opened(max_tokens=100)
    hold = held(run)
    assert hold.limit == 100
    hold.settle(30, 0)
    assert held(run, 0, 50).limit == 50
    assert held(run, 0, 50).limit == 20


def test_the_prompt_is_counted_before_the_completion() -> None:
    run = opened(max_tokens=100)
    hold = held(run, 40)
    assert hold.limit == 60
    assert run.tokens.held == 100
    hold.settle(45, 0)
    assert held(run, 54, 10).limit == 1


def test_a_completion_is_clamped_to_the_money_left() -> None:
    run = opened(max_nano_usd=10_000)
    hold = held(run, 4, None, PRICE)
    assert hold.limit == 3
    assert run.nano_usd.held == 10_000
    hold.settle(6, 8_000)
    assert run.nano_usd.left() == 2000
    assert held(run, 0, 50, PRICE).limit == 1


def test_the_scarcer_of_tokens_and_money_clamps() -> None:
    for tokens, money, limit in (
        (10, 100_000, 9),
        (100, 13_000, 6),
        (10, 19_000, 9),
        (7, 13_000, 6),
    ):
        run = opened(max_tokens=tokens, max_nano_usd=money)
        assert held(run, 1, None, PRICE).limit == limit
        assert run.tokens.held == 1 + limit
        assert run.nano_usd.held == PRICE.cost(1, limit)


def test_what_is_wanted_is_held_and_not_all_that_is_left() -> None:
    run = opened(max_tokens=1000, max_nano_usd=1_000_000)
    held(run, 10, 20, PRICE)
    assert counts(run) == [(1, 0), (0, 30), (0, 50_000)]


def test_a_call_that_may_say_nothing_is_refused() -> None:
    for limit in (0, -1):
        reason = refused(opened(max_turns=5), 0, limit)
        assert reason.kind == StopReason.TOKEN_BUDGET
        assert str(reason) == "token budget: a call may have no completion tokens"


def test_a_turn_is_used_when_the_call_is_admitted() -> None:
    run = opened(max_turns=2)
    held(run)
    held(run)
    assert figures(refused(run)) == ("turn_limit", 2, 2, "run")


def test_what_is_used_up_is_refused_with_its_figures() -> None:
    run = opened(max_tokens=100)
    held(run).settle(100, 0)
    assert figures(refused(run)) == ("token_budget", 100, 100, "run")
    run = opened(max_nano_usd=100)
    held(run, price=Price(0, 0.001)).settle(5, 100)
    assert figures(refused(run, price=PRICE)) == ("cost_limit", 100, 100, "run")


def test_a_prompt_that_leaves_no_room_is_refused_and_told() -> None:
    run = opened(max_tokens=100)
    for prompt in (100, 101, 10**9):
        reason = refused(run, prompt)
        assert reason.kind == StopReason.TOKEN_BUDGET
        assert str(prompt) in reason.reason
    assert held(run, 99).limit == 1
    run = opened(max_nano_usd=10_000)
    for prompt in (9, 10, 11, 10**9):
        reason = refused(run, prompt, None, PRICE)
        assert reason.kind == StopReason.COST_LIMIT
        assert str(prompt) in reason.reason
    assert held(run, 8, None, PRICE).limit == 1


def test_what_others_hold_is_waited_for_and_then_given_or_refused() -> None:
    for tokens, admitted in ((60, True), (99, True), (100, False), (170, False)):
        run = opened(max_tokens=100)
        first = held(run)
        assert waits(run, 0, 10)
        first.settle(tokens, 0)
        assert isinstance(Admission(run, 0, 10).claim(), Admission) is admitted


def test_money_that_others_hold_is_waited_for_too() -> None:
    run = opened(max_nano_usd=10_000)
    first = held(run, 0, None, PRICE)
    assert waits(run, 0, 1, PRICE)
    first.settle(1, 2000)
    assert held(run, 0, None, PRICE).limit == 4


def test_nothing_is_waited_for_that_would_not_do() -> None:
    run = opened(max_tokens=100)
    held(run, 0, 40)
    assert refused(run, 100).kind == StopReason.TOKEN_BUDGET
    assert waits(run, 99)


def test_a_refusal_names_who_is_out_and_not_who_waits_for_calls_in_flight() -> None:
    top = opened(max_tokens=100)
    child = top.child(max_tokens=50, last_call=None, name="child")
    grandchild = child.child(name="grandchild")
    held(grandchild, 0, 50)
    top.tokens.charge(100)
    assert child.tokens.left() == 0
    assert figures(refused(child)) == ("token_budget", 100, 100, "run")


def test_a_stopped_run_is_admitted_no_further_call() -> None:
    top = opened(max_tokens=100)
    child = top.child(last_call=None)
    held(child)
    top.stop("enough")
    for envelope in (child, top):
        assert refused(envelope).reason == "enough"


def test_more_than_was_held_is_recorded_in_full() -> None:
    top = opened(max_tokens=100, max_nano_usd=1000)
    child = top.child(max_tokens=50, max_nano_usd=400, last_call=None)
    held(child, 0, None, Price(0, 0.01)).settle(5000, 70_000)
    for envelope in (top, child):
        assert counts(envelope) == [(1, 0), (5000, 0), (70_000, 0)]
        assert (envelope.tokens.left(), envelope.nano_usd.left()) == (0, 0)


def test_less_than_was_held_gives_the_rest_back_to_all() -> None:
    top = opened(max_tokens=100)
    first, second = top.child(last_call=None), top.child(last_call=None)
    hold = held(first)
    assert waits(second)
    assert counts(top)[1] == (0, 100)
    hold.settle(1, 0)
    assert held(second).limit == 99


def test_a_hold_settled_again_records_that_too_and_frees_nothing_twice() -> None:
    run = opened(max_tokens=100)
    hold, other = held(run, 0, 30), held(run, 0, 30)
    hold.settle(10, 1)
    hold.settle(5, 1)
    assert counts(run) == [(2, 0), (15, 30), (2, 0)]
    other.settle(0, 0)
    assert counts(run) == [(2, 0), (15, 0), (2, 0)]


def test_a_model_without_a_price_is_refused_only_where_money_is_limited() -> None:
    top = opened(max_nano_usd=10**12)
    child = top.child(last_call=None)
    for envelope in (top, child):
        reason = refused(envelope, model="mystery")
        assert reason.kind == StopReason.COST_LIMIT
        assert reason.scope == "run"
        assert "mystery" in reason.reason
    assert held(opened(max_tokens=10), model="mystery").limit == 10


def test_a_free_model_is_usable_when_the_money_is_gone() -> None:
    for spent in (0, 1000, 5000):
        run = opened(max_nano_usd=1000)
        run.nano_usd.charge(spent)
        hold = held(run, 10**6, None, FREE)
        assert hold.limit is None
        hold.settle(10**6, 0)
        assert run.nano_usd.used == spent
    assert held(opened(max_nano_usd=0, max_tokens=9), 2, None, FREE).limit == 7
    assert held(opened(max_nano_usd=5000), 5, None, Price(1, 0)).limit is None


def test_a_model_whose_prompts_are_free_needs_money_for_its_answer() -> None:
    price = Price(0, 1)
    run = opened(max_nano_usd=2500)
    assert held(run, 10**6, None, price).limit == 2
    assert waits(run, 0, 1, price)
    assert refused(opened(max_nano_usd=999), 10**6, None, price).kind == StopReason.COST_LIMIT


def test_settling_counts_what_is_not_well_known_here_and_above() -> None:
    top = opened()
    child, sibling = top.child(), top.child()
    held(child).settle(1, 0, "estimated", "unpriced")
    held(child).settle(1, 0, "missing")
    held(top).settle(1, 0, "estimated")
    seen = [(one.estimated, one.missing, one.unpriced) for one in (top, child, sibling)]
    assert seen == [(2, 1, 1), (1, 1, 1), (0, 0, 0)]


def test_three_children_of_five_calls_under_a_parent_of_ten_make_ten() -> None:
    top = opened(max_turns=10)
    children = [top.child(max_turns=5, last_call=None) for _ in range(3)]
    made = [0, 0, 0]
    for _ in range(20):
        for index, child in enumerate(children):
            made[index] += isinstance(Admission(child).claim(), Admission)
    assert made == [4, 3, 3]
    assert top.turns.used == 10


def test_three_children_of_five_tokens_under_a_parent_of_ten_hold_ten() -> None:
    top = opened(max_tokens=10)
    children = [top.child(max_tokens=5, last_call=None) for _ in range(3)]
    holds = [held(child) for child in children[:2]]
    assert [hold.limit for hold in holds] == [5, 5]
    assert waits(children[2])
    for hold in holds:
        hold.settle(5, 0)
    assert figures(refused(children[2])) == ("token_budget", 10, 10, "run")
    assert top.tokens.used == 10


def test_three_children_of_five_tokens_use_what_the_others_leave() -> None:
    top = opened(max_tokens=10)
    children = [top.child(max_tokens=5, last_call=None) for _ in range(3)]
    first, second = [held(child) for child in children[:2]]
    first.settle(3, 0)
    third = held(children[2])
    assert third.limit == 2
    second.settle(5, 0)
    third.settle(2, 0)
    assert top.tokens.used == 10
    assert [child.tokens.used for child in children] == [3, 5, 2]


def test_three_children_of_five_dollars_under_a_parent_of_ten_spend_ten() -> None:
    dollar = 10**9
    top = opened(max_nano_usd=10 * dollar)
    children = [top.child(max_nano_usd=5 * dollar, last_call=None) for _ in range(3)]
    price = Price(0, 1_000_000)  # a dollar a token
    holds = [held(child, 0, None, price) for child in children[:2]]
    assert waits(children[2], 0, None, price)
    for hold in holds:
        hold.settle(5, price.cost(0, hold.limit or 0))
    assert refused(children[2], 0, None, price).scope == "run"
    assert top.nano_usd.used == 10 * dollar


def test_the_lock_is_taken_once_and_left_before_watchers_are_told() -> None:
    lock = RecordingLock()
    run = opened(lock, max_tokens=100)
    told: list[int] = []

    def watcher() -> None:
        assert not lock.held
        told.append(run.usage()["tokens"])

    run.add_watcher(watcher)
    before = lock.taken
    hold = held(run)
    assert (lock.taken - before, told) == (1, [])
    hold.settle(40, 0)
    assert told == [40]
    assert lock.taken - before == 3
    assert not lock.held
