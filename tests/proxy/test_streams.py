"""Streams: passed on piece by piece, read on for their usage, broken off where they break."""

import asyncio
import json
import signal
import socket
import threading
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from budget_core.ledger.errors import LedgerUnavailableError
from budget_core.ledger.waiting import room_of
from budget_cpython.adapters.account import BudgetAccount
from budget_cpython.ledger.limit_parser import parse_limits
from budget_cpython.ledger.sqlite import SqliteLedger
from budget_cpython.proxy import ModelUsage, Proxy
from budget_cpython.proxy.exchange import Exchange
from tests.proxy.support import (
    ASKED,
    CHAT,
    Behind,
    ProxyCommand,
    Request,
    budgeted,
    chunk,
    get,
    post,
    spent,
    stream,
    until,
    usage,
)
from tests.serve.support import PATIENCE

STREAM = {**ASKED, "stream": True, "max_tokens": 100}


def is_unknown(proxy: Proxy) -> bool:
    """Tell whether one call was made, and what it used is an estimate."""
    rows = proxy.usage.rows()
    return bool(rows) and rows["scripted"] == ModelUsage(
        calls=1,
        input=rows["scripted"].input,
        output=rows["scripted"].output,
        estimated=1,
        unpriced=1,
    )


def charged(proxy: Proxy) -> int:
    """Return the tokens that the proxy's record has: at least what was held for one call."""
    used = proxy.usage.total()
    assert used.input + used.output >= 100
    return used.input + used.output


def test_each_piece_is_passed_on_before_the_next_one_exists() -> None:
    read = threading.Semaphore(0)

    def act(http: Request) -> None:
        http.begin_stream()
        for text in "abc":
            http.event(chunk(text))
            assert read.acquire(timeout=PATIENCE)
        http.event("[DONE]")
        http.event(None)

    with Behind(act) as behind, budgeted(behind.url, "9 calls") as (url, _, _):
        found = []
        with stream("POST", url + CHAT, json=STREAM) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    found.append(line)
                    read.release()
        assert len(found) == 3


def with_usage(http: Request) -> None:
    http.begin_answer()
    http.end_answer()


@pytest.mark.parametrize("asked", [None, {"include_usage": False}, {"include_usage": True}])
def test_usage_is_asked_for_and_its_chunk_kept_from_who_did_not_ask(
    asked: dict[str, bool] | None,
) -> None:
    body = STREAM if asked is None else {**STREAM, "stream_options": asked}
    with Behind(with_usage) as behind, budgeted(behind.url, "999 tokens") as (url, account, proxy):
        answer = post(url + CHAT, json=body)
        assert json.loads(behind.requests[0].body)["stream_options"] == {"include_usage": True}
        wanted = bool(asked and asked["include_usage"])
        assert ('"prompt_tokens"' in answer.text) is wanted
        assert answer.text.endswith("data: [DONE]\n\n")
        assert spent(account, "tokens") == (12, 0)
        row = proxy.usage.rows()["scripted"]
        assert (row.calls, row.input, row.output, row.estimated) == (1, 7, 5, 0)


@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_is_read_on_after_its_client_has_left(streamed: bool) -> None:
    gone = threading.Event()

    def act(http: Request) -> None:
        if streamed:
            http.begin_answer()
            assert gone.wait(PATIENCE)
            http.end_answer()
        else:
            assert gone.wait(PATIENCE)
            http.reply({"choices": [], "usage": usage(7, 5)})

    with Behind(act) as behind, budgeted(behind.url, "999 tokens") as (url, account, proxy):
        with httpx.Client() as client:
            if streamed:
                with client.stream("POST", url + CHAT, json=STREAM) as answer:
                    next(answer.iter_raw())
            else:
                with pytest.raises(httpx.ReadTimeout):
                    client.post(url + CHAT, json=ASKED, timeout=httpx.Timeout(60, read=0.2))
                until(lambda: bool(behind.requests))
        gone.set()
        until(lambda: spent(account, "tokens")[1] == 0)
        assert spent(account, "tokens") == (12, 0)
        assert proxy.usage.rows()["scripted"].estimated == 0


