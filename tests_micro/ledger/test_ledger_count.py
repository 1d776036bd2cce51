"""A day and a turn that are counted on an account of a ledger, which others count on as well."""

from budget_core.config import DailyBudgetConfig, TurnBudgetConfig
from budget_core.daily_tracker import DailyBudgetTracker
from budget_core.ledger.errors import UnknownAccountError
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.memory_store import InMemoryBudgetStore
from budget_core.policy import TurnBudgetPolicy
from budget_core.provider import ChatResponse
from budget_core.tracker import TurnBudgetTracker
from budget_core.wrapper import BudgetWrapper
from tests_micro.ledger.support import HELLO, NOON, Awaited, Failing, big
from tests_micro.script import says
from tests_micro.support import FakeClock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DAY = 86_400
USED = {"prompt_tokens": 300, "completion_tokens": 100, "total_tokens": 400}


def make_ledger(*limits: Limit) -> "tuple[Ledger, FakeClock]":
    """Return a ledger, with limits of `org` if there are any, and its clock."""
    clock = FakeClock(NOON)
    ledger = Ledger(clock)
    ledger.set_limits("org", list(limits))
    return ledger, clock


def day(ledger: "Any", budget: int | None = 1_000, **config: "Any") -> DailyBudgetTracker:
    """Return a tracker of the day of `org/agent`."""
    config = dict({"enforcement": "cutoff"}, **config)
    settings = DailyBudgetConfig(budget, **config)
    return DailyBudgetTracker(settings, ledger=ledger, account="org/agent")


def turn(ledger: "Any", **config: "Any") -> TurnBudgetTracker:
    """Return a tracker of turns below `org/agent`."""
    return TurnBudgetTracker(TurnBudgetConfig(**config), ledger=ledger, account="org/agent")


def spent(ledger: Ledger, path: str, axis: str = "tokens") -> int:
    """Return what is spent of the account's own limit on an axis."""
    [row] = [row for row in ledger.balance(path) if (row.account, row.axis) == (path, axis)]
    return row.spent


def test_two_trackers_of_a_day_count_as_one() -> None:
    ledger, _ = make_ledger()
    first, second = day(ledger), day(ledger)
    first.record(USED)
    assert second.total_tokens == 0
    second.maybe_auto_reset()
    assert (second.total_tokens, second.utilization()) == (400, 0.4)
    second.record(USED)
    second.record(USED)
    first.maybe_auto_reset()
    assert (first.total_tokens, first.is_at_limit(), first.iterations_seen) == (1_200, True, 1)
    assert spent(ledger, "org/agent") == 1_200


def test_a_day_begins_with_the_ledgers_and_warns_again() -> None:
    ledger, clock = make_ledger(Limit("calls", None, "run"))
    tracker = day(ledger, reset_hour_utc=5, warning_thresholds=(0.5,))
    assert [limit.window for limit in ledger.limits("org/agent")] == ["day@5"]
    for _ in range(2):
        tracker.record(dict(USED, total_tokens=600))
        tracker.maybe_auto_reset()
        assert "60%" in (tracker.consume_threshold_warning() or "")
        assert tracker.consume_threshold_warning() is None
        assert tracker.resets_at > clock()
        clock.advance(DAY)
        tracker.maybe_auto_reset()
        assert (tracker.total_tokens, tracker.iterations_seen) == (0, 0)
    assert [row.spent for row in ledger.history("org/agent")] == [600, 600]
    assert spent(ledger, "org", "calls") == 2


def test_a_tracker_sets_its_own_limit_when_it_is_made_and_others_may_change_it_later() -> None:
    ledger, _ = make_ledger()
    ledger.set_limits("org/agent", [Limit("calls", 9, "hour"), Limit("tokens", 500, "day")])
    tracker = day(ledger, 1_000)
    assert [limit.cap for limit in ledger.limits("org/agent")] == [9, 1_000]
    assert tracker.dominant_axis() == (0, 1_000, "tokens")
    ledger.set_limits("org/agent", [Limit("tokens", 800, "day")])
    tracker.maybe_auto_reset()
    assert tracker.dominant_axis() == (0, 800, "tokens")
    assert day(ledger, None).dominant_axis() == (0, 800, "tokens")


