"""Operations of many threads share a commit: each is done or undone by itself, and lasts."""

import itertools
import random
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerError,
    LedgerFullError,
    LedgerUnavailableError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_core.ledger.memory import Ledger
from budget_core.wall_clock import DAY
from budget_cpython.ledger.sqlite import SqliteLedger, connection, group_commit
from budget_cpython.ledger.sqlite.loaded_journal import LoadedJournal
from tests.forked import in_child
from tests.ledger.machine import comparable
from tests.ledger.patience import NO_HURRY
from tests.ledger.sqlite.watch import (
    NOON,
    ONE,
    InThread,
    Watch,
    nothing,
    until,
    waits,
    while_it_commits,
)


@pytest.fixture
def ledger(path: Path, watch: Watch) -> Iterator[SqliteLedger]:
    with SqliteLedger(path, clock=lambda: NOON, timeout=NO_HURRY) as ledger:
        ledger.set_limits("org", [Limit("tokens", 100, "day")])
        yield ledger


def counted(ledger: SqliteLedger) -> tuple[int, int]:
    (found,) = ledger.balance("org")
    return found.spent, found.held


def stored(path: Path) -> tuple[int, int]:
    with SqliteLedger(path, clock=lambda: NOON) as ledger:
        return counted(ledger)


def test_operations_that_come_during_a_commit_share_the_next(
    ledger: SqliteLedger, path: Path, watch: Watch
) -> None:
    before = watch.commits
    reserve = partial(ledger.reserve, "org", ONE)
    holds = while_it_commits(watch, lambda: ledger.charge("org", ONE), [reserve] * 20)
    assert watch.commits == before + 2
    assert len({hold.id for hold in holds}) == 20
    assert stored_by_view(path) == (1, 20)
    while_it_commits(watch, reserve, [partial(ledger.commit, hold) for hold in holds])
    assert watch.commits == before + 4
    assert stored_by_view(path) == (21, 1)


def test_an_operation_returns_only_once_its_commit_has(
    ledger: SqliteLedger, path: Path, watch: Watch
) -> None:
    seen: list[tuple[tuple[int, int], int]] = []
    returned: list[str] = []

    def look(statement: str, _: Any) -> None:
        if statement == "COMMIT":
            seen.append((stored_by_view(path), len(returned)))

    watch.before = look
    charge = partial(ledger.charge, "org", ONE)
    while_it_commits(watch, charge, [lambda: returned.append(charge().state)] * 3)
    assert seen == [((0, 0), 0), ((1, 0), 0)]
    assert returned == ["committed"] * 3
    assert stored_by_view(path) == (4, 0)


def stored_by_view(path: Path) -> tuple[int, int]:
    view = SqliteLedger.view(path)
    row: tuple[int, int] = view.execute("SELECT spent, held FROM balances").fetchone()
    view.close()
    return row


@pytest.mark.parametrize("count", [1, 12])
def test_a_chain_is_read_and_written_once_for_all_that_share_a_commit(
    ledger: SqliteLedger, path: Path, watch: Watch, count: int
) -> None:
    limits = [Limit("tokens", None, "day"), Limit("calls", None)]
    for account in ("org/team", "org/team/agent"):
        ledger.set_limits(account, limits)

    def asked(operations: list[Any]) -> tuple[list[Any], list[int]]:
        before = len(watch.statements)
        found = ledger.do_together(operations)
        texts = ("FROM buckets", "UPDATE buckets", "FROM holds", "UPDATE holds")
        return found, [sum(text in one for one in watch.statements[before:]) for text in texts]

    taking = [("reserve", ("org/team/agent", {"tokens": 1, "calls": 1}))] * count
    holds, statements = asked(taking)
    assert statements == [1, 1, 0, 0]
    more, statements = asked(taking)
    assert statements == [0, 1, 0, 0]  # nothing else has written meanwhile
    _, statements = asked([("commit", (hold, {"tokens": 2})) for hold in more])
    assert statements == [0, 1, 0, 1]
    with SqliteLedger(path, clock=lambda: NOON) as other:
        other.charge("org/team", {"tokens": 1})
    _, statements = asked([("commit", (hold, {"tokens": 2})) for hold in holds])
    assert statements == [1, 1, 1, 1]
    *_, tokens = ledger.balance("org/team/agent")
    assert (tokens.spent, tokens.held) == (4 * count, 0)
    assert ledger.balance("org")[0].spent == 4 * count + 1


