"""The ledger in memory: what is its own; the vectors say what all ledgers do."""

import gc

from budget_core.ledger.errors import (
    BudgetExceededError,
    HoldSettledError,
    KeyReusedError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
    UnknownHoldError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.lease import LeasedLedger
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.ledger.window import Window, parse_window
from budget_core.ledger.window_words import per, window_in_words
from tests_micro.support import FakeClock, RecordingLock, raises

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NOON = 20_514 * 86_400 + 43_200  # 2026-03-02, a Monday
mem_alloc: "Any" = getattr(gc, "mem_alloc", None)


def opened(cap: int | None = 100, **options: "Any") -> "tuple[Ledger, FakeClock]":
    """Return a ledger with one account, and its clock."""
    clock = FakeClock(NOON)
    ledger = Ledger(clock, **options)
    ledger.set_limits("org", [Limit("tokens", cap, "day")])
    return ledger, clock


def test_every_operation_takes_the_lock_once_and_gives_it_back() -> None:
    lock = RecordingLock()
    ledger, _ = opened(lock=lock)
    hold = ledger.reserve("org", {"tokens": 1})
    for operation, args in (
        (ledger.set_limits, ("org/a", [Limit("calls", 1)])),
        (ledger.limits, ("org",)),
        (ledger.accounts, ()),
        (ledger.reserve, ("org", {"tokens": 2}, "k")),
        (ledger.extend, (hold,)),
        (ledger.commit, (hold,)),
        (ledger.release, (hold,)),
        (ledger.charge, ("org", {"tokens": 1})),
        (ledger.hold, ("org", "k")),
        (ledger.expire, ()),
        (ledger.balance, ("org",)),
        (ledger.history, ("org",)),
    ):
        before = lock.taken
        operation(*args)
        assert (lock.taken - before, lock.held) == (1, False), operation


def test_a_refusal_gives_the_lock_back() -> None:
    lock = RecordingLock()
    ledger, _ = opened(lock=lock, max_accounts=1, max_holds=0)
    raises(BudgetExceededError, ledger.reserve, "org", {"tokens": 101})
    raises(LedgerFullError, ledger.reserve, "org", {"tokens": 1})
    raises(LedgerFullError, ledger.set_limits, "b", [Limit("tokens", 1)])
    raises(UnknownAccountError, ledger.charge, "b", {"tokens": 1})
    raises(UnknownHoldError, ledger.commit, Hold("org", "k"))
    raises(ValueError, ledger.charge, "org", {"a b": 1})
    assert not lock.held
    assert ledger.charge("org", {"tokens": 1}).state == Hold.COMMITTED


def test_there_are_no_more_live_holds_than_are_allowed() -> None:
    ledger, clock = opened(max_holds=2)
    first = ledger.reserve("org", {"tokens": 1}, ttl=60)
    ledger.reserve("org", {"tokens": 2}, "k")
    error = raises(LedgerFullError, ledger.reserve, "org", {"tokens": 4}, "l")
    assert str(error) == "the ledger has its 2 live holds: raise max_holds"
    assert (ledger.balance("org")[0].held, ledger.reserve("org", {"tokens": 2}, "k").id) == (3, "k")
    ledger.commit(first)
    ledger.reserve("org", {"tokens": 4}, ttl=60)
    raises(LedgerFullError, ledger.reserve, "org", {"tokens": 8}, "l")
    clock.advance(60)  # what is over makes room
    ledger.reserve("org", {"tokens": 8}, "l")
    row = ledger.balance("org")[0]
    assert (row.spent, row.held) == (5, 10)


def test_a_ledger_gives_one_object_for_one_hold() -> None:
    ledger, clock = opened()
    hold = ledger.reserve("org", {"tokens": 5}, "k", ttl=60)
    assert ledger.reserve("org", {"tokens": 5}, "k") is hold
    assert ledger.hold("org", "k") is hold
    clock.advance(60)
    ledger.expire()
    assert hold.state == Hold.EXPIRED
    assert ledger.commit(Hold("org", "k"), {"tokens": 3}) is hold
    assert (hold.state, hold.actual) == (Hold.COMMITTED, {"tokens": 3})


def test_a_hold_without_a_key_is_found_by_its_id_while_it_lives() -> None:
    ledger, _ = opened()
    hold = ledger.reserve("org", {"tokens": 5})
    assert ledger.hold("org", hold.id) is hold
    raises(UnknownHoldError, ledger.hold, "org/a", hold.id)
    ledger.commit(hold)
    raises(UnknownHoldError, ledger.hold, "org", hold.id)
    assert ledger.release(hold).state == Hold.COMMITTED


def test_what_a_caller_does_with_its_amounts_changes_no_hold() -> None:
    ledger, _ = opened()
    amounts = {"tokens": 5}
    hold = ledger.reserve("org", amounts, "k")
    amounts["tokens"] = 9
    assert hold.amounts == {"tokens": 5}
    used = {"tokens": 4}
    ledger.commit(hold, used)
    used["tokens"] = 9
    assert hold.actual == {"tokens": 4}
    charged = {"tokens": 1}
    hold = ledger.charge("org", charged)
    charged["tokens"] = 9
    assert hold.actual == {"tokens": 1}


def test_a_single_limit_needs_no_list() -> None:
    ledger, _ = opened()
    ledger.set_limits("org", Limit("calls", 1))  # type: ignore[arg-type]
    assert ledger.limits("org") == [Limit("calls", 1)]
    for wrong in ("calls", [("calls", 1)], None, 5):
        raises(ValueError, ledger.set_limits, "org", wrong)
    assert ledger.limits("org") == [Limit("calls", 1)]


def test_limits_are_equal_by_what_they_say() -> None:
    one = Limit("calls", 1, "day")
    assert one == Limit("calls", 1, "day")
    assert hash(one) == hash(Limit("calls", 1, "day"))
    for other in (Limit("calls", 2, "day"), Limit("calls", 1), Limit("tokens", 1, "day"), "calls"):
        assert one != other
    assert repr(one) == "Limit('calls', 1, 'day')"
    assert repr(Limit("calls", None)) == "Limit('calls', None, 'run')"


def test_holds_and_balances_read_well() -> None:
    ledger, _ = opened()
    hold = ledger.reserve("org", {"tokens": 5}, "k")
    assert repr(hold) == "<Hold 'k' on 'org': held {'tokens': 5}>"
    row = ledger.balance("org")[0]
    assert repr(row) == "<Balance of 'org': 0 of 100 tokens per day spent, 5 held>"


def test_a_refusal_says_what_is_left_and_until_when() -> None:
    ledger, _ = opened()
    ledger.charge("org", {"tokens": 40})
    ledger.reserve("org", {"tokens": 30})
    error = raises(BudgetExceededError, ledger.reserve, "org/a", {"tokens": 50})
    assert (error.scope, error.axis, error.window, error.asked) == ("org", "tokens", "day", 50)
    assert (error.limit, error.spent, error.held, error.left) == (100, 40, 30, 30)
    assert error.resets_at == NOON + 43_200
    assert str(error) == (
        "org has 30 of 100 tokens per day left, not 50, until 00:00 UTC, in 12 h: 40 spent, 30 held"
    )


def test_a_refusal_that_no_time_ends_names_none() -> None:
    ledger, _ = opened()
    ledger.set_limits("org", [Limit("tokens", 3)])
    error = raises(BudgetExceededError, ledger.reserve, "org", {"tokens": 4})
    assert error.resets_at is None
    assert str(error) == "org has 3 of 3 tokens per run left, not 4: 0 spent, 0 held"


def test_a_refusal_of_a_rolling_limit_says_by_when_it_is_free() -> None:
    ledger, clock = opened()
    ledger.set_limits("org", [Limit("usd", "2.00", "rolling 600/60")])
    clock.now += 5
    ledger.charge("org", {"usd": "2.00"})
    asked = {"usd": "0.50"}
    error = raises(BudgetExceededError, ledger.reserve, "org", asked)
    assert str(error) == (
        "org has $0.00 of $2.00 per 10 min left, not $0.50, until 12:10 UTC, in 11 min at the "
        "latest: $2.00 spent, $0.00 held"
    )
    assert (error.window, error.resets_at) == ("rolling 600/60", NOON + 10)
    clock.now = NOON + 10 + 600 - 1
    raises(BudgetExceededError, ledger.reserve, "org", asked)
    clock.now = NOON + 10 + 600
    ledger.reserve("org", asked)
    row = ledger.balance("org")[0]
    assert repr(row) == "<Balance of 'org': $0.00 of $2.00 per 10 min spent, $0.50 held>"


def test_windows_have_words_that_lines_of_limits_read() -> None:
    words = {
        "rolling 1/1": "1 s", "rolling 60/60": "60 s", "rolling 90/45": "90 s",
        "rolling 600/60": "10 min", "rolling 3600/60": "60 min", "rolling 18000/60": "5 h",
        "rolling 86400/60": "24 h", "rolling 604800/60": "7 d", "rolling 97/1": "97 s",
        "rolling 600/10": "rolling 600/10", "rolling x/y": "rolling x/y", "run": "run",
        "day@5 Europe/Berlin": "day@5 Europe/Berlin", "rolling 0/60": "rolling 0/60",
    }  # fmt: skip
    for window in words:
        assert window_in_words(window) == words[window], window
    assert per("tokens", "rolling 600/60") == "tokens per 10 min"


def test_errors_carry_what_they_speak_of() -> None:
    ledger, _ = opened()
    account = raises(UnknownAccountError, ledger.balance, "b")
    assert account.path == "b"
    assert str(account) == "no account 'b', nor one above it: give one of them limits first"
    hold = raises(UnknownHoldError, ledger.hold, "org", "k")
    assert (hold.path, hold.id) == ("org", "k")
    assert str(hold) == "no hold 'k' on 'org' is known; `charge` records what it used"
    ledger.commit(ledger.reserve("org", {"tokens": 1}, "k"))
    settled = raises(HoldSettledError, ledger.extend, Hold("org", "k"))
    assert (settled.id, settled.state) == ("k", "committed")
    assert str(settled) == "hold 'k' is committed by now, and cannot be extended"
    reused = raises(KeyReusedError, ledger.charge, "org/a", {"tokens": 1}, "k")
    assert (reused.path, reused.key) == ("org/a", "k")
    assert str(reused) == "key 'k' stands for another operation below the same root as 'org/a'"
    cause = OSError(5)
    down = LedgerUnavailableError("it is down", cause, None)
    assert (str(down), down.cause, down.applied) == ("it is down", cause, None)
    for error in (account, hold, settled, reused, down):
        assert isinstance(error, LedgerError)


def test_windows_are_read_by_the_reader_that_was_given() -> None:
    asked: list[str] = []

    def read(name: str) -> "Any":
        asked.append(name)
        return parse_window("day")

    ledger = Ledger(FakeClock(NOON), windows=read)
    ledger.set_limits("a", [Limit("calls", 1, "day of ours")])
    assert ledger.limits("a") == [Limit("calls", 1, "day")]
    assert asked == ["day of ours"]


def test_configuration_that_makes_no_sense_is_refused() -> None:
    for options in ({"max_accounts": -1}, {"max_holds": 1.5}, {"keep": "1"}, {"axes": ["a b"]}):
        raises(ValueError, Ledger, FakeClock(NOON), **options)


def test_settled_holds_without_a_key_are_forgotten_at_once() -> None:
    ledger, _ = opened(None)
    for _ in range(10):
        ledger.commit(ledger.reserve("org", {"tokens": 1}))
        ledger.charge("org", {"tokens": 1})
    raises(UnknownHoldError, ledger.hold, "org", "#1")
    assert ledger.balance("org")[0].spent == 20


def test_settled_keys_are_forgotten_by_a_ledger_that_only_reserves_and_commits() -> None:
    ledger, clock = opened(None, keep=60)
    for number in range(4):
        ledger.commit(ledger.reserve("org", {"tokens": 1}, str(number)))
        clock.advance(61)
    raises(UnknownHoldError, ledger.hold, "org", "0")
    assert ledger.hold("org", "3").state == Hold.COMMITTED


if mem_alloc is not None:

    def heap_after(ledger: Ledger, clock: FakeClock, times: int) -> int:
        for _ in range(times):
            ledger.commit(ledger.reserve("org/a", {"tokens": 5}), {"tokens": 4})
            ledger.charge("org/a", {"tokens": 1})
            clock.advance(0.125)
        ledger.expire()
        gc.collect()
        return int(mem_alloc())

    def test_a_thousand_calls_take_no_memory() -> None:
        ledger, clock = opened(None)
        before = heap_after(ledger, clock, 100)
        assert heap_after(ledger, clock, 1000) == before

    def test_keys_are_forgotten_with_time_and_take_no_more_memory() -> None:
        ledger, clock = opened(None, keep=60)

        def keyed(times: int) -> int:
            for number in range(times):
                ledger.charge("org", {"tokens": 1}, f"{clock.now}-{number}")
                clock.advance(1)
            gc.collect()
            return int(mem_alloc())

        before = keyed(600)
        assert keyed(1800) - before < 4096


def test_expired_holds_leave_nothing_behind() -> None:
    clock = FakeClock(1_800_000_000)
    ledger = Ledger(clock)
    ledger.set_limits("org", [Limit("calls", None, "hour"), Limit("calls", None, "rolling 60/60")])
    for _ in range(1000):
        ledger.reserve("org", {"calls": 1})
        clock.advance(3600)
    assert len(ledger._live) <= 64
    assert len(ledger._accounts["org"][0].past) <= 64 + 32


def test_a_path_that_is_no_text_is_refused_with_a_key_as_well() -> None:
    ledger = Ledger(FakeClock(1_800_000_000))
    for path in (5, None, ["org"]):
        for operation in (ledger.reserve, ledger.charge):
            assert "path" in str(raises(ValueError, operation, path, {"calls": 1}, "key"))


def test_a_ledger_can_be_closed_like_any_other() -> None:
    with Ledger(FakeClock(1_800_000_000)) as ledger:
        ledger.set_limits("org", [Limit("calls", 10)])
    assert ledger.accounts() == ["org"]


def test_limits_that_cannot_be_set_leave_the_others_as_they_were() -> None:
    class Broken(Window):
        def bounds(self, now: int) -> "tuple[int, int, int]":
            raise ValueError("no such time")

    def read(name: str) -> Window:
        return Broken(name, int) if name == "run broken" else parse_window(name)  # type: ignore[arg-type]

    ledger = Ledger(FakeClock(1_800_000_000), windows=read)
    ledger.set_limits("org", [Limit("calls", 10)])
    raises(
        ValueError, ledger.set_limits, "org", [Limit("calls", 5), Limit("tokens", 1, "run broken")]
    )
    assert ledger.limits("org") == [Limit("calls", 10)]


def test_a_window_that_is_mistyped_is_refused_when_its_limit_is_built() -> None:
    for window in ("dya", "", "day@24", "rolling 60", "dya Europe/Berlin", "Day", 5, None):
        assert "window must be" in str(raises(ValueError, Limit, "tokens", 10, window)), window
    for window in ("day", "month@5", "rolling 60/6", "day@5 Europe/Berlin", "week sunday"):
        assert Limit("tokens", 10, window).window == window


def test_an_argument_of_another_type_is_refused_by_name() -> None:
    ledger = Ledger(FakeClock(NOON))
    ledger.set_limits("org", [Limit("calls", 10)])
    for operation in (ledger.commit, ledger.release, ledger.extend):
        for hold in ("id", None, 5, ledger):
            assert "hold must be a Hold" in str(raises(ValueError, operation, hold))
        assert "id must be" in str(raises(ValueError, operation, Hold("org", 5)))  # type: ignore[arg-type]
    for other in (5, None, ["org"]):
        for look in (ledger.balance, ledger.history, ledger.limits):
            assert "path must be" in str(raises(ValueError, look, other))
        assert "id must be" in str(raises(ValueError, ledger.hold, "org", other))
    assert "clock must be" in str(raises(ValueError, Ledger, 5))
    assert "axes must be" in str(raises(ValueError, Ledger, FakeClock(NOON), axes="tokens"))
    assert "ledger must be" in str(raises(ValueError, LeasedLedger, "sqlite:budget.db"))


def test_a_mistyped_axis_is_named_beside_those_that_are_known() -> None:
    ledger = Ledger(FakeClock(NOON))
    ledger.set_limits("acme", [Limit("tokens", 10)])
    ledger.charge("acme", {"token": 5})  # what was used is always recorded
    text = str(raises(ValueError, ledger.reserve, "acme", {"token": 10**9}))
    assert "'token'" in text
    assert "tokens, calls, nano_usd" in text
