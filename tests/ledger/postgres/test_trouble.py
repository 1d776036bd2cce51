"""A ledger whose Postgres server fails says so, loses nothing and counts nothing twice."""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from budget_core.ledger.errors import (
    BudgetExceededError,
    LedgerFullError,
    LedgerUnavailableError,
    UnknownAccountError,
)
from budget_core.ledger.hold import Hold
from budget_core.ledger.limit import Limit
from budget_cpython.ledger.postgres import AsyncPostgresLedger, PostgresLedger, connections
from tests.ledger.patience import NO_HURRY, until
from tests.ledger.postgres.server import PostgresServer, second_server

BUDGET = 1000
WAITS = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
LOCK_ROOT = """SELECT pg_advisory_xact_lock(hashtext('"microbudget".'), hashtext('org'))"""


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server to be unkind to, with a budget on it."""
    one = second_server()
    one.start_if_halted()
    yield one
    one.start_if_halted()
    one.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )  # what a test that failed has left
    one.execute("DROP SCHEMA IF EXISTS microbudget CASCADE")


@pytest.fixture
def ledger(server: PostgresServer) -> Iterator[PostgresLedger]:
    with closing(PostgresLedger(server.conninfo(), timeout=NO_HURRY)) as one:
        one.set_limits("org", [Limit("calls", BUDGET)])
        one.set_limits("org/a", [Limit("calls", BUDGET)])
        yield one


def counted(ledger: PostgresLedger) -> list[tuple[int, int]]:
    return [(one.spent, one.held) for one in ledger.balance("org/a")]


class Meanwhile:
    """A call in a thread of its own; `result` waits for it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._outcome = self._call()
        except LedgerUnavailableError as error:
            self._outcome = error

    def result(self) -> Any:
        self._thread.join(NO_HURRY)
        assert not self._thread.is_alive()
        return self._outcome


class Locked:
    """The limits, locked by a session that is not the ledger's."""

    def __init__(self, server: PostgresServer, account: str = "org") -> None:
        self._server = server
        self.session = psycopg.connect(server.conninfo())
        self.session.execute(
            "SELECT 1 FROM microbudget.limits WHERE account = %s FOR UPDATE", (account,)
        )

    def waiting(self) -> int:
        """Return the process that waits for the lock, as soon as there is one."""
        return int(until(self.all_waiting)[0])

    def next_waiting(self, last: int) -> int:
        """Return the process that waits when the last one does so no more."""
        return int(until(lambda: [one for one in self.all_waiting() if one != last])[0])

    def all_waiting(self) -> list[int]:
        """Return the processes of ledgers that wait."""
        rows = self._server.execute(
            "SELECT pid FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND application_name = 'microbudget'"
        )
        return [int(pid) for (pid,) in rows]

    def open(self) -> None:
        self.session.close()


