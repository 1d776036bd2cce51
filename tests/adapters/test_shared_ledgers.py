"""One ledger for threads and event loops, whichever call comes first."""

import asyncio
import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.waiting import room_of
from budget_cpython import BudgetExceededError, SqliteLedger, budget
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ledger.redis import RedisLedger
from tests.adapters.support import a_request, an_answer, call_async, call_blocking
from tests.forked import in_child
from tests.ledger.patience import PATIENCE
from tests.ledger.redis.server import RedisServer

KEPT = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(request: Any, tmp_path: Path) -> Any:
    if request.param == "memory":
        yield "memory:"
    elif request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'budget.db'}"
    else:
        with RedisServer(tmp_path) as server:
            yield server.url


def calls_of(account: BudgetAccount) -> tuple[int, int]:
    rows = [row for row in account.balance() if row.account == account.path]
    (row,) = [row for row in rows if row.axis == "calls"]
    return row.spent, row.held


@pytest.mark.parametrize(
    "other", ["./a.db", "{0}/a.db", "//{0}/a.db", "{0}/link/a.db", "../{1}/a.db"]
)
def test_urls_of_one_file_are_one_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    first = BudgetAccount(parse_limits("2 calls"), "sqlite:a.db", "acme")
    second = BudgetAccount((), "sqlite:" + other.format(tmp_path, tmp_path.name), "acme")
    call_blocking(first, second)
    assert second.ledger is first.ledger
    assert calls_of(first) == (1, 0)
    first.ledger.close()


def test_a_url_is_of_another_file_in_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        found.append(BudgetAccount(parse_limits("2 calls"), "sqlite:a.db", "acme"))
    assert found[0].ledger is not found[1].ledger
    for account in found:
        account.ledger.close()


def test_event_loops_one_after_another_draw_on_one_url(url: str) -> None:
    account = BudgetAccount(parse_limits("2 calls"), url, "loops/after")
    for _ in range(2):
        asyncio.run(call_async(account))
    with pytest.raises(BudgetExceededError):
        asyncio.run(call_async(account))
    account.ledger.close()


def test_threads_and_event_loops_side_by_side_draw_on_one_url(url: str) -> None:
    account = BudgetAccount(parse_limits("20 calls"), url, "loops/beside")
    answered: list[int] = []

    def block() -> None:
        for _ in range(5):
            try:
                call_blocking(account)
            except BudgetExceededError:
                continue
            answered.append(1)

    async def awaits() -> None:
        asked = [call_async(account) for _ in range(5)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        answered.extend(1 for one in found if not isinstance(one, BaseException))

    threads = [threading.Thread(target=block) for _ in range(3)]
    threads += [threading.Thread(target=asyncio.run, args=(awaits(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(answered), calls_of(account)) == (20, (20, 0))
    account.ledger.close()


def test_forked_processes_draw_on_the_blocks_of_their_parent(url: str) -> None:
    if url == "memory:":
        pytest.skip("memory is each process's own")
    with budget("4 calls", ledger=url, account="forks") as block:
        asyncio.run(call_async())  # its threads are not in the children

        def work() -> None:
            call_blocking()
            asyncio.run(call_async())

        children = [in_child(work), in_child(work)]
    assert sorted(children) == [0, 1]
    assert block.left == {"calls": 0}
    block.account.ledger.close()


def test_calls_that_wait_in_asyncio_s_threads_leave_the_ledger_its_own(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "budget.db")
    account = BudgetAccount(parse_limits("1 calls"), ledger, "acme", wait=600)

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        held = BudgetedCall([account], a_request())
        await held.begin()
        waiting = asyncio.create_task(asyncio.to_thread(call_blocking, account))
        while not room_of(ledger).waiting:  # noqa: ASYNC110 - the queue has no event
            await asyncio.sleep(0)
        await held.fail(UnsentError())
        await waiting

    with closing(ledger):
        asyncio.run(main())
        assert calls_of(account) == (1, 0)


def test_calls_of_asyncio_and_of_threads_wait_in_one_queue(tmp_path: Path) -> None:
    ledger = SqliteLedger(tmp_path / "budget.db")
    account = BudgetAccount(parse_limits("1 calls"), ledger, "acme", wait=600)

    async def main() -> None:
        first = BudgetedCall([account], a_request())
        first.begin_blocking()
        waiting = asyncio.create_task(call_async(account))
        async with asyncio.timeout(PATIENCE):
            while not room_of(ledger).waiting:  # noqa: ASYNC110 - the queue has no event
                await asyncio.sleep(0)
        first.fail_blocking(UnsentError())
        await waiting

    with closing(ledger):
        asyncio.run(main())
        assert calls_of(account) == (1, 0)


class UnsentError(Exception):
    """An error of a call that cost nothing."""

    sent = False


@pytest.mark.parametrize("wait", [None, 60])
@pytest.mark.parametrize("is_awaited", [False, True])
def test_what_a_block_owes_is_delivered_by_a_later_one(
    tmp_path: Path, wait: float | None, is_awaited: bool
) -> None:
    with RedisServer(tmp_path, *KEPT) as server, closing(RedisLedger(server.url)) as ledger:
        BudgetAccount(parse_limits("9 calls + 1000 tokens"), ledger, "acme")

        def cut_off() -> None:
            call = BudgetedCall([BudgetAccount((), ledger, "acme", wait=wait)], a_request())
            call.begin_blocking()
            server.kill()
            call.end_blocking(an_answer())

        async def cut_off_awaited() -> None:
            call = BudgetedCall([BudgetAccount((), ledger, "acme", wait=wait)], a_request())
            await call.begin()
            server.kill()
            await call.end(an_answer())

        asyncio.run(cut_off_awaited()) if is_awaited else cut_off()
        gc.collect()
        server.start()
        later = BudgetAccount((), ledger, "acme")
        call_blocking(later)
        assert calls_of(later) == (2, 0)


def test_an_account_whose_ledger_is_gone_admits_no_call(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, closing(RedisLedger(server.url)) as ledger:
        account = BudgetAccount(parse_limits("9 calls"), ledger, "acme")
        server.kill()
        with pytest.raises(LedgerUnavailableError):
            call_blocking(account)
        with pytest.raises(LedgerUnavailableError):
            asyncio.run(call_async(account))


LEFT = """
import sys

from budget_cpython.adapters.call import BudgetedCall
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.vendors.request import LlmRequest
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ledger.opening import open_ledger

ledger = sys.argv[1] if sys.argv[3] == "url" else open_ledger(sys.argv[1])
account = BudgetAccount(parse_limits("1000 tokens"), ledger, "acme")
call = BudgetedCall([account], LlmRequest("m", [], max_tokens=20, stream=True))
call.begin_blocking()
for _ in range(100):
    call.on_text("word ")
if sys.argv[2] == "abandoned":
    call.abandon()
if sys.argv[2] == "forgotten":
    del call
"""


@pytest.mark.parametrize("given", ["url", "ledger"])
@pytest.mark.parametrize("state", ["abandoned", "forgotten", "open"])
def test_what_is_owed_is_delivered_when_the_program_ends(
    tmp_path: Path, state: str, given: str
) -> None:
    path = tmp_path / "budget.db"
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", LEFT, f"sqlite:{path}", state, given],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    with closing(SqliteLedger(path)) as ledger:
        (row,) = ledger.balance("acme")
        assert (row.spent >= 100, row.held) == (True, 0)