def test_what_another_program_writes_is_seen_by_the_next_operation(
    ledger: SqliteLedger, path: Path
) -> None:
    hold = ledger.reserve("org", {"tokens": 40})
    with SqliteLedger(path, clock=lambda: NOON) as other:
        other.charge("org", {"tokens": 50})
        with pytest.raises(BudgetExceededError):
            ledger.reserve("org", {"tokens": 11})
        other.release(hold)
        ledger.reserve("org", {"tokens": 50}, "last")
        other.set_limits("org", [Limit("tokens", 120, "day")])
        ledger.reserve("org", {"tokens": 20})
        assert ledger.commit(hold, {"tokens": 3}).state == "committed"  # corrects the release
        assert counted(other) == (53, 70)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE buckets SET spent = 1")
        db.commit()
    with pytest.raises(LedgerUnavailableError, match="checksum"):
        ledger.commit(Hold("org", "last"))


def test_an_interrupt_leaves_nothing_loaded_that_another_program_has_changed(
    ledger: SqliteLedger, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    ledger.charge("org", ONE)
    with SqliteLedger(path, clock=lambda: NOON) as other:
        other.charge("org", {"tokens": 90})
    with monkeypatch.context() as patch:
        patch.setattr(LoadedJournal, "perform", interrupt)
        with pytest.raises(KeyboardInterrupt):
            ledger.charge("org", ONE)
    with pytest.raises(BudgetExceededError):
        ledger.reserve("org", {"tokens": 10})


@pytest.mark.parametrize("statement", ["UPDATE buckets", "COMMIT"])
def test_what_was_undone_is_forgotten(
    ledger: SqliteLedger, path: Path, watch: Watch, statement: str
) -> None:
    def fail(text: str, _: Any) -> None:
        if text.startswith(statement):
            raise RuntimeError

    ledger.charge("org", {"tokens": 10})
    hold = ledger.reserve("org", {"tokens": 20})
    watch.before = fail
    for act in (partial(ledger.charge, "org", {"tokens": 5}), partial(ledger.commit, hold)):
        with pytest.raises(RuntimeError):
            act()
    watch.before = nothing
    assert ledger.charge("org", {"tokens": 1}, "after").state == "committed"
    assert stored_by_view(path) == (11, 20)
    ledger.commit(hold)
    assert stored_by_view(path) == (31, 0)


def test_what_settles_in_an_earlier_bucket_counts_for_the_next_operation(path: Path) -> None:
    now = [NOON]
    with SqliteLedger(path, clock=lambda: now[0]) as ledger:
        ledger.set_limits("org", [Limit("tokens", 100, "rolling 7200/4")])
        hold = ledger.reserve("org", {"tokens": 10}, ttl=DAY)
        now[0] += 1800
        for _ in range(2):
            ledger.reserve("org", {"tokens": 5})
        ledger.commit(hold, {"tokens": 80})
        with pytest.raises(BudgetExceededError):
            ledger.reserve("org", {"tokens": 11})
        assert ledger.reserve("org", {"tokens": 10}).state == "held"


def test_a_hold_that_was_returned_stays_as_it_was(ledger: SqliteLedger) -> None:
    hold = ledger.reserve("org", ONE, "a")
    extended = ledger.extend(hold, 600)
    ledger.commit(hold)
    assert [(one.state, one.actual) for one in (hold, extended)] == [("held", None)] * 2
    assert extended.expires_at == (hold.expires_at or 0) + 300


def test_each_of_those_that_share_a_commit_sees_those_before_it(ledger: SqliteLedger) -> None:
    first, refused, done, again, other = ledger.do_together(
        [
            ("reserve", ("org", {"tokens": 60}, "a")),
            ("reserve", ("org", {"tokens": 60}, "b")),
            ("commit", (Hold("org", "a"), {"tokens": 30})),
            ("reserve", ("org", {"tokens": 60}, "a")),
            ("reserve", ("org", {"tokens": 60}, "b")),
        ]
    )
    assert isinstance(refused, BudgetExceededError)
    assert (first.state, first.actual) == ("held", None)  # as it was returned
    assert (done.state, done.actual) == ("committed", {"tokens": 30})
    assert (again.state, again.id, other.state) == ("committed", "a", "held")
    assert counted(ledger) == (30, 60)


def test_groups_of_any_operations_answer_as_the_reference_does_one_by_one(tmp_path: Path) -> None:
    chosen = random.Random(31)  # noqa: S311 - operations, not secrets
    now = [NOON]
    reference = Ledger(lambda: now[0])
    with SqliteLedger(tmp_path / "any.db", clock=lambda: now[0]) as ledger:
        for engine in (reference, ledger):
            engine.set_limits("org", [Limit("tokens", 400, "rolling 7200/4"), Limit("calls", None)])
            engine.set_limits("org/a", [Limit("tokens", 300, "hour")])
        for _ in range(150):
            now[0] += chosen.choice((0, 1, 60, 1000))  # less than a day, in all
            group = [any_operation(chosen) for _ in range(chosen.randrange(1, 9))]
            expected = [comparable(one_by_one(reference, *one)) for one in group]
            found = [comparable(one) for one in ledger.do_together(group)]
            assert found == expected, group


def any_operation(chosen: random.Random) -> tuple[str, tuple[Any, ...]]:
    path, key = chosen.choice(("org", "org/a", "org/a/b")), str(chosen.randrange(40))
    amounts = {"tokens": chosen.choice((1, 50, 200)), "calls": 1}
    hold = Hold(path, key)
    return chosen.choice(
        [
            ("reserve", (path, amounts, key, DAY)),
            ("reserve", (path, {**amounts, "x": 1}, key, DAY)),
            ("charge", (path, amounts, key)),
            ("commit", (hold, amounts)),
            ("renew", (hold, amounts, amounts, str(chosen.randrange(40)), DAY)),
            ("release", (hold,)),
            ("extend", (hold, DAY)),
            ("hold", (path, key)),
            ("balance", (path,)),
            ("set_limits", ("org/a", [Limit("tokens", chosen.randrange(500), "hour")])),
        ]
    )


def one_by_one(ledger: Ledger, operation: str, arguments: tuple[Any, ...]) -> Any:
    try:
        return getattr(ledger, operation)(*arguments)
    except (LedgerError, ValueError) as error:
        return error


def test_what_is_refused_or_fails_undoes_nothing_else(
    ledger: SqliteLedger, path: Path, watch: Watch
) -> None:
    before = watch.commits
    refused, failed, held, charged = while_it_commits(
        watch,
        lambda: ledger.charge("org", ONE),
        [
            lambda: ledger.reserve("org", {"tokens": 1000}),
            lambda: ledger.reserve("org", {"tokens": -1}),
            lambda: ledger.reserve("org", {"tokens": 3}),
            lambda: ledger.charge("org", {"tokens": 7}),
        ],
    )
    assert isinstance(refused, BudgetExceededError)
    assert isinstance(failed, ValueError)
    assert (held.state, charged.state) == ("held", "committed")
    assert watch.commits == before + 3  # with that of the event that notes the refusal
    assert stored(path) == (8, 3)


@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("of the disk"), RuntimeError("of the application")]
)
def test_one_that_fails_after_it_has_written_is_undone_alone(
    ledger: SqliteLedger, path: Path, watch: Watch, error: Exception
) -> None:
    def break_one(statement: str, values: Any) -> None:
        if "INTO holds" in statement and "org/broken" in values:
            raise error

    watch.after = break_one
    keys = ["a", "broken", "b"]
    found = while_it_commits(
        watch,
        lambda: ledger.charge("org", ONE),
        [partial(ledger.charge, "org", ONE, key) for key in keys],
    )
    assert [getattr(one, "state", None) for one in found] == ["committed", None, "committed"]
    if isinstance(error, sqlite3.Error):
        assert isinstance(found[1], LedgerUnavailableError)
        assert (found[1].cause, found[1].applied) == (error, False)
    else:
        assert found[1] is error
    assert stored(path) == (3, 0)
    watch.after = nothing
    assert ledger.charge("org", ONE, "broken").state == "committed"
    assert stored(path) == (4, 0)