def test_an_operation_whose_server_process_is_terminated_is_done_once(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    hold = ledger.reserve("org/a", {"calls": 5})
    operations: list[tuple[Callable[[], Any], list[tuple[int, int]]]] = [
        (lambda: ledger.reserve("org/a", {"calls": 3}), [(0, 8)] * 2),
        (lambda: ledger.charge("org/a", {"calls": 10}), [(10, 8)] * 2),
        (lambda: ledger.commit(hold, {"calls": 7}), [(17, 3)] * 2),
    ]
    for operation, expected in operations:
        lock = Locked(server)
        call = Meanwhile(operation)
        server.execute("SELECT pg_terminate_backend(%s)", first := lock.waiting())
        lock.next_waiting(first)  # it is asked again
        lock.open()
        assert isinstance(call.result(), Hold)
        assert counted(ledger) == expected


def test_one_that_is_terminated_twice_is_in_doubt_and_safe_to_repeat(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    lock = Locked(server)
    call = Meanwhile(lambda: ledger.reserve("org/a", {"calls": 3}, key="k"))
    server.execute("SELECT pg_terminate_backend(%s)", first := lock.waiting())
    server.execute("SELECT pg_terminate_backend(%s)", lock.next_waiting(first))
    error = call.result()
    lock.open()
    assert isinstance(error, LedgerUnavailableError)
    assert error.applied is None
    assert getattr(error.cause, "sqlstate", None) == "57P01"
    for _ in range(2):
        assert ledger.reserve("org/a", {"calls": 3}, key="k").state == Hold.HELD
    assert counted(ledger) == [(0, 3)] * 2


def test_what_was_acknowledged_is_there_after_a_crash_and_a_restart(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    ledger.release(ledger.reserve("org/a", {"calls": 1}))
    hold = ledger.reserve("org/a", {"calls": 5})
    ledger.commit(ledger.reserve("org/a", {"calls": 0}))
    server.halt("immediate")
    with pytest.raises(LedgerUnavailableError) as caught:
        ledger.commit(hold, {"calls": 4})
    assert caught.value.applied is None  # it was sent, and the server may have applied it
    with pytest.raises(LedgerUnavailableError) as caught:
        ledger.commit(hold, {"calls": 4})
    assert caught.value.applied is False  # no server was there
    server.start()
    assert ledger.commit(hold, {"calls": 4}).state == Hold.COMMITTED
    assert counted(ledger) == [(4, 0)] * 2


def test_a_restart_between_calls_is_not_seen(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    ledger.reserve("org/a", {"calls": 5})
    server.halt("fast")
    server.start()
    ledger.reserve("org/a", {"calls": 1})  # over the connection that ended
    server.halt("fast")
    server.start()
    ledger.charge("org/a", {"calls": 1})  # which was not prepared there
    assert counted(ledger) == [(1, 6)] * 2


def test_a_restart_ends_all_connections_that_wait(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    lock = Locked(server)
    calls = [Meanwhile(lambda: ledger.reserve("org/a", {"calls": 1})) for _ in range(3)]
    until(lambda: len(lock.all_waiting()) == len(calls))
    lock.open()
    assert [call.result().state for call in calls] == [Hold.HELD] * 3
    server.halt("fast")
    server.start()
    ledger.reserve("org/a", {"calls": 1})
    assert counted(ledger) == [(0, 4)] * 2


def test_a_server_that_says_nothing_is_given_up(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PostgresLedger(server.conninfo(), timeout=NO_HURRY)) as ledger:
        ledger.set_limits("org", [Limit("calls", BUDGET)])
        monkeypatch.setattr(connections, "GRACE", 0.05)  # it will not answer in a second either
        with closing(PostgresLedger(server.conninfo(), timeout=0.5)) as hasty:
            until(lambda: hasty.balance("org"))  # which has its connection, whatever that takes
            server.send(signal.SIGSTOP)
            try:
                with pytest.raises(LedgerUnavailableError) as caught:
                    hasty.reserve("org", {"calls": 1}, key="k")
            finally:
                server.send_again(signal.SIGCONT)
            assert caught.value.applied is None
        assert ledger.reserve("org", {"calls": 1}, key="k").state == Hold.HELD
        assert ledger.balance("org")[0].held == 1


def test_a_statement_that_takes_too_long_changes_nothing(server: PostgresServer) -> None:
    with closing(PostgresLedger(server.conninfo(), timeout=NO_HURRY)) as ledger:
        ledger.set_limits("org", [Limit("calls", BUDGET)])
        with closing(PostgresLedger(server.conninfo(), timeout=0.5)) as hasty:
            until(lambda: hasty.balance("org"))
            lock = Locked(server)
            with pytest.raises(LedgerUnavailableError, match="longer than `timeout`") as caught:
                hasty.reserve("org", {"calls": 1})
            assert caught.value.applied is False
            lock.open()
        assert ledger.balance("org")[0].held == 0


def test_a_server_that_became_read_only_changes_nothing(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    server.configure("default_transaction_read_only = on")
    try:
        with pytest.raises(LedgerUnavailableError, match="read-only") as caught:
            ledger.reserve("org", {"calls": 1})
        assert caught.value.applied is False
        with pytest.raises(LedgerUnavailableError, match="read-only") as caught:
            ledger.reserve("org", {"calls": 1})  # over a new connection
        assert caught.value.applied is False
    finally:
        server.configure("default_transaction_read_only = off")
    ledger.reserve("org", {"calls": 1})
    assert counted(ledger) == [(0, 1), (0, 0)]


def test_an_operation_that_ended_a_deadlock_is_repeated(server: PostgresServer) -> None:
    conninfo = server.conninfo(options="-c deadlock_timeout=10ms")
    with closing(PostgresLedger(conninfo, timeout=NO_HURRY)) as ledger:
        for path in ("org", "org/a"):
            ledger.set_limits(path, [Limit("calls", BUDGET)])
        first, last = Locked(server, "org"), Locked(server, "org/a")
        last.session.execute("SET deadlock_timeout = '1h'")
        call = Meanwhile(lambda: ledger.reserve("org/a", {"calls": 1}))
        first.waiting()  # it has the lock on the root by now
        other = Meanwhile(lambda: last.session.execute(LOCK_ROOT))
        own = last.session.info.backend_pid
        until(lambda: server.execute(WAITS, own) == [("Lock",)])
        first.open()
        other.result()  # the call gave way, and is made again
        last.waiting()
        last.open()
        assert isinstance(call.result(), Hold)
        assert counted(ledger) == [(0, 1)] * 2


@pytest.mark.parametrize("state", ["53100", "53200"])
def test_a_full_server_is_told_apart(
    server: PostgresServer, ledger: PostgresLedger, state: str
) -> None:
    server.execute(
        "CREATE FUNCTION microbudget.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"RAISE 'no space left' USING ERRCODE = '{state}'; END $$; "
        "CREATE TRIGGER fail BEFORE INSERT ON microbudget.holds EXECUTE FUNCTION microbudget.fail()"
    )
    with pytest.raises(LedgerFullError, match="no space left"):
        ledger.reserve("org/a", {"calls": 1})
    assert counted(ledger) == [(0, 0)] * 2


def test_too_many_connections_are_said_so(server: PostgresServer) -> None:
    others: list[psycopg.Connection[Any]] = []
    ((most,),) = server.execute("SHOW max_connections")

    def fill() -> bool:
        """Take all the places, those of processes that are about to end as well."""
        while len(others) < int(most):
            others.append(psycopg.connect(server.conninfo()))
        return True

    try:
        until(fill, psycopg.OperationalError)
        with closing(PostgresLedger(server.conninfo(), timeout=NO_HURRY)) as ledger:
            with pytest.raises(LedgerUnavailableError, match="too many clients") as caught:
                ledger.accounts()
            assert caught.value.applied is False
            others.pop().close()
            assert until(lambda: ledger.accounts() == [])  # as soon as the process is gone
    finally:
        for other in others:
            other.close()
        until(lambda: server.execute("SELECT 1"), psycopg.OperationalError)  # its processes end


def test_threads_wait_for_a_connection_and_no_longer_than_told(
    server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "GRACE", NO_HURRY)  # only to wait for a connection is hasty
    with closing(
        PostgresLedger(server.conninfo(), max_connections=1, timeout=0.1, behind_pooler=True)
    ) as ledger:
        until(lambda: ledger.accounts() == [])
        ledger.set_limits("org", [Limit("calls", BUDGET)])
        lock = Locked(server)
        call = Meanwhile(lambda: ledger.reserve("org", {"calls": 1}))
        lock.waiting()
        with pytest.raises(LedgerUnavailableError, match="1 connections was free") as caught:
            ledger.accounts()
        assert caught.value.applied is False
        lock.open()
        assert isinstance(call.result(), Hold)
    with pytest.raises(LedgerUnavailableError, match="closed"):
        ledger.accounts()


def test_a_schema_that_is_gone_is_said_so(server: PostgresServer, ledger: PostgresLedger) -> None:
    server.execute("DROP SCHEMA microbudget CASCADE")
    with pytest.raises(LedgerUnavailableError, match="schema is gone") as caught:
        ledger.reserve("org", {"calls": 1})
    assert caught.value.applied is False


def awaited(server: PostgresServer, **options: Any) -> AsyncPostgresLedger:
    return AsyncPostgresLedger(server.conninfo(), **{"timeout": NO_HURRY, **options})


async def in_flight(lock: Locked) -> int:
    """Return the process that waits for the lock, as soon as there is one."""
    return await asyncio.to_thread(lock.waiting)


def test_a_task_that_is_cancelled_holds_nothing_twice(server: PostgresServer) -> None:
    async def main() -> None:
        ledger = awaited(server)
        await ledger.set_limits("org", [Limit("calls", BUDGET)])
        lock = Locked(server)
        tasks = [
            asyncio.create_task(ledger.reserve("org", {"calls": 1}, key=key)) for key in ("a", "b")
        ]
        await in_flight(lock)
        tasks += [
            asyncio.create_task(ledger.reserve("org", {"calls": 1}, key=key)) for key in ("c", "d")
        ]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.wait(tasks[::2])
        assert all(task.cancelled() for task in tasks[::2])
        lock.open()
        for task in tasks[1::2]:
            assert (await task).state == Hold.HELD
        assert (await ledger.balance("org"))[0].held == 3  # c was not sent
        for key in ("a", "b", "c", "d"):
            await ledger.reserve("org", {"calls": 1}, key=key)
        assert (await ledger.balance("org"))[0].held == 4
        await ledger.close()

    asyncio.run(main())


def test_operations_of_tasks_whose_server_process_is_terminated_are_done_once(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    hold = ledger.reserve("org/a", {"calls": 5})

    async def main() -> None:
        own = awaited(server)
        await own.limits("org")
        lock = Locked(server)
        tasks = [asyncio.create_task(own.commit(hold, {"calls": 4}))]
        tasks += [asyncio.create_task(own.reserve("org/a", {"calls": 1})) for _ in range(20)]
        pid = await in_flight(lock)
        server.execute("SELECT pg_terminate_backend(%s)", pid)
        await asyncio.to_thread(lock.next_waiting, pid)
        lock.open()
        assert len({(await task).id for task in tasks}) == 21
        await own.close()

    asyncio.run(main())
    assert counted(ledger) == [(4, 20)] * 2


def test_an_operation_that_the_server_refuses_undoes_none_of_the_others(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    server.execute("ALTER TABLE microbudget.holds ADD CHECK (id <> 'broken')")

    async def main() -> list[Any]:
        own = awaited(server)
        asking = [
            own.reserve("org/a", {"calls": 1}, "a"),
            own.charge("org/a", {"calls": 1}, "broken"),
            own.reserve("none", {"calls": 1}),
            own.charge("org/a", {"calls": 2}, "b"),
            own.reserve("org/a", {"calls": BUDGET}),
            own.charge("org/a", {"calls": 3}, "c"),
        ]
        found = await asyncio.gather(*asking, return_exceptions=True)
        await own.close()
        return found

    held, broken, unknown, *charged, last = asyncio.run(main())
    assert held.state == Hold.HELD
    assert (type(broken), broken.applied) == (LedgerUnavailableError, False)
    assert isinstance(unknown, UnknownAccountError)
    assert isinstance(charged.pop(), BudgetExceededError)
    assert [one.state for one in (*charged, last)] == [Hold.COMMITTED] * 2
    assert counted(ledger) == [(5, 1)] * 2


def test_what_tasks_were_acknowledged_is_there_after_a_crash_and_nothing_twice(
    server: PostgresServer, ledger: PostgresLedger
) -> None:
    async def charge(own: AsyncPostgresLedger, key: str) -> bool:
        try:
            await own.charge("org/a", {"calls": 1}, key)
        except LedgerUnavailableError:
            return False
        return True

    async def main() -> None:
        own, keys = awaited(server), [str(number) for number in range(600)]
        asking = [asyncio.create_task(charge(own, key)) for key in keys]
        await asking[100]
        await asyncio.to_thread(server.halt, "immediate")
        told = await asyncio.gather(*asking)
        await asyncio.to_thread(server.start)
        ((spent, _), _) = await asyncio.to_thread(counted, ledger)
        assert sum(told) <= spent <= len(keys)
        assert await asyncio.gather(*[charge(own, key) for key in keys]) == [True] * len(keys)
        assert await asyncio.to_thread(counted, ledger) == [(len(keys), 0)] * 2
        await own.close()

    asyncio.run(main())


def test_one_asyncio_ledger_serves_one_loop_after_another(server: PostgresServer) -> None:
    # a pool that still grows when its loop ends can miss that it is cancelled, on Python 3.11
    ledger = AsyncPostgresLedger(server.conninfo(), timeout=NO_HURRY, max_connections=1)
    asyncio.run(ledger.set_limits("org", [Limit("calls", BUDGET)]))

    async def many() -> None:
        await asyncio.gather(*(ledger.reserve("org", {"calls": 1}) for _ in range(20)))

    asyncio.run(many())
    assert asyncio.run(ledger.balance("org"))[0].held == 20
    own = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'microbudget'"
    until(lambda: len(server.execute(own)) == 1)  # those of former loops are closed
    asyncio.run(ledger.close())