def test_a_call_whose_client_leaves_while_it_waits_is_not_made() -> None:
    go, first = threading.Event(), threading.Event()

    def slow(http: Request) -> None:
        first.set()
        assert go.wait(PATIENCE)
        http.reply({"choices": [], "usage": usage(7, 5)})

    with Behind(slow) as behind, budgeted(behind.url, "1 calls", wait=PATIENCE) as found:
        url, account, _ = found
        one = threading.Thread(target=post, args=(url + CHAT,), kwargs={"json": ASKED})
        one.start()
        assert first.wait(PATIENCE)
        room = room_of(account.ledger)
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as two:
            body = json.dumps(ASKED).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            two.sendall(head.encode() + body)
            until(lambda: room.waiting == 1)
        until(lambda: room.waiting == 0)
        go.set()
        one.join()
        assert len(behind.requests) == 1
        assert spent(account, "calls") == (1, 0)


def test_an_answer_is_read_on_for_so_long_only_and_then_counts_as_unknown() -> None:
    closed = threading.Event()

    def act(http: Request) -> None:
        http.begin_stream()
        try:
            while not closed.wait(0.01):
                http.event(chunk("hello "))
        except OSError:
            closed.set()

    options = {"read_on_s": 0.1}
    with Behind(act) as behind, budgeted(behind.url, "999 tokens", **options) as found:
        url, account, proxy = found
        with stream("POST", url + CHAT, json=STREAM) as answer:
            next(answer.iter_raw())
        assert closed.wait(PATIENCE)
        until(lambda: is_unknown(proxy))
        until(lambda: spent(account, "tokens") == (charged(proxy), 0))


def broken(http: Request) -> None:
    http.begin_answer()
    http.close_connection = True


def test_an_answer_that_breaks_off_upstream_breaks_off_here() -> None:
    with Behind(broken) as behind, budgeted(behind.url, "999 tokens") as (url, account, proxy):
        with (
            pytest.raises(httpx.RemoteProtocolError),
            stream("POST", url + CHAT, json=STREAM) as answer,
        ):
            answer.read()
        until(lambda: is_unknown(proxy))
        until(lambda: spent(account, "tokens") == (charged(proxy), 0))


def test_a_deadline_before_the_answer_is_a_refusal_that_is_not_repeated() -> None:
    over = threading.Event()

    def hang(http: Request) -> None:
        over.wait(PATIENCE)

    with Behind(hang) as behind, budgeted(behind.url, "999 tokens") as (url, account, proxy):
        for milliseconds in (100, 1_000, 10_000, 100_000):  # a slow machine sends none in 100 ms
            headers = {"x-microbudget-timeout": str(milliseconds)}
            answer = post(url + CHAT, json=STREAM, headers=headers)
            if answer.status_code != 402:
                break
        assert (answer.status_code, answer.headers["x-should-retry"]) == (504, "false")
        until(lambda: is_unknown(proxy))
        until(lambda: spent(account, "tokens") == (charged(proxy), 0))
        over.set()


def test_a_deadline_in_an_answer_breaks_it_off() -> None:
    over = threading.Event()

    def act(http: Request) -> None:
        http.begin_answer()
        over.wait(PATIENCE)

    with Behind(act) as behind, budgeted(behind.url, "999 tokens") as (url, _, _):
        headers = {"x-microbudget-timeout": "2000"}
        with (
            pytest.raises(httpx.RemoteProtocolError),
            stream("POST", url + CHAT, json=STREAM, headers=headers) as answer,
        ):
            answer.read()
        over.set()


def test_a_client_that_leaves_as_the_deadline_passes_is_no_error() -> None:
    async def leave() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        """Send nothing."""

    async def main() -> None:
        exchange = Exchange({"type": "http"}, leave, send, "openai")
        async with asyncio.timeout(0) as limit:
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                await exchange.watch(limit, lambda: PATIENCE)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


@pytest.mark.parametrize("value", ["soon", "-1", "1.5", "9" * 20])
def test_a_deadline_that_is_malformed_is_named(value: str) -> None:
    with budgeted("http://127.0.0.1:9", "9 calls") as (url, _, _):
        answer = post(url + CHAT, json=ASKED, headers={"x-microbudget-timeout": value})
        assert answer.status_code == 400
        assert "milliseconds" in answer.json()["error"]["message"]