def test_a_removed_account_is_created_again() -> None:
    for above in ([], [Limit("tokens", None)]):
        for records in (False, True):
            ledger, _ = make_ledger(*above)
            tracker = day(ledger)
            tracker.record(USED)
            ledger.set_limits("org/agent", [])
            if records:
                tracker.record(USED)
            tracker.maybe_auto_reset()
            assert not tracker.is_at_limit()
            assert [limit.cap for limit in ledger.limits("org/agent")] == [1_000]
            tracker.record(dict(USED, total_tokens=1_000))
            assert tracker.is_at_limit()


def test_a_day_is_not_another_window_of_its_account() -> None:
    ledger, clock = make_ledger()
    ledger.set_limits("org/agent", [Limit("tokens", 5_000, "hour")])
    tracker = day(ledger)
    tracker.record(USED)
    clock.advance(3_600)
    tracker.maybe_auto_reset()
    assert (tracker.total_tokens, tracker.iterations_seen) == (400, 1)


def test_other_limits_of_the_account_stay_beside_a_trackers_own() -> None:
    ledger, _ = make_ledger()
    ledger.set_limits("org/agent", [Limit("nano_usd", 7, "month")])
    day(ledger)
    assert [str(limit) for limit in ledger.limits("org/agent")] == [
        "Limit('nano_usd', 7, 'month')",
        "Limit('tokens', 1000, 'day')",
    ]


def test_what_is_left_above_bounds_a_day_and_a_turn() -> None:
    ledger, _ = make_ledger(Limit("tokens", 700, "hour"), Limit("calls", 3, "hour"))
    daily, turns = day(ledger), turn(ledger)
    ledger.charge("org/other", {"tokens": 200, "calls": 1})
    daily.record(USED)
    for tracker, used, cap in ((daily, 400, 500), (turns, 0, 100)):
        tracker.maybe_auto_reset()
        assert (tracker.total_tokens, tracker.token_cap) == (used, cap)
        assert not tracker.is_at_limit()
    ledger.charge("org/other", {"calls": 1})
    for tracker in (daily, turns):
        tracker.maybe_auto_reset()
        assert tracker.is_at_limit()


def test_what_others_hold_is_not_left() -> None:
    ledger, _ = make_ledger()
    tracker = day(ledger)
    hold = ledger.reserve("org/agent", {"tokens": 1_000})
    tracker.maybe_auto_reset()
    assert (tracker.total_tokens, tracker.is_at_limit()) == (0, True)
    ledger.release(hold)
    tracker.maybe_auto_reset()
    assert not tracker.is_at_limit()


def test_a_day_counts_its_primary_models_only_and_an_unlimited_one_is_counted() -> None:
    ledger, _ = make_ledger()
    tracker = day(ledger, None, primary_models=("big",))
    tracker.record(USED, "big")
    tracker.record(USED, "small")
    tracker.maybe_auto_reset()
    assert (tracker.total_tokens, tracker.token_cap) == (400, None)
    assert spent(ledger, "org/agent") == 400


def test_a_reset_of_a_day_undoes_no_charge() -> None:
    ledger, _ = make_ledger()
    tracker = day(ledger)
    tracker.record(USED)
    tracker.reset()
    tracker.record(USED)
    assert (tracker.total_tokens, spent(ledger, "org/agent")) == (800, 800)


def test_turns_charge_their_account_and_leave_nothing_else_behind() -> None:
    ledger, _ = make_ledger(Limit("tokens", None, "day"), Limit("calls", None, "day"))
    for turns in range(1, 4):
        tracker = turn(ledger, token_budget=500, iteration_budget=3)
        tracker.record(USED)
        tracker.maybe_auto_reset()
        assert tracker.dominant_axis() == (400, 500, "tokens")
        tracker.record(USED)
        assert tracker.is_at_limit()
        tracker.reset()
        tracker.maybe_auto_reset()
        assert (tracker.total_tokens, tracker.iterations_seen) == (0, 0)
        assert not tracker.is_at_limit()
        tracker.record(USED)
        used = [spent(ledger, "org", axis) for axis in ("calls", "tokens")]
        assert used == [3 * turns, 1_200 * turns]
    assert ledger.accounts() == ["org"]