def test_those_that_are_done_before_others_take_the_file_keep_their_results(
    path: Path, watch: Watch
) -> None:
    busy = sqlite3.OperationalError("database is locked")
    busy.sqlite_errorcode = sqlite3.SQLITE_BUSY
    begins = itertools.count(1)

    def fail(statement: str, values: Any) -> None:
        if "INTO holds" in statement and "org/broken" in values:
            raise RuntimeError
        if statement == "BEGIN IMMEDIATE" and next(begins) > 2:
            raise busy

    with SqliteLedger(path, clock=lambda: NOON, timeout=0.05) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        watch.before = fail
        charges = [("charge", ("org", ONE, key)) for key in ("a", "broken")]
        done, denied = ledger.do_together(charges)
        watch.before = nothing
    assert done.state == "committed"
    assert isinstance(denied, LedgerUnavailableError)
    assert denied.applied is False
    assert stored(path) == (1, 0)


@pytest.mark.parametrize(
    ("code", "kind", "applied"),
    [
        (sqlite3.SQLITE_FULL, LedgerFullError, "nothing"),
        (sqlite3.SQLITE_IOERR, LedgerUnavailableError, None),
    ],
)
def test_a_commit_that_fails_fails_every_operation_in_it(
    ledger: SqliteLedger, path: Path, watch: Watch, code: int, kind: type, applied: Any
) -> None:
    error = sqlite3.OperationalError("of the disk")
    error.sqlite_errorcode = code
    reserves = [partial(ledger.reserve, "org", ONE, f"key-{number}") for number in range(5)]
    watch.before = at_commit(2, error)
    found = while_it_commits(watch, lambda: ledger.charge("org", ONE), reserves)
    assert {type(one) for one in found} == {kind}
    assert {getattr(one, "applied", "nothing") for one in found} == {applied}
    assert len({id(one) for one in found}) == 5
    assert stored(path) == (1, 0)
    assert ledger.reserve("org", ONE, "key-1").state == "held"
    assert stored(path) == (1, 1)