def test_running_answers_finish_after_a_signal(tmp_path: Path) -> None:
    rest = threading.Event()

    def act(http: Request) -> None:
        http.begin_answer()
        assert rest.wait(PATIENCE)
        http.end_answer()

    ledger = f"sqlite:{tmp_path}/ledger.db"
    with Behind(act) as behind:
        options = ("--upstream", f"it={behind.url}", "--limit", "999 tokens", "--ledger", ledger)
        with ProxyCommand(*options) as proxy:
            with stream("POST", proxy.url + CHAT, json=STREAM) as answer:
                pieces = answer.iter_raw()
                next(pieces)
                proxy.send_signal(signal.SIGTERM)
                until(lambda: not is_open(proxy.url))
                rest.set()
                assert b"[DONE]" in b"".join(pieces)
            assert proxy.wait(PATIENCE) == 0
    account = SqliteLedger(tmp_path / "ledger.db")
    (row,) = account.balance("proxy")
    assert (row.spent, row.held) == (12, 0)
    account.close()


def test_what_a_call_used_beyond_its_hold_is_charged_before_the_process_ends(
    tmp_path: Path,
) -> None:
    over = threading.Event()

    def act(http: Request) -> None:
        http.begin_answer()
        http.event(chunk("", usage(7, 5_000)))
        over.wait(PATIENCE)

    ledger = f"sqlite:{tmp_path}/ledger.db"
    with Behind(act) as behind:
        limits = ("--limit", "99999 tokens", "--ledger", ledger, "--grace", "1")
        with ProxyCommand("--upstream", f"it={behind.url}", *limits) as proxy:
            asked = {**STREAM, "stream_options": {"include_usage": True}}
            with stream("POST", proxy.url + CHAT, json=asked) as answer:
                pieces = answer.iter_raw()
                while b"5000" not in next(pieces):
                    pass
            assert proxy.end()[0] == 0
        over.set()
    account = SqliteLedger(tmp_path / "ledger.db")
    (row,) = account.balance("proxy")
    assert (row.spent, row.held) == (5_007, 0)
    account.close()


def test_what_a_ledger_is_owed_is_delivered_before_the_proxy_ends(tmp_path: Path) -> None:
    class Busy(SqliteLedger):
        refuses = True

        def commit(self, *arguments: Any) -> Any:
            if self.refuses:
                raise LedgerUnavailableError("it is busy")
            return super().commit(*arguments)

    ledger = Busy(tmp_path / "ledger.db")
    ledger.set_limits("acme", parse_limits("999 tokens"))
    proxy_of = partial(Proxy, accounts=[BudgetAccount((), ledger, "acme")])
    with Behind(with_usage) as behind, proxy_of({"openai": behind.url}).running() as url:
        assert post(url + CHAT, json=STREAM).status_code == 200
        (row,) = ledger.balance("acme")
        assert row.spent == 0 < row.held
        ledger.refuses = False
    (row,) = ledger.balance("acme")
    assert (row.spent, row.held) == (12, 0)
    ledger.close()


def is_open(url: str) -> bool:
    try:
        get(f"{url}/healthz", timeout=PATIENCE)
    except httpx.TransportError:
        return False
    return True


def test_answers_that_do_not_finish_in_the_grace_are_ended() -> None:
    over = threading.Event()

    def act(http: Request) -> None:
        http.begin_answer()
        over.wait(PATIENCE)

    with Behind(act) as behind:
        options = ("--upstream", f"it={behind.url}", "--limit", "9 calls", "--grace", "1")
        with ProxyCommand(*options) as proxy:
            with stream("POST", proxy.url + CHAT, json=STREAM) as answer:
                next(answer.iter_raw())
                assert proxy.end()[0] == 0
            over.set()


def test_a_call_whose_answer_has_not_begun_in_the_grace_is_answered_and_settled() -> None:
    over, said = threading.Event(), []

    def act(http: Request) -> None:
        over.wait(PATIENCE)

    with Behind(act) as behind:
        options = ("--upstream", f"it={behind.url}", "--limit", "9 calls", "--grace", "1")
        with ProxyCommand(*options) as proxy:
            url = proxy.url + CHAT
            client = threading.Thread(target=lambda: said.append(post(url, json=ASKED)))
            client.start()
            until(lambda: len(behind.requests) == 1)
            code, printed = proxy.end()
            over.set()
            client.join(PATIENCE)
    assert code == 0
    assert "Traceback" not in printed
    assert said[0].status_code == 503
    assert said[0].json()["error"]["message"] == "the proxy is being stopped"