def test_a_ledger_that_fails_denies_and_gets_each_charge_later_once() -> None:
    for make in (day, turn):
        for after in (False, True):
            beneath, _ = make_ledger(Limit("tokens", None, "day"), Limit("calls", None, "day"))
            ledger = Failing(beneath)
            ledger.after = after
            tracker = make(ledger)
            ledger.failing = {"charge": 3}
            for _ in range(3):
                tracker.record(USED)
                assert tracker.is_at_limit()
                assert tracker.at_limit_message().startswith("[Budget unavailable]")
            tracker.maybe_auto_reset()
            assert not tracker.is_at_limit() or make is day
            tracker.record(USED)
            assert [spent(beneath, "org", axis) for axis in ("calls", "tokens")] == [4, 1_600]
            assert tracker.total_tokens == 1_600


def test_a_ledger_that_fails_over_many_turns_gets_the_charges_of_all() -> None:
    beneath, _ = make_ledger(Limit("tokens", None, "day"), Limit("calls", None, "day"))
    for after in (False, True):
        ledger = Failing(beneath)
        tracker: Any = turn(ledger)
        ledger.after = after
        ledger.failing = {"charge": 99}
        for _ in range(9):
            tracker.record(USED)
            tracker.reset()
        tracker.record(USED)
        assert len(tracker.ledger_account.outbox.entries) == 2
        ledger.failing = {}
        tracker.maybe_auto_reset()
        assert (tracker.is_at_limit(), tracker.total_tokens) == (False, 400)
    assert [spent(beneath, "org", axis) for axis in ("calls", "tokens")] == [20, 8_000]


def test_a_tracker_made_while_its_ledger_is_down_denies_until_it_is_there() -> None:
    for make, names in (
        (day, ("limits", "set_limits", "charge", "balance")),
        (turn, ("charge", "balance")),
    ):
        for name in names:
            ledger = Failing(make_ledger(Limit("calls", None))[0])
            ledger.failing = {name: 2}
            tracker = make(ledger)
            assert tracker.is_at_limit()
            tracker.maybe_auto_reset()
            assert tracker.is_at_limit()
            tracker.maybe_auto_reset()
            assert not tracker.is_at_limit()


async def test_a_wrapper_reads_the_balance_once_a_call_before_it() -> None:
    ledger = Failing(make_ledger()[0])
    wrapper: Any = BudgetWrapper(big(says("answer", USED)), day(ledger))
    ledger.asked = []
    for asked in (["balance", "charge"], ["balance", "charge"], ["balance", "charge"], ["balance"]):
        answer: ChatResponse = await wrapper.chat(HELLO)
        assert ledger.asked == asked
        ledger.asked = []
    assert answer.cut_off_by == "daily"
    assert "(1200 of 1000 tokens)" in str(answer.content)


async def test_a_policy_begins_turns_on_the_ledger() -> None:
    ledger, _ = make_ledger(Limit("calls", None))
    tracker = turn(ledger, iteration_budget=1)
    policy = TurnBudgetPolicy(tracker)
    for _ in range(2):
        assert await policy.should_continue(0, [])
        tracker.record(USED)
        assert not await policy.should_continue(1, [])
    assert spent(ledger, "org", "calls") == 2


def test_what_cannot_be_is_refused() -> None:
    ledger, _ = make_ledger()
    for given in (
        {"ledger": ledger},
        {"account": "org"},
        {"ledger": "org", "account": "org"},
        {"ledger": ledger, "account": "a b"},
        {"ledger": Awaited(ledger), "account": "org"},
        {"ledger": ledger, "account": "org", "store": InMemoryBudgetStore()},
    ):
        raises(ValueError, DailyBudgetTracker, **given)
    raises(ValueError, TurnBudgetTracker, ledger=Awaited(ledger), account="org")
    raises(UnknownAccountError, TurnBudgetTracker, ledger=ledger, account="org")
    raises(TypeError, TurnBudgetTracker, ledgr=ledger, account="org")
    assert "account must be" in str(raises(ValueError, TurnBudgetTracker, ledger=ledger))


def test_a_ledger_that_does_not_count_what_a_tracker_charges_is_refused() -> None:
    ledger = Ledger(FakeClock(NOON), axes=["tokens"])
    ledger.set_limits("org", [Limit("tokens", 1_000)])
    for make in (day, turn):
        assert "one of tokens" in str(raises(ValueError, make, ledger))


def test_no_ledger_is_as_good_as_none_given() -> None:
    store = InMemoryBudgetStore()
    for tokens in (400, 800):
        tracker = DailyBudgetTracker(store=store, ledger=None, account=None, clock=FakeClock(NOON))
        tracker.record(USED)
        assert tracker.total_tokens == tokens