def at_commit(number: int, error: BaseException) -> Any:
    """Return what raises an error at a commit, counted from 1."""
    numbers = itertools.count(1)

    def step(statement: str, _: Any) -> None:
        if statement == "COMMIT" and next(numbers) == number:
            raise error

    return step


def test_an_interrupt_of_the_thread_that_leads_leaves_all_others_done(
    path: Path, watch: Watch
) -> None:
    interrupts = [False]

    def clock() -> float:
        if interrupts[0]:
            interrupts[0] = False
            threads.extend(InThread(partial(ledger.charge, "org", ONE)) for _ in range(5))
            until(lambda: all(waits(one.ident) for one in threads))
            raise KeyboardInterrupt
        return NOON

    threads: list[InThread] = []
    with SqliteLedger(path, clock=clock, timeout=NO_HURRY) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        hold = ledger.reserve("org", {"tokens": 3})
        interrupts[0] = True
        with pytest.raises(KeyboardInterrupt):
            ledger.commit(hold, {"tokens": 2})
        assert {one.finish().state for one in threads} == {"committed"}
        assert stored(path) == (5, 3)
        assert ledger.commit(hold, {"tokens": 2}).state == "committed"
    assert stored(path) == (7, 0)


@pytest.mark.parametrize("at", ["before", "after"])
def test_an_interrupt_around_the_commit_of_many_does_each_once(
    ledger: SqliteLedger, path: Path, watch: Watch, at: str
) -> None:
    setattr(watch, at, at_commit(2, KeyboardInterrupt()))
    charge = partial(ledger.charge, "org", ONE)
    found = while_it_commits(watch, charge, [charge] * 6)
    kinds = sorted(type(one).__name__ for one in found)
    assert kinds == ["Hold"] * 5 + ["KeyboardInterrupt"]
    assert stored(path) == (7 if at == "after" else 6, 0)


@pytest.fixture
def _interrupts() -> Iterator[None]:
    """Have SIGUSR1 raise `KeyboardInterrupt`: SIGINT may be ignored."""
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("_interrupts")
@pytest.mark.parametrize("in_flight", [False, True])
def test_a_thread_that_is_interrupted_while_it_waits_leaves_the_others_served(
    ledger: SqliteLedger, path: Path, watch: Watch, in_flight: bool
) -> None:
    main = threading.get_ident()
    others: list[InThread] = []
    commits = itertools.count(1)

    def interrupt() -> None:
        number = next(commits)
        if number == 1:
            others.extend(InThread(partial(ledger.charge, "org", ONE)) for _ in range(4))
            until(lambda: waits(main))
        if number == 1 + in_flight:
            signal.pthread_kill(main, signal.SIGUSR1)
            until(lambda: not waits(main))
        if number == 2 and in_flight:
            raise KeyboardInterrupt  # so that what was in flight is done again

    watch.committing = interrupt
    leader = InThread(partial(ledger.charge, "org", ONE))
    until(lambda: len(others) == 4 and all(waits(one.ident) for one in others))
    with pytest.raises(KeyboardInterrupt):
        ledger.charge("org", {"tokens": 50})
    kinds = sorted(type(one.finish()).__name__ for one in [leader, *others])
    assert kinds == ["Hold"] * (5 - in_flight) + ["KeyboardInterrupt"] * in_flight
    assert stored(path) == (5 - in_flight, 0)


@pytest.mark.usefixtures("_interrupts")
def test_a_signals_handler_uses_the_ledger_for_which_its_thread_waits(
    ledger: SqliteLedger, path: Path, watch: Watch
) -> None:
    found: list[tuple[int, int]] = []
    leader, go_on = blocked(watch, ledger)

    def handle(number: int, frame: FrameType | None) -> None:
        go_on.set()
        found.append(counted(ledger))

    def send() -> None:
        until(lambda: waits(main))
        signal.pthread_kill(main, signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, handle)
    main = threading.get_ident()
    InThread(send)
    assert ledger.charge("org", {"tokens": 50}).state == "committed"
    assert leader.finish().state == "committed"
    assert found == [(51, 0)]
    assert stored(path) == (51, 0)


@pytest.mark.parametrize("others", [0, 2])
def test_an_interrupt_at_any_call_leaves_the_ledger_usable(
    ledger: SqliteLedger, path: Path, watch: Watch, others: int
) -> None:
    ledger.set_limits("org", [Limit("tokens", None, "day")])
    charge = partial(ledger.charge, "org", ONE)
    found: list[Any] = [None]
    before = 0
    for at in itertools.count(1):
        if found == []:
            break
        found.clear()
        threads = while_it_commits(
            watch, partial(interrupt_at, at, charge, found), [charge] * others
        )
        watch.committing = lambda: None  # it may not have come to a commit
        assert {one.state for one in threads} <= {"committed"}
        spent, held = counted(ledger)
        assert spent - before - len(threads) in ((0, 1) if found else (1,))
        assert (held, stored(path)) == (0, (spent, 0))
        before = spent
    assert at > 15


def interrupt_at(at: int, act: Callable[[], Any], found: list[Any]) -> None:
    """Interrupt the group commit where Python looks for signals, at that call, counted from 1.

    `found` is given the interrupt.
    """
    calls = itertools.count(1)

    def step(frame: FrameType, event: str, _: Any) -> None:
        inside = frame.f_code.co_filename in (group_commit.__file__, connection.__file__)
        if inside and event in ("call", "c_return") and next(calls) == at:
            raise KeyboardInterrupt

    sys.setprofile(step)
    try:
        act()
    except KeyboardInterrupt as error:
        found.append(error)
    finally:
        sys.setprofile(None)


def blocked(watch: Watch, ledger: SqliteLedger) -> tuple[InThread, threading.Event]:
    """Return a thread that commits, and what lets it go on."""
    commits, go_on = threading.Event(), threading.Event()

    def block() -> None:
        watch.committing = lambda: None
        commits.set()
        go_on.wait()

    watch.committing = block
    leader = InThread(partial(ledger.charge, "org", ONE))
    commits.wait()
    return leader, go_on


def test_one_that_waits_too_long_for_another_is_denied_and_not_done_later(
    path: Path, watch: Watch
) -> None:
    with SqliteLedger(path, clock=lambda: NOON, timeout=0.05) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        leader, go_on = blocked(watch, ledger)
        try:
            for act in (partial(ledger.charge, "org", {"tokens": 50}), ledger.close):
                with pytest.raises(LedgerUnavailableError, match=r"locked for 0\.05 s") as found:
                    act()
                assert found.value.applied is False
        finally:
            go_on.set()
        assert leader.finish().state == "committed"
        assert counted(ledger) == (1, 0)


@pytest.mark.parametrize("name", ["charge", "close"])
def test_a_clock_that_uses_its_ledger_is_refused(path: Path, name: str) -> None:
    uses: dict[str, Any] = {}
    found: list[bool | None] = []

    def clock() -> float:
        for act in uses.values():
            with pytest.raises(LedgerUnavailableError, match="was locked") as error:
                act()
            found.append(error.value.applied)
        return NOON

    with SqliteLedger(path, clock=clock, timeout=NO_HURRY) as ledger:
        ledger.set_limits("org", [Limit("tokens", None, "day")])
        uses[name] = ledger.close if name == "close" else partial(ledger.charge, "org", ONE)
        ledger.charge("org", {"tokens": 7})
        uses.clear()
        assert counted(ledger) == (7, 0)
    first, *later = found
    assert first is False
    assert later in ([], [False])  # the clock is asked again where the outage is noted


def test_a_child_does_nothing_that_its_parents_threads_wait_for(
    ledger: SqliteLedger, path: Path, watch: Watch
) -> None:
    forks: list[InThread] = []

    def fork(statement: str, _: Any) -> None:
        if statement == "COMMIT" and not forks:
            forks.append(InThread(lambda: in_child(partial(ledger.charge, "org", {"tokens": 10}))))
            until(lambda: frame_of(forks[0].ident) == "before_fork")

    watch.before = fork
    charge = partial(ledger.charge, "org", ONE)
    found = while_it_commits(watch, charge, [charge] * 8)
    assert {one.state for one in found} == {"committed"}
    assert forks[0].finish() == 0
    assert stored(path) == (19, 0)


def frame_of(thread: int | None) -> str:
    frame = sys._current_frames().get(thread or 0)
    return frame.f_code.co_name if frame else ""
